//! Reads large archives once more, after the first picture, so that wide windows take no time.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::thread;

use super::archives::{Archives, Opened};

/// A thread that extends the pyramids of archives whenever they have grown.
#[derive(Debug)]
pub(super) struct Background {
    wake: SyncSender<()>,
}

impl Background {
    /// Where the thread cannot be started all windows are read each time.
    pub(super) fn new(archives: Arc<Archives>) -> Self {
        let (wake, woken) = sync_channel(1);
        // It ends with the sender, or with the process.
        let _ = thread::Builder::new().spawn(move || extend(&archives, &woken));
        Self { wake }
    }

    /// Has it look whether the archives have grown.
    pub(super) fn wake(&self) {
        // If the channel is full, a wake-up is pending already.
        let _ = self.wake.try_send(());
    }
}

fn extend(archives: &Archives, woken: &Receiver<()>) {
    let mut known = Weak::<Opened>::new();
    while woken.recv().is_ok() {
        let opened = Arc::downgrade(&archives.opened());
        if !opened.ptr_eq(&known) {
            known = opened;
            // A damaged record is an error of the answers, too, which say so.
            let _ = archives.extend(&|| true);
        }
    }
}
