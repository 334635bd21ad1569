//! The counts of histograms between two moments.
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
//! The line of a bucket begins with 0, which is dated as that of the other counters of a program:
//!
//! | the first record with the bucket | the bucket was 0 |
//! |---|---|
//! | follows one in the part that has another bucket, or a sum of 0 | in that record: a bucket that has counted is logged with all others |
//! | is the first of a histogram that the program created in the part | in the record before with values of the metric |
//! | is the first of a run, by the agent's events | as the run |
//!
//! So half of what a new bucket has at its first record was counted in the second half of the
//! interval before it, as that of the other buckets. Other lines begin with their first value.

use crate::analysis::growth::walls::{CounterOrigin, Wall};
use crate::analysis::replay::histogram::BucketGrowth;
use crate::analysis::replay::lines::{Line, MetricGrowth, lines};
use crate::analysis::replay::resets::falls;
use crate::analysis::replay::{Column, Decrease, Gaps, MetricTrack, Moment, Replay};
use crate::scan::histogram::{Bucket, HistogramLayout};
use crate::{Timestamp, Value};

#[derive(Debug, Clone, Default)]
pub(super) struct HistogramLines {
    members: Vec<Member>,
    /// Walls of the metric, and resets, in the order of rows.
    walls: Vec<Wall>,
    /// For each line, which has as many walls before it, the record in which all buckets that are
    /// not in it were empty.
    bases: Vec<Option<u32>>,
    /// The records in which all buckets that are not in them were empty, ascending; only if some
    /// bucket is not in the base of a line.
    complete_rows: Vec<u32>,
}

/// The growth of a histogram's buckets between two moments.
#[derive(Debug, Default)]
pub(super) struct CountedBuckets {
    /// In the order of buckets, also those in which nothing was counted.
    pub(super) buckets: Vec<BucketGrowth>,
    /// The seconds in which that was observed.
    pub(super) seconds: f64,
}

#[derive(Debug, Clone, Copy)]
struct Member {
    /// `None` for the sum of the values.
    bucket: Option<Bucket>,
    track: usize,
    column: usize,
}

/// The time at which a bucket was 0 before its first value on a line.
#[derive(Debug, Clone, Copy)]
struct LineZero {
    at: Timestamp,
    /// The program created its histogram while other instances of the metric were logged.
    is_birth: bool,
}

impl HistogramLines {
    /// Finds those of the histograms of a metric in tracks, of which two are the counts by bucket
    /// and the sums.
    pub(super) fn find(
        layout: &HistogramLayout,
        tracks: &[MetricTrack],
        [counts, sums]: [Option<usize>; 2],
        decrease: Decrease,
    ) -> Vec<Self> {
        let mut all = vec![Self::default(); layout.histograms().len()];
        let track = |place: Option<usize>| Some((place?, tracks.get(place?)?));
        let Some((counts, buckets)) = track(counts) else { return all };
        for (column, values) in buckets.columns.iter().enumerate() {
            let bucket = layout.bucket_in(values.instance());
            if let Some(own) = bucket.and_then(|bucket| all.get_mut(bucket.histogram)) {
                own.members.push(Member { bucket, track: counts, column });
            }
        }
        if let Some((track, sums)) = track(sums) {
            for (own, instance) in all.iter_mut().zip(layout.histograms()) {
                let column = sums.place_of(*instance);
                own.members.extend(column.map(|column| Member { bucket: None, track, column }));
            }
        }
        for own in &mut all {
            own.find_walls(tracks, buckets.walls.all(), decrease);
        }
        all
    }

