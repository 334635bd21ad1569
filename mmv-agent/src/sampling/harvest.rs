//! The sources of the sampler: mapped values, and nothing else.
//!
//! Input: plans of the loader and moments of ticks. Output: values and faults.
//!
//! Invariants: a pass costs what its values cost; nothing here opens, parses or lists. A value is
//! used only with a moment that is at most a [`bound`](PassTime::bound) before it was read.
//! Sources of users whose files take too long are read in [slow lanes](super::slow_lane).

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use tracing::warn;

use super::owner_pace::OwnerPace;
use super::pass_clock::PassClock;
use super::slow_lane::{LaneJob, LaneReport, LentSource, SlowLanes};
use super::thread_usage::ThreadUsage;
use crate::loading::update::{PlannedSource, RetiredObjects};
use crate::moment::Moment;
use crate::source::{
    ActiveSource, Allowance, FileGaps, Gap, GapCause, PassResult, SourceFinding, Ticket, Values,
    usual_time,
};

/// Longest time between the timestamp of a record and the reading of a value in it, in addition to
/// the time of an undisturbed pass: a part of the interval, within these limits.
const PART_OF_INTERVAL: u32 = 10;
const SHORTEST_BOUND: Duration = Duration::from_millis(5);
const LONGEST_BOUND: Duration = Duration::from_millis(50);

/// Part of the interval that a tick may wait for slow lanes. A thread that waits for a processor
/// gets it within a few milliseconds, which are more than the other part of a short interval.
const PART_FOR_LANES: u32 = 4;

/// Limits on a batch: reading the clock takes a tenth of the time of a small file.
const FILES_OF_A_BATCH: usize = 8;
const TIME_OF_A_BATCH: Duration = usual_time(2_000);

/// The time frame of a pass.
#[derive(Debug, Clone, Copy)]
pub(super) struct PassTime {
    pub(super) clock: PassClock,
    /// Shortest interval of all samples.
    pub(super) interval: Duration,
    /// Set if there is no tick after this one.
    pub(super) is_final: bool,
    /// Set if the pass is stopped when disturbed, to be repeated at another moment.
    pub(super) may_repeat: bool,
}

impl PassTime {
    /// Returns the time after its moment at which a value may still be read.
    fn bound(self) -> Duration {
        (self.interval / PART_OF_INTERVAL).clamp(SHORTEST_BOUND, LONGEST_BOUND)
    }

    /// Returns the time that a tick may wait for slow lanes with files of this usual time.
    fn wait(self, usual: Duration) -> Duration {
        (self.bound() + usual).min(self.interval / PART_FOR_LANES)
    }
}

/// The result of a pass over all sources.
#[derive(Debug, Default)]
pub(super) struct HarvestPass {
    /// Sources whose records need another shape.
    pub(super) reshaped: Vec<usize>,
    /// True if it took longer than its bound and was stopped.
    pub(super) is_disturbed: bool,
}

/// Files of one user that are read between two readings of the clock.
#[derive(Debug, Default)]
struct Batch {
    owner_index: usize,
    numbers: Vec<usize>,
    allowance: Allowance,
    /// Time that they take if nothing disturbs it.
    usual: Duration,
    began: Duration,
    /// Time at which the pass up to the batch must be over.
    limit: Duration,
    /// Resource usage of the thread at the beginning of the pass, or of a later batch whose user
    /// is suspect: what happened at the files of others is not held against that user.
    usage: ThreadUsage,
    /// Sources for a slow lane.
    slow: Vec<usize>,
}

impl Batch {
    /// Returns true if a file of this user and usual time begins another batch.
    fn ends_before(&self, owner_index: usize, usual: Duration) -> bool {
        !self.numbers.is_empty()
            && (self.owner_index != owner_index
                || self.allowance.was_exceeded()
                || self.numbers.len() >= FILES_OF_A_BATCH
                || self.usual + usual > TIME_OF_A_BATCH)
    }
}

/// Files of one user for a slow lane.
#[derive(Debug, Default)]
struct SlowFiles {
    sources: Vec<LentSource>,
    /// Time that they take if nothing disturbs it.
    usual: Duration,
}

/// The place of a source by its number.
#[derive(Debug)]
enum HarvestSlot {
    Here(Box<ActiveSource>),
    Away(AwaySource),
}

/// A source that is lent to a slow lane.
#[derive(Debug)]
struct AwaySource {
    ticket: Ticket,
    gaps: Arc<FileGaps>,
    /// Last tick that wanted its values.
    wanted: Option<Duration>,
}

