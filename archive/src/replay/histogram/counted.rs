//! What histograms counted between two moments.
//!
//! Marks, resets and the known boundaries of runs cut the time between the moments into
//! parts. What was counted is the sum of what each bucket grew in each part:
//!
//! | record | 4..5 | 6..7 | sum | |
//! |---|---|---|---|---|
//! | 0 | 100 | - | 400 | |
//! | 1 | 110 | 2 | 452 | |
//! | 2 | | | | a mark: the agent was away |
//! | 3 | 150 | 9 | 654 | |
//! | 4 | 151 | 9 | 658 | |
//!
//! From record 0 to record 4 these are (10 + 1) values of 4..5 and (2 + 0) of 6..7. What was
//! counted from record 1 to record 3 was not observed, and whether it was by one run of
//! the program is not known.
//!
//! A part begins with
//!
//! * the values at the first moment, if the histogram has some there;
//! * 0, where the agent's events say that a run began;
//! * else those of the first record of the part with a bucket, or with a sum of 0.
//!
//! A bucket without a value there was empty, since a bucket that has counted is logged with
//! all others. A part ends with the values at the second moment, or with the last
//! ones in it.

use std::ops::Range;

use super::super::runs::Runs;
use super::super::timeline::Reach;
use super::super::{Column, Gaps, Lifetime, Replay, Track, column_value};
use super::Quantile;
use crate::growth::growth;
use crate::histogram::Bucket;
use crate::{Semantics, Timestamp, Value};

/// What one histogram counted between two moments.
#[derive(Debug, Clone, Default)]
pub(super) struct Counted {
    /// The number of values in each bucket.
    pub(super) buckets: Vec<(Bucket, f64)>,
}

/// A counter of a histogram.
struct Member<'r> {
    /// `None` for the sum of the values.
    bucket: Option<Bucket>,
    column: &'r Column,
    /// Its values at the two moments.
    bounds: [Option<Value<'r>>; 2],
}

/// One histogram and the time between two moments.
struct Span<'r> {
    members: Vec<Member<'r>>,
    /// What is in reach of the moments without a mark, a reset or a boundary in between.
    reaches: [Reach; 2],
    /// The records where a part begins after the first one, ascending.
    walls: Vec<u32>,
    records: Range<u32>,
    /// What comes next after the second moment is a reset.
    is_reset_next: bool,
}

/// Records without a mark, a reset or a boundary in between.
struct Part {
    /// `None` for the first part.
    wall: Option<u32>,
    records: Range<u32>,
    is_last: bool,
}

/// What the counters grow from in a part.
#[derive(Debug, Clone, Copy)]
enum Start {
    /// Their values at the first moment.
    Moment,
    Zero,
    /// Their values in this record.
    Record(u32),
}

impl Quantile {
    /// What each histogram counted. Nothing where a bucket is less than before without a
    /// reset, as one of floating-point numbers that wrap.
    pub(super) fn counted(
        &self,
        replay: &Replay<'_>,
        since: Timestamp,
        at: Timestamp,
    ) -> Vec<Counted> {
        let track = |operand: usize| replay.tracks.get(*replay.operands.get(operand)?);
        let Some(counts) = track(self.counts).filter(|_| since < at) else {
            return vec![Counted::default(); self.layout.histograms().len()];
        };
        let mut spans = self.spans(replay, counts, [since, at]);
        let moments = [since, at];
        for (place, column) in counts.columns.iter().enumerate() {
            let bucket = self.layout.bucket_in(column.instance());
            if let Some(span) = bucket.and_then(|bucket| spans.get_mut(bucket.histogram)) {
                span.add(replay, counts, place, bucket, moments);
            }
        }
        if let Some(sums) = self.sum.and_then(track) {
            for (span, instance) in spans.iter_mut().zip(self.layout.histograms()) {
                if let Some(place) = sums.place_of(*instance) {
                    span.add(replay, sums, place, None, moments);
                }
            }
        }
        let counted = |span: &Span<'_>| Counted {
            buckets: span.counted(replay, &counts.runs).unwrap_or_default(),
        };
        spans.iter().map(counted).collect()
    }

    /// The time between two moments, for each histogram.
    fn spans<'r>(
        &self,
        replay: &Replay<'_>,
        counts: &Track,
        moments: [Timestamp; 2],
    ) -> Vec<Span<'r>> {
        let reaches = moments.map(|moment| counts.runs.limit(&replay.timeline.reach(moment)));
        let [since, until] = &reaches;
        let records = since.prior.end..until.prior.end;
        let marks = replay.timeline.marks();
        let span = |histogram| {
            let mut walls: Vec<u32> = [marks, counts.runs.known(), self.resets.of(histogram)]
                .into_iter()
                .flat_map(|walls| within(walls, &records))
                .copied()
                .collect();
            walls.sort_unstable();
            walls.dedup();
            let limited = reaches.each_ref().map(|reach| self.resets.limit(histogram, reach));
            let is_reset_next = limited[1].next.end < until.next.end;
            let (members, records) = (Vec::new(), records.clone());
            Span { members, reaches: limited, walls, records, is_reset_next }
        };
        (0..self.layout.histograms().len()).map(span).collect()
    }
}

/// Those of some records, ascending, that are in a range.
fn within<'w>(walls: &'w [u32], records: &Range<u32>) -> &'w [u32] {
    let place = |record| walls.partition_point(|wall| *wall < record);
    walls.get(place(records.start)..place(records.end)).unwrap_or_default()
}

