//! The inputs that fuzzing starts from: records and files of good archives,
//! and MMV files.
//!
//! They are one archive that the library writes, some event arrays, and the
//! MMV files in `tests/data`; with `MMV_CORPUS` also the archives and MMV files
//! in there, good and bad ones.

use std::fs;
use std::path::{Path, PathBuf};

use pcp_archive::raw::event::{EventArrayBuilder, EventFlags};
use pcp_archive::{Archive, OwnedValue, Pmid, Value};

use test_archives::{Builder, Cell, at};

use crate::split;
use crate::{FRAME, OTHER};

/// Longer ones are left out: many short inputs show more.
const MAX_BYTES: usize = 16 << 10;
const MAX_RECORDS: usize = 20;

/// Rules of every kind, some of them for metrics of the archive that they are applied to.
const RULES: [&str; 4] = [
    "global { hostname -> a.b tz -> \"UTC\" zoneinfo -> \":UTC\" time -> -1:02:03.5 features -> 0 }",
    "metric a.word { name -> b.word pmid -> 71.*.* type if U32 -> 64 sem -> counter \
     units -> 1,-1,0,KBYTE,SEC,0 rescale indom -> 70.2 output inst 3 }\n\
     metric 70.*.* { extraunits -> 0,0,0,0,0,ONE,POWER,mW } metric a.text { \
     value replace /t(e)x/ -> \"\\1&\" indom -> null output iname \"x1\" }",
    "indom 70.* { indom -> duplicate 71.* inst 0 -> 9 iname \"x1\" -> delete } # comment\n\
     indom 70.1 { iname replace \"x\" -> /y/ } indom 70.2 { iname redact }",
    "text metric 70.*.* all \"help\" { text -> \"a \\\"b\\\"\" metric -> 71.*.* }\n\
     label context \"a\" \"1\" { value -> 2.5 new \"b\" null }\n\
     label instances 70.1 \"x1\" * { instance -> 3 instances -> 71.* delete }",
];

/// All seeds, each with the name of its target.
pub fn all() -> Vec<(&'static str, Vec<u8>)> {
    let mut seeds = Seeds(Vec::new());
    seeds.archives(test_archives::of_every_kind().directory());
    seeds.archives(growing().directory());
    seeds.mmv_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/mmv"));
    seeds.put("mmv", growing_file());
    for text in RULES {
        seeds.put("rules", text.as_bytes().to_vec());
    }
    for highres in [false, true] {
        seeds.event(&event_array(highres));
    }
    if let Some(corpus) = std::env::var_os("MMV_CORPUS").map(PathBuf::from) {
        for directory in ["archives", "badarchives"] {
            seeds.archives(&corpus.join(directory));
        }
        for directory in ["mmv", "mmv/bad"] {
            seeds.mmv_files(&corpus.join(directory));
        }
    }
    seeds.0
}

/// An archive with counters that grow, wrap and start again, and gauges, over some intervals.
fn growing() -> test_archives::TestArchive {
    let mut builder = Builder::new()
        .metric("a.word", "u32 counter count")
        .metric("a.long", "u64 counter count")
        .metric("a.float", "float instant none")
        .metric("a.double", "double instant none")
        .instances("a.long", ["x0", "x1"]);
    for second in 0..10_u32 {
        if second == 5 {
            builder = builder.mark(4.5);
        }
        let cells = [
            ("a.word", Cell::from((u32::MAX - 5).wrapping_add(second))),
            ("a.long[x0]", Cell::from(u64::from(10 * (second % 7)))),
            ("a.long[x1]", Cell::from(u64::from(second))),
            ("a.float", Cell::from(f64::from(second) / 2.0)),
            ("a.double", Cell::from(f64::from(second % 3))),
        ];
        builder = builder.row(second, cells.into_iter().take(2 + second as usize % 4));
    }
    builder.finish()
}

