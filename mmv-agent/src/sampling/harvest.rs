//! The sources as the sampler has them: mapped values, and nothing else.
//!
//! In come the plans of the loader and the moments of ticks; out go values and faults.
//!
//! Invariant: a pass costs what its values cost; nothing here opens, parses or lists.

use std::collections::HashMap;

use super::active_source::{ActiveSource, Finding, Ticket};
use super::file_gaps::Gap;
use super::update::Retired;
use crate::moment::Moment;
use crate::source::Values;

/// The sources by number.
#[derive(Debug, Default)]
pub(super) struct Harvest {
    active: Vec<Option<Box<ActiveSource>>>,
    /// The findings that the loader does not know yet.
    findings: Vec<(Ticket, Finding)>,
}

impl Harvest {
    /// How many sources there are.
    pub(super) fn len(&self) -> usize {
        self.active.len()
    }

    /// Takes the sources of a plan, and keeps those that it has.
    pub(super) fn replace(
        &mut self,
        sources: Vec<(Ticket, Option<Box<ActiveSource>>)>,
        retired: &mut Retired,
    ) {
        let known = self.active.drain(..).flatten().map(|active| (active.ticket, active));
        let mut known: HashMap<_, _> = known.collect();
        let sources = sources.into_iter();
        self.active = sources.map(|(ticket, new)| new.or_else(|| known.remove(&ticket))).collect();
        retired.push(known);
    }

    /// Reads the sources that are wanted, by their numbers, and that were not read at
    /// this tick. Returns those whose records need another shape. There is no tick after one
    /// that `is_final`.
    pub(super) fn read(
        &mut self,
        now: Moment,
        is_final: bool,
        wanted: impl Fn(usize) -> bool,
    ) -> Vec<usize> {
        let mut reshaped = Vec::new();
        for (number, active) in self.active.iter_mut().enumerate() {
            let Some(active) = active else { continue };
            if !wanted(number) || !active.want(now) {
                continue;
            }
            let (other_shape, finding) = active.harvest(now, is_final);
            if other_shape {
                reshaped.push(number);
            }
            self.findings.extend(finding.map(|finding| (active.ticket, finding)));
        }
        reshaped
    }

    /// The findings since the last call.
    pub(super) fn take_findings(&mut self) -> Vec<(Ticket, Finding)> {
        std::mem::take(&mut self.findings)
    }

    /// The numbers of the sources whose last values were read at this tick.
    pub(super) fn ended(&self, now: Moment) -> Vec<usize> {
        let active = self.active.iter().enumerate();
        let is_last = |active: &ActiveSource| active.is_last(now);
        let ended = active.filter(|(_, active)| active.as_deref().is_some_and(is_last));
        ended.map(|(number, _)| number).collect()
    }

    /// Counts the missing samples of this tick. Returns the spells of missing samples that
    /// begin or end.
    pub(super) fn count_gaps(&self, now: Moment) -> Vec<Gap> {
        self.active.iter().flatten().filter_map(|active| active.count_gap(now)).collect()
    }

    /// The values that were read at this tick, by the number of the source; `None` for
    /// a source that was not read, or whose values may not be used.
    pub(super) fn values(&self, now: Moment) -> Vec<Option<&Values>> {
        self.active.iter().map(|active| active.as_ref()?.values(now)).collect()
    }
}
