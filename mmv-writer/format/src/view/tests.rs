//! The view over files built here; `tests/corpus.rs` has it over real ones.

mod sparse;

use proptest::prelude::*;
use zerocopy::{FromBytes, IntoBytes};

use super::*;
use crate::layout::{
    IndomEntry, InstanceV1, LABEL_CLUSTER, LABEL_ITEM, LABEL_OPTIONAL, LabelEntry, MAGIC, MetricV1,
    StringEntry, TocEntry, nul_padded,
};

/// A version 1 file with one domain of two instances, three metrics (counter on
/// the domain, singular string, elapsed time) and four values; laid out as
/// libpcp_mmv does.
#[derive(Clone)]
struct Sample {
    header: Header,
    toc: Vec<TocEntry>,
    indoms: Vec<IndomEntry>,
    instances: Vec<InstanceV1>,
    metrics: Vec<MetricV1>,
    values: Vec<crate::layout::ValueEntry>,
    strings: Vec<StringEntry>,
    labels: Vec<LabelEntry>,
}

const TOC_AT: u64 = 40;
const INDOMS_AT: u64 = TOC_AT + 6 * 16;
const INSTANCES_AT: u64 = INDOMS_AT + 32;
const METRICS_AT: u64 = INSTANCES_AT + 2 * 80;
const VALUES_AT: u64 = METRICS_AT + 3 * 104;
const STRINGS_AT: u64 = VALUES_AT + 4 * 32;
const LABELS_AT: u64 = STRINGS_AT + 2 * 256;
const FILE_LEN: u64 = LABELS_AT + 256;

fn sample() -> Sample {
    let section = |kind, count, offset| TocEntry { kind, count, offset };
    let value = |metric: u64, instance, extra| crate::layout::ValueEntry {
        cell: 42,
        extra,
        metric: METRICS_AT + metric * 104,
        instance,
    };
    let header = Header {
        magic: MAGIC,
        version: 1,
        generation1: 7,
        generation2: 7,
        toc_count: 6,
        flags: 2,
        pid: 1,
        cluster: 321,
    };
    Sample {
        header,
        toc: vec![
            section(1, 1, INDOMS_AT),
            section(2, 2, INSTANCES_AT),
            section(3, 3, METRICS_AT),
            section(4, 4, VALUES_AT),
            section(5, 2, STRINGS_AT),
            section(6, 0, LABELS_AT),
        ],
        indoms: vec![IndomEntry {
            serial: 3,
            count: 2,
            instances: INSTANCES_AT,
            short_help: STRINGS_AT,
            long_help: 0,
        }],
        instances: vec![instance(0, b"sda"), instance(7, b"sdb")],
        metrics: vec![
            metric(b"disk.reads", 1, 3, 1, 3),
            metric(b"mode", 2, 6, 4, u32::MAX),
            metric(b"busy", 3, 9, 0, 0),
        ],
        values: vec![
            value(0, INSTANCES_AT, 0),
            value(0, INSTANCES_AT + 80, 0),
            value(1, 0, STRINGS_AT.cast_signed() + 256),
            value(2, 0, -5),
        ],
        strings: vec![
            StringEntry { text: nul_padded(b"help").unwrap() },
            StringEntry { text: nul_padded(b"on").unwrap() },
        ],
        labels: vec![label(LABEL_CLUSTER | LABEL_OPTIONAL, 321, b"{\"a\": 1}")],
    }
}

fn instance(id: i32, name: &[u8]) -> InstanceV1 {
    InstanceV1 { indom: INDOMS_AT, padding: 0, id, name: nul_padded(name).unwrap() }
}

fn metric(name: &[u8], item: u32, type_code: i32, semantics: i32, indom: u32) -> MetricV1 {
    MetricV1 {
        name: nul_padded(name).unwrap(),
        item,
        type_code,
        semantics,
        units: 0x0010_0000,
        indom,
        padding: 0,
        short_help: 0,
        long_help: 0,
    }
}

fn label(flags: u32, identity: u32, json: &[u8]) -> LabelEntry {
    LabelEntry { flags, identity, instance: -1, json: nul_padded(json).unwrap() }
}

