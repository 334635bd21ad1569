//! Records of which only a few bytes are read.

use super::*;

/// An archive of `count` records, a second apart, with as many counters `m0`, `m1` and so on as
/// `width`, of which the record is a multiple; and the offsets of the records.
fn wide(width: u32, count: i64) -> (tempfile::TempDir, Archive, Vec<u64>) {
    let names: Vec<_> = (0..width).map(|item| format!("m{item}")).collect();
    let declare = |builder: Builder, (item, name): (u32, &String)| {
        builder.metric_with(Pmid::new(70, 1, item).unwrap(), name, "u64 counter")
    };
    let row = |record: i64| (record, names.iter().zip((0..).map(move |item| record * item)));
    let builder = (0..).zip(&names).fold(Builder::new(), declare);
    let (directory, base) = builder.rows((0..count).map(row)).finish().into_parts();
    let archive = Archive::open(&base).unwrap();
    let (mut records, mut offsets) = (archive.records().unwrap(), Vec::new());
    while let Some(record) = records.next().unwrap() {
        offsets.push(record.offset());
    }
    drop(records);
    (directory, archive, offsets)
}

const WIDTH: u32 = 1000;
const HEAD: u64 = 20;
const SET: u64 = 20;

fn read(archive: &Archive, metric: &str) -> (Vec<f64>, Option<Error>) {
    read_of(&select(archive, &[metric]), 0)
}

fn read_of(selection: &Selection<'_>, metric: usize) -> (Vec<f64>, Option<Error>) {
    let mut columns = Columns::open(selection, ..).unwrap();
    let mut values = Vec::new();
    loop {
        match columns.next_chunk() {
            Ok(Some(chunk)) => values.extend(numbers(chunk, metric)),
            Ok(None) => return (values, None),
            Err(error) => return (values, Some(error)),
        }
    }
}

fn numbers(chunk: &Chunk, metric: usize) -> impl Iterator<Item = f64> {
    chunk.columns(metric).iter().flat_map(Column::numbers).map(|(_, value)| value)
}

fn all(item: u32, count: usize) -> Vec<f64> {
    (0..count).map(|record| record as f64 * f64::from(item)).collect()
}

fn change(directory: &tempfile::TempDir, at: u64) {
    let volume = directory.path().join("a.0");
    let file = std::fs::OpenOptions::new().read(true).write(true).open(volume).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x40], at).unwrap();
}

#[test]
fn damage_between_the_wanted_values_costs_nothing() {
    let (directory, archive, offsets) = wide(WIDTH, 100);
    // The PMID of a metric that is not wanted.
    change(&directory, offsets[50] + HEAD + 900 * SET);
    let (values, error) = read(&archive, "m7");
    assert_eq!((values, error.map(|error| error.to_string())), (all(7, 100), None));
}

#[test]
fn damage_in_excerpts_is_the_error_of_a_full_read() {
    let (directory, archive, offsets) = wide(WIDTH, 100);
    let len = offsets[1] - offsets[0];
    let block = HEAD + u64::from(WIDTH) * SET + 7 * 12;
    for (what, at, is_error) in [
        ("length", 0, true),
        ("nanoseconds", 12, true),
        ("number of sets", 16, true),
        // It is another metric then.
        ("metric", HEAD + 7 * SET, false),
        ("number of values", HEAD + 7 * SET + 4, true),
        ("format", HEAD + 7 * SET + 8, true),
        ("instance", HEAD + 7 * SET + 13, true),
        ("place of the block", HEAD + 7 * SET + 16, true),
        ("length of the block", block + 1, true),
        ("end", len - 1, true),
    ] {
        let place = offsets[50] + at;
        change(&directory, place);
        let (values, error) = read(&archive, "m7");
        let is_at = |error: &Error| matches!(error, Error::Corrupt { offset, .. } if *offset == offsets[50]);
        assert_eq!(error.as_ref().is_some_and(is_at), is_error, "{what}: {error:?}");
        let expected = if is_error { all(7, 50) } else { all(7, 100) };
        assert_eq!(values.len(), expected.len() - usize::from(what == "metric"), "{what}");
        assert_eq!(values[..50], expected[..50], "{what}");
        change(&directory, place);
    }
    assert_eq!(read(&archive, "m7").0, all(7, 100));
}

