//! The tour of `docs/design.md`: a reader who follows one value through the modules
//! passes none of them twice, and finds each where the page says.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::binaries::workspace;

const SECTION: &str = "## One value, from `Counter::add` to a line of `report`";

/// Returns the files and directories that a text names, in its order: `a/b.rs` from the root of
/// the workspace, or from a directory that an earlier path lies in.
fn places(text: &str, root: &Path) -> Result<Vec<PathBuf>, String> {
    let is_path = |code: &&str| {
        code.ends_with('/') || Path::new(code).extension().is_some_and(|it| it == "rs")
    };
    let mut places: Vec<PathBuf> = Vec::new();
    for code in text.split('`').skip(1).step_by(2).filter(is_path) {
        let earlier = places.iter().rev().flat_map(|place| place.ancestors());
        let found = std::iter::once(Path::new("")).chain(earlier).map(|from| from.join(code));
        let found: Vec<PathBuf> = found.filter(|place| root.join(place).exists()).collect();
        places.push(found.first().cloned().ok_or_else(|| format!("`{code}` does not exist"))?);
    }
    Ok(places)
}

fn steps(page: &str) -> Vec<String> {
    let (_, section) = page.split_once(SECTION).expect("the tour");
    let section = section.split("\n## ").next().unwrap_or_default();
    section.split("\n\n").flat_map(|list| numbered(list.trim())).collect()
}

fn numbered(list: &str) -> Vec<String> {
    let mut steps: Vec<String> = Vec::new();
    for line in list.lines() {
        let next = format!("{}. ", steps.len() + 1);
        match (line.strip_prefix(&next), steps.last_mut()) {
            (Some(step), _) => steps.push(step.to_owned()),
            (None, Some(step)) => step.extend(["\n", line]),
            (None, None) => {}
        }
    }
    steps
}

#[test]
fn the_tour_of_one_value_passes_no_module_twice() {
    let page = fs::read_to_string(workspace().join("docs/design.md")).expect("docs/design.md");
    let steps = steps(&page);
    assert!(steps.len() >= 8, "{} steps", steps.len());
    let passed = places(&steps.concat(), workspace()).unwrap_or_else(|error| panic!("{error}"));
    assert!(passed.len() >= steps.len(), "{} places", passed.len());
    let mut seen = BTreeSet::new();
    let twice: Vec<&PathBuf> = passed.iter().filter(|place| !seen.insert(*place)).collect();
    assert!(twice.is_empty(), "passed twice: {twice:?}");
    assert!(passed.first().is_some_and(|place| place.starts_with("mmv-writer")), "{passed:?}");
    assert!(passed.last().is_some_and(|place| place.starts_with("archive/cli")), "{passed:?}");
}

#[test]
fn a_tour_with_a_path_that_does_not_exist_fails() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("a/src/b")).unwrap();
    fs::write(root.path().join("a/src/b/c.rs"), "").unwrap();
    let found = places("**Go** (`a/src/b/`), then `c.rs` by `Counter::add`", root.path());
    assert_eq!(found, Ok(vec!["a/src/b/".into(), "a/src/b/c.rs".into()]));
    assert_eq!(places("`d.rs`", root.path()), Err("`d.rs` does not exist".to_owned()));
    assert_eq!(numbered("1. one\n   more\n2. two"), ["one\n   more", "two"]);
}
