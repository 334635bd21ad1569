//! Reads large archives from the start of the server on, so that wide windows take no time, and what
//! moves in the window that a page shows first.
//! Questions go first, within limits.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use super::answers::prepare;
use super::archives::{Archives, OpenedArchives};

/// A thread that extends the pyramids of archives whenever they have grown.
#[derive(Debug)]
pub(super) struct Background {
    wake: SyncSender<()>,
    questions: Arc<AtomicUsize>,
}

/// A question that is being answered.
#[derive(Debug)]
pub(super) struct Busy(Arc<AtomicUsize>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Time for which each reading thread pauses while questions are answered. The number of pauses is
/// limited, enough for a first picture: otherwise reading would never end while a chart is dragged.
const PAUSE: Duration = Duration::from_millis(2);
const PAUSES: usize = 500;

impl Background {
    /// Starts the thread. If that fails, all windows are read each time.
    pub(super) fn new(archives: Arc<Archives>) -> Self {
        let (wake, woken) = sync_channel(1);
        let questions = Arc::<AtomicUsize>::default();
        let asked = Arc::clone(&questions);
        // It ends with the sender, or with the process.
        let _ = thread::Builder::new().spawn(move || extend(&archives, &woken, &asked));
        let background = Self { wake, questions };
        background.wake();
        background
    }

    /// Makes the thread wait until the returned value is dropped.
    pub(super) fn give_way(&self) -> Busy {
        self.questions.fetch_add(1, Ordering::Relaxed);
        Busy(Arc::clone(&self.questions))
    }

    /// Has it look whether the archives have grown.
    pub(super) fn wake(&self) {
        // If the channel is full, a wake-up is pending already.
        let _ = self.wake.try_send(());
    }
}

fn extend(archives: &Archives, woken: &Receiver<()>, questions: &AtomicUsize) {
    prepare(archives, &|| true);
    let mut known = Weak::<OpenedArchives>::new();
    while woken.recv().is_ok() {
        let opened = Arc::downgrade(&archives.opened());
        if !opened.ptr_eq(&known) {
            known = opened;
            let pauses = AtomicUsize::new(0);
            let go_on = || {
                while questions.load(Ordering::Relaxed) > 0
                    && pauses.fetch_add(1, Ordering::Relaxed) < PAUSES
                {
                    thread::sleep(PAUSE);
                }
                true
            };
            // A damaged record is an error of the answers, too, which say so.
            let _ = archives.extend(&go_on);
        }
    }
}
