//! The thread that keeps house: what may wait for a disk, and may take long.
//!
//! It saves what the sampler remembers.

use std::sync::Arc;
use std::time::Duration;

use crossbeam::channel::{Receiver, RecvTimeoutError};

use crate::state::{Memory, Store};

/// A program that restarts all the time is not worth a write each time: what
/// is lost with the last of them costs a mark, and no PMID.
const PAUSE: Duration = Duration::from_secs(5);

/// What the thread is told.
#[derive(Debug)]
pub(crate) enum Note {
    /// The sampler has this to remember.
    Remember(Memory),
}

/// The keeper's state.
#[derive(Debug)]
pub(crate) struct Keeper {
    store: Arc<Store>,
    /// What is not saved yet.
    unsaved: Option<Memory>,
}

impl Keeper {
    /// A keeper that saves to `store`.
    pub(crate) fn new(store: Arc<Store>) -> Self {
        Self { store, unsaved: None }
    }

    /// Works until nobody is left who could say something.
    pub(crate) fn run(mut self, notes: &Receiver<Note>) {
        loop {
            match notes.recv_timeout(PAUSE) {
                Ok(note) => self.take(note),
                Err(RecvTimeoutError::Timeout) => self.save(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.save();
    }

    /// Takes a note. A new PMID is saved at once.
    pub(crate) fn take(&mut self, note: Note) {
        let Note::Remember(memory) = note;
        let known = self.store.memory();
        let urgent = known.used != memory.used || known.clusters.len() != memory.clusters.len();
        self.unsaved = Some(memory);
        if urgent {
            self.save();
        }
    }

    /// Saves what is not saved yet.
    pub(crate) fn save(&mut self) {
        if let Some(memory) = self.unsaved.take() {
            self.store.remember(memory);
        }
    }
}
