//! The actions of all programs of a run, by their journals: for each time an interval of the
//! values that each counter may have had, and the values that each gauge may have had.

use std::collections::BTreeMap;

use super::journal::{Line, What};

/// A metric and the name of an instance, which is empty if there are none.
pub(super) type Key = (String, String);

/// A process from its start to its end, as its parent and its journals know it.
#[derive(Debug, Clone)]
pub(super) struct LifeLog {
    pub(super) program: usize,
    pub(super) file: String,
    /// Before it was started.
    pub(super) born: i64,
    /// Time when its end began: it withdrew its file, or was about to be killed.
    pub(super) ending: i64,
    pub(super) ended: i64,
    pub(super) is_killed: bool,
    pub(super) threads: Vec<Vec<Line>>,
}

/// A change of a value: it happened between two times, or never if the second is `i64::MAX`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Store {
    pub(super) from: i64,
    pub(super) until: i64,
    /// Increase of a counter, or new value of a gauge.
    pub(super) number: u64,
}

/// An instance from its creation to its removal, or to the end of its program.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    pub(super) life: usize,
    pub(super) is_counter: bool,
    /// Sorted by `from`.
    pub(super) stores: Vec<Store>,
    /// Earliest and latest time of the removal.
    pub(super) removed: Option<(i64, i64)>,
    certain: Sums,
    possible: Sums,
}

/// Sums of all additions until a time, in order.
#[derive(Debug, Clone, Default)]
struct Sums(Vec<(i64, u64)>);

impl Sums {
    fn new(mut added: Vec<(i64, u64)>) -> Self {
        added.sort_unstable();
        let mut sum = 0;
        for (_, number) in &mut added {
            sum += *number;
            *number = sum;
        }
        Self(added)
    }

    fn at(&self, time: i64) -> u64 {
        let after = self.0.partition_point(|(when, _)| *when <= time);
        after.checked_sub(1).map_or(0, |last| self.0[last].1)
    }
}

impl Segment {
    fn new(life: usize, is_counter: bool) -> Self {
        Self {
            life,
            is_counter,
            stores: Vec::new(),
            removed: None,
            certain: Sums::default(),
            possible: Sums::default(),
        }
    }

    fn finish(&mut self) {
        self.stores.sort_by_key(|store| store.from);
        if self.is_counter {
            let stores = self.stores.iter();
            self.certain = Sums::new(stores.clone().map(|one| (one.until, one.number)).collect());
            self.possible = Sums::new(stores.map(|one| (one.from, one.number)).collect());
        }
    }

    /// Returns the earliest time at which the instance may have existed.
    pub(super) fn created(&self) -> i64 {
        self.stores.first().map_or(i64::MAX, |store| store.from)
    }

    /// Returns the time from which the instance certainly existed.
    pub(super) fn is_certain_from(&self) -> i64 {
        self.stores.iter().map(|store| store.until).min().unwrap_or(i64::MAX)
    }

    pub(super) fn least(&self, time: i64) -> u64 {
        // What may never have happened is certain at no time.
        self.certain.at(time.min(i64::MAX - 1))
    }

    pub(super) fn greatest(&self, time: i64) -> u64 {
        self.possible.at(time)
    }

    /// Returns whether the value was possible at some moment of a span of time.
    pub(super) fn permits(&self, value: f64, from: i64, to: i64) -> bool {
        if self.is_counter {
            return self.least(from) as f64 <= value && value <= self.greatest(to) as f64;
        }
        // A new instance is 0 until it is set.
        let is_new = self.stores.first().is_some_and(|first| from <= first.until);
        if is_new && is_equal(value, 0) {
            return true;
        }
        self.stores.iter().enumerate().any(|(number, store)| {
            let replaced = self.stores.get(number + 1).map_or(i64::MAX, |next| next.until);
            is_equal(value, store.number) && store.from <= to && from <= replaced
        })
    }
}

/// Compares a reader's value with a number, which is less than 2^53.
fn is_equal(value: f64, number: u64) -> bool {
    value.total_cmp(&(number as f64)).is_eq()
}

#[derive(Debug)]
pub(super) struct Log {
    pub(super) lives: Vec<LifeLog>,
    pub(super) series: BTreeMap<Key, Vec<Segment>>,
    /// Values recorded by histograms, each with its life.
    pub(super) recorded: BTreeMap<Key, Vec<(usize, Store)>>,
}

impl Log {
    pub(super) fn new(lives: Vec<LifeLog>) -> Self {
        let mut log =
            Self { lives: Vec::new(), series: BTreeMap::new(), recorded: BTreeMap::new() };
        for (number, one) in lives.iter().enumerate() {
            for line in one.threads.iter().flatten() {
                log.take(number, line);
            }
        }
        log.series.values_mut().flatten().for_each(Segment::finish);
        Self { lives, ..log }
    }

