//! Waiting for something that another process does: polling, with a deadline.

use std::time::{Duration, Instant};

/// How long anything may take. Generous, since only failing tests ever wait so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Asks `probe` until it answers, and returns the answer.
///
/// Panics with `what` when [`PATIENCE`] has passed.
#[track_caller]
pub(crate) fn until<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = probe() {
            return answer;
        }
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} for: {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// Asks `probe` until it returns true.
#[track_caller]
pub(crate) fn until_true(what: &str, mut probe: impl FnMut() -> bool) {
    until(what, || probe().then_some(()));
}