impl Sample {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.header.as_bytes().to_vec();
        bytes.extend(self.toc.as_bytes());
        bytes.extend(self.indoms.as_bytes());
        bytes.extend(self.instances.as_bytes());
        bytes.extend(self.metrics.as_bytes());
        bytes.extend(self.values.as_bytes());
        bytes.extend(self.strings.as_bytes());
        bytes.extend(self.labels.as_bytes());
        assert_eq!(bytes.len() as u64, FILE_LEN);
        bytes
    }
}

fn refusal(change: impl FnOnce(&mut Sample)) -> Refusal {
    let mut file = sample();
    change(&mut file);
    Contents::parse(&file.bytes()).unwrap_err()
}

fn defect(change: impl FnOnce(&mut Sample)) -> (Contents, Problem) {
    let mut file = sample();
    change(&mut file);
    let contents = Contents::parse(&file.bytes()).unwrap();
    assert_eq!(contents.skipped.len(), 1, "{:?}", contents.skipped);
    let problem = contents.skipped[0].problem.clone();
    (contents, problem)
}

#[test]
fn a_good_file_is_read_field_by_field() {
    let contents = Contents::parse(&sample().bytes()).unwrap();
    assert_eq!(contents.skipped, []);
    let expected = HeaderFields {
        version: 1,
        generation: 7,
        flags: Flags::PROCESS,
        pid: 1,
        cluster: 321,
        file_len: FILE_LEN,
    };
    assert_eq!(contents.header, expected);
    let indom = contents.indom(3).unwrap();
    assert_eq!((indom.short_help.as_deref(), indom.long_help.as_deref()), (Some("help"), None));
    assert_eq!(indom.instances[1].name, "sdb");
    assert_eq!(contents.metrics[0].indom, Some(3));
    assert_eq!(contents.metrics[1].kind, MetricKind::String);
    assert_eq!(contents.values_of(0).count(), 2);
    let id = InstanceId::new(7).ok();
    let value = ValueLocation {
        metric: 0,
        instance: id,
        cell: VALUES_AT + 32,
        extra: VALUES_AT + 40,
        string: None,
        metric_at: METRICS_AT,
        instance_at: INSTANCES_AT + 80,
        instance_reuses: 0,
    };
    assert_eq!(contents.values[1], value);
    assert_eq!(contents.values[2].string, Some(STRINGS_AT + 256));
}

#[test]
fn elapsed_time_is_always_a_counter_of_microseconds() {
    let contents = Contents::parse(&sample().bytes()).unwrap();
    let elapsed = &contents.metrics[2];
    assert_eq!((elapsed.kind, elapsed.semantics), (MetricKind::Elapsed, Semantics::Counter));
    assert_eq!(elapsed.units, Units::microseconds());
    assert_eq!(elapsed.kind.value_type(), ValueType::I64);
}

#[test]
fn magic_is_checked_first_and_then_the_version() {
    let nothing_right = |file: &mut Sample| {
        file.header = Header { magic: *b"MMX\0", version: 9, ..file.header };
        file.header.toc_count = -1;
    };
    assert!(matches!(refusal(nothing_right), Refusal::Magic { found } if &found == b"MMX\0"));
    let version_wrong = |file: &mut Sample| {
        file.header = Header { version: 9, generation1: 0, toc_count: -1, ..file.header };
    };
    assert!(matches!(refusal(version_wrong), Refusal::Version { found: 9 }));
    let swapped = |file: &mut Sample| file.header.version = 1i32.swap_bytes();
    assert!(matches!(refusal(swapped), Refusal::ForeignByteOrder { .. }));
}

#[test]
fn incomplete_file_is_not_ready_and_empty_one_just_created() {
    for (generation1, generation2) in [(0, 0), (7, 0), (7, 8), (0, 7)] {
        let refusal = refusal(|file| {
            file.header.generation1 = generation1;
            file.header.generation2 = generation2;
        });
        assert!(refusal.is_not_ready() && !refusal.is_just_created());
    }
    for bytes in [&[][..], &[0; 40], &[0; 4096]] {
        let refusal = Contents::parse(bytes).unwrap_err();
        assert!(refusal.is_just_created() && !refusal.is_not_ready(), "{refusal}");
    }
}

