//! Scans of archives that our writer wrote.

mod excerpts;

use std::os::unix::fs::FileExt as _;

use hashbrown::HashMap;
use proptest::collection::vec;
use proptest::prelude::*;
use test_archives::{Builder, Cell};

use super::*;
use crate::test_support::at;
use crate::{Archive, InstanceId, Pmid, Value};

fn id(number: i32) -> InstanceId {
    InstanceId::new(number).unwrap()
}

/// The values of one record: by interface, the load, the name. Without any it
/// is a mark.
pub(super) type Row = (Vec<(i32, u64)>, Option<f64>, Option<String>);

pub(super) fn archive(rows: &[Row]) -> (tempfile::TempDir, Archive) {
    const NAMES: [&str; 4] = ["eth0 up", "eth1", "3", "lo"];
    // An index entry a record.
    let mut builder = Builder::indexed(1)
        .metric("net.bytes", "u64 instant")
        .metric("load", "double instant")
        .metric("name", "string instant")
        .numbered_instances("net.bytes", (2..).zip(NAMES));
    for (second, (bytes, load, name)) in (0..).zip(rows) {
        if bytes.is_empty() && load.is_none() && name.is_none() {
            builder = builder.mark(second);
            continue;
        }
        let interface = |number: i32| match NAMES.get(number as usize - 2) {
            Some(name) => format!("net.bytes[{name}]"),
            None => format!("net.bytes[{number}]"),
        };
        let bytes = bytes.iter().map(|(number, bytes)| (interface(*number), (*bytes).into()));
        let load = load.map(|load| ("load".to_owned(), load.into()));
        let name = name.as_ref().map(|name| ("name".to_owned(), Cell::from(name.as_str())));
        builder = builder.row(second, bytes.chain(load).chain(name));
    }
    let (directory, base) = builder.finish().into_parts();
    let archive = Archive::open(&base).unwrap();
    (directory, archive)
}

fn select<'a>(archive: &'a Archive, names: &[&str]) -> Selection<'a> {
    let mut selection = Selection::new(archive);
    for name in names {
        assert!(selection.select(name) > 0, "{name}");
    }
    selection
}

/// All that a scan returns, in the order of time, metric and column, chunk by
/// chunk; a mark is a time without a value.
type Seen = Vec<(Timestamp, Option<(usize, Option<i32>, String)>)>;

fn seen(chunk: &Chunk, metrics: usize) -> Seen {
    let timestamp = |row: u32| chunk.timestamps()[row as usize];
    let mut seen: Seen = chunk.marks().iter().map(|&row| (timestamp(row), None)).collect();
    for metric in 0..metrics {
        for column in chunk.columns(metric) {
            let instance = column.instance().map(InstanceId::get);
            let cell = |value: Value<'_>| (metric, instance, format!("{value:?}"));
            seen.extend(column.iter().map(|(row, value)| (timestamp(row), Some(cell(value)))));
        }
    }
    seen.sort();
    seen
}

/// What a scan returns over all chunks, each of at most `limits`; the same whether it reads whole
/// records or excerpts.
fn scan(selection: &Selection<'_>, limits: ChunkLimits) -> (Seen, usize) {
    let whole = scan_with(Chunk::new(selection), selection, limits);
    assert_eq!(scan_with(Chunk::new(selection).by_excerpts(), selection, limits), whole);
    whole
}

fn scan_with(mut chunk: Chunk, selection: &Selection<'_>, limits: ChunkLimits) -> (Seen, usize) {
    let source = selection.source();
    let mut records = source.records().unwrap();
    let (mut all, mut chunks) = (Vec::new(), 0);
    loop {
        let more = chunk.fill(source, &mut records, Bound::Unbounded, limits).unwrap();
        all.extend(seen(&chunk, selection.metrics().len()));
        chunks += 1;
        chunk.clear();
        if !more {
            return (all, chunks);
        }
    }
}

fn expected(archive: &Archive, selection: &Selection<'_>) -> Seen {
    let mut expected = Vec::new();
    let mut records = archive.records().unwrap();
    while let Some(record) = records.next().unwrap() {
        if record.is_mark() {
            expected.push((record.timestamp(), None));
        }
        for set in record.value_sets() {
            let mut metrics = selection.metrics().iter();
            let Some(metric) = metrics.position(|m| m.desc.pmid == set.pmid()) else { continue };
            for value in set.values(selection.metrics()[metric].desc.value_type) {
                let (instance, value) = value.unwrap();
                let cell = (metric, instance.map(InstanceId::get), format!("{value:?}"));
                expected.push((record.timestamp(), Some(cell)));
            }
        }
    }
    expected.sort();
    expected
}

