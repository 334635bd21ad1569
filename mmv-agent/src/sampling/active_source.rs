//! One file under harvest: its mapping and the values of the last pass.

use std::sync::Arc;
use std::time::Duration;

use crate::moment::Moment;
use crate::source::{Fault, Source, Values};

/// The number of a source for as long as its metadata stays; never used again.
pub(super) type Ticket = u64;

/// What a pass has found out about a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finding {
    /// Its values may not be used any more.
    Fault(Fault),
    /// Its process has ended, and its last values were read.
    Ended,
}

/// How often it is looked whether a file is still there in its length. A truncation that
/// costs a value is noticed in each pass.
const LOOK: Duration = Duration::from_millis(50);

/// A file under harvest, as the sampler sees it.
#[derive(Debug)]
pub(super) struct ActiveSource {
    /// Which one it is.
    pub(super) ticket: Ticket,
    source: Arc<Source>,
    /// Its last pass read final values: its process has ended.
    pub(super) ended: bool,
    values: Values,
    /// The tick whose pass read its values last.
    read: Option<Duration>,
    /// The tick at which it was looked whether the file is still there.
    looked: Option<Duration>,
    /// The checks after that pass found a fault.
    faulty: bool,
}

impl ActiveSource {
    /// A source that was not read yet.
    pub(super) fn new(ticket: Ticket, source: Arc<Source>) -> Self {
        let values = Values::new(source.plan());
        Self { ticket, source, ended: false, values, read: None, looked: None, faulty: false }
    }

    /// Whether it was read at this tick.
    pub(super) fn is_read(&self, now: Moment) -> bool {
        self.read == Some(now.monotonic)
    }

    /// Whether it is not to be read any more.
    pub(super) fn is_over(&self) -> bool {
        self.faulty || self.ended
    }

    /// Reads all values and checks what was read. True if its records need another
    /// shape: other values are present, or strings have other lengths.
    pub(super) fn harvest(&mut self, now: Moment) -> (bool, Option<Finding>) {
        self.read = Some(now.monotonic);
        // Before the pass: what is read after the end of the process is final.
        let ended = !self.source.is_fed();
        let micros = (now.wall.as_nanos() / 1000) as i64;
        let reshaped = self.source.read(&mut self.values, micros);
        let looked = self.looked.is_some_and(|looked| now.monotonic < looked + LOOK);
        let fault = if looked && !ended {
            self.source.check_values().err()
        } else {
            self.looked = Some(now.monotonic);
            self.source.check().err()
        };
        self.faulty = fault.is_some();
        self.ended = ended && !self.faulty;
        let finding = fault.map(Finding::Fault).or(self.ended.then_some(Finding::Ended));
        (reshaped, finding)
    }

    /// The values read at this tick; `None` if there was no pass, or its values may not
    /// be used.
    pub(super) fn values(&self, now: Moment) -> Option<&Values> {
        (!self.faulty && self.is_read(now)).then_some(&self.values)
    }
}
