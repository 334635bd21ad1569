//! The last value of each interval, of metrics whose values hold until they change.

use super::output::InstanceOutput;
use super::output::StagedValue;
use crate::Timestamp;
use crate::analysis::growth::lifetime::Lifetime;

/// One instance of a discrete metric, or of one whose values are no numbers.
#[derive(Debug)]
pub(super) struct HeldTrack {
    life: Lifetime,
    /// Interval, time and value of the last observation.
    current: Option<(i128, Timestamp, StagedValue)>,
    /// There was a value that this one follows.
    is_continued: bool,
}

impl HeldTrack {
    pub(super) const fn new(life: Lifetime) -> Self {
        Self { life, current: None, is_continued: false }
    }

    /// Adds the first and the last value of consecutive rows in one interval.
    pub(super) fn add(
        &mut self,
        interval: i128,
        first: (Timestamp, impl FnOnce() -> Option<StagedValue>),
        last: (Timestamp, Option<StagedValue>),
        output: &mut InstanceOutput<'_>,
    ) {
        if self.current.as_ref().is_some_and(|(current, ..)| *current != interval) {
            self.finish(true, output);
        }
        if !self.is_continued
            && let Some(value) = first.1()
        {
            // It holds from here on and not only from the next time of the grid.
            output.put_value(first.0, value);
            self.is_continued = true;
        }
        if let Some(value) = last.1 {
            self.current = Some((interval, last.0, value));
        }
    }

    /// Writes an interval that has ended before `now`.
    pub(super) fn settle(&mut self, now: Timestamp, output: &mut InstanceOutput<'_>) {
        let interval = self.current.as_ref().map(|(interval, ..)| *interval);
        if interval.is_some_and(|interval| output.grid().end(interval) < now) {
            self.finish(true, output);
        }
    }

    /// Ends the line: its value holds until `at` or, without, until its own time.
    pub(super) fn end(&mut self, at: Option<Timestamp>, output: &mut InstanceOutput<'_>) {
        let interval = self.current.as_ref().map(|(interval, ..)| *interval);
        let is_whole =
            interval.zip(at).is_some_and(|(interval, at)| output.grid().end(interval) < at);
        self.finish(is_whole, output);
        self.is_continued = false;
    }

    fn finish(&mut self, is_whole: bool, output: &mut InstanceOutput<'_>) {
        let Some((interval, at, value)) = self.current.take() else { return };
        let end = output.grid().end(interval);
        let at = if is_whole && self.life.contains(end) { end } else { at };
        output.put_value(at, value);
    }
}
