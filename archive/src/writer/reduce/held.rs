//! The last value of each interval, of metrics whose values hold until they change.

use super::output::InstanceOutput;
use super::output::StagedValue;
use crate::Timestamp;
use crate::analysis::growth::lifetime::Lifetime;

/// One instance of a discrete metric, or of one whose values are not numbers.
#[derive(Debug)]
pub(super) struct HeldTrack {
    life: Lifetime,
    current: Option<LastObservation>,
    /// There was a value that this one follows.
    is_continued: bool,
}

/// The last observation of an interval.
#[derive(Debug)]
struct LastObservation {
    interval: i128,
    at: Timestamp,
    value: StagedValue,
}

impl HeldTrack {
    pub(super) const fn new(life: Lifetime) -> Self {
        Self { life, current: None, is_continued: false }
    }

    /// Returns whether the next value follows one on the line.
    pub(super) const fn is_continued(&self) -> bool {
        self.is_continued
    }

    /// Begins the line with the first value of an interval: it holds from here on, and not only
    /// from the next time of the grid.
    pub(super) fn begin(
        &mut self,
        interval: i128,
        at: Timestamp,
        value: Option<StagedValue>,
        output: &mut InstanceOutput<'_>,
    ) {
        self.finish_other_than(interval, output);
        if let Some(value) = value {
            output.put_value(at, value);
            self.is_continued = true;
        }
    }

    /// Adds the last value of consecutive rows in one interval.
    pub(super) fn add(
        &mut self,
        interval: i128,
        at: Timestamp,
        value: Option<StagedValue>,
        output: &mut InstanceOutput<'_>,
    ) {
        self.finish_other_than(interval, output);
        if let Some(value) = value {
            self.current = Some(LastObservation { interval, at, value });
        }
    }

    fn finish_other_than(&mut self, interval: i128, output: &mut InstanceOutput<'_>) {
        if self.current.as_ref().is_some_and(|last| last.interval != interval) {
            self.finish(true, output);
        }
    }

    /// Writes an interval that has ended before `now`.
    pub(super) fn settle(&mut self, now: Timestamp, output: &mut InstanceOutput<'_>) {
        let interval = self.current.as_ref().map(|last| last.interval);
        if interval.is_some_and(|interval| output.grid().end(interval) < now) {
            self.finish(true, output);
        }
    }

    /// Ends the line: its value holds until `at` or, without, until its own time.
    pub(super) fn end(&mut self, at: Option<Timestamp>, output: &mut InstanceOutput<'_>) {
        let interval = self.current.as_ref().map(|last| last.interval);
        let is_whole =
            interval.zip(at).is_some_and(|(interval, at)| output.grid().end(interval) < at);
        self.finish(is_whole, output);
        self.is_continued = false;
    }

    fn finish(&mut self, is_whole: bool, output: &mut InstanceOutput<'_>) {
        let Some(LastObservation { interval, at, value }) = self.current.take() else { return };
        let end = output.grid().end(interval);
        let at = if is_whole && self.life.contains(end) { end } else { at };
        output.put_value(at, value);
    }
}
