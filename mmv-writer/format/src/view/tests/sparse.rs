//! Files with holes, and what reading them costs.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use super::*;
use crate::layout::{InstanceV2, LABEL_INSTANCES, MetricV2, STRING_BYTES};

const INSTANCES: u32 = 10_000_000;

/// The indexes of those that are not zeros: the first, one that begins in a block of the
/// file and ends in the next, two around a hole of some blocks, and the last.
const USED: [u32; 5] = [0, 170, 171, 2_000, INSTANCES - 1];

const STRINGS: u32 = 1_000_000;

/// Offsets of the sections, and the end of the file.
#[derive(Debug, Clone, Copy)]
struct Places {
    indoms: u64,
    metrics: u64,
    values: u64,
    labels: u64,
    instances: u64,
    strings: u64,
    end: u64,
}

fn places() -> Places {
    let indoms = TOC_AT + 6 * 16;
    let metrics = indoms + 32;
    let values = (metrics + size_of::<MetricV2>() as u64).next_multiple_of(8);
    let labels = values + USED.len() as u64 * 32;
    let instances = labels + 255 * size_of::<LabelEntry>() as u64;
    let strings = instances + u64::from(INSTANCES) * size_of::<InstanceV2>() as u64;
    let end = strings + u64::from(STRINGS) * STRING_BYTES as u64;
    Places { indoms, metrics, values, labels, instances, strings, end }
}

