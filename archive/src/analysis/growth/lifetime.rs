//! The time during which an instance can have values.
//!
//! PCP gives every instance of a large domain a lifetime, so that a process
//! that ended is not replayed forever: from the first record of the domain that
//! lists it to the first one, after the last that lists it, that does not. Gaps
//! in between do not count. Domains that never reach [`LARGE`] instances have no
//! lifetimes: there a discrete value holds until the next one, and others are
//! interpolated over any absence.
//!
//! Domains of MMV files are different, unless PCP's rules are asked for: the program that
//! removes an instance says that it has ended, so each instance has a lifetime, and a
//! discrete value does not hold beyond it.
//!
//! An instance that no record of the domain names is never replayed, whatever
//! values it has.

use std::ops::RangeInclusive;

use hashbrown::{HashMap, HashSet};

use super::Gaps;
use crate::reader::InstanceChange;
use crate::scan::programs::{has_program, is_created_by_program};
use crate::scan::{SelectedMetric, Selection};
use crate::{InDom, IndomHistory, InstanceId, Metadata, Pmid, Timestamp};

/// A domain that ever had this many instances gives them lifetimes
/// (`src/libpcp/src/interp.c`, 7.2.1).
const LARGE: usize = 16;

/// At most how many instances show that a metric is logged.
const MAX_WITNESSES: usize = 16;

/// The lifetime of one instance, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lifetime {
    birth: Timestamp,
    death: Timestamp,
}

impl Lifetime {
    pub(crate) const ALWAYS: Self = Self { birth: Timestamp::MIN, death: Timestamp::MAX };

    /// Returns whether values exist at a moment; the end is inclusive.
    pub(crate) fn contains(self, at: Timestamp) -> bool {
        self.birth <= at && at <= self.death
    }

    /// Returns whether values exist at the same times, until one moment.
    pub(crate) fn agrees_with(self, other: Self, until: Timestamp) -> bool {
        self.birth == other.birth && self.death.min(until) == other.death.min(until)
    }

    /// Returns the part of a span in which values can exist, from 0 to 1.
    pub(crate) fn part_of(self, span: &RangeInclusive<Timestamp>) -> f64 {
        let start = *span.start();
        let end = *span.end();
        let nanos = self.death.min(end).nanos_since(self.birth.max(start)).max(0);
        nanos as f64 / end.nanos_since(start).max(1) as f64
    }

    pub(crate) fn birth(self) -> Timestamp {
        self.birth
    }

    pub(crate) fn death(self) -> Timestamp {
        self.death
    }

    pub(crate) fn overlaps(self, span: &RangeInclusive<Timestamp>) -> bool {
        self.birth <= *span.end() && *span.start() <= self.death
    }
}

/// Returns the lifetimes of all instances that the states of a domain name. In a domain that is
/// `small_as_well` instances have lifetimes however few they are.
fn lifetimes(history: &IndomHistory, small_as_well: bool) -> HashMap<InstanceId, Lifetime> {
    let mut lives: HashMap<InstanceId, Lifetime> = HashMap::new();
    let mut largest = 0;
    for Turnover { timestamp, came, gone, count } in turnovers(history) {
        for id in came {
            let born = Lifetime { birth: timestamp, ..Lifetime::ALWAYS };
            lives.entry(id).or_insert(born).death = Timestamp::MAX;
        }
        for id in gone {
            if let Some(life) = lives.get_mut(&id) {
                life.death = timestamp;
            }
        }
        largest = largest.max(count);
    }
    if largest < LARGE && !small_as_well {
        lives.values_mut().for_each(|life| *life = Lifetime::ALWAYS);
    }
    lives
}

/// The lifetimes of the instances of a selection's metrics.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lifetimes {
    all: HashMap<InDom, DomainLives>,
    domains: CounterDomains,
    gaps: Gaps,
}

/// The lifetimes of the instances of a domain. Searches of a span skip the instances that died
/// before it, of which the domain of a busy program has hundreds of thousands.
#[derive(Debug, Clone, Default)]
struct DomainLives {
    of: HashMap<InstanceId, Lifetime>,
    by_death: Vec<(InstanceId, Lifetime)>,
    latest_birth: Option<Timestamp>,
}

