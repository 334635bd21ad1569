//! Envelopes against another computation of the same, from records.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;

mod agreement;
mod pyramid;

use super::*;
use crate::analysis::replay::rate_between;
use crate::scan::SelectedMetric;
use crate::test_support::{at, label};
use crate::{
    ArchiveSet, ArchiveWriter, FetchResult, InDom, Instance, MetricDesc, OwnedValue, Pmid,
    Semantics, Source, Timestamp, Units, ValueSet, ValueType, WriterOptions,
};

fn indom() -> InDom {
    InDom::new(60, 1).unwrap()
}

const NAMES: [&str; 6] = ["t.count", "t.time", "t.load", "t.level", "t.bytes", "t.text"];

fn descs() -> [MetricDesc; 6] {
    use Semantics::{Counter, Discrete, Instant};
    let kinds = [
        (Counter, ValueType::U64, true, Units::count()),
        (Counter, ValueType::Double, false, Units::milliseconds()),
        (Instant, ValueType::Double, true, Units::NONE),
        (Discrete, ValueType::I32, false, Units::NONE),
        (Counter, ValueType::U32, true, Units::bytes()),
        (Instant, ValueType::String, false, Units::NONE),
    ];
    let mut item = 0;
    kinds.map(|(semantics, value_type, has_instances, units)| {
        item += 1;
        let pmid = Pmid::new(60, 1, item).unwrap();
        let indom = has_instances.then(indom);
        MetricDesc { pmid, value_type, indom, semantics, units }
    })
}

fn value(value_type: ValueType, n: u8) -> OwnedValue {
    match (value_type, n) {
        (ValueType::U64, 250..) => OwnedValue::U64((1 << 63) + u64::from(n)),
        (ValueType::U64, _) => OwnedValue::U64(u64::from(n) * 3),
        (ValueType::U32, _) => OwnedValue::U32(u32::from(n) << 4),
        (ValueType::I32, _) => OwnedValue::I32(i32::from(n) - 100),
        (ValueType::Double, 0..8) => OwnedValue::Double(f64::NAN),
        (ValueType::Double, 255) => OwnedValue::Double(f64::INFINITY),
        (ValueType::Double, _) => OwnedValue::Double(f64::from(n) / 8.0),
        _ => OwnedValue::String(vec![b'x']),
    }
}

/// A record: milliseconds since the one before, the values by metric and instance; nothing
/// is a mark.
#[derive(Debug, Clone)]
struct Step {
    after: i64,
    values: Vec<(usize, i32, u8)>,
    /// The next record is in another archive.
    is_last: bool,
}

fn step() -> impl Strategy<Value = Step> {
    let few = vec((0usize..6, 0i32..4, any::<u8>()), 1..9);
    let values = prop_oneof![12 => few, 1 => Just(Vec::new())];
    let after = prop_oneof![1 => Just(0i64), 6 => 1i64..2000, 1 => 1i64..60_000];
    let is_last = prop_oneof![1 => Just(true), 15 => Just(false)];
    (after, values, is_last).prop_map(|(after, values, is_last)| Step { after, values, is_last })
}

