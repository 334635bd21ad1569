//! Which item number a metric gets within its cluster.
//!
//! A program that is built anew, with one metric more in front, gives other
//! numbers to the same names. In archives a name keeps the number under which it
//! was first logged, else those of before could not be merged with those after:
//!
//! | a file's item | is logged as |
//! |---|---|
//! | whose name is known in the cluster | the number of that name |
//! | whose name is new | what the file says |
//! | the same, but that number is another name's | the lowest that no name has, nor gets from the file |
//! | the same, but names have all numbers | that of the name which has been gone for the longest |

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use pcp_types::Pmid;
use serde::{Deserialize, Serialize, Serializer};

use crate::identity::Items;

/// Until now, which this module cannot put in numbers: it has no clock.
const NOW: i64 = i64::MAX;

/// The numbers of a cluster's names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Numbers {
    /// By name, of metrics that are there and that were.
    #[serde(serialize_with = "in_order")]
    numbers: HashMap<Arc<str>, u32>,
    /// Those that are gone, and when they were last harvested, in seconds since
    /// 1970.
    #[serde(serialize_with = "in_order")]
    gone: HashMap<Arc<str>, i64>,
}

/// A table in the order of its names, so that the same is written in the same
/// way.
fn in_order<T: Serialize, S: Serializer>(
    table: &HashMap<Arc<str>, T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    table.iter().collect::<BTreeMap<_, _>>().serialize(serializer)
}

/// The numbers of all clusters.
pub(crate) type ByCluster = BTreeMap<u32, Arc<Numbers>>;

/// Which of a file's items are logged under another number: that number by the
/// file's.
pub(crate) type Renumbered = BTreeMap<u32, u32>;

impl Numbers {
    /// Gives the items of a file their numbers.
    pub(crate) fn number(&mut self, items: &Items) -> Renumbered {
        let mut renumbered = Renumbered::new();
        let mut new = Vec::new();
        let mut given = HashSet::with_capacity(items.len());
        for (&item, metric) in items.iter().filter(|(item, _)| **item <= Pmid::MAX_ITEM) {
            // A second metric of the same name is left out later on.
            if !given.insert(&*metric.name) {
                continue;
            }
            self.gone.remove(&metric.name);
            match self.numbers.get(&metric.name) {
                Some(&number) if number == item => {}
                Some(&number) => drop(renumbered.insert(item, number)),
                None => new.push((item, &metric.name)),
            }
        }
        let mut taken = [false; Pmid::MAX_ITEM as usize + 1];
        for number in self.numbers.values() {
            // A state file may say anything.
            if let Some(taken) = taken.get_mut(*number as usize) {
                *taken = true;
            }
        }
        let mut others = Vec::new();
        self.numbers.reserve(new.len());
        for (item, name) in new {
            if mem::replace(&mut taken[item as usize], true) {
                others.push((item, name));
            } else {
                self.numbers.insert(Arc::clone(name), item);
            }
        }
        if others.is_empty() {
            return renumbered;
        }
        let unused = (1..=Pmid::MAX_ITEM).filter(|item| !taken[*item as usize]);
        let mut unused = unused.collect::<Vec<_>>().into_iter();
        let mut gone: Vec<(i64, Arc<str>)> =
            self.gone.iter().map(|(name, seen)| (*seen, Arc::clone(name))).collect();
        gone.sort_unstable();
        let mut gone = gone.into_iter();
        for (item, name) in others {
            let number = unused.next().or_else(|| {
                let (_, oldest) = gone.next()?;
                self.gone.remove(&oldest);
                self.numbers.remove(&oldest)
            });
            // Nothing but a file that shares its cluster with others finds none: it
            // asks for what is another's, and is told so.
            let Some(number) = number else { break };
            renumbered.insert(item, number);
            self.numbers.insert(Arc::clone(name), number);
        }
        renumbered
    }

