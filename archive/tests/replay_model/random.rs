//! Random archives, on disk and as a model.

use std::path::{Path, PathBuf};

use pcp_archive::raw::{ErrorCode, FetchResult, ValueSet};
use pcp_archive::replay::{Decrease, Gaps, Replay, ReplaySelection};
use pcp_archive::{
    ArchiveSet, ArchiveWriter, InDom, Instance, InstanceId, MetricDesc, OwnedValue, Pmid,
    Semantics, Timestamp, Units, Value, ValueType, Version, WriterOptions,
};
use proptest::prelude::*;
use tempfile::TempDir;

use super::rules::{Key, Model, Row};

/// The grid of times, in nanoseconds: 1/64 s.
pub(crate) const TICK: i128 = 15_625_000;

pub(crate) fn at(tick: i64) -> Timestamp {
    Timestamp::from_nanos(1_700_000_000_000_000_000 + i128::from(tick) * TICK)
}

/// The metrics: semantics, type, and the place of their domain.
pub(crate) const METRICS: [(Semantics, ValueType, Option<usize>); 14] = [
    // In every record.
    (Semantics::Instant, ValueType::U32, None),
    (Semantics::Counter, ValueType::U64, Some(LARGE)),
    (Semantics::Counter, ValueType::I32, Some(SMALL)),
    (Semantics::Counter, ValueType::U32, None),
    (Semantics::Counter, ValueType::I64, Some(SMALL)),
    (Semantics::Counter, ValueType::Float, Some(SMALL)),
    (Semantics::Counter, ValueType::Double, None),
    (Semantics::Counter, ValueType::String, None),
    (Semantics::Instant, ValueType::I64, Some(LARGE)),
    (Semantics::Instant, ValueType::String, Some(SMALL)),
    (Semantics::Instant, ValueType::Double, None),
    (Semantics::Discrete, ValueType::U32, Some(LARGE)),
    (Semantics::Discrete, ValueType::I32, Some(SMALL)),
    (Semantics::Discrete, ValueType::String, None),
];

/// Domains by their place: one that never has 16 instances, one that may.
const SMALL: usize = 0;
const LARGE: usize = 1;
/// Number of instances that have values; the small domain names fewer.
pub(crate) const INSTANCES: [i32; 2] = [8, 20];
const NAMED: [u32; 2] = [0x3f, 0xf_ffff];

fn domain(place: usize) -> InDom {
    InDom::new(70, 1 + place as u32).unwrap()
}

pub(crate) fn desc(metric: usize) -> MetricDesc {
    let (semantics, value_type, domain_place) = METRICS[metric];
    MetricDesc {
        pmid: Pmid::new(70, 1, metric as u32).unwrap(),
        value_type,
        indom: domain_place.map(domain),
        semantics,
        units: Units::NONE,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Record,
    Mark,
    /// The first record of another archive.
    NextArchive,
}

#[derive(Debug, Clone)]
pub(crate) struct Step {
    after: i64,
    event: Event,
    /// Metrics that are not in the record, as bits.
    absent: u16,
    failed: u16,
    /// Instances with a value; each metric turns the bits its own way.
    present: u32,
    /// The domains from here on, as bits.
    listed: Option<[u32; 2]>,
    seed: u32,
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let event = prop_oneof![
        20 => Just(Event::Record),
        2 => Just(Event::Mark),
        1 => Just(Event::NextArchive),
    ];
    let listed = prop_oneof![1 => Just(u32::MAX), 5 => any::<u32>(), 2 => Just(0)];
    let listed = proptest::option::weighted(0.3, [listed.clone(), listed]);
    let after = prop_oneof![1 => Just(0), 6 => 1i64..64];
    let bits = (any::<u16>(), any::<u16>(), any::<u16>(), any::<u32>(), listed, any::<u32>());
    (after, event, bits).prop_map(|(after, event, (absent, a, b, present, listed, seed))| Step {
        after,
        event,
        absent,
        failed: a & b,
        present,
        listed,
        seed,
    })
}

#[derive(Debug, Clone)]
pub(crate) struct Options {
    version: Version,
    index_bytes: u64,
    volume_bytes: Option<u64>,
    decrease: Decrease,
    /// The instances that the large domain has first, as bits.
    first_listed: u32,
    /// Each state of a domain numbers its instances in another way; only listed ones have values.
    renumbers: bool,
}

pub(crate) fn options() -> impl Strategy<Value = Options> {
    let version = prop_oneof![Just(Version::V2), Just(Version::V3)];
    let index_bytes = prop::sample::select(vec![1, 500, 100_000]);
    let volume_bytes = proptest::option::weighted(0.3, 2000u64..4000);
    let decrease = prop_oneof![Just(Decrease::Reset), Just(Decrease::Wrap)];
    let first_listed = prop::sample::select(vec![0x1, 0x7fff, 0xffff, u32::MAX]);
    let all = (version, index_bytes, volume_bytes, decrease, first_listed, any::<bool>());
    all.prop_map(|(version, index_bytes, volume_bytes, decrease, first_listed, renumbers)| {
        Options { version, index_bytes, volume_bytes, decrease, first_listed, renumbers }
    })
}

type Found<'v> = (Option<InstanceId>, Value<'v>);