/// Archives that follow each other; an index entry for each record.
fn written(steps: &[Step], instances: i32) -> (tempfile::TempDir, ArchiveSet) {
    let directory = tempfile::tempdir().unwrap();
    let mut millis = 0;
    for (number, steps) in steps.split_inclusive(|step| step.is_last).enumerate() {
        let options = WriterOptions { index_bytes: 1, ..WriterOptions::default() };
        let base = directory.path().join(format!("a{number}"));
        let mut writer = ArchiveWriter::create_with(&base, label(), options).unwrap();
        for (desc, name) in descs().iter().zip(NAMES) {
            writer.declare_metric(desc, &[name]).unwrap();
        }
        let named = |n| Instance { id: InstanceId::new(n).unwrap(), name: format!("i{n}").into() };
        writer.declare_indom(indom(), &(0..instances).map(named).collect::<Vec<_>>()).unwrap();
        for (place, step) in steps.iter().enumerate() {
            // Archives of a set do not share a time, nor do a mark and a record.
            let is_mark = |step: &Step| step.values.is_empty();
            let is_alone = place == 0 || is_mark(step) || is_mark(&steps[place - 1]);
            millis += step.after.max(i64::from(is_alone));
            if step.values.is_empty() && place > 0 {
                writer.write_mark(at(millis)).unwrap();
                continue;
            }
            let mut sets: BTreeMap<usize, BTreeMap<Option<InstanceId>, u8>> = BTreeMap::new();
            // An archive does not begin with a mark.
            let some = [(3, 0, 9)];
            let values = if step.values.is_empty() { &some[..] } else { &step.values };
            for &(metric, instance, n) in values {
                let has_instances = descs()[metric].indom.is_some();
                let instance = InstanceId::new(instance).ok().filter(|_| has_instances);
                sets.entry(metric).or_default().insert(instance, n);
            }
            let value_sets = sets.into_iter().map(|(metric, values)| {
                let desc = descs()[metric];
                let values = values.into_iter().map(|(id, n)| (id, value(desc.value_type, n)));
                ValueSet { pmid: desc.pmid, values: Ok(values.collect()) }
            });
            let value_sets = value_sets.collect();
            writer.write_result(&FetchResult { timestamp: at(millis), value_sets }).unwrap();
        }
        writer.finish().unwrap();
    }
    let archives = ArchiveSet::open([directory.path()]).unwrap();
    (directory, archives)
}

/// A value or rate over a span of time, and whether it continues the one before.
#[derive(Debug, Clone)]
struct Piece {
    from: Timestamp,
    to: Timestamp,
    value: f64,
    joined: bool,
}

type Pieces = BTreeMap<(usize, Option<InstanceId>), Vec<Piece>>;

/// All values and rates of an archive, record by record: an observation, or a mark as `None`.
fn pieces(source: Source<'_>, metrics: &[SelectedMetric], rates: bool) -> Pieces {
    let mut pieces = Pieces::new();
    let mut last: BTreeMap<(usize, Option<InstanceId>), (Timestamp, OwnedValue, bool)> =
        BTreeMap::new();
    let mut records = source.records().unwrap();
    while let Some(record) = records.next().unwrap() {
        let now = record.timestamp();
        if record.is_mark() {
            last.clear();
        }
        for set in record.value_sets() {
            let Some(place) = metrics.iter().position(|one| one.desc.pmid == set.pmid()) else {
                continue;
            };
            let metric = &metrics[place];
            for pair in set.values(metric.desc.value_type) {
                let (instance, value) = pair.unwrap();
                let Some(number) = value.as_f64().filter(|number| !number.is_nan()) else {
                    continue;
                };
                let key = (place, instance);
                let before = last.get(&key).cloned();
                let mut has_rate = false;
                if rates && metric.has_rates() {
                    if let Some((since, earlier, joined)) = before {
                        if now <= since {
                            continue;
                        }
                        let earlier = earlier.as_value();
                        if let Some(rate) = rate_between(metric, [since, now], earlier, value)
                            && !rate.is_nan()
                        {
                            has_rate = true;
                            let piece = Piece { from: since, to: now, value: rate, joined };
                            pieces.entry(key).or_default().push(piece);
                        }
                    }
                } else {
                    let joined = before.is_some();
                    let piece = Piece { from: now, to: now, value: number, joined };
                    pieces.entry(key).or_default().push(piece);
                }
                last.insert(key, (now, value.to_owned(), has_rate));
            }
        }
    }
    pieces
}