#[test]
fn sections_are_whole_apart_and_one_of_a_kind() {
    let outside = refusal(|file| file.toc[3].count = 1000);
    assert!(matches!(outside, Refusal::SectionOutside { count: 1000, entry_bytes: 32, .. }));
    let wrapping = refusal(|file| file.toc[3].offset = 0u64.wrapping_sub(4 * 32));
    assert!(matches!(wrapping, Refusal::SectionOutside { .. }));
    let in_header = refusal(|file| file.toc[4].offset = 0);
    assert!(matches!(in_header, Refusal::SectionOutside { start: 136, .. }));
    let negative = refusal(|file| file.toc[0].count = -1);
    assert!(matches!(negative, Refusal::SectionCount { section: SectionKind::Indoms, found: -1 }));
    let overlap = refusal(|file| file.toc[3].offset -= 8);
    assert!(matches!(
        overlap,
        Refusal::SectionsOverlap { first: SectionKind::Metrics, second: SectionKind::Values, .. }
    ));
    for (index, section) in [(2, SectionKind::Values), (3, SectionKind::Metrics)] {
        let twice = refusal(|file| file.toc[index].kind = section.code());
        assert!(matches!(twice, Refusal::SectionTwice { section: found, .. } if found == section));
    }
    let missing = refusal(|file| file.toc[3].kind = 99);
    assert!(matches!(missing, Refusal::SectionMissing { section: SectionKind::Values }));
    let misaligned = refusal(|file| {
        file.toc[3] = TocEntry { count: 3, offset: VALUES_AT + 4, ..file.toc[3] };
    });
    assert!(matches!(misaligned, Refusal::ValuesMisaligned { .. }));
    for count in [i32::MIN, -1, 0, 1, 65, i32::MAX] {
        let toc = refusal(|file| file.header.toc_count = count);
        assert!(matches!(toc, Refusal::TocCount { .. }), "{count}");
    }
}

/// Returns the sample with an indom entry of its own for the second instance, in the place
/// of the label, and without help. The section of that is the last one listed.
fn with_later_indoms() -> Sample {
    let mut file = sample();
    let indom = IndomEntry { count: 1, instances: INSTANCES_AT + 80, ..file.indoms[0] };
    let later = IndomEntry { short_help: 0, ..indom };
    file.indoms[0].count = 1;
    file.labels[0] = LabelEntry::read_from_bytes([later; 8].as_bytes()).unwrap();
    file.toc[5] = TocEntry { kind: SectionKind::Indoms.code(), count: 1, offset: LABELS_AT };
    file
}

#[test]
fn indoms_instances_and_texts_may_be_in_several_sections() {
    let mut file = with_later_indoms();
    file.toc.swap(0, 5);
    let contents = Contents::parse(&file.bytes()).unwrap();
    assert_eq!(contents, Contents::parse(&sample_without_labels().bytes()).unwrap());
    for (index, later) in [(1, INSTANCES_AT + 80), (4, STRINGS_AT + 256)] {
        let mut file = with_later_indoms();
        file.toc[5] = TocEntry { count: 1, offset: later, ..file.toc[index] };
        file.toc[index].count = 1;
        let contents = Contents::parse(&file.bytes()).unwrap();
        let listed = (contents.skipped.len(), contents.indoms[0].instances.len());
        assert_eq!(listed, (0, 1));
        assert!(contents.values.iter().any(|value| value.string == Some(STRINGS_AT + 256)));
        // Entries in one section and in the next are not a range.
        file.indoms[0].count = 2;
        let wrong = Contents::parse(&file.bytes()).unwrap().skipped;
        let problem = Problem::NotInstances { found: INSTANCES_AT, count: 2 };
        assert_eq!(wrong.iter().any(|defect| defect.problem == problem), index == 1);
    }
}

