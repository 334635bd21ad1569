//! One file with its metadata and the values of the last pass.

use std::ffi::OsString;
use std::time::Duration;

use crate::metadata::{Member, Translation};
use crate::moment::Moment;
use crate::source::{Fault, Source, Values};

/// A file under harvest.
#[derive(Debug)]
pub(super) struct ActiveSource {
    pub(super) name: OsString,
    pub(super) source: Source,
    /// Its last pass read final values: its process has ended.
    pub(super) ended: bool,
    /// How many of its entries were left out.
    pub(super) left_out: usize,
    translation: Translation,
    values: Values,
    /// The tick whose pass read its values last.
    read: Option<Duration>,
    /// The checks after that pass found no fault.
    usable: bool,
}

impl ActiveSource {
    /// A source that was not read yet.
    pub(super) fn new(
        name: OsString,
        source: Source,
        translation: Translation,
        left_out: usize,
    ) -> Self {
        let values = Values::new(source.plan());
        let (read, usable, ended) = (None, false, false);
        Self { name, source, ended, left_out, translation, values, read, usable }
    }

    /// Whether it was read at this tick.
    pub(super) fn is_read(&self, now: Moment) -> bool {
        self.read == Some(now.monotonic)
    }

    /// Reads all values and checks what was read. True if its records need another
    /// shape: other values are present, or strings have other lengths.
    pub(super) fn harvest(&mut self, now: Moment) -> (bool, Result<(), Fault>) {
        self.read = Some(now.monotonic);
        // Before the pass: what is read after the end of the process is final.
        let ended = !self.source.is_fed();
        let micros = (now.wall.as_nanos() / 1000) as i64;
        let reshaped = self.source.read(&mut self.values, micros);
        let checked = self.source.check();
        self.usable = checked.is_ok();
        self.ended = ended && self.usable;
        (reshaped, checked)
    }

    /// The values read at this tick; `None` if there was no pass, or its values may not
    /// be used.
    pub(super) fn values(&self, now: Moment) -> Option<&Values> {
        (self.usable && self.is_read(now)).then_some(&self.values)
    }

    /// The source as the catalog sees it.
    pub(super) fn member(&self) -> Member<'_> {
        Member { file: &self.name, translation: &self.translation, plan: self.source.plan() }
    }
}