    /// All metrics are gone but those of these files.
    pub(crate) fn release_all_but<'a>(&mut self, files: impl Iterator<Item = &'a Items>) {
        let held: HashSet<&str> =
            files.flat_map(|items| items.values()).map(|metric| &*metric.name).collect();
        for name in self.numbers.keys().filter(|name| !held.contains(&***name)) {
            self.gone.entry(Arc::clone(name)).or_insert(NOW);
        }
    }

    /// Says when those that are gone since this was last called were last
    /// harvested.
    pub(crate) fn date(&mut self, now: i64) {
        for seen in self.gone.values_mut().filter(|seen| **seen == NOW) {
            *seen = now;
        }
    }

    /// Whether something has to be dated.
    pub(crate) fn is_undated(&self) -> bool {
        self.gone.values().any(|seen| *seen == NOW)
    }

    /// Whether something was last harvested before `time`.
    pub(crate) fn is_older(&self, time: i64) -> bool {
        self.gone.values().any(|seen| *seen < time)
    }

    /// Forgets names that were last harvested before `time`.
    pub(crate) fn forget(&mut self, time: i64) {
        let Self { numbers, gone } = self;
        gone.retain(|name, seen| {
            let stays = *seen >= time;
            if !stays {
                numbers.remove(name);
            }
            stays
        });
    }

    /// Whether no name is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use pcp_types::{Semantics, Units, ValueType};

    use super::*;
    use crate::identity::Item;

    fn items(names: &[(u32, &str)]) -> Items {
        let item = |name: &str| Item {
            name: name.into(),
            value_type: ValueType::U64,
            semantics: Semantics::Counter,
            units: Units::NONE,
            indom: None,
        };
        Arc::new(names.iter().map(|(number, name)| (*number, item(name))).collect())
    }

    fn renumbered(numbers: &mut Numbers, names: &[(u32, &str)]) -> Vec<(u32, u32)> {
        numbers.number(&items(names)).into_iter().collect()
    }

    /// All files are gone.
    fn release(numbers: &mut Numbers, now: i64) {
        numbers.release_all_but([].iter());
        numbers.date(now);
    }

    #[test]
    fn a_name_keeps_its_number_when_others_come_in_front_of_it() {
        let mut numbers = Numbers::default();
        assert_eq!(renumbered(&mut numbers, &[(1, "a"), (2, "b")]), []);
        let after = [(1, "new"), (2, "a"), (3, "b")];
        assert_eq!(renumbered(&mut numbers, &after), [(1, 3), (2, 1), (3, 2)]);
        assert_eq!(renumbered(&mut numbers, &after), [(1, 3), (2, 1), (3, 2)], "again");
        assert_eq!(renumbered(&mut numbers, &[(1, "a"), (2, "b")]), [], "and back");
    }

    #[test]
    fn a_number_is_never_of_two_names_while_there_are_others() {
        let mut numbers = Numbers::default();
        renumbered(&mut numbers, &[(1, "a"), (2, "b")]);
        release(&mut numbers, 10);
        assert_eq!(renumbered(&mut numbers, &[(1, "c")]), [(1, 3)]);
        assert_eq!(renumbered(&mut numbers, &[(3, "d"), (4, "e")]), [(3, 5)]);
    }

    #[test]
    fn when_all_are_taken_that_of_the_name_longest_gone_is_given() {
        let mut numbers = Numbers::default();
        let all: Vec<String> = (0..=Pmid::MAX_ITEM).map(|item| format!("n{item}")).collect();
        let all: Vec<(u32, &str)> = (0..).zip(all.iter().map(String::as_str)).collect();
        assert_eq!(renumbered(&mut numbers, &all), []);
        numbers.release_all_but([items(&all[..500])].iter());
        numbers.date(10);
        numbers.release_all_but([items(&all[..499])].iter());
        numbers.date(5);
        assert_eq!(renumbered(&mut numbers, &[(7, "new")]), [(7, 499)]);
        let others: Vec<String> = (0..524).map(|item| format!("other{item}")).collect();
        let others: Vec<(u32, &str)> = (0..).zip(others.iter().map(String::as_str)).collect();
        assert_eq!(renumbered(&mut numbers, &others).len(), 524);
        assert_eq!(renumbered(&mut numbers, &[(7, "one too many")]), []);
    }

    #[test]
    fn what_no_archive_has_is_forgotten() {
        let mut numbers = Numbers::default();
        renumbered(&mut numbers, &[(1, "a"), (2, "b")]);
        numbers.release_all_but([items(&[(1, "a")])].iter());
        assert!(numbers.is_undated());
        numbers.date(100);
        assert!(!numbers.is_older(100) && numbers.is_older(101));
        numbers.forget(101);
        assert_eq!(renumbered(&mut numbers, &[(1, "a"), (2, "c")]), []);
    }

    #[test]
    fn of_two_metrics_with_one_name_the_first_has_the_number() {
        let mut numbers = Numbers::default();
        assert_eq!(renumbered(&mut numbers, &[(1, "a"), (2, "a")]), []);
        assert_eq!(renumbered(&mut numbers, &[(2, "a"), (3, "a")]), [(2, 1)]);
    }

    #[test]
    fn numbers_that_are_no_items_are_left_alone() {
        let mut numbers = Numbers::default();
        assert_eq!(renumbered(&mut numbers, &[(Pmid::MAX_ITEM + 1, "a")]), []);
        assert!(numbers.is_empty());
    }
}