#[derive(Debug, Default)]
pub(super) struct Harvest {
    slots: Vec<Option<HarvestSlot>>,
    /// Users of the sources, and each source's index among them.
    owners: Vec<OwnerPace>,
    owner_of: Vec<usize>,
    lanes: SlowLanes,
    /// Sources that came back from a slow lane and are in no plan any more.
    orphans: Vec<LentSource>,
    /// Findings that the loader does not know yet.
    findings: Vec<(Ticket, SourceFinding)>,
}

impl Harvest {
    /// Returns the number of sources.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Installs the sources of a plan, and keeps those that it already has.
    pub(super) fn replace(
        &mut self,
        sources: Vec<PlannedSource>,
        now: Moment,
        retired: &mut RetiredObjects,
    ) {
        let mut known = HashMap::new();
        for slot in self.slots.drain(..).flatten() {
            let ticket = match &slot {
                HarvestSlot::Here(active) => active.ticket,
                HarvestSlot::Away(away) => away.ticket,
            };
            known.insert(ticket, slot);
        }
        let mut places: HashMap<u32, usize> = HashMap::new();
        let users: HashSet<u32> = sources.iter().map(|source| source.owner).collect();
        let Self { owners, lanes, .. } = self;
        owners.retain(|pace| {
            let is_kept = users.contains(&pace.owner)
                || lanes.is_busy(pace.owner)
                || !pace.is_forgotten(now.monotonic);
            if !is_kept {
                lanes.end(pace.owner);
            }
            is_kept
        });
        places.extend(self.owners.iter().enumerate().map(|(place, pace)| (pace.owner, place)));
        self.owner_of.clear();
        for PlannedSource { ticket, owner, new } in sources {
            let place = *places.entry(owner).or_insert_with(|| {
                self.owners.push(OwnerPace::new(owner));
                self.owners.len() - 1
            });
            self.owner_of.push(place);
            self.slots.push(new.map(HarvestSlot::Here).or_else(|| known.remove(&ticket)));
        }
        retired.push(known);
        retired.push(std::mem::take(&mut self.orphans));
    }

    /// Reads the wanted sources that were not read at this moment.
    pub(super) fn read(
        &mut self,
        now: Moment,
        time: PassTime,
        wanted: impl Fn(usize) -> bool,
    ) -> HarvestPass {
        let mut pass = HarvestPass::default();
        self.take_reports(now, &mut pass.reshaped);
        self.owners.iter_mut().for_each(OwnerPace::begin);
        let clock = time.clock;
        let began = clock.elapsed(now);
        // A late start is no reason to repeat anything: nothing was read before.
        let limit = now.monotonic + time.bound();
        let mut batch = Batch { began, limit, usage: ThreadUsage::now(), ..Batch::default() };
        for number in 0..self.slots.len() {
            if !wanted(number) {
                continue;
            }
            let active = match &mut self.slots[number] {
                Some(HarvestSlot::Here(active)) => active,
                Some(HarvestSlot::Away(away)) => {
                    away.wanted = Some(now.monotonic);
                    continue;
                }
                None => continue,
            };
            if !active.want(now) || pass.is_disturbed {
                continue;
            }
            let owner_index = self.owner_of[number];
            let usual = active.usual_time();
            if batch.ends_before(owner_index, usual) {
                pass.is_disturbed = self.settle(&mut batch, now, time);
            }
            let pace = &mut self.owners[owner_index];
            if pace.is_slow() {
                batch.slow.push(number);
            }
            if pace.is_slow() || pass.is_disturbed {
                continue;
            }
            let left = pace.allow(usual, time.bound());
            if batch.numbers.is_empty() {
                batch.owner_index = owner_index;
                if pace.is_suspect(now.monotonic) {
                    batch.usage = ThreadUsage::now();
                }
                let until = clock.instant(batch.began + left);
                batch.allowance = until.map_or_else(Allowance::unlimited, Allowance::until);
            }
            batch.numbers.push(number);
            batch.usual += usual;
            let Some(HarvestSlot::Here(active)) = &mut self.slots[number] else { continue };
            let PassResult { reshaped, finding } =
                active.harvest(now, time.is_final, &batch.allowance);
            if reshaped {
                pass.reshaped.push(number);
            }
            self.findings.extend(finding.map(|finding| (active.ticket, finding)));
        }
        pass.is_disturbed |= self.settle(&mut batch, now, time);
        pass.is_disturbed &= time.may_repeat;
        if !pass.is_disturbed {
            self.read_slow(&batch, now, time, &mut pass.reshaped);
        }
        pass
    }

