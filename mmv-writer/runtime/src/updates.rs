//! A thread that updates metrics.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// A thread that updates metrics until this is dropped. Dropping waits for a running update.
#[derive(Debug)]
#[must_use = "dropping this ends the updates"]
pub struct Updates {
    /// Dropped first, which ends the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Calls `update` at once and then at this interval, in a thread called `mmv-updates`.
///
/// ```
/// use std::time::Duration;
///
/// use mmv_writer::Gauge;
///
/// let free = Gauge::<u64>::noop();
/// let updates = mmv_runtime::every(Duration::from_secs(1), move || free.set(7))?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// The interval begins when an update has ended. One that panics ends the thread. A forked
/// child does not have the thread.
///
/// # Errors
///
/// The errors of creating a thread.
pub fn every(interval: Duration, update: impl FnMut() + Send + 'static) -> io::Result<Updates> {
    let (stop, stopped) = channel();
    let thread = Builder::new().name("mmv-updates".to_owned());
    let thread = thread.spawn(move || run(interval, update, &stopped))?;
    Ok(Updates { stop: Some(stop), thread: Some(thread) })
}

fn run(interval: Duration, mut update: impl FnMut(), stopped: &Receiver<()>) {
    loop {
        update();
        if stopped.recv_timeout(interval) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

impl Drop for Updates {
    fn drop(&mut self) {
        drop(self.stop.take());
        // One that panicked has printed that.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Instant;

    use super::*;

    #[test]
    fn updates_begin_at_once_repeat_and_end_when_dropped() {
        let count = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&count);
        let updates = every(Duration::from_millis(1), move || {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let updates = updates.unwrap();
        let since = Instant::now();
        while count.load(Ordering::Relaxed) < 3 {
            assert!(since.elapsed() < Duration::from_secs(60), "there are no updates");
            std::thread::yield_now();
        }
        drop(updates);
        let last = count.load(Ordering::Relaxed);
        assert_eq!(Arc::strong_count(&count), 1, "the thread is gone");
        assert_eq!(count.load(Ordering::Relaxed), last);
    }

    #[test]
    fn a_long_interval_does_not_delay_the_end() {
        let since = Instant::now();
        drop(every(Duration::from_secs(3600), || ()).unwrap());
        assert!(since.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn an_update_that_panics_ends_the_updates_alone() {
        let updates = every(Duration::ZERO, || panic!("the update fails")).unwrap();
        drop(updates);
    }
}