impl DomainLives {
    fn new(of: HashMap<InstanceId, Lifetime>) -> Self {
        let mut by_death: Vec<_> = of.iter().map(|(id, life)| (*id, *life)).collect();
        by_death.sort_unstable_by_key(|(id, life)| (life.death, *id));
        let latest_birth = of.values().map(|life| life.birth).max();
        Self { of, by_death, latest_birth }
    }
}

impl Lifetimes {
    pub(crate) fn new(selection: &Selection<'_>, gaps: Gaps, counters: bool) -> Self {
        let metrics = selection.metrics().iter();
        let indoms: HashSet<InDom> = metrics.filter_map(|metric| metric.desc.indom).collect();
        let all = indoms.into_iter().map(|indom| {
            let is_of_file = gaps == Gaps::Keep && is_created_by_program(indom);
            let history = selection.source().metadata().identities(indom);
            let mut lives = history.map(|history| lifetimes(history, is_of_file));
            if let (Some(lives), Some(wanted)) = (&mut lives, selection.instances_of(indom)) {
                lives.retain(|instance, _| wanted.contains(instance));
            }
            (indom, DomainLives::new(lives.unwrap_or_default()))
        });
        let all = all.collect();
        let domains = CounterDomains::new(selection, if counters { gaps } else { Gaps::Join });
        Self { all, domains, gaps }
    }

    /// Returns whether values of a metric outside of the lifetimes of its instances are none of
    /// theirs: its program says when it creates and removes them. By PCP's rules they are
    /// neighbours of those inside.
    pub(crate) fn bound_values(&self, metric: &SelectedMetric) -> bool {
        self.gaps == Gaps::Keep && metric.desc.indom.is_some() && has_program(metric)
    }

    /// Returns the life of an instance of a metric; `None` if it has no name.
    pub(crate) fn lifetime(
        &self,
        metric: &SelectedMetric,
        instance: Option<InstanceId>,
    ) -> Option<Lifetime> {
        match metric.desc.indom {
            None => Some(Lifetime::ALWAYS),
            Some(indom) => self.all.get(&indom)?.of.get(&instance?).copied(),
        }
    }

    /// Returns those of the instances of a domain that have a name.
    pub(crate) fn in_domain(&self, indom: InDom) -> impl Iterator<Item = (InstanceId, Lifetime)> {
        self.all.get(&indom).into_iter().flat_map(|domain| domain.by_death.iter().copied())
    }

    /// Returns the instances of a domain that have a name and live in a span.
    pub(crate) fn alive_in(
        &self,
        indom: InDom,
        span: &RangeInclusive<Timestamp>,
    ) -> impl Iterator<Item = InstanceId> {
        let domain = self.all.get(&indom);
        domain.into_iter().flat_map(move |domain| {
            let from = domain.by_death.partition_point(|(_, life)| life.death < *span.start());
            let rest = domain.by_death.get(from..).unwrap_or_default();
            rest.iter().filter(|(_, life)| life.overlaps(span)).map(|(id, _)| *id)
        })
    }

    /// Returns whether an instance of a domain is created after a moment.
    pub(crate) fn has_births_after(&self, indom: InDom, moment: Timestamp) -> bool {
        self.all.get(&indom).is_some_and(|domain| domain.latest_birth > Some(moment))
    }

    /// Returns the presence of the instances of a counter of a program.
    pub(crate) fn presences(&self, metric: &SelectedMetric) -> Option<&Presences> {
        self.domains.presences(metric)
    }
}

/// The instances that come into a domain and leave it from one state to the next.
struct Turnover {
    timestamp: Timestamp,
    came: Vec<InstanceId>,
    gone: Vec<InstanceId>,
    /// The number of instances in the domain after it.
    count: usize,
}

