//! README, tutorial and the pages on comparisons, explanations and assistants, run from top to
//! bottom as a newcomer would: an ordinary user with an empty home, a terminal of 80 columns, no
//! PCP and no environment variables.
//!
//! Console blocks of a page are typed into terminals, Rust blocks with a file name are
//! written; what a command prints must look like what the page shows.

mod likeness;
mod newcomer;
mod page;
mod snippets;
mod terminal;

use newcomer::{Builds, Newcomer};

fn follow_readme_and_tutorial(builds: Builds) {
    let mut newcomer = Newcomer::new(builds);
    newcomer.follow("README.md");
    newcomer.follow("docs/tutorial.md");
    newcomer.follow("docs/compare.md");
    newcomer.follow("docs/explain.md");
    newcomer.follow("docs/assistant.md");
}

#[test]
fn readme_and_tutorial_work_from_top_to_bottom() {
    follow_readme_and_tutorial(Builds::Present);
}

#[test]
#[ignore = "compiles the workspace, which would disturb tests of times: ci/slow runs it alone"]
fn readme_and_tutorial_work_with_real_builds() {
    follow_readme_and_tutorial(Builds::Real);
}
