//! A live file read at every moment while it grows: the stores of a live registry
//! become visible to a reader one by one, between its own reads.
//!
//! Writer and reader are the real ones; the memory between them is a model: words that
//! the writer stores in its order and the reader loads in its own. With `--cfg mmv_loom`
//! (`ci/loom`) loom is the model, which also reorders stores as far as their memory
//! order permits; a reader's load, a system call, is modelled with acquire order.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use mmv_format::growth::{CellOwners, GROWING_SECTIONS, REUSE_DELAY};
use mmv_format::layout::{Flags, Header};
use mmv_format::view::{Contents, Limits, Refusal, Source, ValueLocation};

use super::number_of;
use crate::live::sections::Part;
use crate::mapping::tests::trace::{Store, stores_of};
use crate::pcp::{
    Indom, IndomMetricExt as _, NamedFamily, RegistryBuilderExt as _, RegistryExt as _,
};
use crate::{Counter, Gauge, Label, Registry, RegistryBuilder, Text};

const WORD: usize = size_of::<u64>();

struct Growth {
    name: &'static str,
    /// Zeros where it becomes longer.
    before: Vec<u8>,
    len_before: u64,
    stores: Vec<Store>,
}

/// The registry and its metrics before a change. Instances are named `i` and their number.
struct Before {
    registry: Registry,
    things: Indom,
    count: NamedFamily<Counter<u64>>,
    text: NamedFamily<Text>,
}

impl Growth {
    fn of(name: &'static str, prepare: impl FnOnce(&Before), change: impl FnOnce(&Before)) -> Self {
        let live = Registry::builder("app").no_sentinel().announce_interval(Duration::ZERO);
        Self::in_file(name, live.max_instances(4).max_values(8).max_texts(4), prepare, change)
    }

    fn first_absent(name: &'static str, change: impl FnOnce(&Before)) -> Self {
        let live = Registry::builder("app").announce_interval(Duration::ZERO);
        let mut live = live.max_instances(4).max_values(8).max_texts(4);
        let directory = tempfile::tempdir().unwrap();
        live = live.directory(directory.path());
        let registry = live.build().unwrap();
        let indom = |name: &str| registry.indom(name).build().unwrap();
        let (things, others) = (indom("things"), indom("others"));
        let count = registry.counter("count").build_named(&things).unwrap();
        let text = registry.text("text").build_named(&others).unwrap();
        drop(count.get_or_create("i0").unwrap());
        Self::made(name, &Before { registry, things, count, text }, change)
    }

    fn absent(
        name: &'static str,
        prepare: impl FnOnce(&Before),
        change: impl FnOnce(&Before),
    ) -> Self {
        let live = Registry::builder("app").sentinel().announce_interval(Duration::ZERO);
        Self::in_file(name, live.max_instances(4).max_values(16).max_texts(4), prepare, change)
    }

    /// Makes a change that extends the file, and announces it after the delay.
    fn beyond(name: &'static str, change: impl FnOnce(&Before)) -> Self {
        let live = Registry::builder("app").no_sentinel();
        let mut live = live.announce_interval(Duration::from_hours(1));
        live = live.max_instances(8).max_values(16).max_texts(8);
        live.capacity.first = (6, 3);
        let prepare = |there: &Before| {
            for name in ["i0", "i1"] {
                drop(there.count.get_or_create(name).unwrap());
            }
            there.registry.announce();
        };
        let change = |there: &Before| {
            change(there);
            there.registry.announce();
        };
        Self::in_file(name, live, prepare, change)
    }

    fn announced_late(
        name: &'static str,
        prepare: impl FnOnce(&Before),
        change: impl FnOnce(&Before),
    ) -> Self {
        let live = Registry::builder("app").no_sentinel();
        let live = live.announce_interval(Duration::from_hours(1));
        let change = |there: &Before| {
            change(there);
            there.registry.announce();
        };
        Self::in_file(name, live.max_instances(4).max_values(8).max_texts(4), prepare, change)
    }

    fn in_file(
        name: &'static str,
        mut live: RegistryBuilder,
        prepare: impl FnOnce(&Before),
        change: impl FnOnce(&Before),
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        live = live.directory(directory.path());
        let registry = live.build().unwrap();
        let things = registry.indom("things").build().unwrap();
        let count = registry.counter("count").build_named(&things).unwrap();
        let text = registry.text("text").build_named(&things).unwrap();
        let there = Before { registry, things, count, text };
        prepare(&there);
        Self::made(name, &there, change)
    }