#[test]
fn help_of_a_domain_is_of_its_last_section_as_in_pmdammv() {
    let mut file = with_later_indoms();
    let help =
        |file: &Sample| Contents::parse(&file.bytes()).unwrap().indoms.swap_remove(0).short_help;
    assert_eq!(help(&file), None);
    file.toc.swap(0, 5);
    assert_eq!(help(&file).as_deref(), Some("help"));
}

fn sample_without_labels() -> Sample {
    let mut file = sample();
    file.toc[5].count = 0;
    file
}

#[test]
fn only_a_bad_metric_and_its_values_are_left_out() {
    type Change = fn(&mut MetricV1);
    let changes: [(Change, Problem); 7] = [
        (|metric| metric.name = [b'x'; 64], Problem::TextWithoutEnd { found: METRICS_AT, len: 64 }),
        (|metric| metric.name[0] = b'1', Problem::Name { found: "1isk.reads".into() }),
        (|metric| metric.name[0] = 0, Problem::EmptyName),
        (|metric| metric.item = 1024, Problem::Item { found: 1024 }),
        (|metric| metric.type_code = 7, Problem::Type { found: 7 }),
        (|metric| metric.semantics = 2, Problem::Semantics { found: 2 }),
        (|metric| metric.indom = 4, Problem::NoIndom { found: 4 }),
    ];
    for (change, expected) in changes {
        let (contents, problem) = defect(|file| change(&mut file.metrics[0]));
        assert_eq!(problem, expected);
        let names: Vec<_> = contents.metrics.iter().map(|metric| metric.name.as_str()).collect();
        assert_eq!(names, ["mode", "busy"]);
        let values: Vec<_> = contents.values.iter().map(|value| value.metric).collect();
        assert_eq!(values, [0, 1]);
    }
}

#[test]
fn of_many_defects_the_first_are_listed_and_the_others_counted() {
    let toc_at = Header::BYTES as u64;
    let metrics_at = toc_at + 2 * TocEntry::BYTES as u64;
    let toc = [(SectionKind::Metrics, 150), (SectionKind::Values, 0)];
    let toc = toc.map(|(kind, count)| TocEntry { kind: kind.code(), count, offset: metrics_at });
    let sample = sample();
    let header = Header { toc_count: 2, ..sample.header };
    let name = nul_padded(b"-").unwrap();
    let metrics = vec![MetricV1 { name, ..sample.metrics[0] }; 150];
    let bytes = [header.as_bytes(), toc.as_bytes(), metrics.as_bytes()].concat();
    let contents = Contents::parse(&bytes).unwrap();
    assert_eq!((contents.skipped.len(), contents.unlisted), (MAX_LISTED_DEFECTS, 50));
}

#[test]
fn the_first_of_a_name_an_item_an_instance_and_a_value_wins() {
    let (contents, problem) = defect(|file| file.metrics[2].name = file.metrics[1].name);
    assert_eq!(problem, Problem::NameTwice { found: "mode".into() });
    assert_eq!(contents.metrics[1].kind, MetricKind::String);
    let (_, problem) = defect(|file| file.metrics[2].item = 2);
    assert_eq!(problem, Problem::ItemTwice { found: 2 });
    let (contents, problem) = defect(|file| file.instances[1].id = 0);
    assert!(matches!(problem, Problem::InstanceTwice { serial: 3, .. }));
    assert_eq!(contents.values_of(0).count(), 1);
    let (contents, problem) = defect(|file| file.values[1] = file.values[0]);
    assert!(matches!(problem, Problem::ValueTwice { .. }));
    assert_eq!(contents.values.len(), 3);
}

#[test]
fn domains_with_one_serial_are_one_domain() {
    let mut file = sample();
    // Both entries follow the other sections.
    file.toc[0] = TocEntry { kind: 1, count: 2, offset: FILE_LEN };
    let mut bytes = file.bytes();
    for (count, instances) in [(1, INSTANCES_AT), (1, INSTANCES_AT + 80)] {
        let entry = IndomEntry { serial: 3, count, instances, short_help: 0, long_help: 0 };
        bytes.extend(entry.as_bytes());
    }
    let contents = Contents::parse(&bytes).unwrap();
    assert_eq!(contents.skipped, []);
    assert_eq!(contents.indoms.len(), 1);
    assert_eq!(contents.indoms[0].instances.len(), 2);
    assert_eq!(contents.values.len(), 4);
}

