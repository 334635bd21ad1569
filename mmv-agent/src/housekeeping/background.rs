//! Work on an archive on a thread of its own: compression and reduction.
//!
//! Unless it is urgent, the thread gets little processor and disk time, while the housekeeping
//! thread has ordinary priority: on a busy machine the work takes its time, but retention deletes
//! in time.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam::channel::{Receiver, bounded};

use crate::threads;

/// The outcome of the work.
pub(super) struct Done<T> {
    pub result: T,
    /// Processor time of the thread.
    pub time: Duration,
}

/// Work in progress. Dropping this gives it up.
pub(super) struct BackgroundWork<T> {
    given_up: Arc<AtomicBool>,
    done: Receiver<Done<T>>,
}

impl<T: Send + 'static> BackgroundWork<T> {
    /// Starts the thread. The work ends early when the function that it gets returns `false`.
    ///
    /// # Errors
    ///
    /// From the system, if there is no thread.
    pub(super) fn start(
        thread: &str,
        is_urgent: bool,
        work: impl FnOnce(&mut dyn FnMut() -> bool) -> T + Send + 'static,
    ) -> io::Result<Self> {
        let given_up = Arc::new(AtomicBool::new(false));
        let go_on = Arc::clone(&given_up);
        let (sender, done) = bounded(1);
        threads::spawn(thread, move || {
            if !is_urgent {
                threads::make_background();
            }
            let result = work(&mut || !go_on.load(Ordering::Relaxed));
            // No thread receives it if the work was given up.
            let _ = sender.send(Done { result, time: threads::processor_time() });
        })?;
        Ok(Self { given_up, done })
    }
}

impl<T> BackgroundWork<T> {
    /// Returns the channel for the result.
    pub(super) fn done(&self) -> &Receiver<Done<T>> {
        &self.done
    }

    /// Requests an early end; the result still arrives.
    pub(super) fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
    }
}

impl<T> Drop for BackgroundWork<T> {
    fn drop(&mut self) {
        self.give_up();
    }
}