pub(crate) struct Archives {
    set: ArchiveSet,
    decrease: Decrease,
    _directory: TempDir,
}

impl Archives {
    pub(crate) fn by_instance<'v>(
        &self,
        metric: usize,
        values: &[Found<'v>],
    ) -> Vec<(Option<i32>, Value<'v>)> {
        let domain = desc(metric).indom.map(|indom| self.set.metadata().identities(indom).unwrap());
        let instance = |identity| {
            let name = domain?.name_at(identity, Timestamp::MAX)?;
            name.strip_prefix('i')?.parse().ok()
        };
        let mut named: Vec<_> =
            values.iter().map(|(id, value)| (id.and_then(instance), *value)).collect();
        named.sort_by_key(|(instance, _)| *instance);
        named
    }

    pub(crate) fn selection(&self) -> ReplaySelection<'_> {
        // The model has PCP's rules.
        let mut selection = Replay::open(&self.set).decrease(self.decrease).gaps(Gaps::Join);
        (0..METRICS.len()).for_each(|metric| assert_eq!(selection.select(&name(metric)), 1));
        selection
    }
}

fn name(metric: usize) -> String {
    format!("t.m{metric}")
}

pub(crate) fn build(steps: &[Step], options: &Options) -> (Archives, Model) {
    let mut making = Making {
        directory: test_archives::scratch(),
        options,
        bases: Vec::new(),
        writer: None,
        tick: 0,
        start: 0,
        listed: [0; 2],
        numbering: [0; 2],
        model: Model { rows: vec![], states: [vec![], vec![]], decrease: options.decrease },
    };
    making.step(&Step {
        after: 0,
        event: Event::NextArchive,
        absent: 0,
        failed: 0,
        present: u32::MAX,
        listed: Some([u32::MAX, options.first_listed]),
        seed: 7,
    });
    for step in steps {
        making.step(step);
    }
    making.finish()
}

struct Making<'o> {
    directory: TempDir,
    options: &'o Options,
    bases: Vec<PathBuf>,
    writer: Option<ArchiveWriter>,
    /// The time of the last record, and of the first one of its archive.
    tick: i64,
    start: i64,
    /// For each domain, the instances and the mask that turns an instance into its number.
    listed: [u32; 2],
    numbering: [i32; 2],
    model: Model,
}