/// The pieces within a column, by the definition.
fn reduced(grid: &Grid, pieces: &[Piece]) -> BTreeMap<u32, Cell> {
    let (start, end) = grid.window().into_inner();
    let span = end.nanos_since(start).max(1);
    let mut cells: BTreeMap<u32, Cell> = BTreeMap::new();
    for column in 0..grid.columns() {
        let bound = |n: u32| {
            let columns = i128::from(grid.columns());
            start.as_nanos() + (i128::from(n) * span + columns - 1) / columns
        };
        let (begin, after) = (bound(column), bound(column + 1));
        let is_last = column + 1 == grid.columns();
        let has = |at: Timestamp| {
            let at = at.as_nanos();
            begin <= at && (at < after || (is_last && at <= end.as_nanos()))
        };
        for piece in pieces {
            let weight = if piece.from == piece.to {
                if has(piece.to) { 1.0 } else { continue }
            } else {
                let (from, to) = (piece.from.as_nanos(), piece.to.as_nanos());
                let overlap = to.min(after) - from.max(begin);
                if overlap <= 0 {
                    continue;
                }
                overlap as f64 / 1e9
            };
            let ends = piece.from == piece.to
                || (piece.to.as_nanos() > begin && piece.to.as_nanos() <= after);
            let continues = piece.joined || piece.from.as_nanos() < begin && piece.from != piece.to;
            let one = Cell {
                minimum: piece.value,
                maximum: piece.value,
                last: piece.value,
                count: u32::from(ends),
                joined: continues,
                sum: piece.value * weight,
                weight,
            };
            cells.entry(column).and_modify(|cell| cell.merge(&one)).or_insert(one);
        }
    }
    cells
}

fn assert_alike(grid: &Grid, series: &Series, expected: &BTreeMap<u32, Cell>, context: &str) {
    let cells: BTreeMap<u32, Cell> = series.cells().map(|(column, cell)| (column, *cell)).collect();
    let columns = |cells: &BTreeMap<u32, Cell>| cells.keys().copied().collect::<Vec<_>>();
    assert_eq!(columns(&cells), columns(expected), "{context} {grid:?}");
    for (column, cell) in &cells {
        let other = &expected[column];
        let exact = |cell: &Cell| (cell.minimum, cell.maximum, cell.last, cell.count, cell.joined);
        assert_eq!(exact(cell), exact(other), "{context} column {column} of {grid:?}");
        let (mean, expected) = (cell.mean(), other.mean());
        let is_near = (mean - expected).abs() <= 1e-6 * expected.abs().max(1e-9);
        assert!(
            is_near || mean.to_bits() == expected.to_bits(),
            "{context} {column}: {mean} {expected}"
        );
    }
}

proptest! {
    /// forall archives, windows, widths: the envelope is what the definition says of each
    /// value and rate, also with those that reach into the window.
    #[test]
    fn envelopes_are_the_reduced_observations(
        steps in vec(step(), 1..60),
        columns in 1u32..40,
        window in (0.0f64..1.0, 0.0f64..1.0),
        is_whole in any::<bool>(),
        rates in any::<bool>(),
    ) {
        let (_directory, archives) = written(&steps, 4);
        let source = Source::from(&archives);
        let mut selection = Selection::new(source);
        selection.select("t");
        let (first, last) = (source.start(), source.end());
        let window = if is_whole {
            first..=last
        } else {
            let length = last.nanos_since(first) as f64;
            let [a, b] = [window.0, window.1]
                .map(|part| Timestamp::from_nanos(first.as_nanos() + (part * length) as i128));
            a.min(b)..=a.max(b)
        };
        let grid = Grid::new(window, columns);
        let options = Options { rates, ..Options::default() };
        let envelope = Envelope::read(&selection, grid.clone(), options).unwrap();
        let expected: BTreeMap<_, _> = pieces(source, selection.metrics(), rates)
            .into_iter()
            .map(|(key, pieces)| (key, reduced(&grid, &pieces)))
            .filter(|(_, cells)| !cells.is_empty())
            .collect();
        let found: BTreeSet<_> =
            envelope.series.iter().map(|series| (series.metric, series.instance)).collect();
        prop_assert_eq!(&found, &expected.keys().copied().collect::<BTreeSet<_>>());
        for series in &envelope.series {
            let key = (series.metric, series.instance);
            let name = &selection.metrics()[key.0].name;
            assert_alike(&grid, series, &expected[&key], name);
        }
    }
}

/// The envelope of one metric, with an observation each second.
fn envelope(metric: usize, values: &[Option<u8>], columns: u32) -> Envelope {
    let step = |value: &Option<u8>| Step {
        after: 1000,
        values: value.iter().map(|n| (metric, 0, *n)).collect(),
        is_last: false,
    };
    let (_directory, archives) = written(&values.iter().map(step).collect::<Vec<_>>(), 1);
    let mut selection = Selection::new(&archives);
    selection.select(NAMES[metric]);
    let source = Source::from(&archives);
    let grid = Grid::new(source.start()..=source.end(), columns);
    Envelope::read(&selection, grid, Options::default()).unwrap()
}