    fn made(name: &'static str, there: &Before, change: impl FnOnce(&Before)) -> Self {
        let mut before = std::fs::read(there.registry.path()).unwrap();
        let len_before = before.len() as u64;
        let mut stores = stores_of(|| change(there));
        // It becomes longer first.
        let after = std::fs::read(there.registry.path()).unwrap();
        before.resize(after.len(), 0);
        let mut now = before.clone();
        stores.retain(|store| {
            let place = &mut now[store.at..][..WORD];
            let word = store.word.to_ne_bytes();
            let changes = place != word;
            place.copy_from_slice(&word);
            changes
        });
        // All stores went through the trace.
        assert!(now == after, "{name}");
        assert!(stores.len() > 2, "{name}: {stores:?}");
        Self { name, before, len_before, stores }
    }

    fn all() -> Vec<Self> {
        let create = |name| move |there: &Before| drop(there.count.get_or_create(name).unwrap());
        let create_two = |there: &Before| {
            create("i0")(there);
            there.text.get_or_create("i0").unwrap().set("first");
            create("i1")(there);
        };
        let label = |there: &Before| there.things.label("i0", Label::new("a", 1)).unwrap();
        let remove = |there: &Before| assert!(there.things.remove("i0"));
        vec![
            Self::of("the first instance", |_| {}, create("i0")),
            Self::of("another instance", create_two, create("i2")),
            Self::of("a text", create("i0"), |there| drop(there.text.get_or_create("i0").unwrap())),
            Self::of(
                "a metric",
                |_| {},
                |there| drop(there.registry.counter("count2").build().unwrap()),
            ),
            Self::of(
                "a domain",
                |_| {},
                |there| drop(there.registry.indom("more").help("help").build().unwrap()),
            ),
            Self::of("a label", create_two, label),
            Self::of("a removal", create_two, remove),
            Self::of(
                "a removal with a label",
                |there| {
                    create_two(there);
                    label(there);
                },
                remove,
            ),
            Self::of(
                "a removed metric",
                |there| {
                    let metric = there.registry.counter("count2");
                    drop(metric.label(Label::new("a", 1)).build().unwrap());
                },
                |there| assert!(there.registry.remove("count2")),
            ),
            Self::of("a removed family", create_two, |there| {
                assert!(there.registry.remove("count"));
            }),
            Self::of(
                "a place used again",
                |there| {
                    create_two(there);
                    remove(there);
                    std::thread::sleep(Duration::from_millis(150));
                },
                create("i2"),
            ),
            Self::of(
                "a removed instance that returns to its place",
                |there| {
                    create_two(there);
                    remove(there);
                    std::thread::sleep(Duration::from_millis(150));
                },
                create("i0"),
            ),
            Self::announced_late(
                "a removed instance that returns at once in another place",
                |there| {
                    create_two(there);
                    assert!(there.things.remove("i1"));
                    there.registry.announce();
                    std::thread::sleep(Duration::from_millis(150));
                },
                |there| {
                    remove(there);
                    create("i0")(there);
                },
            ),
            Self::absent("an instance with an absent text", create("i0"), create("i1")),
            Self::absent("a text that was absent", create("i0"), |there| {
                drop(there.text.get_or_create("i0").unwrap());
                drop(there.registry.counter("count2").build().unwrap());
            }),
            Self::first_absent("an optional value", |there| {
                drop(there.registry.metric::<Gauge<i64>>("absent").optional().build().unwrap());
            }),
            Self::first_absent("a second family on a domain", |there| {
                let absent = there.registry.metric::<Gauge<i64>>("absent");
                drop(absent.build_named(&there.things).unwrap());
            }),
            Self::beyond("an instance in a longer file", create("i2")),
            Self::beyond("a text in a longer file", |there| {
                drop(there.text.get_or_create("i1").unwrap());
                create("i2")(there);
            }),
            Self::beyond("a metric in a longer file", |there| {
                for name in ["count2", "count3"] {
                    drop(there.registry.counter(name).help("help").build().unwrap());
                }
            }),
        ]
    }

    fn words(&self) -> BTreeMap<usize, u64> {
        let word = |at: usize| u64::from_ne_bytes(self.before[at..][..WORD].try_into().unwrap());
        self.stores.iter().map(|store| (store.at, word(store.at))).collect()
    }