pub(super) fn row(bytes: &[(i32, u64)], load: Option<f64>, name: Option<&str>) -> Row {
    (bytes.to_vec(), load, name.map(str::to_owned))
}

#[test]
fn the_example_of_the_module_comes_out_as_worked_by_hand() {
    let (_directory, archive) = archive(&[
        row(&[(2, 100)], Some(0.5), None),
        row(&[(2, 150), (3, 20)], Some(0.7), None),
        row(&[], None, None),
        row(&[(3, 25)], Some(0.1), None),
    ]);
    let selection = select(&archive, &["load", "net"]);
    let mut columns = Columns::open(&selection, ..).unwrap();
    let chunk = columns.next_chunk().unwrap().unwrap();
    assert_eq!(chunk.timestamps(), [0, 1000, 2000, 3000].map(at));
    assert_eq!(chunk.marks(), [2]);
    let column = |metric: usize, place: usize| {
        let column: &Column = &chunk.columns(metric)[place];
        (column.instance(), column.numbers().collect::<Vec<_>>())
    };
    assert_eq!(column(0, 0), (None, vec![(0, 0.5), (1, 0.7), (3, 0.1)]));
    assert_eq!(column(1, 0), (Some(id(2)), vec![(0, 100.0), (1, 150.0)]));
    assert_eq!(column(1, 1), (Some(id(3)), vec![(1, 20.0), (3, 25.0)]));
    assert!(chunk.columns(2).is_empty(), "not selected");
    assert!(columns.next_chunk().unwrap().is_none());
    assert!(columns.next_chunk().unwrap().is_none(), "the end stays the end");
}

#[test]
fn a_span_has_the_records_within() {
    let rows: Vec<Row> = (0..10).map(|n| row(&[], Some(f64::from(n)), None)).collect();
    let (_directory, archive) = archive(&rows);
    let selection = select(&archive, &["load"]);
    let loads = |span: (Bound<Timestamp>, Bound<Timestamp>)| {
        let mut columns = Columns::open(&selection, span).unwrap();
        let chunk = columns.next_chunk().unwrap();
        let column = chunk.and_then(|chunk| chunk.columns(0).first());
        column.map_or(Vec::new(), |column| column.numbers().map(|(_, load)| load as i64).collect())
    };
    let (two, five) = (at(2000), at(5000));
    assert_eq!(loads((Bound::Included(two), Bound::Included(five))), [2, 3, 4, 5]);
    assert_eq!(loads((Bound::Excluded(two), Bound::Excluded(five))), [3, 4]);
    assert_eq!(loads((Bound::Included(at(8500)), Bound::Unbounded)), [9]);
    assert_eq!(loads((Bound::Included(at(9001)), Bound::Unbounded)), [0i64; 0]);
}

#[test]
fn instances_are_chosen_by_name_or_else_by_number() {
    let bytes = [(2, 20), (3, 30), (4, 40), (5, 50), (9, 90)];
    let (_directory, archive) = archive(&[row(&bytes, Some(1.0), None)]);
    let chosen = |texts: &[&str]| {
        let mut selection = select(&archive, &["net", "load"]);
        for text in texts {
            selection.select_instance(*text);
        }
        let mut columns = Columns::open(&selection, ..).unwrap();
        let chunk = columns.next_chunk().unwrap().unwrap();
        assert_eq!(chunk.columns(1).len(), 1, "a metric without instances is read in any case");
        let numbers = chunk.columns(0).iter().map(|column| column.instance().unwrap().get());
        numbers.collect::<Vec<_>>()
    };
    assert_eq!(chosen(&[]), [2, 3, 4, 5, 9]);
    assert_eq!(chosen(&["eth0", "lo"]), [2, 5], "the first word will do");
    assert_eq!(chosen(&["eth0 up"]), [2]);
    assert_eq!(chosen(&["3"]), [4], "a name before a number");
    assert_eq!(chosen(&["5", "9"]), [5, 9], "also one that has no name");
    assert_eq!(chosen(&["eth", "-1", "77"]), [0; 0]);
}

