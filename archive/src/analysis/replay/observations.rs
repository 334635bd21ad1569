//! The logged values, record by record.

use super::expression::ExpressionValues;
use super::{Replay, Sample};
use crate::Timestamp;

/// The logged values of the selected metrics in the order of their records.
///
/// An iterator of [`Sample`]s; made by [`Replay::observations`].
#[derive(Debug)]
pub struct Observations<'r> {
    replay: &'r Replay<'r>,
    /// Every observation, by record, metric, instance.
    order: Vec<ObservationKey>,
    next: usize,
}

/// The position of an observation in the order of reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ObservationKey {
    record: u32,
    /// `None` for a mark.
    metric: Option<u32>,
    column: u32,
    observation: u32,
}

impl<'r> Observations<'r> {
    pub(super) fn new(replay: &'r Replay<'_>) -> Self {
        let mut order = Vec::new();
        for &record in replay.timeline.marks() {
            order.push(ObservationKey { record, metric: None, column: 0, observation: 0 });
        }
        for (metric, track) in (0u32..).zip(replay.tracks.iter().take(replay.shown())) {
            let columns = (0u32..).zip(&track.columns);
            for (column, values) in columns.filter(|(_, of)| track.shows(of.instance())) {
                for (observation, record) in (0u32..).zip(values.rows().iter()) {
                    order.push(ObservationKey {
                        record,
                        metric: Some(metric),
                        column,
                        observation,
                    });
                }
            }
        }
        order.sort_unstable();
        Self { replay, order, next: 0 }
    }

    fn timestamp(&self, place: ObservationKey) -> Option<Timestamp> {
        self.replay.timeline.timestamp(place.record)
    }
}

impl<'r> Iterator for Observations<'r> {
    type Item = Sample<'r>;

    fn next(&mut self) -> Option<Sample<'r>> {
        let first = *self.order.get(self.next)?;
        let mut sample = Sample {
            timestamp: self.timestamp(first)?,
            is_mark: first.metric.is_none(),
            values: vec![ExpressionValues::new(); self.replay.metrics.len()],
        };
        while let Some(place) = self.order.get(self.next).filter(|p| p.record == first.record) {
            self.next += 1;
            let Some(metric) = place.metric else { continue };
            let track = self.replay.tracks.get(metric as usize)?;
            let column = track.columns.get(place.column as usize)?;
            let (_, value) = column.get(place.observation as usize)?;
            sample.values.get_mut(metric as usize)?.push((column.instance(), value));
        }
        Some(sample)
    }
}