    /// Judges the time that a batch took. Returns true if the pass took longer than its bound, or
    /// was stopped although only the machine held it up.
    fn settle(&mut self, batch: &mut Batch, now: Moment, time: PassTime) -> bool {
        if batch.numbers.is_empty() {
            return false;
        }
        let elapsed = time.clock.elapsed(now);
        let took = elapsed.saturating_sub(batch.began);
        batch.began = elapsed;
        batch.limit += std::mem::take(&mut batch.usual);
        let took_too_long = self.owners[batch.owner_index].spend(took, time.bound());
        let is_late = elapsed > batch.limit;
        let mut is_disturbed = is_late;
        if took_too_long || is_late {
            if batch.usage.excludes_files() {
                is_disturbed |= batch.allowance.was_exceeded();
            } else {
                let slowest = if took_too_long { Some(batch.owner_index) } else { self.slowest() };
                let slowest = slowest.and_then(|index| self.owners.get_mut(index));
                if let Some(pace) = slowest
                    && pace.strike(now.monotonic)
                {
                    pace.slow_down(now.monotonic);
                    warn_of_slow_owner(pace.owner);
                    if took_too_long {
                        batch.slow.extend(&batch.numbers);
                    }
                } else {
                    is_disturbed |= batch.allowance.was_exceeded();
                }
            }
        }
        for number in batch.numbers.drain(..) {
            if let Some(HarvestSlot::Here(active)) = &mut self.slots[number]
                && is_late
                && !active.has_final_values()
            {
                active.discard();
            }
        }
        is_disturbed
    }

    /// Returns the user whose files have exceeded their usual time most at this tick.
    fn slowest(&self) -> Option<usize> {
        let fast = self.owners.iter().enumerate().filter(|(_, pace)| !pace.is_slow());
        fast.max_by_key(|(_, pace)| pace.excess()).map(|(index, _)| index)
    }

    /// Has slow lanes read sources, and waits briefly for them.
    fn read_slow(&mut self, batch: &Batch, now: Moment, time: PassTime, reshaped: &mut Vec<usize>) {
        let began = time.clock.elapsed(now);
        let Some(limit) = time.clock.instant(batch.limit) else { return };
        let mut jobs: HashMap<usize, SlowFiles> = HashMap::new();
        for &number in &batch.slow {
            let owner_index = self.owner_of[number];
            let pace = &self.owners[owner_index];
            if !pace.is_read_at(now.monotonic) || !self.lanes.is_free(pace.owner) {
                continue;
            }
            let Some(HarvestSlot::Here(active)) = self.slots[number].take() else { continue };
            self.slots[number] = Some(HarvestSlot::Away(AwaySource {
                ticket: active.ticket,
                gaps: Arc::clone(active.gaps()),
                wanted: Some(now.monotonic),
            }));
            let files = jobs.entry(owner_index).or_default();
            files.usual += active.usual_time();
            files.sources.push(LentSource { active, number });
        }
        let mut awaited = Vec::new();
        let mut wait = Duration::ZERO;
        for (owner_index, SlowFiles { sources, usual }) in jobs {
            let pace = &self.owners[owner_index];
            if pace.is_punctual() {
                awaited.push(pace.owner);
                wait = wait.max(time.wait(usual));
            }
            // Values of an undisturbed lane are as old as those of an undisturbed pass.
            let until = limit + usual;
            let job = LaneJob { now, is_final: time.is_final, until, sources };
            if let Err(sources) = self.lanes.assign(pace.owner, job) {
                for lent in sources {
                    self.put_back(lent, now);
                }
            }
        }
        let Some(wait_until) = time.clock.instant(began + wait) else { return };
        while awaited.iter().any(|owner| self.lanes.is_busy(*owner)) {
            let Some(report) = self.lanes.report_until(wait_until) else { return };
            self.take_report(report, now, reshaped);
        }
    }

    /// Takes results of slow lanes, and ends the lanes of users whose files are fast again.
    fn take_reports(&mut self, now: Moment, reshaped: &mut Vec<usize>) {
        while let Some(report) = self.lanes.report() {
            self.take_report(report, now, reshaped);
        }
        for pace in &mut self.owners {
            if !self.lanes.is_busy(pace.owner) && pace.recover(now.monotonic) {
                self.lanes.end(pace.owner);
            }
        }
    }

    fn take_report(&mut self, report: LaneReport, now: Moment, reshaped: &mut Vec<usize>) {
        match report {
            LaneReport::Read(mut lent, result) => {
                lent.active.keep_final_values(now);
                self.findings.extend(result.finding.map(|finding| (lent.active.ticket, finding)));
                let number = self.put_back(lent, now);
                reshaped.extend(number.filter(|_| result.reshaped));
            }
            LaneReport::Done { owner, outcome } => {
                if let Some(pace) = self.owners.iter_mut().find(|pace| pace.owner == owner) {
                    pace.note_slow_pass(outcome, now.monotonic);
                }
            }
        }
    }