impl<'r> Span<'r> {
    /// Adds a counter, unless its instance is not replayed.
    fn add(
        &mut self,
        replay: &Replay<'_>,
        track: &'r Track,
        place: usize,
        bucket: Option<Bucket>,
        moments: [Timestamp; 2],
    ) {
        let life = track.lives.get(place).copied().flatten();
        let Some((column, life)) = track.columns.get(place).zip(life) else { return };
        let bounds = self.bounds(replay, column, life, moments);
        self.members.push(Member { bucket, column, bounds });
    }

    /// The values of a counter at the two moments.
    fn bounds<'v>(
        &self,
        replay: &Replay<'_>,
        column: &'v Column,
        life: Lifetime,
        moments: [Timestamp; 2],
    ) -> [Option<Value<'v>>; 2] {
        let value = |(at, reach): (Timestamp, &Reach)| {
            let (timeline, decrease) = (&replay.timeline, replay.decrease);
            let value = column_value(column, Semantics::Counter, reach, timeline, decrease);
            value.filter(|_| life.contains(at))
        };
        let [since, until] = &self.reaches;
        let [first, second] = moments;
        [value((first, since)), value((second, until))]
    }

    /// How much each bucket grew; `None` if a counter fell.
    fn counted(&self, replay: &Replay<'_>, runs: &Runs) -> Option<Vec<(Bucket, f64)>> {
        if replay.gaps == Gaps::Join && !self.is_joined() {
            return None;
        }
        let mut buckets: Vec<(Bucket, f64)> = Vec::new();
        for part in self.parts() {
            let Some(start) = self.start(&part, runs) else { continue };
            for member in &self.members {
                let Some((first, places, last)) = member.values(&part, start) else { continue };
                let between = places.filter_map(|place| member.column.value(place));
                let grown = growth(first, between, last, replay.decrease)?;
                buckets.extend(member.bucket.map(|bucket| (bucket, grown)));
            }
        }
        buckets.sort_by(|(one, _), (other, _)| one.first.total_cmp(&other.first));
        buckets.dedup_by(|(later, grown), (first, sum)| {
            let is_same = later == first;
            *sum += if is_same { *grown } else { 0.0 };
            is_same
        });
        Some(buckets)
    }

    /// Whether PCP's rules give values: there is no mark and no reset in between, and none
    /// follows before each counter has another value.
    fn is_joined(&self) -> bool {
        let is_cut = |member: &Member<'_>| matches!(member.bounds, [Some(_), None]);
        let is_lost = self.is_reset_next && self.members.iter().any(is_cut);
        self.walls.is_empty() && self.was_there() && !is_lost
    }

    /// Whether the histogram has values at the first moment. Those of the sum alone
    /// suffice if nothing was counted until then: buckets may be logged at other times.
    fn was_there(&self) -> bool {
        let [since, _] = &self.reaches;
        self.members.iter().any(|member| {
            let prior = since.neighbours(member.column.rows()).0;
            let prior = prior.and_then(|(place, _)| member.column.value(place));
            let is_bucket = member.bucket.is_some();
            member.bounds[0].is_some() && (is_bucket || prior.is_some_and(is_zero))
        })
    }

    fn parts(&self) -> impl Iterator<Item = Part> {
        let starts = [None].into_iter().chain(self.walls.iter().copied().map(Some));
        let ends = self.walls.iter().copied().map(Some).chain([None]);
        starts.zip(ends).map(|(wall, end)| Part {
            wall,
            records: wall.unwrap_or(self.records.start)..end.unwrap_or(self.records.end),
            is_last: end.is_none(),
        })
    }

    /// What the counters grow from in a part; `None` if it has nothing of the histogram.
    fn start(&self, part: &Part, runs: &Runs) -> Option<Start> {
        match part.wall {
            None if self.was_there() => return Some(Start::Moment),
            Some(wall) if runs.zero_before(wall).is_some() => return Some(Start::Zero),
            _ => {}
        }
        let first = |member: &Member<'_>| {
            let (place, record) = member.column.rows().first_from(part.records.start)?;
            let value = member.column.value(place).filter(|_| part.records.contains(&record))?;
            (member.bucket.is_some() || is_zero(value)).then_some(record)
        };
        self.members.iter().filter_map(first).min().map(Start::Record)
    }
}

impl<'r> Member<'r> {
    /// The value that a counter grows from in a part, the places of those in it, and the last
    /// one; `None` without any in the part.
    fn values(&self, part: &Part, start: Start) -> Option<(Value<'r>, Range<usize>, Value<'r>)> {
        let place = |record| self.column.rows().count_before(record);
        let places = place(part.records.start)..place(part.records.end);
        let observed = places.clone().filter_map(|place| self.column.get(place));
        let end = self.bounds[1].filter(|_| part.is_last);
        let last = end.or_else(|| observed.clone().next_back().map(|(_, value)| value))?;
        let first = match start {
            Start::Moment => self.bounds[0],
            Start::Zero => None,
            Start::Record(record) => observed
                .clone()
                .next()
                .filter(|(first, _)| *first == record)
                .map(|(_, value)| value),
        };
        Some((first.unwrap_or_else(|| last.zero()), places, last))
    }
}

pub(super) fn is_zero(value: Value<'_>) -> bool {
    value.as_f64() == Some(0.0)
}