#[test]
fn a_domain_never_has_what_is_not_an_instance() {
    let outside = refusal(|file| file.indoms[0].instances = FILE_LEN);
    assert!(matches!(outside, Refusal::IndomOutside { serial: 3, count: 2, .. }));
    let mut file = sample();
    file.indoms[0].count = 3;
    let contents = Contents::parse(&file.bytes()).unwrap();
    let problems: Vec<_> = contents.skipped.iter().map(|defect| &defect.problem).collect();
    let expected =
        [&Problem::NotInstances { found: INSTANCES_AT, count: 3 }, &Problem::NoIndom { found: 3 }];
    assert_eq!(problems, expected);
    assert_eq!(contents.indoms, []);
    let (_, problem) = defect(|file| file.instances[0].id = -5);
    assert_eq!(problem, Problem::NegativeInstance { found: -5 });
}

#[test]
fn a_value_leads_to_a_metric_and_an_instance_that_fit() {
    let (_, problem) = defect(|file| file.values[3].metric += 5);
    assert_eq!(problem, Problem::NotAMetric { found: METRICS_AT + 2 * 104 + 5 });
    let (_, problem) = defect(|file| file.values[3].metric = METRICS_AT + 3 * 104);
    assert!(matches!(problem, Problem::NotAMetric { .. }));
    let (_, problem) = defect(|file| file.values[0].instance = 0);
    assert_eq!(problem, Problem::NotAnInstance { found: 0 });
    let (_, problem) = defect(|file| file.values[3].instance = INSTANCES_AT);
    assert_eq!(problem, Problem::NotAnInstance { found: INSTANCES_AT });
    for extra in [-1, 0, STRINGS_AT.cast_signed() + 257, i64::MAX] {
        let (_, problem) = defect(|file| file.values[2].extra = extra);
        assert_eq!(problem, Problem::NotAString { found: extra });
    }
}

#[test]
fn a_bad_help_text_is_none_and_the_entry_stays() {
    let (contents, problem) = defect(|file| file.indoms[0].short_help = FILE_LEN - 255);
    assert!(
        matches!(problem, Problem::Help(inner) if matches!(*inner, Problem::TextOutside { .. }))
    );
    assert_eq!(contents.indoms[0].short_help, None);
    assert_eq!(contents.values.len(), 4);
}

#[test]
fn an_unknown_section_is_skipped_and_listed() {
    let (contents, problem) = defect(|file| file.toc[5].kind = 99);
    assert_eq!(problem, Problem::UnknownSection { found: 99 });
    let message = contents.skipped[0].to_string();
    assert_eq!(message, "table of contents entry 5 at 120: unknown section kind 99");
    assert_eq!(contents.values.len(), 4);
}

#[test]
fn labels_belong_to_version_3() {
    let (contents, problem) = defect(|file| file.toc[5].count = 1);
    assert_eq!(problem, Problem::LabelsInVersion { found: 1 });
    assert_eq!(contents.labels, []);
}

