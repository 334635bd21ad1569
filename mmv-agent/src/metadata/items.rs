//! Assigns item numbers to metrics within a cluster.
//!
//! A program that is rebuilt with another metric in front gives other items to the same names. In
//! archives a name keeps the item under which it was first logged; otherwise archives from before
//! and after could not be merged:
//!
//! | item of a file | logged as |
//! |---|---|
//! | its name is known in the cluster | the item of that name |
//! | its name is new | the item of the file |
//! | its name is new, but another name has that item | the lowest item that no name has or gets
//! from the file |
//! | its name is new, but names have all items | the item of the name that has been gone for the
//! longest |

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use pcp_types::{Pmid, Semantics, Units, ValueType};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Stands for the present time, since this module reads no clock.
const NOW: i64 = i64::MAX;

/// The identity of a metric: everything that cannot change within an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    pub name: Arc<str>,
    /// Type of the values as logged.
    pub value_type: ValueType,
    pub semantics: Semantics,
    pub units: Units,
    /// Serial of the instance domain within the file.
    pub indom: Option<u32>,
}

/// Metrics of a file by item number.
pub(crate) type Items = Arc<BTreeMap<u32, Item>>;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ItemAllocator {
    /// Item of each name, for metrics that exist or existed.
    #[serde(serialize_with = "in_order", deserialize_with = "as_table")]
    numbers: HashMap<Arc<str>, u32>,
    /// Names without a metric, and when they were last harvested, in seconds since 1970.
    #[serde(serialize_with = "in_order", deserialize_with = "as_table")]
    gone: HashMap<Arc<str>, i64>,
}

/// Serializes a table in order of its names, so that equal tables are written alike.
fn in_order<T: Serialize, S: Serializer>(
    table: &HashMap<Arc<str>, T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    table.iter().collect::<BTreeMap<_, _>>().serialize(serializer)
}

/// Reads what [`in_order`] wrote. (With hashbrown's own feature for this, the crate would be
/// compiled a second time for programs without it.)
fn as_table<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<HashMap<Arc<str>, T>, D::Error> {
    BTreeMap::deserialize(deserializer).map(|names| names.into_iter().collect())
}

/// Item allocators by cluster.
pub(crate) type ItemAllocators = BTreeMap<u32, Arc<ItemAllocator>>;

/// Items that are logged under another number, by the file's item.
pub(crate) type RenumberedItems = BTreeMap<u32, u32>;

impl ItemAllocator {
    pub(crate) fn allocate(&mut self, items: &Items) -> RenumberedItems {
        let mut renumbered = RenumberedItems::new();
        let mut new = Vec::new();
        let mut given = HashSet::with_capacity(items.len());
        for (&item, metric) in items.iter().filter(|(item, _)| **item <= Pmid::MAX_ITEM) {
            // A second metric of the same name is left out later.
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
            // The state file may contain any number.
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
            // This happens only to a file that shares its cluster with others, and its metrics
            // conflict with theirs.
            let Some(number) = number else { break };
            renumbered.insert(item, number);
            self.numbers.insert(Arc::clone(name), number);
        }
        renumbered
    }

    /// Releases all metrics that none of these files has.
    pub(crate) fn release_all_but<'a>(&mut self, files: impl Iterator<Item = &'a Items>) {
        let held: HashSet<&str> =
            files.flat_map(|items| items.values()).map(|metric| &*metric.name).collect();
        for name in self.numbers.keys().filter(|name| !held.contains(&***name)) {
            self.gone.entry(Arc::clone(name)).or_insert(NOW);
        }
    }

    /// Dates the names that have gone since the last call.
    pub(crate) fn date(&mut self, now: i64) {
        for seen in self.gone.values_mut().filter(|seen| **seen == NOW) {
            *seen = now;
        }
    }

    /// Returns true if a name must be dated.
    pub(crate) fn is_undated(&self) -> bool {
        self.gone.values().any(|seen| *seen == NOW)
    }

    /// Returns true if a name was last harvested before `time`.
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

    /// Returns the number of names without a metric.
    pub(crate) fn gone(&self) -> usize {
        self.gone.len()
    }

    /// Forgets a number of names without a metric, those gone for the longest first.
    pub(crate) fn forget_gone(&mut self, number: usize) {
        let mut gone: Vec<_> = self.gone.iter().map(|(name, seen)| (*seen, name.clone())).collect();
        gone.sort_unstable();
        for (_, name) in gone.into_iter().take(number) {
            self.gone.remove(&name);
            self.numbers.remove(&name);
        }
        self.gone.shrink_to_fit();
        self.numbers.shrink_to_fit();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(names: &[(u32, &str)]) -> Items {
        let items = names.iter().map(|&(number, name)| {
            let item = Item {
                name: name.into(),
                value_type: ValueType::U64,
                semantics: Semantics::Counter,
                units: Units::NONE,
                indom: None,
            };
            (number, item)
        });
        Arc::new(items.collect())
    }

    fn renumbered(numbers: &mut ItemAllocator, names: &[(u32, &str)]) -> Vec<(u32, u32)> {
        numbers.allocate(&items(names)).into_iter().collect()
    }

    /// All files are gone.
    fn release(numbers: &mut ItemAllocator, now: i64) {
        numbers.release_all_but([].iter());
        numbers.date(now);
    }

    #[test]
    fn a_name_keeps_its_number_when_others_come_in_front_of_it() {
        let mut numbers = ItemAllocator::default();
        assert_eq!(renumbered(&mut numbers, &[(1, "a"), (2, "b")]), []);
        let after = [(1, "new"), (2, "a"), (3, "b")];
        assert_eq!(renumbered(&mut numbers, &after), [(1, 3), (2, 1), (3, 2)]);
        assert_eq!(renumbered(&mut numbers, &after), [(1, 3), (2, 1), (3, 2)], "again");
        assert_eq!(renumbered(&mut numbers, &[(1, "a"), (2, "b")]), [], "and back");
    }

    #[test]
    fn a_number_is_never_of_two_names_while_there_are_others() {
        let mut numbers = ItemAllocator::default();
        renumbered(&mut numbers, &[(1, "a"), (2, "b")]);
        release(&mut numbers, 10);
        assert_eq!(renumbered(&mut numbers, &[(1, "c")]), [(1, 3)]);
        assert_eq!(renumbered(&mut numbers, &[(3, "d"), (4, "e")]), [(3, 5)]);
    }

    #[test]
    fn when_all_are_taken_that_of_the_name_longest_gone_is_given() {
        let mut numbers = ItemAllocator::default();
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
        let mut numbers = ItemAllocator::default();
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
        let mut numbers = ItemAllocator::default();
        assert_eq!(renumbered(&mut numbers, &[(1, "a"), (2, "a")]), []);
        assert_eq!(renumbered(&mut numbers, &[(2, "a"), (3, "a")]), [(2, 1)]);
    }

    #[test]
    fn numbers_that_are_no_items_are_left_alone() {
        let mut numbers = ItemAllocator::default();
        assert_eq!(renumbered(&mut numbers, &[(Pmid::MAX_ITEM + 1, "a")]), []);
        assert!(numbers.is_empty());
    }
}
