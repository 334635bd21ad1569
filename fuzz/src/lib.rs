//! The fuzz targets: functions of bytes, and what must hold for each.
//!
//! | target | bytes | holds in addition to the absence of panics |
//! |---|---|---|
//! | `label` | a label record | what is read and written is read as the same |
//! | `metadata` | version and framing, then a record of `.meta` | |
//! | `result` | version and framing, then a data record | it has the stated number of sets and values |
//! | `index` | version, then index entries | an entry is encoded to the same bytes |
//! | `event` | resolution, then an event array | it has the stated number of records; see [`event`] |
//! | `archive` | four files, see `split.rs` | see `archive.rs` |
//! | `mmv` | an MMV file | |
//! | `reduce` | four files, see `split.rs` | what is made of them is sound, see `reduce.rs` |
//! | `rules` | rules of `convert --rules` | an error has a line and a column |
//!
//! Memory is bounded by the length of the input ([`allocator`]), but for rules, whose patterns have a
//! limit of their own. There are two
//! drivers: `tests/mutated.rs` mutates the [`seeds`] at random; `ci/fuzz` builds the
//! targets with libFuzzer, which is guided by coverage.

pub mod allocator;
mod archive;
mod reduce;
pub mod seeds;
mod split;

use std::sync::LazyLock;

use mmv_format::view::{Contents, Limits};
use pcp_archive::extract::Extract;
use pcp_archive::raw::event::{EventArray, EventArrayBuilder};
use pcp_archive::rewrite::Rules;
use pcp_archive::scan::Selection;
use pcp_archive::{Archive, OwnedValue, Source, Value, Version, fuzzing};

pub use archive::archive;
pub use reduce::reduce;

/// A function of bytes, which panics on a fault.
pub type Target = fn(&[u8]);

/// The targets by name.
pub const TARGETS: [(&str, Target); 9] = [
    ("label", label),
    ("metadata", metadata),
    ("result", result),
    ("index", index),
    ("event", event),
    ("archive", archive),
    ("mmv", mmv),
    ("reduce", reduce),
    ("rules", rules),
];

/// A first byte with this bit means version 2, or high resolution.
const OTHER: u8 = 1;
/// With this bit the target adds the length words.
const FRAME: u8 = 2;

fn version(head: u8) -> Version {
    if head & OTHER == 0 { Version::V3 } else { Version::V2 }
}

/// A record unchanged, or with length words around it, so that not every
/// mutation that changes its length breaks it.
fn framed(head: u8, bytes: &[u8]) -> Vec<u8> {
    if head & FRAME == 0 {
        return bytes.to_vec();
    }
    let len = (bytes.len() as u32 + 8).to_be_bytes();
    [&len, bytes, &len].concat()
}

/// The label of a file.
pub fn label(bytes: &[u8]) {
    allocator::within(bytes.len(), || fuzzing::label(bytes));
}

/// A record of the `.meta` file.
pub fn metadata(bytes: &[u8]) {
    let Some((&head, rest)) = bytes.split_first() else { return };
    let record = framed(head, rest);
    allocator::within(bytes.len(), || fuzzing::metadata_record(version(head), &record));
}

/// A data record.
pub fn result(bytes: &[u8]) {
    let Some((&head, rest)) = bytes.split_first() else { return };
    let record = framed(head, rest);
    allocator::within(bytes.len(), || fuzzing::result(version(head), &record));
}

/// Entries of the `.index` file.
pub fn index(bytes: &[u8]) {
    let Some((&head, rest)) = bytes.split_first() else { return };
    allocator::within(bytes.len(), || fuzzing::index(version(head), rest));
}

/// An event array. What the builder makes of its records it makes again of
/// those it made.
pub fn event(bytes: &[u8]) {
    let Some((&head, rest)) = bytes.split_first() else { return };
    let value = if head & OTHER == 0 { Value::Event(rest) } else { Value::HighresEvent(rest) };
    allocator::within(bytes.len(), || {
        let Ok(array) = EventArray::unpack(value) else { return };
        assert_eq!(array.records().count(), array.len() as usize);
        assert!(array.missed() <= u64::from(array.len()) * i32::MAX as u64);
        let Some(again) = rebuilt(array) else { return };
        let array = EventArray::unpack(again.as_value()).expect("what was built");
        assert_eq!(rebuilt(array), Some(again));
    });
}

/// Records with a value that the builder refuses, as a string with a NUL, can
/// be read, but not written.
fn rebuilt(array: EventArray<'_>) -> Option<OwnedValue> {
    let highres = array.is_highres();
    let mut builder = if highres { EventArrayBuilder::highres() } else { EventArrayBuilder::new() };
    for record in array.records() {
        assert!(record.unpacked().count() >= record.parameters().count());
        if let Some(missed) = record.missed() {
            builder.missed(record.timestamp(), missed).ok()?;
            continue;
        }
        builder.record(record.timestamp(), record.flags()).ok()?;
        for (pmid, value) in record.parameters() {
            builder.parameter(pmid, value).ok()?;
        }
    }
    Some(builder.finish())
}

/// Rules, and what they change in an archive.
pub fn rules(bytes: &[u8]) {
    static ARCHIVE: LazyLock<Archive> = LazyLock::new(|| {
        let made = test_archives::of_every_kind();
        Archive::open(made.base()).expect("an archive")
    });
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut rules = Rules::default();
    if let Err(error) = rules.parse("rules", text) {
        let message = error.to_string();
        let mut words = message.split(':').skip(1);
        let numbers = [(); 2].map(|()| words.next().and_then(|word| word.parse::<u32>().ok()));
        assert!(numbers.iter().flatten().all(|number| *number > 0) && !numbers.contains(&None));
        return;
    }
    let mut everything = Selection::new(Source::from(&*ARCHIVE));
    everything.select("");
    // What contradicts the archive is an error.
    let _ = Extract::new(everything).rules(rules).unnameable();
}

/// The metadata of a foreign MMV file.
pub fn mmv(bytes: &[u8]) {
    for writer_has_ended in [false, true] {
        allocator::within(bytes.len(), || read_mmv(bytes, writer_has_ended));
    }
}

fn read_mmv(bytes: &[u8], writer_has_ended: bool) {
    let limits = Limits { writer_has_ended, ..Limits::default() };
    let Ok(contents) = Contents::read_from(bytes, bytes.len() as u64, &limits) else { return };
    for metric in 0..contents.metrics.len().min(100) {
        contents.values_of(metric).for_each(drop);
    }
    for indom in &contents.indoms {
        assert!(contents.indom(indom.serial).is_some());
    }
}