#[test]
fn flipped_bits_do_not_falsify_excerpts() {
    let (directory, archive, offsets) = wide(WIDTH, 10);
    let len = offsets[1] - offsets[0];
    let parts = [
        (0, HEAD),
        (HEAD + 7 * SET, SET),
        (HEAD + u64::from(WIDTH) * SET + 7 * 12, 12),
        (len - 4, 4),
        (0, len),
    ];
    let selection = select(&archive, &["m7"]);
    let selection_of_all = select(&archive, &[""]);
    let mut items = selection_of_all.metrics().iter().map(|metric| metric.desc.pmid.item());
    let place_in_all = items.position(|item| item == 7).unwrap();
    let (mut only_elsewhere, mut common) = (0, 0);
    for n in 0..150_u64 {
        let random = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
        let (start, part) = parts[n as usize % parts.len()];
        let place = offsets[random as usize % offsets.len()] + start + (random >> 8) % part;
        change(&directory, place);
        // All metrics are read from whole records.
        let ((whole, whole_error), (found, error)) =
            (read_of(&selection_of_all, place_in_all), read_of(&selection, 0));
        change(&directory, place);
        assert!(found.starts_with(&whole), "{place}");
        if error.is_some() == whole_error.is_some() {
            assert_eq!(found, whole, "{place}");
            common += usize::from(error.is_some());
        } else {
            assert_eq!(
                (found, error.map(|error| error.to_string())),
                (all(7, 10), None),
                "{place}"
            );
            only_elsewhere += 1;
        }
    }
    assert!(only_elsewhere > 5 && common > 50, "{only_elsewhere} {common}");
}

#[test]
fn a_value_that_was_changed_is_read_as_it_is() {
    let (directory, archive, offsets) = wide(WIDTH, 100);
    change(&directory, offsets[50] + HEAD + u64::from(WIDTH) * SET + 7 * 12 + 4 + 7);
    let mut expected = all(7, 100);
    expected[50] = f64::from(0x15e ^ 0x40);
    assert_eq!(read(&archive, "m7").0, expected);
}

#[test]
fn a_file_that_is_cut_while_it_is_read_ends_with_an_error() {
    let (directory, archive, offsets) = wide(WIDTH, 300);
    let selection = select(&archive, &["m7"]);
    let mut columns = Columns::open(&selection, ..).unwrap();
    columns.limits.rows = 100;
    assert_eq!(columns.next_chunk().unwrap().unwrap().timestamps().len(), 100);
    let file = std::fs::OpenOptions::new().write(true).open(directory.path().join("a.0")).unwrap();
    file.set_len(offsets[150] + 100).unwrap();
    let mut rows = 0;
    let error = loop {
        match columns.next_chunk() {
            Ok(Some(chunk)) => rows += chunk.timestamps().len(),
            Ok(None) => panic!("no error after {rows} rows"),
            Err(error) => break error,
        }
    };
    assert!(rows <= 50, "{rows}");
    assert!(matches!(error, Error::Io { .. } | Error::Corrupt { .. }), "{error}");
}

#[test]
fn a_metric_in_the_place_of_another_one_is_found() {
    // The instances of a metric, and one of two others of the same length.
    let mut rows = Vec::new();
    for n in 0..40 {
        let (load, name) = if n % 10 == 7 { (None, Some("abcdefg")) } else { (Some(1.0), None) };
        rows.push(row(&[(2, n)], load, name));
    }
    let (_directory, archive) = archive(&rows);
    let mut records = archive.records().unwrap();
    let mut sizes = Vec::new();
    while let Some(record) = records.next().unwrap() {
        sizes.push(record.size());
    }
    assert!(sizes.iter().all(|size| *size == sizes[0]), "{sizes:?}");
    for names in [&["net"][..], &["net", "name"], &["net", "load"], &["name"], &["load", "name"]] {
        let selection = select(&archive, names);
        let found = scan(&selection, ChunkLimits::UNBOUNDED);
        assert_eq!(found, (expected(&archive, &selection), 1), "{names:?}");
    }
}

proptest! {
    #[test]
    fn excerpts_of_runs_have_what_the_records_have(
        runs in vec((0..6usize, 1..40usize, any::<u64>()), 1..8),
        wanted in proptest::sample::subsequence(vec!["net", "load", "name"], 1..=3),
        rows_of_chunk in 1..60usize,
    ) {
        let mut rows = vec![row(&[(2, 1)], Some(0.0), Some("x"))];
        for (kind, count, seed) in runs {
            for n in 0..count as u64 {
                let value = seed.wrapping_mul(n + 1);
                let (net, load) = ([(2, value), (3, !value)], Some(value as f64));
                let text = ["", "a", "seven77", "eight888"][value as usize % 4];
                rows.push(match kind {
                    0 => row(&net, load, Some("constant")),
                    1 => row(&net[..1], load, Some(text)),
                    2 => row(&net, None, None),
                    3 => row(&[], load, None),
                    4 => row(&net[1..], None, Some("length1")),
                    _ => row(&[], None, None),
                });
            }
        }
        let (_directory, archive) = archive(&rows);
        let selection = select(&archive, &wanted);
        let limits = ChunkLimits { rows: rows_of_chunk, ..ChunkLimits::UNBOUNDED };
        let (found, _) = scan(&selection, limits);
        prop_assert_eq!(found, expected(&archive, &selection));
    }
}