#[test]
fn a_single_spike_is_seen_at_every_width() {
    let mut values = vec![Some(100); 300];
    values[177] = Some(203);
    for columns in [1, 2, 7, 64, 299, 5000] {
        let envelope = envelope(3, &values, columns);
        let most = envelope.series[0].cells().map(|(_, cell)| cell.maximum).fold(0.0, f64::max);
        assert!((most - 103.0).abs() < 1e-9, "{columns} columns: {most}");
    }
}

#[test]
fn nothing_is_joined_over_a_mark() {
    let marked = envelope(3, &[Some(9), Some(8), None, Some(7), Some(6)], 4);
    let joined: Vec<_> = marked.series[0].cells().map(|(n, cell)| (n, cell.joined)).collect();
    assert_eq!(joined, [(0, false), (1, true), (3, false)]);
    assert_eq!(marked.marks, [at(3000)]);
    // Rates are in the columns from one value to the next only, and none is over the mark.
    let marked = envelope(0, &[Some(1), Some(2), None, Some(7), Some(8)], 4);
    let rates: Vec<_> = marked.series[0].cells().map(|(n, cell)| (n, cell.last)).collect();
    assert_eq!(rates, [(0, 3.0), (3, 3.0)]);
}

#[test]
fn a_reset_has_no_rate() {
    let reset = envelope(0, &[Some(10), Some(20), Some(5), Some(6)], 3);
    let rates: Vec<_> =
        reset.series[0].cells().map(|(n, cell)| (n, cell.last, cell.joined)).collect();
    assert_eq!(rates, [(0, 30.0, false), (2, 3.0, false)]);
}

#[test]
fn counters_above_2_to_the_53_have_exact_rates() {
    let high = envelope(0, &[Some(250), Some(251), Some(253)], 2);
    let rates: Vec<_> = high.series[0].cells().map(|(_, cell)| cell.last).collect();
    assert_eq!(rates, [1.0, 2.0]);
}

#[test]
fn one_observation_is_one_cell_and_no_rate() {
    let single = envelope(3, &[Some(9)], 16);
    assert_eq!(single.series[0].runs.len(), 1);
    assert!(envelope(0, &[Some(9)], 16).series.is_empty());
}

#[test]
fn a_rate_over_many_columns_takes_little_memory() {
    let wide = envelope(0, &[Some(1), Some(2)], Grid::MAX_COLUMNS);
    assert_eq!(wide.series[0].runs.len(), 3);
    assert_eq!(wide.series[0].cells().count(), Grid::MAX_COLUMNS as usize);
    let halved = halved(&wide.series[0].runs, 0);
    assert!(halved.len() <= 3, "{}", halved.len());
}

#[test]
fn an_instance_without_a_name_has_no_series() {
    let step = |n| Step { after: 1000, values: vec![(2, 0, n), (2, 3, n)], is_last: false };
    let (_directory, archives) = written(&[step(9), step(10)], 2);
    let mut selection = Selection::new(&archives);
    selection.select("t.load");
    let source = Source::from(&archives);
    let grid = Grid::new(source.start()..=source.end(), 4);
    let envelope = Envelope::read(&selection, grid, Options::default()).unwrap();
    let instances: Vec<_> = envelope.series.iter().map(|series| series.instance).collect();
    assert_eq!(instances, [InstanceId::new(0).ok()]);
}