    fn find_walls(&mut self, tracks: &[MetricTrack], known: &[Wall], decrease: Decrease) {
        let column = |member: &Member| tracks.get(member.track)?.columns.get(member.column);
        let columns: Vec<&Column> = self.members.iter().filter_map(column).collect();
        self.walls = known.to_vec();
        if decrease == Decrease::Reset {
            let resets = falls(&columns, 0..columns.len(), known).into_iter().map(|fall| fall.end);
            let origin = CounterOrigin::Unknown;
            let at = Timestamp::MIN;
            self.walls.extend(resets.map(|row| Wall { row, origin, at, is_birth: false }));
            self.walls.sort_by_key(|wall| wall.row);
            self.walls.dedup_by_key(|wall| (wall.row, wall.origin));
        }
        let starts = [0].into_iter().chain(self.walls.iter().map(|wall| wall.row));
        let ends = self.walls.iter().map(|wall| wall.row).chain([u32::MAX]);
        let bases = starts.zip(ends).map(|(start, end)| {
            let first = self.members.iter().filter_map(|member| {
                let column = column(member)?;
                let (place, record) = column.rows().first_from(start)?;
                let is_base = member.bucket.is_some() || column.value(place).is_some_and(is_zero);
                (record < end && is_base).then_some(record)
            });
            first.min()
        });
        self.bases = bases.collect();
        self.complete_rows = self.find_complete_rows(tracks);
    }

    /// Returns the records that have a bucket or a sum of 0, ascending; none if each line of a
    /// bucket begins with the base.
    fn find_complete_rows(&self, tracks: &[MetricTrack]) -> Vec<u32> {
        let column = |member: &Member| tracks.get(member.track)?.columns.get(member.column);
        let buckets = self.members.iter().filter(|member| member.bucket.is_some());
        let buckets: Vec<&Column> = buckets.filter_map(column).collect();
        let starts = [0].into_iter().chain(self.walls.iter().map(|wall| wall.row));
        let is_late = starts.zip(&self.bases).any(|(start, base)| {
            let mut firsts = buckets.iter().filter_map(|column| column.rows().first_from(start));
            base.is_some_and(|base| firsts.any(|(_, first)| base < first))
        });
        if !is_late {
            return Vec::new();
        }
        let end = buckets.iter().filter_map(|column| column.rows().last()).max().unwrap_or(0);
        let mut is_complete = vec![false; end as usize + 1];
        for (places, first) in buckets.iter().flat_map(|column| column.rows().stretches()) {
            let rows = first as usize..first as usize + places.len();
            is_complete.get_mut(rows).unwrap_or_default().fill(true);
        }
        let sums = self.members.iter().filter(|member| member.bucket.is_none());
        for (row, value) in sums.filter_map(column).flat_map(Column::iter) {
            if let Some(is_complete) = is_complete.get_mut(row as usize).filter(|_| is_zero(value))
            {
                *is_complete = true;
            }
        }
        let rows = is_complete.iter().zip(0..).filter(|(is_complete, _)| **is_complete);
        rows.map(|(_, row)| row).collect()
    }

    /// Nothing if a counter fell without a reset, as floating-point numbers that wrap.
    pub(super) fn counted(&self, replay: &Replay<'_>, moments: &[Moment; 2]) -> CountedBuckets {
        if replay.gaps == Gaps::Join && !self.is_joined(replay, moments) {
            return CountedBuckets::default();
        }
        let mut counted = CountedBuckets::default();
        for member in &self.members {
            let Some(grown) = self.grown(replay, *member, moments) else {
                return CountedBuckets::default();
            };
            let growth = member.bucket.map(|bucket| BucketGrowth { bucket, count: grown.by });
            counted.buckets.extend(growth);
            // All counters of a histogram are logged together, but a bucket only since it counted.
            counted.seconds = counted.seconds.max(grown.seconds);
        }
        counted.buckets.sort_by(|one, other| one.bucket.first.total_cmp(&other.bucket.first));
        counted.buckets.dedup_by(|later, first| {
            let is_same = later.bucket == first.bucket;
            first.count += if is_same { later.count } else { 0.0 };
            is_same
        });
        counted
    }

