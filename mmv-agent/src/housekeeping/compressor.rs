//! Compresses a volume on a thread of its own.
//!
//! Unless it is urgent, the thread gets idle processor and disk time only, while the housekeeping
//! thread has ordinary priority: on a busy machine compression takes its time, but retention
//! deletes in time.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam::channel::{Receiver, bounded};
use pcp_archive::Compression;
use pcp_archive::compress::{Effort, compress_volume};
use rustix::time::{ClockId, clock_gettime};

use crate::threads;

/// The outcome of a compression.
pub(super) struct Done {
    /// Result of [`compress_volume`].
    pub result: pcp_archive::Result<Option<PathBuf>>,
    pub time: Duration,
}

/// A compression in progress. Dropping this gives it up.
pub(super) struct Compressor {
    given_up: Arc<AtomicBool>,
    done: Receiver<Done>,
}

impl Compressor {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// From the system, if there is no thread.
    pub(super) fn start(volume: PathBuf, method: Compression, is_urgent: bool) -> io::Result<Self> {
        let given_up = Arc::new(AtomicBool::new(false));
        let go_on = Arc::clone(&given_up);
        let (sender, done) = bounded(1);
        threads::spawn("compressor", move || {
            if !is_urgent {
                threads::make_background();
            }
            let go_on = &mut || !go_on.load(Ordering::Relaxed);
            let result = compress_volume(&volume, method, Effort::Least, go_on);
            // No thread receives it if the compression was given up.
            let _ = sender.send(Done { result, time: processor_time() });
        })?;
        Ok(Self { given_up, done })
    }

    /// Returns the channel for the result.
    pub(super) fn done(&self) -> &Receiver<Done> {
        &self.done
    }

    /// Requests an early end; the result still arrives.
    pub(super) fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
    }
}

impl Drop for Compressor {
    fn drop(&mut self) {
        self.give_up();
    }
}

fn processor_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}