    /// Reads the file with the words as `load` returns them. Returns whether the reader
    /// accepts it; what it accepts must be correct.
    fn read(&self, load: impl Fn(usize) -> Option<u64>) -> bool {
        self.read_as(self.before.len() as u64, load)
    }

    /// Reads the file as [`Self::read`] does, with a reader that knows this size of the file.
    fn read_as(&self, len: u64, load: impl Fn(usize) -> Option<u64>) -> bool {
        let source = Memory { before: &self.before, words: self.words(), load };
        let read = Contents::read_from(&source, len, &Limits::default());
        let contents = match read {
            Ok(contents) => contents,
            Err(Refusal::NotReady { .. } | Refusal::Changed { .. } | Refusal::Grew { .. }) => {
                return false;
            }
            Err(refusal) => panic!("{}: {refusal}", self.name),
        };
        self.check(&contents);
        true
    }

    /// Reads the file after the first stores, when its process was killed; `None` between the
    /// stores of the two generations.
    fn read_after_end(&self, stores: usize) -> Option<Contents> {
        let mut bytes = self.before.clone();
        for store in &self.stores[..stores] {
            bytes[store.at..][..WORD].copy_from_slice(&store.word.to_ne_bytes());
        }
        let limits = Limits { writer_has_ended: true, ..Limits::default() };
        match Contents::read_from(&bytes[..], bytes.len() as u64, &limits) {
            Ok(contents) => Some(contents),
            Err(Refusal::NotReady { .. }) => None,
            Err(refusal) => panic!("{}: {refusal}", self.name),
        }
    }

    fn check(&self, contents: &Contents) {
        assert_eq!(contents.skipped, [], "{}", self.name);
        for instance in contents.indoms.iter().flat_map(|indom| &indom.instances) {
            assert_eq!(instance.id.get(), number_of(&instance.name), "{}", self.name);
        }
        for metric in &contents.metrics {
            assert!(
                ["count", "text", "count2", "count3", "absent"].contains(&metric.name.as_str()),
                "{metric:?}"
            );
        }
        for value in &contents.values {
            let metric = contents.metrics[value.metric].name.as_str();
            let flags = contents.header.flags;
            assert!(metric != "absent" || flags.contains(Flags::SENTINEL), "{}", self.name);
            let text = metric == "text";
            assert_eq!(value.string.is_some(), text, "{}: {value:?}", self.name);
        }
    }
}

fn owners_after(growth: &Growth, stores: usize) -> BTreeMap<u64, (String, Option<i32>)> {
    let mut bytes = growth.before.clone();
    for store in &growth.stores[..stores] {
        bytes[store.at..][..WORD].copy_from_slice(&store.word.to_ne_bytes());
    }
    let contents = Contents::parse(&bytes).unwrap_or_else(|refusal| match refusal {
        // Between the stores of the generations.
        Refusal::NotReady { generation1, .. } => {
            bytes[Header::GENERATION2..][..WORD].copy_from_slice(&generation1.to_ne_bytes());
            Contents::parse(&bytes).unwrap()
        }
        refusal => panic!("{}: {refusal}", growth.name),
    });
    let owner = |value: &ValueLocation| {
        let metric = contents.metrics[value.metric].name.clone();
        (value.cell, (metric, value.instance.map(pcp_types::InstanceId::get)))
    };
    contents.values.iter().map(owner).collect()
}

struct Reading {
    cell: u64,
    word: u64,
    is_taken: bool,
    /// Number of stores before it was loaded.
    at: usize,
}

/// Reads the values that a file had before it grew, without newer metadata. Returns `None` if
/// the generations changed meanwhile, and the number of loads.
fn pass(
    growth: &Growth,
    (cells, owners): (&[u64], &CellOwners),
    turns: &[Turn],
) -> (Option<Vec<Reading>>, usize) {
    let loads = Cell::new(0);
    let done = Cell::new(0);
    let bytes = RefCell::new(growth.before.clone());
    let load = |at: usize| {
        let upto = turns.iter().rfind(|turn| turn.0 <= loads.get()).map_or(0, |turn| turn.1);
        for store in &growth.stores[done.get().min(upto)..upto] {
            bytes.borrow_mut()[store.at..][..WORD].copy_from_slice(&store.word.to_ne_bytes());
        }
        done.set(upto.max(done.get()));
        loads.set(loads.get() + 1);
        u64::from_ne_bytes(bytes.borrow()[at..][..WORD].try_into().unwrap())
    };
    let generations = || (load(Header::GENERATION1), load(Header::GENERATION2));
    let before = generations();
    let read = |cell: &u64| {
        let word = load(*cell as usize);
        Reading { cell: *cell, word, is_taken: true, at: done.get() }
    };
    let mut readings: Vec<_> = cells.iter().map(read).collect();
    owners.compare(|at| Some(load(at as usize)), |index| readings[index].is_taken = false);
    let after = generations();
    ((before == after).then_some(readings), loads.get())
}