    /// Puts a lent source back, and returns its number; `None` if no plan has it any more.
    fn put_back(&mut self, mut lent: LentSource, now: Moment) -> Option<usize> {
        let ticket = lent.active.ticket;
        let is_its = |slot: &Option<HarvestSlot>| match slot {
            Some(HarvestSlot::Away(away)) => away.ticket == ticket,
            _ => false,
        };
        // Only a new plan moves a source; searching for each would take quadratic time.
        let number = Some(lent.number).filter(|number| self.slots.get(*number).is_some_and(is_its));
        let Some(number) = number.or_else(|| self.slots.iter().position(is_its)) else {
            self.orphans.push(lent);
            return None;
        };
        if let Some(HarvestSlot::Away(away)) = &self.slots[number]
            && away.wanted == Some(now.monotonic)
        {
            lent.active.want(now);
        }
        self.slots[number] = Some(HarvestSlot::Here(lent.active));
        Some(number)
    }

    /// Carries final values over to the moment at which the pass is repeated.
    pub(super) fn keep_final_values(&mut self, before: Moment, now: Moment) {
        for slot in self.slots.iter_mut().flatten() {
            if let HarvestSlot::Here(active) = slot
                && active.is_last(before)
            {
                active.keep_final_values(now);
            }
        }
    }

    /// Returns the findings since the last call.
    pub(super) fn take_findings(&mut self) -> Vec<(Ticket, SourceFinding)> {
        std::mem::take(&mut self.findings)
    }

    /// Returns the numbers of the sources whose last values were read at this tick.
    pub(super) fn ended(&self, now: Moment) -> Vec<usize> {
        let ended = self.here().filter(|(_, active)| active.is_last(now));
        ended.map(|(number, _)| number).collect()
    }

    /// Returns the numbers of the sources of these files.
    pub(super) fn of_files(&self, files: &BTreeSet<OsString>) -> BTreeSet<usize> {
        let slots = self.slots.iter().enumerate();
        let of_files = slots.filter(|(_, slot)| {
            let gaps = match slot {
                Some(HarvestSlot::Here(active)) => active.gaps(),
                Some(HarvestSlot::Away(away)) => &away.gaps,
                None => return false,
            };
            files.contains(&gaps.file)
        });
        of_files.map(|(number, _)| number).collect()
    }

    /// Returns those of these files whose values were read at this tick.
    pub(super) fn read_files(&self, files: &BTreeSet<OsString>, now: Moment) -> BTreeSet<OsString> {
        let read = self.here().filter(|(_, active)| active.values(now).is_some());
        let read = read.map(|(_, active)| &active.gaps().file);
        read.filter(|file| files.contains(*file)).cloned().collect()
    }

    fn here(&self) -> impl Iterator<Item = (usize, &ActiveSource)> {
        self.slots.iter().enumerate().filter_map(|(number, slot)| match slot {
            Some(HarvestSlot::Here(active)) => Some((number, &**active)),
            _ => None,
        })
    }

    /// Counts the missing samples of this tick. Returns the spells of missing samples that begin
    /// or end.
    pub(super) fn count_gaps(&self, now: Moment) -> Vec<Gap> {
        let mut gaps = Vec::new();
        for (slot, place) in self.slots.iter().zip(&self.owner_of) {
            match slot {
                Some(HarvestSlot::Here(active)) => {
                    gaps.extend(active.count_gap(now, self.owners[*place].is_slow()));
                }
                Some(HarvestSlot::Away(away)) if away.wanted == Some(now.monotonic) => {
                    gaps.extend(away.gaps.add(now.wall, Some(GapCause::Slow)));
                }
                _ => {}
            }
        }
        gaps
    }

    /// Returns the values read at this tick by source number; `None` for a source that was not
    /// read, or whose values may not be used.
    pub(super) fn values(&self, now: Moment) -> Vec<Option<&Values>> {
        let mut values = Vec::with_capacity(self.slots.len());
        for slot in &self.slots {
            values.push(match slot {
                Some(HarvestSlot::Here(active)) => active.values(now),
                _ => None,
            });
        }
        values
    }
}

fn warn_of_slow_owner(owner: u32) {
    warn!(
        "reading files of user {owner} takes too long: they are read on another thread, and are \
         missing in records where that takes longer than a tenth of the interval"
    );
}

#[cfg(test)]
mod tests;
