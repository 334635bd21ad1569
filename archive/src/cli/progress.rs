//! A bar on standard error for work that takes long.

use std::time::{Duration, Instant};

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// What takes less time needs no bar.
const PATIENCE: Duration = Duration::from_secs(1);

/// `[=====>     ] 120 MiB of 1 GiB, 3s left`
const TEMPLATE: &str = "[{bar:40}] {bytes} of {total_bytes}, {eta} left";

/// Options of commands that can take long.
#[derive(Debug, Args)]
pub(super) struct ProgressOptions {
    /// Show no bar on standard error while it takes long. There is none anyway
    /// where standard error is not a terminal.
    #[arg(long)]
    no_progress: bool,
}

/// Shown from the second second on, and gone when dropped.
#[derive(Debug)]
pub(super) struct Progress {
    since: Instant,
    is_wanted: bool,
    bar: Option<ProgressBar>,
}

impl ProgressOptions {
    /// Work begins.
    pub(super) fn start(&self) -> Progress {
        Progress { since: Instant::now(), is_wanted: !self.no_progress, bar: None }
    }
}

impl Progress {
    /// So many bytes are done, of so many.
    pub(super) fn show(&mut self, done: u64, total: u64) {
        self.show_after(self.since.elapsed(), done, total);
    }

    fn show_after(&mut self, elapsed: Duration, done: u64, total: u64) {
        if !self.is_wanted || elapsed < PATIENCE {
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

/// Draws nothing off a terminal.
fn new_bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template(TEMPLATE);
    // The template is good: a test says so.
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_comes_after_a_second_unless_it_is_not_wanted() {
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
    fn the_template_is_good() {
        assert!(ProgressStyle::with_template(TEMPLATE).is_ok());
    }
}