#[test]
fn value_read_by_old_metadata_is_of_its_instance() {
    let given_to = |place, name| {
        Growth::of(
            place,
            |there| {
                there.count.get_or_create("i0").unwrap().add(7);
                there.text.get_or_create("i0").unwrap().set("first");
            },
            move |there| {
                assert!(there.things.remove("i0"));
                std::thread::sleep(REUSE_DELAY + REUSE_DELAY / 2);
                drop(there.count.get_or_create(name).unwrap());
            },
        )
    };
    let reused = [
        given_to("a place given to another instance", "i1"),
        given_to("a place given to a later instance of the same name", "i0"),
    ];
    let mut taken = 0;
    let mut left_out = 0;
    for growth in Growth::all().into_iter().chain(reused) {
        let stores = growth.stores.len();
        let known: Vec<_> = (0..=stores).map(|upto| owners_after(&growth, upto)).collect();
        let contents = Contents::parse(&growth.before).unwrap();
        let cells: Vec<_> = contents.values.iter().map(|value| value.cell).collect();
        let owners = CellOwners::new(contents.values.iter().map(ValueLocation::owner)).unwrap();
        let reader = (&cells[..], &owners);
        let (_, loads) = pass(&growth, reader, &[]);
        // Some stores come before the pass, others at any moment of it.
        let turns = (0..=stores).flat_map(|start| (start..=stores).map(move |upto| (start, upto)));
        let turns =
            turns.flat_map(|(start, upto)| (1..=loads).map(move |at| [(0, start), (at, upto)]));
        for turns in turns {
            let Some(readings) = pass(&growth, reader, &turns).0 else { continue };
            for Reading { cell, word, is_taken, at } in readings {
                // Removed, it keeps its value until another instance has the place.
                let is_its = match known[at].get(&cell) {
                    // After its removal it is another one, whatever it is called.
                    Some(owner) => {
                        *owner == known[0][&cell]
                            && known[..at].iter().all(|owners| owners.contains_key(&cell))
                    }
                    None => word.to_ne_bytes() == growth.before[cell as usize..][..WORD],
                };
                assert!(is_its || !is_taken, "{}: {cell}, {turns:?}", growth.name);
                *if is_taken { &mut taken } else { &mut left_out } += 1;
            }
        }
    }
    println!("{taken} values taken, {left_out} left_out");
    assert!(taken > 0 && left_out > 0);
}

#[test]
fn sections_of_a_live_file_tell_readers_that_it_is_one() {
    assert_eq!(Part::TOC_ORDER.map(Part::kind), GROWING_SECTIONS);
}

/// A file of which some words come from elsewhere.
struct Memory<'b, L> {
    before: &'b [u8],
    words: BTreeMap<usize, u64>,
    load: L,
}

impl<L: Fn(usize) -> Option<u64>> Source for Memory<'_, L> {
    fn fill(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.before.fill(buffer, offset)?;
        let start = offset as usize;
        // In ascending order, like a copy.
        for (at, _) in self.words.range(start..start + buffer.len()) {
            if let Some(word) = (self.load)(*at) {
                buffer[at - start..][..WORD].copy_from_slice(&word.to_ne_bytes());
            }
        }
        Ok(())
    }
}

/// The writer continues, up to this store, when the reader has loaded this many words.
type Turn = (usize, usize);