/// Makes a file of 500 MB in version 3 that is nearly all hole: one domain of [`INSTANCES`],
/// of which [`USED`] are not zeros, with a metric and its values, and 255 labels of
/// instances. Names are far apart, and one is in two blocks.
fn sparse() -> File {
    let at = places();
    let file = tempfile::tempfile().unwrap();
    file.set_len(at.end).unwrap();
    let write = |bytes: &[u8], offset: u64| file.write_all_at(bytes, offset).unwrap();
    let header = Header { version: 3, ..sample().header };
    write(header.as_bytes(), 0);
    let toc = [
        (1, 1, at.indoms),
        (2, INSTANCES as i32, at.instances),
        (3, 1, at.metrics),
        (4, USED.len() as i32, at.values),
        (5, STRINGS as i32, at.strings),
        (6, 255, at.labels),
    ];
    let toc = toc.map(|(kind, count, offset)| TocEntry { kind, count, offset });
    write(toc.as_bytes(), TOC_AT);
    let domain = IndomEntry {
        serial: 3,
        count: INSTANCES,
        instances: at.instances,
        short_help: 0,
        long_help: 0,
    };
    write(domain.as_bytes(), at.indoms);
    let name_at =
        |index: u32| at.strings + u64::from(index % (STRINGS - 1)) * STRING_BYTES as u64 + 8;
    for (number, index) in USED.into_iter().enumerate() {
        let entry = at.instances + u64::from(index) * 24;
        let id = number as i32 * 7;
        let raw = InstanceV2 { indom: at.indoms, reuses: 0, id, name: name_at(index) };
        write(raw.as_bytes(), entry);
        write(format!("instance {index}").as_bytes(), name_at(index));
        let value =
            crate::layout::ValueEntry { cell: 1, extra: 0, metric: at.metrics, instance: entry };
        write(value.as_bytes(), at.values + number as u64 * 32);
    }
    let name = at.strings + 500 * STRING_BYTES as u64;
    write(b"count", name);
    let metric = MetricV2 {
        name,
        item: 1,
        type_code: 3,
        semantics: 1,
        units: 0,
        indom: 3,
        padding: 0,
        short_help: 0,
        long_help: 0,
    };
    write(metric.as_bytes(), at.metrics);
    for number in 0..255 {
        let label =
            LabelEntry { flags: LABEL_INSTANCES, identity: 3, instance: number, json: [0; 244] };
        let mut label = label;
        label.json[..7].copy_from_slice(br#"{"a":1}"#);
        write(
            label.as_bytes(),
            at.labels + u64::from(number.unsigned_abs()) * size_of::<LabelEntry>() as u64,
        );
    }
    file
}

#[test]
fn entries_around_holes_are_found_at_no_cost() {
    let file = sparse();
    let began = Instant::now();
    let (contents, cost) = Contents::read_at_cost(&file, &Limits::default());
    let taken = began.elapsed();
    let contents = contents.unwrap();
    let instances = contents.indoms[0].instances.iter();
    let instances: Vec<_> = instances.map(|one| (one.id.get(), one.name.as_str())).collect();
    let expected = USED.iter().enumerate();
    let expected: Vec<_> =
        expected.map(|(at, index)| (at as i32 * 7, format!("instance {index}"))).collect();
    let expected: Vec<_> = expected.iter().map(|(id, name)| (*id, name.as_str())).collect();
    assert_eq!(instances, expected);
    let values = contents.values.iter().map(|value| value.instance.unwrap().get());
    assert_eq!(values.collect::<Vec<_>>(), [0, 7, 14, 21, 28]);
    let labelled = contents.labels.iter().map(|label| label.instance.unwrap().get());
    assert_eq!(labelled.collect::<Vec<_>>(), [0, 7, 14, 21, 28]);
    assert_eq!(contents.skipped.len() + contents.unlisted, 250, "labels of no instance");
    assert!(cost.read < 2_000_000 && cost.memory < 2_000_000, "{cost:?}");
    assert!(taken < Duration::from_secs(2), "{taken:?}");
}

#[test]
fn zeros_that_are_no_hole_are_read_as_holes_are() {
    struct Dense(File);
    impl Source for Dense {
        fn fill(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
            self.0.fill(buffer, offset)
        }
    }
    let file = sparse();
    let limits = Limits { bytes: 1 << 30, ..Limits::default() };
    let expected = Contents::read(&file, &limits).unwrap();
    let mut cost = Cost::default();
    let dense = Contents::read_twice(&Dense(file), places().end, limits, &mut cost).unwrap();
    assert_eq!(dense, expected);
    assert!(cost.read > 490_000_000 && cost.memory < 2_000_000, "{cost:?}");
}

#[test]
fn value_of_an_entry_of_zeros_is_left_out() {
    let file = sparse();
    let at = places();
    for (distance, listed) in [(3_000 * 24, 250), (100 * 24, 250), (3_000 * 24 + 8, 251)] {
        let instance = at.instances + distance;
        let value = crate::layout::ValueEntry { cell: 1, extra: 0, metric: at.metrics, instance };
        file.write_all_at(value.as_bytes(), at.values).unwrap();
        let contents = Contents::read(&file, &Limits::default()).unwrap();
        assert_eq!(contents.values.len(), USED.len() - 1);
        assert_eq!(contents.skipped.len() + contents.unlisted, listed, "{distance}");
    }
}

#[test]
fn a_refused_file_has_a_cost_as_well() {
    let file = tempfile::tempfile().unwrap();
    let mut bytes = sample().bytes();
    bytes.extend(vec![b'x'; 8_000_000]);
    file.write_all_at(&bytes, 0).unwrap();
    let strings = TocEntry { kind: 5, count: 8_000_000 / STRING_BYTES as i32, offset: FILE_LEN };
    file.write_all_at(strings.as_bytes(), TOC_AT + 4 * 16).unwrap();
    for limit in [1_000_000, 4_000_000] {
        let (refused, cost) =
            Contents::read_at_cost(&file, &Limits { bytes: limit, ..Limits::default() });
        assert!(matches!(refused, Err(Refusal::TooLarge { .. })), "{refused:?}");
        assert!((limit / 2..=limit).contains(&cost.memory), "{cost:?}");
        assert!(cost.read <= limit, "{cost:?}");
    }
    let (read, cost) =
        Contents::read_at_cost(&file, &Limits { bytes: 16_000_000, ..Limits::default() });
    assert!(read.is_ok() && cost.memory > 8_000_000, "{cost:?}");
}