#[test]
fn labels_are_attached_to_something_and_are_a_single_pair() {
    let read = |entry: LabelEntry| {
        let mut file = sample();
        // Version 3 has the same entries as version 1, but for names.
        file.header.version = 3;
        file.labels = vec![entry];
        for (index, section) in file.toc.iter_mut().enumerate() {
            section.count = i32::from(index == 5);
        }
        let contents = Contents::parse(&file.bytes()).unwrap();
        (contents.labels, contents.skipped.into_iter().next().map(|defect| defect.problem))
    };
    let (labels, problem) = read(label(LABEL_CLUSTER | LABEL_OPTIONAL, 321, b"{\"a\": 1}"));
    assert_eq!(problem, None);
    let expected = Label {
        class: LabelClass::Cluster,
        identity: 321,
        instance: None,
        optional: true,
        name: "a".into(),
        json_value: "1".into(),
    };
    assert_eq!(labels, [expected]);
    let (_, problem) = read(label(LABEL_CLUSTER, 322, b"{\"a\":1}"));
    assert!(matches!(problem, Some(Problem::LabelTarget { identity: 322, .. })));
    let (_, problem) = read(label(LABEL_ITEM, 9, b"{\"a\":1}"));
    assert!(matches!(problem, Some(Problem::LabelTarget { identity: 9, .. })));
    let (_, problem) = read(label(LABEL_CLUSTER | LABEL_ITEM, 321, b"{\"a\":1}"));
    assert!(matches!(problem, Some(Problem::LabelFlags { found: 24 })));
    let (_, problem) = read(label(LABEL_CLUSTER, 321, b"{\"a\":1"));
    assert!(matches!(problem, Some(Problem::LabelJson { .. })));
    let (_, problem) = read(LabelEntry { json: [b' '; 244], ..label(LABEL_CLUSTER, 321, b"") });
    assert!(matches!(problem, Some(Problem::TextWithoutEnd { len: 244, .. })));
}

#[test]
fn a_sparse_file_of_a_terabyte_costs_little_memory() {
    let file = tempfile::tempfile().unwrap();
    file.set_len(1 << 40).unwrap();
    let created = Contents::read(&file, &Limits::default()).unwrap_err();
    assert!(created.is_just_created());
    let mut sample = sample();
    sample.toc[4].count = i32::MAX;
    std::os::unix::fs::FileExt::write_all_at(&file, &sample.bytes(), 0).unwrap();
    sample.toc[5].count = 0;
    let (contents, cost) =
        Contents::read_at_cost(&file, &Limits { bytes: 1 << 20, ..Limits::default() });
    assert_eq!(contents.unwrap().values.len(), 4, "the terabyte is a hole");
    assert!(cost.memory < 1 << 18, "{cost:?}");
}

#[test]
fn what_is_no_regular_file_is_not_read() {
    let directory = File::open("/").unwrap();
    let refused = Contents::read(&directory, &Limits::default()).unwrap_err();
    assert!(matches!(refused, Refusal::NotRegular));
}

fn assert_inside(contents: &Contents, file_len: u64) {
    for value in &contents.values {
        assert!(value.metric < contents.metrics.len());
        assert!(value.cell.is_multiple_of(8) && value.cell + 8 <= file_len);
        assert!(value.extra.is_multiple_of(8) && value.extra + 8 <= file_len);
        assert!(value.string.is_none_or(|string| string + 256 <= file_len));
    }
    for metric in &contents.metrics {
        assert!(metric.indom.is_none_or(|serial| contents.indom(serial).is_some()));
    }
}

#[test]
fn every_truncation_is_refused() {
    let bytes = sample().bytes();
    // The empty labels section at the end may be missing.
    for len in 0..LABELS_AT as usize {
        assert!(Contents::parse(&bytes[..len]).is_err(), "{len} bytes");
    }
}

#[test]
fn any_flipped_bit_is_survived_and_no_offset_leaves_the_file() {
    let bytes = sample().bytes();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << bit;
            if let Ok(contents) = Contents::parse(&flipped) {
                assert_inside(&contents, FILE_LEN);
            }
        }
    }
}

proptest! {
    #[test]
    fn no_mixture_of_wild_numbers_leads_out_of_the_file(
        changes in prop::collection::vec(
            (0..FILE_LEN as usize / 4, prop_oneof![
                any::<u32>(),
                0..FILE_LEN as u32,
                Just(0),
                Just(u32::MAX),
                Just(i32::MAX as u32),
            ]),
            1..6,
        ),
        len in 0..=FILE_LEN as usize,
    ) {
        let mut bytes = sample().bytes();
        for (word, value) in changes {
            bytes[word * 4..word * 4 + 4].copy_from_slice(&value.to_ne_bytes());
        }
        for bytes in [&bytes[..], &bytes[..len]] {
            if let Ok(contents) = Contents::parse(bytes) {
                assert_inside(&contents, bytes.len() as u64);
            }
        }
    }
}
