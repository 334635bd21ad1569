//! Waiting for something that another process does: polling, with a deadline.

use std::time::{Duration, Instant};

/// Limit on any wait. Generous, since only failing tests ever wait so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Limit on waits for the agent's thread of idle priority: beside other processes that thread may
/// get a hundredth of a processor.
const IDLE_WORK_TIMEOUT: Duration = Duration::from_secs(180);

/// Asks `probe` until it answers, and returns the answer.
///
/// Panics with `what` when [`PATIENCE`] has passed.
#[track_caller]
pub(crate) fn until<T>(what: &str, probe: impl FnMut() -> Option<T>) -> T {
    within(PATIENCE, what, probe)
}

/// Asks `probe` until it answers, which takes work of idle priority.
#[track_caller]
pub(crate) fn for_idle_work<T>(what: &str, probe: impl FnMut() -> Option<T>) -> T {
    within(IDLE_WORK_TIMEOUT, what, probe)
}

#[track_caller]
fn within<T>(timeout: Duration, what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + timeout;
    loop {
        if let Some(answer) = probe() {
            return answer;
        }
        assert!(Instant::now() < deadline, "waited {timeout:?} for: {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// Asks `probe` until it returns true.
#[track_caller]
pub(crate) fn until_true(what: &str, mut probe: impl FnMut() -> bool) {
    until(what, || probe().then_some(()));
}