    fn take(&mut self, life: usize, change: &Line) {
        let key = (change.metric.clone(), change.instance.clone());
        let store = Store { from: change.from, until: change.until, number: change.number };
        match change.what {
            What::Add => add(self.series.entry(key).or_default(), life, true, store),
            What::Set => add(self.series.entry(key).or_default(), life, false, store),
            What::Record => {
                let sum = (format!("{}.sum", change.metric), change.instance.clone());
                add(self.series.entry(sum).or_default(), life, true, store);
                self.recorded.entry(key).or_default().push((life, store));
            }
            What::Remove => {
                let present = self.series.get_mut(&key).and_then(|segments| segments.last_mut());
                if let Some(segment) = present.filter(|segment| segment.life == life) {
                    segment.removed.get_or_insert((change.from, change.until));
                }
            }
            What::Done | What::End => {}
        }
    }

    /// Returns the segments of buckets, which follow from the values recorded: `LOW..HIGH`, or
    /// `LABELS,bucket=LOW..HIGH`.
    pub(super) fn bucket(&self, key: &Key) -> Option<Vec<Segment>> {
        let metric = key.0.strip_suffix(".bucket")?;
        let (labels, range) = key.1.rsplit_once("bucket=").unwrap_or(("", &key.1));
        let (low, high) = range.split_once("..")?;
        let low: u64 = low.parse().ok()?;
        let high: u64 = high.parse().ok()?;
        let labels = labels.trim_end_matches(',');
        let recorded = self.recorded.get(&(metric.to_owned(), labels.to_owned()))?;
        let mut segments = Vec::new();
        for (life, store) in recorded {
            if (low..=high).contains(&store.number) {
                add(&mut segments, *life, true, Store { number: 1, ..*store });
            }
        }
        segments.iter_mut().for_each(Segment::finish);
        Some(segments)
    }
}

fn add(segments: &mut Vec<Segment>, life: usize, is_counter: bool, store: Store) {
    let is_present =
        segments.last().is_some_and(|last| last.life == life && last.removed.is_none());
    if !is_present {
        segments.push(Segment::new(life, is_counter));
    }
    let last = segments.last_mut().expect("a segment");
    last.stores.push(store);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the segments of `m[i]` after a thread's changes, a line every 10 ns.
    fn segments(changes: &[(What, u64)]) -> Vec<Segment> {
        let lines = changes
            .iter()
            .enumerate()
            .map(|(at, (what, number))| Line {
                what: *what,
                metric: "m".to_owned(),
                instance: "i".to_owned(),
                number: *number,
                from: 10 * at as i64,
                until: if at + 1 == changes.len() { i64::MAX } else { 10 * at as i64 + 10 },
            })
            .collect();
        let program = LifeLog {
            program: 0,
            file: "file".to_owned(),
            born: 0,
            ending: 100,
            ended: 100,
            is_killed: true,
            threads: vec![lines],
        };
        let mut log = Log::new(vec![program]);
        log.series.remove(&("m".to_owned(), "i".to_owned())).unwrap()
    }

    #[test]
    fn counter_is_between_certain_and_possible_additions() {
        let segments = segments(&[(What::Add, 5), (What::Add, 7), (What::Add, 1)]);
        let [counter] = &segments[..] else { panic!("{segments:?}") };
        let permitted =
            |from, to| (0..20).filter(move |n| counter.permits(f64::from(*n), from, to));
        assert_eq!(permitted(5, 5).collect::<Vec<_>>(), (0..=5).collect::<Vec<_>>());
        assert_eq!(permitted(15, 15).collect::<Vec<_>>(), (5..=12).collect::<Vec<_>>());
        assert_eq!(permitted(15, 25).collect::<Vec<_>>(), (5..=13).collect::<Vec<_>>());
        // The last change may never have happened.
        assert_eq!(permitted(99, 99).collect::<Vec<_>>(), [12, 13]);
    }

    #[test]
    fn a_gauge_has_one_of_the_values_that_may_have_been_set() {
        let segments = segments(&[(What::Set, 5), (What::Set, 7), (What::Set, 1)]);
        let [gauge] = &segments[..] else { panic!("{segments:?}") };
        let permitted = |from, to| (0..20).filter(move |n| gauge.permits(f64::from(*n), from, to));
        assert_eq!(permitted(5, 5).collect::<Vec<_>>(), [0, 5]);
        assert_eq!(permitted(15, 15).collect::<Vec<_>>(), [5, 7]);
        assert_eq!(permitted(25, 25).collect::<Vec<_>>(), [1, 7]);
    }

    #[test]
    fn an_instance_that_is_created_again_is_another_one() {
        let segments = segments(&[(What::Add, 5), (What::Remove, 0), (What::Add, 7)]);
        let [first, second] = &segments[..] else { panic!("{segments:?}") };
        assert_eq!(first.removed, Some((10, 20)));
        assert!(second.permits(0.0, 25, 25) && !second.permits(12.0, 99, 99));
    }
}