/// Values of a program's metric with an instance in a large domain, and the agent's events.
#[test]
fn no_join_over_program_ends_or_outside_lifetimes() {
    use crate::Value;
    use crate::format::event::EventArrayBuilder;
    use crate::format::event::EventFlags;
    use crate::scan::programs;
    let directory = tempfile::tempdir().unwrap();
    let base = directory.path().join("a");
    let mut writer = ArchiveWriter::create_with(&base, label(), WriterOptions::default()).unwrap();
    let domain = InDom::new(70, 1).unwrap();
    let desc = |item, indom, semantics, value_type| MetricDesc {
        pmid: Pmid::new(70, 1, item).unwrap(),
        value_type,
        indom,
        semantics,
        units: Units::count(),
    };
    let orders = desc(1, None, Semantics::Counter, ValueType::U64);
    let level = desc(2, None, Semantics::Instant, ValueType::U64);
    let many = desc(3, Some(domain), Semantics::Instant, ValueType::U64);
    let events = MetricDesc {
        pmid: programs::events_metric(),
        ..desc(4, None, Semantics::Instant, ValueType::Event)
    };
    writer.declare_metric(&orders, &["mmv.shop.orders"]).unwrap();
    writer.declare_metric(&level, &["mmv.shop.level"]).unwrap();
    writer.declare_metric(&many, &["mmv.other.many"]).unwrap();
    writer.declare_metric(&events, &["mmv.agent.events"]).unwrap();
    let named = |count: i32| {
        let one = |n| Instance { id: InstanceId::new(n).unwrap(), name: format!("i{n}").into() };
        (0..count).map(one).collect::<Vec<_>>()
    };
    for second in 0..6u64 {
        // The last of 16 instances is gone from the third second on, its values are not.
        if [0, 3].contains(&second) {
            writer.declare_indom(domain, &named(if second < 3 { 16 } else { 15 })).unwrap();
        }
        let single = |desc: &MetricDesc, value| ValueSet {
            pmid: desc.pmid,
            values: Ok(vec![(None, value)]),
        };
        let values = [0, 15].map(|n| (InstanceId::new(n).ok(), OwnedValue::U64(second)));
        let mut value_sets = vec![
            single(&orders, OwnedValue::U64(10 * second)),
            single(&level, OwnedValue::U64(second)),
            ValueSet { pmid: many.pmid, values: Ok(values.to_vec()) },
        ];
        if second == 3 {
            let mut builder = EventArrayBuilder::new();
            builder.record(at(3000), EventFlags::POINT).unwrap();
            let parameter = |item| Pmid::new(70, 0, item).unwrap();
            builder.parameter(parameter(1002), Value::String(b"restarted")).unwrap();
            builder.parameter(parameter(1003), Value::String(b"shop")).unwrap();
            value_sets.push(single(&events, builder.finish()));
        }
        let timestamp = at(1000 * second as i64);
        writer.write_result(&FetchResult { timestamp, value_sets }).unwrap();
    }
    writer.finish().unwrap();
    let archive = crate::Archive::open(&base).unwrap();
    let mut selection = Selection::new(&archive);
    selection.select("mmv");
    let read = |gaps| {
        let grid = Grid::new(at(0)..=at(5000), 5);
        let options = Options { gaps, ..Options::default() };
        let envelope = Envelope::read(&selection, grid, options).unwrap();
        let cells = |series: &Series| {
            let cells = series.cells().map(|(column, cell)| (column, cell.joined));
            (selection.metrics()[series.metric].name.clone(), series.instance, cells.collect())
        };
        envelope.series.iter().map(cells).collect::<Vec<(_, _, Vec<_>)>>()
    };
    let of = |series: &[(String, _, Vec<(u32, bool)>)], name: &str, place: usize| {
        series.iter().filter(|(own, ..)| own == name).nth(place).unwrap().2.clone()
    };
    let kept = read(Gaps::Keep);
    let parted = [(0, false), (1, true), (2, false), (3, true), (4, true)];
    assert_eq!(of(&kept, "mmv.shop.orders", 0), parted, "a rate from 0 at 2 s");
    let parted = [(0, false), (1, true), (2, true), (3, false), (4, true)];
    assert_eq!(of(&kept, "mmv.shop.level", 0), parted);
    let whole = [(0, false), (1, true), (2, true), (3, true), (4, true)];
    assert_eq!(of(&kept, "mmv.other.many", 0), whole);
    assert_eq!(of(&kept, "mmv.other.many", 1), whole[..4], "until 3 s, included");
    let joined = read(Gaps::Join);
    assert_eq!(of(&joined, "mmv.shop.orders", 0), whole);
    assert_eq!(of(&joined, "mmv.shop.level", 0), whole);
}
