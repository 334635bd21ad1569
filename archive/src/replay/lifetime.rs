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

use crate::reader::Change;
use crate::{IndomHistory, InstanceId, Timestamp};

/// A domain that ever had this many instances gives them lifetimes
/// (`src/libpcp/src/interp.c`, 7.2.1).
const LARGE: usize = 16;

/// The lifetime of one instance, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lifetime {
    birth: Timestamp,
    death: Timestamp,
}

impl Lifetime {
    /// From the beginning to the end of time.
    pub(crate) const ALWAYS: Self = Self { birth: Timestamp::MIN, death: Timestamp::MAX };

    /// Whether values exist at a moment; the end is inclusive.
    pub(crate) fn contains(self, at: Timestamp) -> bool {
        self.birth <= at && at <= self.death
    }

    /// Whether values exist at the same times, until one moment.
    pub(crate) fn agrees_with(self, other: Self, until: Timestamp) -> bool {
        self.birth == other.birth && self.death.min(until) == other.death.min(until)
    }

    /// Which part of a span values can exist in, from 0 to 1.
    pub(crate) fn part_of(self, span: &RangeInclusive<Timestamp>) -> f64 {
        let (start, end) = (*span.start(), *span.end());
        let nanos = self.death.min(end).nanos_since(self.birth.max(start)).max(0);
        nanos as f64 / end.nanos_since(start).max(1) as f64
    }

    /// Whether values exist at some moment of a span.
    pub(crate) fn overlaps(self, span: &RangeInclusive<Timestamp>) -> bool {
        self.birth <= *span.end() && *span.start() <= self.death
    }
}

/// The lifetimes of all instances that the states of a domain name. In a domain that is
/// `small_as_well` instances have lifetimes however few they are.
pub(crate) fn lifetimes(
    history: &IndomHistory,
    small_as_well: bool,
) -> HashMap<InstanceId, Lifetime> {
    let mut lives: HashMap<InstanceId, Lifetime> = HashMap::new();
    let mut listed: HashSet<InstanceId> = HashSet::new();
    let mut largest = 0;
    for step in history.steps() {
        let timestamp = step.timestamp;
        let mut begin = |id| {
            let born = Lifetime { birth: timestamp, ..Lifetime::ALWAYS };
            lives.entry(id).or_insert(born).death = Timestamp::MAX;
        };
        let gone: Vec<InstanceId> = match &step.change {
            Change::Whole(instances) => {
                let now: HashSet<_> = instances.iter().map(|instance| instance.id).collect();
                now.iter().copied().for_each(begin);
                let before = std::mem::replace(&mut listed, now);
                before.difference(&listed).copied().collect()
            }
            Change::Difference { added, removed } => {
                added.iter().map(|instance| instance.id).for_each(&mut begin);
                listed.extend(added.iter().map(|instance| instance.id));
                for id in removed {
                    listed.remove(id);
                }
                removed.to_vec()
            }
        };
        for id in gone {
            if let Some(life) = lives.get_mut(&id) {
                life.death = timestamp;
            }
        }
        largest = largest.max(listed.len());
    }
    if largest < LARGE && !small_as_well {
        lives.values_mut().for_each(|life| *life = Lifetime::ALWAYS);
    }
    lives
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::format::indom::Kind;
    use crate::reader::indom_test_support::history;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::new(seconds, 0).unwrap()
    }

    /// Records of a domain, each with all its instances.
    type Records<'a> = &'a [(i64, Range<i32>)];

    fn life(records: Records<'_>, id: i32) -> Option<Lifetime> {
        life_in(records, id, false)
    }

    fn life_in(records: Records<'_>, id: i32, small_as_well: bool) -> Option<Lifetime> {
        let record = |(seconds, ids): &(i64, Range<i32>)| {
            (*seconds, Kind::Full, ids.clone().map(|id| (id, Some("x"))).collect())
        };
        let history = history(&records.iter().map(record).collect::<Vec<_>>());
        lifetimes(&history, small_as_well).get(&InstanceId::new(id).unwrap()).copied()
    }

    #[test]
    fn an_instance_of_a_large_domain_lives_while_it_is_listed() {
        let records = [(0, 0..15), (10, 0..16), (20, 0..15), (30, 0..15)];
        let sixteenth = life(&records, 15).unwrap();
        assert_eq!(sixteenth, Lifetime { birth: at(10), death: at(20) });
        assert!(!sixteenth.contains(at(9)) && sixteenth.contains(at(10)));
        assert!(sixteenth.contains(at(20)) && !sixteenth.contains(at(21)));
        assert_eq!(life(&records, 0).unwrap().death, Timestamp::MAX);
    }

    #[test]
    fn an_absence_in_between_does_not_end_a_life() {
        let records = [(0, 0..16), (10, 0..15), (20, 0..16), (30, 0..2)];
        assert_eq!(life(&records, 15).unwrap(), Lifetime { birth: at(0), death: at(30) });
    }

    #[test]
    fn a_small_domain_has_no_lifetimes_but_still_names_its_instances() {
        let records = [(10, 0..15), (20, 0..1)];
        assert_eq!(life(&records, 14), Some(Lifetime::ALWAYS));
        assert_eq!(life(&records, 15), None);
        let ended = Lifetime { birth: at(10), death: at(20) };
        assert_eq!(life_in(&records, 14, true), Some(ended), "of an MMV file");
    }
}