#[test]
fn the_columns_keep_their_places_from_chunk_to_chunk() {
    let (_directory, archive) = archive(&[
        row(&[(5, 1), (2, 2)], None, Some("a")),
        row(&[(3, 3)], None, None),
        row(&[(2, 4), (3, 5), (5, 6)], None, Some("b")),
    ]);
    let selection = select(&archive, &["net", "name"]);
    let mut chunk = Chunk::new(&selection);
    let mut records = archive.records().unwrap();
    let limits = ChunkLimits { rows: 1, ..ChunkLimits::UNBOUNDED };
    let mut instances = Vec::new();
    while chunk.fill(selection.source(), &mut records, Bound::Unbounded, limits).unwrap() {
        let columns = chunk.columns(0).iter();
        instances.push(columns.map(|c| (c.instance().unwrap().get(), c.len())).collect::<Vec<_>>());
        chunk.clear();
    }
    assert_eq!(instances[0], [(5, 1), (2, 1)]);
    assert_eq!(instances[1], [(5, 0), (2, 0), (3, 1)]);
    assert_eq!(instances[2], [(5, 1), (2, 1), (3, 1)]);
}

#[test]
fn what_lies_before_damage_is_returned_before_the_error() {
    let (directory, archive, last) = nine_rows();
    // The block of the string is beyond the record.
    let file = std::fs::OpenOptions::new().write(true).open(directory.path().join("a.0")).unwrap();
    file.write_all_at(&[0x7f; 4], last + PAIR_OF_NAME).unwrap();
    let selection = select(&archive, &["name", "net"]);
    let mut columns = Columns::open(&selection, ..).unwrap();
    let chunk = columns.next_chunk().unwrap().unwrap();
    assert_eq!(chunk.timestamps().len(), 8);
    assert_eq!(chunk.columns(0)[0].len(), 8, "nothing of the damaged record");
    let error = columns.next_chunk().unwrap_err();
    assert!(matches!(error, Error::Corrupt { offset, .. } if offset == last), "{error}");
    assert!(columns.next_chunk().unwrap().is_none(), "an error comes once");
    let mut rows_ahead = Vec::new();
    let read = Columns::open(&selection, ..).unwrap().read_ahead(|rows| {
        rows_ahead.push(rows.timestamps.len());
        Ok(true)
    });
    assert_eq!(rows_ahead, [8]);
    assert_eq!(read.unwrap_err().to_string(), error.to_string());
}

#[test]
fn chunks_that_are_read_ahead_end_with_the_first_failure() {
    let (_directory, archive, _) = nine_rows();
    let selection = select(&archive, &["net"]);
    let limits = ChunkLimits { rows: 2, ..ChunkLimits::CHUNK };
    let columns = || Columns::open(&selection, ..).unwrap().with_limits(limits);
    let mut one_by_one = Vec::new();
    let mut scan = columns();
    while let Some(chunk) = scan.next_chunk().unwrap() {
        one_by_one
            .push((chunk.timestamps().to_vec(), chunk.columns(0)[0].numbers().collect::<Vec<_>>()));
    }
    assert_eq!(one_by_one.len(), 5);
    let mut ahead = Vec::new();
    let read = columns().read_ahead(|rows| {
        ahead.push((rows.timestamps.clone(), rows.columns(0)[0].numbers().collect()));
        if ahead.len() < 3 { Ok(true) } else { Err(Error::NotFound { path: "third".into() }) }
    });
    assert!(matches!(read, Err(Error::NotFound { .. })));
    assert_eq!(ahead, one_by_one[..3]);
    let mut count = 0;
    let read = columns().read_ahead(|_| {
        count += 1;
        Ok(count < 2)
    });
    assert!(read.is_ok() && count == 2, "ended by the caller");
}