/// A growing MMV file with a value for each of two instances, the second of which is not announced.
#[must_use]
pub fn growing_file() -> Vec<u8> {
    const GENERATION: u64 = 7;
    // Labels, values, metrics, indoms twice, instances twice, strings twice.
    const SECTIONS: [(u64, u64, u64); 9] = [
        (6, 0, 0x400),
        (4, 1, 0x800),
        (3, 1, 0x600),
        (1, 0, 0),
        (1, 1, 0x300),
        (2, 0, 0),
        (2, 1, 0x200),
        (5, 0, 0),
        (5, 2, 0x1000),
    ];
    let mut bytes = vec![0; 0x1400];
    let mut put = |at: usize, words: &[u64]| {
        for (place, word) in bytes[at..].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
    };
    let halves = |first: u64, second: u64| first | second << 32;
    let magic = u64::from(u32::from_le_bytes(*b"MMV\0"));
    put(0, &[halves(magic, 3), GENERATION, GENERATION, SECTIONS.len() as u64, 0]);
    for (number, (kind, count, offset)) in SECTIONS.into_iter().enumerate() {
        put(40 + 16 * number, &[halves(kind, count), offset]);
    }
    for number in 0..2 {
        let text = 0x1100 + 0x100 * number;
        put(text as usize, &[u64::from(b'a') + number]);
        put(0x200 + 24 * number as usize, &[0x300 + 32 * number, halves(number, 5 + number), text]);
        put(0x300 + 32 * number as usize, &[halves(9, 1), 0x200 + 24 * number, 0, 0]);
        put(0x800 + 32 * number as usize, &[40 + number, 0, 0x600, 0x200 + 24 * number]);
    }
    put(0x1000, &[u64::from_le_bytes(*b"count\0\0\0")]);
    // An unsigned counter of 64 bits, item 1.
    put(0x600, &[0x1000, halves(1, 3), halves(1, 0), halves(9, 0), 0, 0]);
    bytes
}

fn event_array(highres: bool) -> OwnedValue {
    let mut array = if highres { EventArrayBuilder::highres() } else { EventArrayBuilder::new() };
    let pmid = Pmid::new(70, 1, 1).expect("numbers in range");
    let values = [
        Value::I32(-1),
        Value::U64(7),
        Value::Float(0.5),
        Value::Double(0.25),
        Value::String(b"/index"),
        Value::Aggregate(b"ag"),
    ];
    let flags = EventFlags::START | EventFlags::ID;
    let mut record = array.record(at(0), flags).expect("room");
    for value in values {
        record = record.parameter(pmid, value).expect("room");
    }
    record.missed(at(1), 3).expect("room");
    array.record(at(2), EventFlags::NONE).expect("room");
    array.finish()
}

struct Seeds(Vec<(&'static str, Vec<u8>)>);

impl Seeds {
    fn put(&mut self, target: &'static str, bytes: Vec<u8>) {
        if bytes.len() <= MAX_BYTES {
            self.0.push((target, bytes));
        }
    }

    fn event(&mut self, value: &OwnedValue) {
        match value {
            OwnedValue::Event(bytes) => self.put("event", [&[0], bytes.as_slice()].concat()),
            OwnedValue::HighresEvent(bytes) => self.put("event", [&[OTHER], &bytes[..]].concat()),
            _ => {}
        }
    }

    /// Every archive of a directory that has a `.meta` file which is not
    /// compressed.
    fn archives(&mut self, directory: &Path) {
        for path in files(directory) {
            if path.extension().is_some_and(|extension| extension == "meta") {
                self.archive(&path.with_extension(""));
            }
        }
    }

    fn archive(&mut self, base: &Path) {
        let file = |extension: &str| {
            let mut name = base.as_os_str().to_owned();
            name.push(extension);
            fs::read(name).unwrap_or_default()
        };
        let [meta, first, second, index] = [".meta", ".0", ".1", ".index"].map(file);
        let version = if meta.get(7) == Some(&2) { OTHER } else { 0 };
        let label = split::label_len(version == OTHER);
        for (target, file) in [("metadata", &meta), ("result", &first)] {
            let Some((label, file)) = file.split_at_checked(label) else { continue };
            self.put("label", label.to_vec());
            for record in records(file).take(MAX_RECORDS) {
                self.put(target, [&[version], record].concat());
                let body = &record[4..record.len() - 4];
                self.put(target, [&[version | FRAME], body].concat());
            }
        }
        if let Some(entries) = index.get(label..) {
            self.put("index", [&[version], entries].concat());
        }
        if let Some(whole) = split::join(version == OTHER, [&meta, &first, &second, &index]) {
            self.put("archive", whole.clone());
            self.put("reduce", whole);
        }
        self.events(base);
    }

    fn events(&mut self, base: &Path) {
        let Ok(archive) = Archive::open(base) else { return };
        let Ok(mut records) = archive.records() else { return };
        for _ in 0..MAX_RECORDS {
            let Ok(Some(record)) = records.next() else { return };
            let Ok(result) = record.to_owned(archive.metadata()) else { continue };
            for (_, value) in result.value_sets.iter().flat_map(|set| set.values.iter().flatten()) {
                self.event(value);
            }
        }
    }

    fn mmv_files(&mut self, directory: &Path) {
        for path in files(directory) {
            if let Ok(bytes) = fs::read(path)
                && bytes.starts_with(b"MMV")
            {
                self.put("mmv", bytes);
            }
        }
    }
}

/// The records of a file, as long as their lengths make sense.
fn records(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let len = u32::from_be_bytes(*bytes.first_chunk()?) as usize;
        let (record, rest) = bytes.split_at_checked(len).filter(|_| len >= 8)?;
        bytes = rest;
        Some(record)
    })
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort_unstable();
    paths
}