/// Returns what changes with each state of a domain.
fn turnovers(history: &IndomHistory) -> impl Iterator<Item = Turnover> {
    let mut listed: HashSet<InstanceId> = HashSet::new();
    history.steps().iter().map(move |step| {
        let (came, gone) = match &step.change {
            InstanceChange::Whole(instances) => {
                let now = instances.iter().map(|instance| instance.id).collect();
                let before = std::mem::replace(&mut listed, now);
                let came = listed.difference(&before).copied().collect();
                (came, before.difference(&listed).copied().collect())
            }
            InstanceChange::Difference { added, removed } => {
                let added = added.iter().map(|instance| instance.id);
                let came = added.filter(|id| listed.insert(*id)).collect();
                for id in removed {
                    listed.remove(id);
                }
                (came, removed.to_vec())
            }
        };
        Turnover { timestamp: step.timestamp, came, gone, count: listed.len() }
    })
}

/// Chooses as few instances as possible, up to 16, so that one of them is listed whenever any is.
pub(crate) fn witnesses(history: &IndomHistory) -> Vec<InstanceId> {
    let mut lives: Vec<(InstanceId, Lifetime)> = lifetimes(history, true).into_iter().collect();
    lives.sort_unstable_by_key(|(id, life)| (life.birth, *id));
    let mut witnesses = Vec::new();
    let mut covered = Timestamp::MIN;
    let mut rest = lives.iter().peekable();
    while witnesses.len() < MAX_WITNESSES
        && let Some(start) = rest.peek().map(|(_, life)| life.birth.max(covered))
    {
        let mut longest: Option<&(InstanceId, Lifetime)> = None;
        while let Some(one) = rest.next_if(|(_, life)| life.birth <= start) {
            if longest.is_none_or(|(_, longest)| longest.death < one.1.death) {
                longest = Some(one);
            }
        }
        if let Some((id, life)) = longest.filter(|(_, life)| life.death > covered) {
            witnesses.push(*id);
            covered = life.death;
        }
    }
    witnesses
}

/// Has a selection read the [witnesses](witnesses) of the programs' counters of which it has some
/// instances: one that is created counts from 0 in the last record with any value of its metric.
/// Returns the instances that it had, by metric. Nothing is read in addition where gaps are joined.
pub(crate) fn read_witnesses(
    selection: &mut Selection<'_>,
    gaps: Gaps,
) -> HashMap<Pmid, HashSet<InstanceId>> {
    if gaps == Gaps::Join {
        return HashMap::new();
    }
    let metadata = selection.source().metadata();
    selection.read_also(|metric| {
        let indom = indom_of_counter(metric);
        let history = indom.and_then(|indom| metadata.identities(indom));
        history.map(witnesses).unwrap_or_default()
    })
}

/// The times at which instances came into a domain, which had others before, and left it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Presences {
    births: InstanceTimes,
    removals: InstanceTimes,
}

/// Times of instances in one list, sorted: domains have up to millions that come and go.
#[derive(Debug, Clone, Default)]
struct InstanceTimes(Vec<(InstanceId, Timestamp)>);

impl Presences {
    /// Returns the times at which an instance came, ascending.
    pub(crate) fn births(&self, instance: InstanceId) -> impl Iterator<Item = Timestamp> {
        self.births.times_of(instance)
    }

    /// Returns the times at which an instance left, ascending.
    pub(crate) fn removals(&self, instance: InstanceId) -> impl Iterator<Item = Timestamp> {
        self.removals.times_of(instance)
    }
}

