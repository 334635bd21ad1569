//! A progress bar on standard error.

use std::time::{Duration, Instant};

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shorter work has no bar.
const DELAY: Duration = Duration::from_secs(1);

/// `[=====>     ] 120 MiB of 1 GiB, 3s left`
const TEMPLATE: &str = "[{bar:40}] {bytes} of {total_bytes}, {eta} left";

/// Options of commands with a progress bar.
#[derive(Debug, Args)]
pub(crate) struct ProgressOptions {
    /// Do not show a progress bar on standard error
    #[arg(long)]
    no_progress: bool,
}

/// A bar that appears after a second and is removed on drop.
#[derive(Debug)]
pub(crate) struct Progress {
    since: Instant,
    is_enabled: bool,
    bar: Option<ProgressBar>,
}

impl ProgressOptions {
    /// Starts the delay before progress is shown.
    pub(crate) fn start(&self) -> Progress {
        Progress { since: Instant::now(), is_enabled: !self.no_progress, bar: None }
    }
}

impl Progress {
    /// Shows that `done` of `total` bytes are done.
    pub(crate) fn show(&mut self, done: u64, total: u64) {
        self.show_after(self.since.elapsed(), done, total);
    }

    fn show_after(&mut self, elapsed: Duration, done: u64, total: u64) {
        if !self.is_enabled || elapsed < DELAY {
            return;
        }
        let bar = self.bar.get_or_insert_with(new_bar);
        bar.set_length(total);
        bar.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Creates a bar that draws nothing if standard error is not a terminal.
fn new_bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template(TEMPLATE);
    // A test checks the template.
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_appears_after_a_second_unless_it_is_disabled() {
        for (no_progress, millis, expected) in
            [(false, 999, None), (false, 1001, Some((3, 8))), (true, 1001, None)]
        {
            let mut progress = ProgressOptions { no_progress }.start();
            progress.show_after(Duration::from_millis(millis), 3, 8);
            let shown = progress.bar.as_ref();
            let shown = shown.map(|bar| (bar.position(), bar.length().unwrap_or_default()));
            assert_eq!(shown, expected, "{no_progress}, {millis} ms");
        }
    }

    #[test]
    fn the_template_is_valid() {
        assert!(ProgressStyle::with_template(TEMPLATE).is_ok());
    }
}