impl Making<'_> {
    fn step(&mut self, step: &Step) {
        let follows_mark = self.model.rows.last().is_some_and(|row| row.values.is_none());
        let must_be_later = match step.event {
            Event::Mark => true,
            Event::Record => follows_mark,
            // At the time of two states a number has the name in the later one.
            Event::NextArchive => {
                (self.tick == self.start || self.options.renumbers) && !self.bases.is_empty()
            }
        };
        let after = step.after.max(must_be_later.into());
        self.tick += after;
        match step.event {
            Event::Mark => return self.mark(),
            Event::NextArchive => {
                self.next_archive();
                self.list(step.listed.unwrap_or([step.present; 2]), step.seed, true);
            }
            // Of two states of one time a writer writes the first.
            Event::Record if after > 0 => {
                step.listed.into_iter().for_each(|listed| self.list(listed, step.seed, false));
            }
            Event::Record => {}
        }
        let sets: Vec<ValueSet> =
            (0..METRICS.len()).filter_map(|metric| self.value_set(metric, step)).collect();
        let values = sets.iter().flat_map(|set| self.stored(set)).collect();
        self.model.rows.push(Row { at: at(self.tick), values: Some(values) });
        let result = FetchResult { timestamp: at(self.tick), value_sets: sets };
        self.writer.as_mut().unwrap().write_result(&result).unwrap();
    }

    fn mark(&mut self) {
        self.writer.as_mut().unwrap().write_mark(at(self.tick)).unwrap();
        self.model.rows.push(Row { at: at(self.tick), values: None });
    }

    fn next_archive(&mut self) {
        self.model.end_archive(at(self.tick));
        if let Some(writer) = self.writer.take() {
            writer.finish().unwrap();
        }
        self.start = self.tick;
        let base = self.directory.path().join(self.bases.len().to_string());
        self.writer = Some(begin(&base, self.options));
        self.bases.push(base);
    }

    /// Declares the instances. A domain does not begin empty, and one of version 2 never is.
    fn list(&mut self, listed: [u32; 2], seed: u32, is_first: bool) {
        if self.options.renumbers {
            self.numbering = [(seed & 7) as i32, (seed >> 3 & 31) as i32];
        }
        let is_never_empty = is_first || self.options.version == Version::V2;
        for (place, bits) in listed.into_iter().enumerate() {
            let bits = (bits | u32::from(is_never_empty)) & NAMED[place];
            self.listed[place] = bits;
            let instances = instances(bits, self.numbering[place]);
            self.writer.as_mut().unwrap().declare_indom(domain(place), &instances).unwrap();
            self.model.states[place].push((at(self.tick), bits));
        }
    }

    /// Returns the contents of a record for a metric; the first one always has a value.
    fn value_set(&self, metric: usize, step: &Step) -> Option<ValueSet> {
        let has = |set: u16| metric > 0 && set >> metric & 1 == 1;
        if has(step.absent) {
            return None;
        }
        let pmid = desc(metric).pmid;
        if has(step.failed) {
            return Some(ValueSet { pmid, values: Err(ErrorCode::AGAIN) });
        }
        let values = match METRICS[metric].2 {
            None => vec![(None, value(metric, 0, step.seed))],
            Some(place) => {
                let (listed, numbering) = (self.listed[place], self.numbering[place]);
                let can_have_values = if self.options.renumbers { listed } else { u32::MAX };
                bits(step.present.rotate_left(3 * metric as u32) & can_have_values)
                    .filter(|n| *n < INSTANCES[place])
                    .map(|n| (InstanceId::new(n ^ numbering).ok(), value(metric, n, step.seed)))
                    .collect()
            }
        };
        Some(ValueSet { pmid, values: Ok(values) })
    }

    fn stored(&self, set: &ValueSet) -> Vec<(Key, OwnedValue)> {
        let metric = set.pmid.item() as usize;
        let numbering = METRICS[metric].2.map_or(0, |place| self.numbering[place]);
        let values = set.values.iter().flatten();
        values
            .map(|(id, value)| ((metric, id.map(|id| id.get() ^ numbering)), value.clone()))
            .collect()
    }

    fn finish(self) -> (Archives, Model) {
        self.writer.unwrap().finish().unwrap();
        let set = ArchiveSet::open(&self.bases).unwrap();
        let decrease = self.options.decrease;
        (Archives { set, decrease, _directory: self.directory }, self.model)
    }
}

fn begin(base: &Path, options: &Options) -> ArchiveWriter {
    let Options { version, index_bytes, volume_bytes, .. } = *options;
    let options = WriterOptions { version, index_bytes, volume_bytes, ..WriterOptions::default() };
    let mut writer =
        ArchiveWriter::create_with(base, test_archives::label("host"), options).unwrap();
    for metric in 0..METRICS.len() {
        writer.declare_metric(&desc(metric), &[&name(metric)]).unwrap();
    }
    writer
}

fn bits(set: u32) -> impl Iterator<Item = i32> {
    (0..32).filter(move |n| set >> n & 1 == 1)
}

fn instances(set: u32, numbering: i32) -> Vec<Instance> {
    bits(set)
        .map(|n: i32| Instance {
            id: InstanceId::new(n ^ numbering).unwrap(),
            name: format!("i{n}").into(),
        })
        .collect()
}

/// Returns a value that the grid of times leaves exact.
fn value(metric: usize, instance: i32, seed: u32) -> OwnedValue {
    let mixed = (u64::from(seed) << 20 | (metric as u64) << 8 | instance as u64)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let number = (mixed >> 28) as i64;
    match METRICS[metric].1 {
        ValueType::I32 => OwnedValue::I32((number % 2000 - 1000) as i32),
        ValueType::U32 => OwnedValue::U32((number % 5000) as u32),
        ValueType::I64 => OwnedValue::I64(number - (1 << 35)),
        ValueType::U64 => OwnedValue::U64(number as u64),
        ValueType::Float => OwnedValue::Float((number % 4096) as f32 / 4.0),
        ValueType::Double => OwnedValue::Double((number % 4096) as f64 / 8.0),
        _ => OwnedValue::String(number.to_string().into_bytes()),
    }
}
