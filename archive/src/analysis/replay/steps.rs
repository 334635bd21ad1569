//! Values at steps, as a client of PCP sees them.
//!
//! A counter that had values at one step has none at the next if there is a mark in
//! between, so a client that subtracts two steps never does so across a mark. At the
//! step after that the counter has values again.
//!
//! ```text
//! records  100  110  120  mark  10   20   30        counter
//! step       |         |              |    |
//! value     100       120             -    30
//! ```
//!
//! This depends on earlier steps, so [`Replay::sample_at`] does not do it;
//! [`Replay::rates_at`] needs no earlier steps.

use super::{Replay, Sample};
use crate::{Semantics, Timestamp};

/// Samples at steps, made by [`Replay::steps`].
#[derive(Debug)]
struct Steps<'r, T> {
    replay: &'r Replay<'r>,
    times: T,
    /// The last step, and for each metric whether it had values there.
    last: Option<(Timestamp, Vec<bool>)>,
}

impl Replay<'_> {
    /// Returns the samples at some times in order; counters have no values at the first step
    /// after a mark. Times outside the archive are skipped.
    pub fn steps<T>(&self, times: T) -> impl Iterator<Item = Sample<'_>>
    where
        T: Iterator<Item = Timestamp>,
    {
        Steps { replay: self, times, last: None }
    }
}

impl<'r, T: Iterator<Item = Timestamp>> Iterator for Steps<'r, T> {
    type Item = Sample<'r>;

    fn next(&mut self) -> Option<Sample<'r>> {
        let replay = self.replay;
        let (since, mut sample) = loop {
            let at = self.times.next()?;
            let since = self.last.as_ref().map_or(at, |(last, _)| *last);
            if let Some(sample) = replay.at_since(at, since) {
                break (since, sample);
            }
        };
        let at = sample.timestamp;
        if replay.has_mark_between(since.min(at), since.max(at)) {
            let had = self.last.iter().flat_map(|(_, had)| had);
            for ((metric, values), had) in replay.metrics().zip(&mut sample.values).zip(had) {
                if *had && metric.desc.semantics == Semantics::Counter {
                    values.clear();
                }
            }
        }
        let have = sample.values.iter().map(|values| !values.is_empty()).collect();
        self.last = Some((at, have));
        Some(sample)
    }
}

#[cfg(test)]
mod tests {
    use crate::analysis::replay::Replay;
    use crate::analysis::replay::tests::archive;
    use crate::analysis::replay::tests::at;

    #[test]
    fn a_counter_is_silent_at_the_first_step_after_a_mark() {
        let records = [
            (0, Some(100)),
            (10_000, Some(110)),
            (20_000, Some(120)),
            (20_001, None),
            (30_000, Some(10)),
            (40_000, Some(20)),
            (50_000, Some(30)),
        ];
        let (_directory, archive) = archive(&records);
        let mut selection = Replay::open(&archive);
        selection.select("t.counter");
        selection.select("t.instant");
        let replay = selection.load().unwrap();
        let values = |times: &[i64]| -> Vec<[usize; 2]> {
            let steps = replay.steps(times.iter().map(|&millis| at(millis)));
            steps.map(|sample| [sample.values[0].len(), sample.values[1].len()]).collect()
        };
        assert_eq!(values(&[0, 20_000, 40_000, 50_000]), [[1, 1], [1, 1], [0, 1], [1, 1]]);
        assert_eq!(values(&[40_000, 50_000]), [[1, 1], [1, 1]], "nothing came before");
        let between = [20_000, 25_000, 40_000];
        assert_eq!(values(&between), [[1, 1], [0, 0], [1, 1]], "it had none at the last step");
        assert_eq!(values(&[50_000, 10_000, 0]), [[1, 1], [0, 1], [1, 1]], "backwards");
    }
}