impl InstanceTimes {
    fn times_of(&self, instance: InstanceId) -> impl Iterator<Item = Timestamp> {
        let from = self.0.partition_point(|(id, _)| *id < instance);
        let rest = self.0.get(from..).unwrap_or_default();
        rest.iter().take_while(move |(id, _)| *id == instance).map(|(_, time)| *time)
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct CounterDomains(HashMap<InDom, Presences>);

impl CounterDomains {
    /// Finds it for those metrics of a selection that are counters of programs; for none by PCP's
    /// rules.
    pub(crate) fn new(selection: &Selection<'_>, gaps: Gaps) -> Self {
        let metrics = selection.metrics().iter().filter(|_| gaps == Gaps::Keep);
        let indoms: HashSet<InDom> = metrics.filter_map(indom_of_counter).collect();
        let metadata = selection.source().metadata();
        let domains = indoms
            .into_iter()
            .filter_map(|indom| Some((indom, presences(metadata.identities(indom)?))));
        Self(domains.collect())
    }

    pub(crate) fn of_metric(metric: &SelectedMetric, metadata: &Metadata, gaps: Gaps) -> Self {
        let indom = indom_of_counter(metric).filter(|_| gaps == Gaps::Keep);
        let presences =
            indom.and_then(|indom| Some((indom, presences(metadata.identities(indom)?))));
        Self(presences.into_iter().collect())
    }

    pub(crate) fn presences(&self, metric: &SelectedMetric) -> Option<&Presences> {
        self.0.get(&indom_of_counter(metric)?)
    }
}

fn indom_of_counter(metric: &SelectedMetric) -> Option<InDom> {
    metric.desc.indom.filter(|_| metric.has_rates() && has_program(metric))
}

/// Finds the times at which the instances of a domain came and went. One that was removed may come
/// again.
fn presences(history: &IndomHistory) -> Presences {
    let mut all = Presences::default();
    for Turnover { timestamp, came, gone, .. } in turnovers(history).skip(1) {
        all.births.0.extend(came.into_iter().map(|id| (id, timestamp)));
        all.removals.0.extend(gone.into_iter().map(|id| (id, timestamp)));
    }
    all.births.0.sort_unstable();
    all.removals.0.sort_unstable();
    all
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::format::indom::IndomRecordKind;
    use crate::reader::indom_test_support::{DomainRecord, history};

    fn time(seconds: i64) -> Timestamp {
        Timestamp::new(seconds, 0).unwrap()
    }

    type Records<'a> = &'a [(i64, Range<i32>)];

    fn life(records: Records<'_>, id: i32) -> Option<Lifetime> {
        life_in(records, id, false)
    }

    fn list(seconds: i64, ids: Range<i32>) -> DomainRecord<'static> {
        (seconds, IndomRecordKind::Full, ids.map(|id| (id, Some("x"))).collect())
    }

    fn life_in(records: Records<'_>, id: i32, small_as_well: bool) -> Option<Lifetime> {
        let records = records.iter().map(|(seconds, ids)| list(*seconds, ids.clone()));
        let history = history(&records.collect::<Vec<_>>());
        lifetimes(&history, small_as_well).get(&InstanceId::new(id).unwrap()).copied()
    }

    #[test]
    fn an_instance_of_a_large_domain_lives_while_it_is_listed() {
        let records = [(0, 0..15), (10, 0..16), (20, 0..15), (30, 0..15)];
        let sixteenth = life(&records, 15).unwrap();
        assert_eq!(sixteenth, Lifetime { birth: time(10), death: time(20) });
        assert!(!sixteenth.contains(time(9)) && sixteenth.contains(time(10)));
        assert!(sixteenth.contains(time(20)) && !sixteenth.contains(time(21)));
        assert_eq!(life(&records, 0).unwrap().death, Timestamp::MAX);
    }

    #[test]
    fn instance_lives_by_the_states_of_its_domain() {
        let history = history(&[list(0, 0..2), list(10, 0..3), list(20, 0..2), list(30, 1..3)]);
        let all = presences(&history);
        for (id, births, removals) in [
            (0, vec![], vec![time(30)]),
            (1, vec![], vec![]),
            (2, vec![time(10), time(30)], vec![time(20)]),
        ] {
            let instance = InstanceId::new(id).unwrap();
            assert_eq!(all.births(instance).collect::<Vec<_>>(), births, "{id}");
            assert_eq!(all.removals(instance).collect::<Vec<_>>(), removals, "{id}");
        }
    }

    #[test]
    fn an_absence_in_between_does_not_end_a_life() {
        let records = [(0, 0..16), (10, 0..15), (20, 0..16), (30, 0..2)];
        assert_eq!(life(&records, 15).unwrap(), Lifetime { birth: time(0), death: time(30) });
    }

    #[test]
    fn small_domain_has_names_and_no_lifetimes() {
        let records = [(10, 0..15), (20, 0..1)];
        assert_eq!(life(&records, 14), Some(Lifetime::ALWAYS));
        assert_eq!(life(&records, 15), None);
        let ended = Lifetime { birth: time(10), death: time(20) };
        assert_eq!(life_in(&records, 14, true), Some(ended), "of an MMV file");
    }
}