/// Reads a file that changes at these moments; whether the reader accepted it, and how
/// many loads it made.
fn read_with_turns(growth: &Growth, turns: &[Turn]) -> (bool, usize) {
    let (loads, done) = (Cell::new(0), Cell::new(0));
    let words = RefCell::new(growth.words());
    let accepted = growth.read(|at| {
        let upto = turns.iter().rfind(|turn| turn.0 <= loads.get()).map_or(0, |turn| turn.1);
        for store in &growth.stores[done.get().min(upto)..upto] {
            words.borrow_mut().insert(store.at, store.word);
        }
        done.set(upto.max(done.get()));
        loads.set(loads.get() + 1);
        words.borrow().get(&at).copied()
    });
    (accepted, loads.get())
}

#[test]
fn reader_interrupted_twice_sees_no_half_change() {
    for growth in Growth::all() {
        let stores = growth.stores.len();
        let (complete, loads) = read_with_turns(&growth, &[(0, stores)]);
        assert!(complete && read_with_turns(&growth, &[]).0, "{}", growth.name);
        let (mut accepted_reads, mut all) = (0, 0);
        // At most that many, as what comes later is read by more loads.
        for first in 0..loads {
            for upto in 1..=stores {
                for second in first + 1..=loads {
                    let turns = [(first, upto), (second, stores)];
                    accepted_reads += usize::from(read_with_turns(&growth, &turns).0);
                    all += 1;
                }
            }
        }
        println!("{}: {accepted_reads} of {all} reads accepted, {stores} stores", growth.name);
        assert!(accepted_reads > 0, "{}", growth.name);
    }
}

#[test]
fn reader_of_the_old_size_finds_nothing_wrong() {
    let mut longer = 0;
    for growth in Growth::all() {
        if growth.len_before == growth.before.len() as u64 {
            continue;
        }
        longer += 1;
        let toc = 40..184;
        let is_count = |store: &Store| toc.contains(&store.at) && store.at % 16 == 40 % 16;
        let raised = growth.stores.iter().position(is_count).unwrap();
        for upto in 0..=raised {
            let mut words = growth.words();
            words.extend(growth.stores[..upto].iter().map(|store| (store.at, store.word)));
            assert!(growth.read_as(growth.len_before, |at| words.get(&at).copied()));
        }
    }
    assert_eq!(longer, 3);
}

#[test]
fn unannounced_metrics_of_a_killed_program_are_read_later() {
    let mut unannounced = 0;
    for growth in Growth::all() {
        let toc = 40..184;
        let is_count = |store: &Store| toc.contains(&store.at) && store.at % 16 == 40 % 16;
        let raised = growth.stores.iter().position(is_count).unwrap_or(growth.stores.len());
        let all = growth.read_after_end(growth.stores.len()).unwrap();
        for killed_after in 0..=growth.stores.len() {
            let Some(contents) = growth.read_after_end(killed_after) else { continue };
            growth.check(&contents);
            if killed_after >= raised {
                assert_eq!(contents.metrics, all.metrics, "{}", growth.name);
                assert_eq!(contents.indoms, all.indoms, "{}", growth.name);
                assert_eq!(contents.values, all.values, "{}", growth.name);
                assert_eq!(contents.labels, all.labels, "{}", growth.name);
            }
        }
        let before = Contents::parse(&growth.before).unwrap();
        unannounced += usize::from(all.values.len() > before.values.len());
    }
    assert!(unannounced > 5, "{unannounced}");
}

#[cfg(mmv_loom)]
#[test]
fn no_order_that_the_memory_allows_shows_half_a_change() {
    use std::sync::Arc;
    use std::sync::atomic::Ordering::Acquire;

    use loom::sync::atomic::AtomicU64;

    let most = std::env::var("LOOM_PREEMPTIONS").map_or(3, |most| most.parse().unwrap());
    for growth in Growth::all() {
        let growth = Arc::new(growth);
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(most);
        model.max_branches = 10_000;
        let name = growth.name;
        let executions = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let counted = Arc::clone(&executions);
        model.check(move || {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let words = growth.words().into_iter();
            let words: BTreeMap<usize, AtomicU64> =
                words.map(|(at, word)| (at, AtomicU64::new(word))).collect();
            let words = Arc::new(words);
            let writer = {
                let (words, growth) = (Arc::clone(&words), Arc::clone(&growth));
                loom::thread::spawn(move || {
                    for store in &growth.stores {
                        words[&store.at].store(store.word, store.order);
                    }
                })
            };
            growth.read(|at| words.get(&at).map(|word| word.load(Acquire)));
            writer.join().unwrap();
        });
        println!("{name}: {executions:?} executions");
    }
}