#[test]
fn wrongly_stored_value_costs_its_metric_alone() {
    let (directory, archive, last) = nine_rows();
    // The block of the string claims to hold no string: it has its index in
    // the place of the first value's and so is taken for its number, and back.
    let volume = directory.path().join("a.0");
    let file = std::fs::OpenOptions::new().read(true).write(true).open(volume).unwrap();
    let word = |at| {
        let mut word = [0; 4];
        file.read_exact_at(&mut word, at).unwrap();
        word
    };
    let (of_bytes, of_name) = (word(last + PAIR_OF_BYTES), word(last + PAIR_OF_NAME));
    file.write_all_at(&of_name, last + PAIR_OF_BYTES).unwrap();
    file.write_all_at(&of_bytes, last + PAIR_OF_NAME).unwrap();
    let block = last - 8 + 4 * u64::from(u32::from_be_bytes(of_name));
    file.write_all_at(&[0], block).unwrap();
    let selection = select(&archive, &["name", "net"]);
    let mut columns = Columns::open(&selection, ..).unwrap();
    let chunk = columns.next_chunk().unwrap().unwrap();
    assert_eq!(chunk.timestamps().len(), 9);
    assert_eq!(chunk.columns(0)[0].len(), 8, "no string of the last record");
    assert!(columns.next_chunk().unwrap().is_none());
    assert!(!archive.type_conflicts().is_empty(), "the metric is reported");
}

/// Where the pair of the first metric is in a record of [`nine_rows`], and that of the
/// string.
const PAIR_OF_BYTES: u64 = 20 + 12 + 4;
const PAIR_OF_NAME: u64 = 20 + 20 + 12 + 4;

fn nine_rows() -> (tempfile::TempDir, Archive, u64) {
    let rows: Vec<Row> = (0..9).map(|n| row(&[(2, n)], None, Some("abc"))).collect();
    let (directory, archive) = archive(&rows);
    let mut records = archive.records_from(at(8000)).unwrap();
    let last = records.next().unwrap().unwrap().offset();
    drop(records);
    (directory, archive, last)
}

proptest! {
    /// forall records and sizes of chunks: the columns of all chunks have what
    /// the records have, and no chunk has more than one record too much.
    #[test]
    fn chunks_of_any_size_have_what_the_records_have(
        rows in vec(
            (
                vec(any::<u64>(), 0..4),
                proptest::option::of(-1e9f64..1e9),
                proptest::option::of("[a-z]{0,9}"),
            ),
            1..30,
        ),
        extent in (1usize..9, 1usize..30, 1usize..30),
    ) {
        let by_number = |values: Vec<u64>| (2..).zip(values).collect();
        let mut rows: Vec<Row> =
            rows.into_iter().map(|(bytes, load, name)| (by_number(bytes), load, name)).collect();
        // A writer begins no archive with a mark.
        rows.insert(0, row(&[(2, 1)], None, None));
        let (_directory, archive) = archive(&rows);
        let selection = select(&archive, &["name", "net"]);
        let limits = ChunkLimits { rows: extent.0, values: extent.1, bytes: extent.2 };
        let (found, chunks) = scan(&selection, limits);
        prop_assert_eq!(&found, &expected(&archive, &selection));
        prop_assert!(chunks >= rows.len().div_ceil(extent.0));
        prop_assert_eq!(scan(&selection, ChunkLimits::UNBOUNDED), (found, 1));
    }
}

#[test]
fn columns_are_of_names_where_records_of_one_shape_change_them() {
    const ROWS: i64 = 100;
    const ORDERS: [[&str; 2]; 3] = [["a", "b"], ["b", "a"], ["c", "b"]];
    let mut builder =
        Builder::indexed(1).metric("load", "double instant").metric("x", "u64 instant");
    for (run, names) in (0..).zip(ORDERS) {
        builder = builder.instances("x", names);
        for second in run * ROWS..(run + 1) * ROWS {
            let value = |name: &str| (format!("x[{name}]"), u64::from(name.as_bytes()[0]));
            builder = builder.row(second, names.map(value));
        }
    }
    let (_directory, base) = builder.finish().into_parts();
    let archive = Archive::open(&base).unwrap();
    let selection = select(&archive, &["x"]);
    let domain = archive.metadata().identities(selection.metrics()[0].desc.indom.unwrap()).unwrap();
    for chunk in [Chunk::new(&selection), Chunk::new(&selection).by_excerpts()] {
        let limits = ChunkLimits::CHUNK;
        let mut counts = HashMap::new();
        for (_, value) in scan_with(chunk, &selection, limits).0 {
            let (_, instance, value) = value.unwrap();
            let name = domain.name_at(id(instance.unwrap()), at(0)).unwrap();
            assert_eq!(value, format!("{:?}", Value::U64(name.as_bytes()[0].into())));
            *counts.entry(name.to_owned()).or_insert(0) += 1;
        }
        let counts = ["a", "b", "c"].map(|name| counts[name]);
        assert_eq!(counts, [2 * ROWS, 3 * ROWS, ROWS]);
    }
}