    fn grown(
        &self,
        replay: &Replay<'_>,
        member: Member,
        moments: &[Moment; 2],
    ) -> Option<MetricGrowth> {
        let track = replay.tracks.get(member.track);
        let column = track.and_then(|track| track.columns.get(member.column));
        let life = track.and_then(|track| track.lives.get(member.column).copied().flatten());
        let Some((track, (column, _))) = track.zip(column.zip(life)) else {
            return Some(MetricGrowth::default());
        };
        let mut grown = MetricGrowth::default();
        let [since, _] = moments;
        for line in lines(column, &self.walls, moments) {
            let zero = self.zero(replay, track, member, &line, since);
            let rise = replay.rise(column, &line, zero.map(|zero| zero.at), moments);
            let Some(rise) = rise.ok()? else { continue };
            let from = match line.wall.and_then(Wall::zero) {
                Some(run) => run.max(since.at).min(rise.from),
                // As of other counters, the time of the run: nothing was counted until then.
                None if zero.is_some_and(|zero| zero.is_birth) && has_values(track, since) => {
                    since.at
                }
                None => rise.from,
            };
            grown.by += rise.by;
            grown.seconds += rise.to.seconds_since(from);
        }
        Some(grown)
    }

    /// Returns when a counter was 0 before its first value on a line, if that is known and not
    /// before a moment that the line has begun at.
    fn zero(
        &self,
        replay: &Replay<'_>,
        track: &MetricTrack,
        member: Member,
        line: &Line<'_>,
        since: &Moment,
    ) -> Option<LineZero> {
        let first = track.columns.get(member.column)?.rows().get(line.places.start)?;
        if first < since.reach.prior.end {
            return None;
        }
        let start = line.wall.map_or(0, |wall| wall.row);
        let passed = self.complete_rows.partition_point(|row| *row < first);
        let before = passed.checked_sub(1).and_then(|place| self.complete_rows.get(place));
        if let Some(before) = before.filter(|before| start <= **before) {
            let at = replay.timeline.timestamp(*before)?;
            return Some(LineZero { at, is_birth: false });
        }
        if let Some(at) = line.wall.and_then(Wall::zero) {
            return Some(LineZero { at, is_birth: false });
        }
        let births = track.walls.with_births(member.column).unwrap_or_default();
        let birth = births.iter().find(|wall| wall.is_birth && wall.row == first)?;
        Some(LineZero { at: birth.zero()?, is_birth: true })
    }

    /// Returns whether PCP's rules give values: there is no mark and no reset in between, and
    /// none follows before each counter has another value.
    fn is_joined(&self, replay: &Replay<'_>, [since, until]: &[Moment; 2]) -> bool {
        let number = self.walls.partition_point(|wall| wall.row < since.reach.prior.end);
        let next = self.walls.get(number).map(|wall| wall.row);
        let was_there = self.bases.get(number).copied().flatten();
        let was_there = was_there.is_some_and(|base| base < since.reach.prior.end);
        let is_reset_next = next.is_some_and(|row| !replay.timeline.marks().contains(&row));
        let is_cut = next.is_some_and(|row| row < until.reach.prior.end);
        if !was_there || is_cut {
            return false;
        }
        if !is_reset_next {
            return true;
        }
        let mut columns = self
            .members
            .iter()
            .filter_map(|member| replay.tracks.get(member.track)?.columns.get(member.column));
        let is_any_lost = columns.any(|column| {
            let [first, second] = [since, until].map(|moment| {
                let (prior, next) = moment.reach.limited(&self.walls).neighbours(column.rows());
                prior.is_some() && next.is_some()
            });
            first && !second
        });
        !is_any_lost
    }
}

fn has_values(track: &MetricTrack, moment: &Moment) -> bool {
    let run = moment.reach.limited(track.walls.all());
    track.columns.iter().any(|column| run.neighbours(column.rows()).0.is_some())
}

pub(super) fn is_zero(value: Value<'_>) -> bool {
    value.as_f64() == Some(0.0)
}
