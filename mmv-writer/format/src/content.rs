//! The content of a file, and its bytes, for programs that write both at once.
//!
//! The strings are, in this order: names of instances and of metrics (versions 2
//! and 3), room for the texts of values, help of metrics, help of domains. That is
//! the order of libpcp_mmv (`mmv_init` of `src/libpcp_mmv/src/mmv_stats.c`).

use std::ops::Range;

use zerocopy::IntoBytes;

use crate::layout::{
    Header, IndomEntry, InstanceV1, InstanceV2, LabelEntry, MetricV1, MetricV2, NAME_BYTES,
    STRING_BYTES, SectionKind, TocEntry, ValueEntry, Version,
};

/// Everything in a file except its header. Texts are of a type that the program chooses, without
/// NULs.
#[derive(Debug, Default)]
pub struct Content<T> {
    /// Instance domains.
    pub indoms: Vec<IndomContent<T>>,
    /// Metrics.
    pub metrics: Vec<MetricContent<T>>,
    /// Values. `None` is an entry that is not in use.
    pub values: Vec<Option<Value>>,
    /// Labels, in version 3 only.
    pub labels: Vec<LabelEntry>,
}

/// An instance domain.
#[derive(Debug)]
pub struct IndomContent<T> {
    /// The domain's number within the file.
    pub serial: u32,
    /// The help texts.
    pub help: Help<T>,
    /// Numbers and names of the instances.
    pub instances: Vec<(i32, T)>,
}

/// A metric, with the fields of [`MetricV2`].
#[derive(Debug)]
pub struct MetricContent<T> {
    /// The name.
    pub name: T,
    /// The item number of its PMID.
    pub item: u32,
    /// The code of the type of its values.
    pub type_code: i32,
    /// The code of the semantics of its values.
    pub semantics: i32,
    /// The `pmUnits` word.
    pub units: u32,
    /// The serial of its instance domain; 0 or all ones for a singular metric.
    pub indom: u32,
    /// The help texts.
    pub help: Help<T>,
}

/// The help texts of a metric or domain.
#[derive(Debug, Default, Clone)]
pub struct Help<T> {
    /// The one-line text.
    pub short: Option<T>,
    /// The long text.
    pub long: Option<T>,
}

/// The entry of a value.
#[derive(Debug)]
pub struct Value {
    /// Index of its metric.
    pub metric: usize,
    /// Index of its instance among those of all domains.
    pub instance: Option<usize>,
    /// True if the value is a text, which needs a string.
    pub is_text: bool,
}

/// The bytes of a file after its header.
#[derive(Debug)]
pub struct Image {
    /// The table of contents, in the order of the section codes.
    pub toc: Vec<TocEntry>,
    /// Domains, instances and metrics, without gaps.
    pub metadata: Vec<u8>,
    /// Values, with cells that are 0.
    pub values: Vec<ValueEntry>,
    /// Strings and labels, without gaps.
    pub texts: Vec<u8>,
    /// Offset of the texts of values, which follow each other in the order of the values.
    pub value_texts: u64,
}

impl<T> Content<T> {
    /// Returns the indexes, among the instances of all domains, of those of the first domain with
    /// a serial.
    pub fn instances_of(&self, serial: u32) -> Option<Range<usize>> {
        let mut first = 0;
        for indom in &self.indoms {
            let end = first + indom.instances.len();
            if indom.serial == serial {
                return Some(first..end);
            }
            first = end;
        }
        None
    }

    /// Returns the names of all instances.
    pub fn instance_names(&self) -> impl Iterator<Item = &T> {
        self.indoms.iter().flat_map(|indom| &indom.instances).map(|(_, name)| name)
    }
}

impl<T> MetricContent<T> {
    /// Returns the entry in a file of version 2 or 3, with the offsets of its name and its
    /// help texts.
    pub fn entry(&self, name: u64, [short_help, long_help]: [u64; 2]) -> MetricV2 {
        MetricV2 {
            name,
            item: self.item,
            type_code: self.type_code,
            semantics: self.semantics,
            units: self.units,
            indom: self.indom,
            padding: 0,
            short_help,
            long_help,
        }
    }
}

impl<T: AsRef<[u8]>> Content<T> {
    /// Encodes all this in a version that can hold it; names that are too long are cut. The
    /// sections follow the table of contents without gaps, but for values with an offset of their
    /// own, which the others follow.
    pub fn encode(&self, version: Version, values_at: Option<u64>) -> Image {
        let texts = Texts::new(self, version);
        let places = Places::new(self, version, texts.entries.len(), values_at);
        let mut strings = Vec::with_capacity(texts.entries.len() * STRING_BYTES);
        strings.extend(texts.entries.iter().flat_map(|text| padded::<STRING_BYTES>(text)));
        strings.extend(self.labels.as_bytes());
        Image {
            metadata: [
                self.indom_entries(&places, &texts),
                self.instance_entries(&places),
                self.metric_entries(&places, &texts),
            ]
            .concat(),
            values: self.value_entries(&places, &texts),
            texts: strings,
            value_texts: places.entry(SectionKind::Strings, texts.values),
            toc: places.toc,
        }
    }

    fn indom_entries(&self, places: &Places, texts: &Texts) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut first = 0;
        for (indom, help) in self.indoms.iter().zip(&texts.indom_help) {
            let [short_help, long_help] = places.help(*help);
            let entry = IndomEntry {
                serial: indom.serial,
                count: indom.instances.len() as u32,
                instances: places.entry(SectionKind::Instances, first),
                short_help,
                long_help,
            };
            bytes.extend(entry.as_bytes());
            first += indom.instances.len();
        }
        bytes
    }

    fn instance_entries(&self, places: &Places) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut texts = 0..;
        for (index, of_indom) in self.indoms.iter().enumerate() {
            let indom = places.entry(SectionKind::Indoms, index);
            for ((id, name), text) in of_indom.instances.iter().zip(&mut texts) {
                let id = *id;
                if places.version == Version::V1 {
                    let name = padded(name.as_ref());
                    bytes.extend(InstanceV1 { indom, padding: 0, id, name }.as_bytes());
                } else {
                    let name = places.entry(SectionKind::Strings, text);
                    bytes.extend(InstanceV2 { indom, reuses: 0, id, name }.as_bytes());
                }
            }
        }
        bytes
    }

    fn metric_entries(&self, places: &Places, texts: &Texts) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (index, (metric, help)) in self.metrics.iter().zip(&texts.metric_help).enumerate() {
            let name = places.entry(SectionKind::Strings, texts.metric_names + index);
            let entry = metric.entry(name, places.help(*help));
            if places.version == Version::V1 {
                bytes.extend(padded::<NAME_BYTES>(metric.name.as_ref()));
                // After the name, both versions of an entry are the same.
                bytes.extend(entry.as_bytes().iter().skip(size_of_val(&entry.name)));
            } else {
                bytes.extend(entry.as_bytes());
            }
        }
        bytes
    }

    fn value_entries(&self, places: &Places, texts: &Texts) -> Vec<ValueEntry> {
        let mut text = texts.values;
        let entries = self.values.iter().map(|value| {
            let mut entry = ValueEntry { cell: 0, extra: 0, metric: 0, instance: 0 };
            if let Some(Value { metric, instance, is_text }) = *value {
                entry.metric = places.entry(SectionKind::Metrics, metric);
                let at = |instance| places.entry(SectionKind::Instances, instance);
                entry.instance = instance.map_or(0, at);
                if is_text {
                    entry.extra = places.entry(SectionKind::Strings, text).cast_signed();
                    text += 1;
                }
            }
            entry
        });
        entries.collect()
    }
}

const _: () = assert!(size_of::<MetricV1>() - NAME_BYTES == size_of::<MetricV2>() - 8);

/// The texts of the strings section, and their indexes in it.
struct Texts<'a> {
    /// All texts; the instances' names come first.
    entries: Vec<&'a [u8]>,
    /// Index of the first metric's name.
    metric_names: usize,
    /// Index of the first text of a value.
    values: usize,
    /// Indexes of both help texts of each metric.
    metric_help: Vec<[Option<usize>; 2]>,
    /// Indexes of both help texts of each domain.
    indom_help: Vec<[Option<usize>; 2]>,
}

impl<'a> Texts<'a> {
    fn new<T: AsRef<[u8]>>(content: &'a Content<T>, version: Version) -> Self {
        let mut entries: Vec<&[u8]> = Vec::new();
        if version != Version::V1 {
            entries.extend(content.instance_names().map(AsRef::as_ref));
        }
        let metric_names = entries.len();
        if version != Version::V1 {
            entries.extend(content.metrics.iter().map(|metric| metric.name.as_ref()));
        }
        let values = entries.len();
        let of_values = content.values.iter().flatten().filter(|value| value.is_text);
        entries.resize(values + of_values.count(), b"");
        let mut add = |help: &'a Help<T>| {
            [&help.short, &help.long].map(|text| {
                entries.push(text.as_ref()?.as_ref());
                Some(entries.len() - 1)
            })
        };
        let metric_help = content.metrics.iter().map(|metric| add(&metric.help)).collect();
        let indom_help = content.indoms.iter().map(|indom| add(&indom.help)).collect();
        Self { entries, metric_names, values, metric_help, indom_help }
    }
}

/// The offsets of entries.
struct Places {
    version: Version,
    toc: Vec<TocEntry>,
}

impl Places {
    /// Places the sections. There are both domains and instances or neither, and strings and
    /// labels only if there are any.
    fn new<T>(
        content: &Content<T>,
        version: Version,
        strings: usize,
        values_at: Option<u64>,
    ) -> Self {
        let counts = SectionKind::ALL.map(|kind| match kind {
            SectionKind::Indoms => content.indoms.len(),
            SectionKind::Instances => content.instance_names().count(),
            SectionKind::Metrics => content.metrics.len(),
            SectionKind::Values => content.values.len(),
            SectionKind::Strings => strings,
            SectionKind::Labels => content.labels.len(),
        });
        let sections =
            SectionKind::ALL.into_iter().zip(counts).filter(|(kind, count)| match kind {
                SectionKind::Indoms | SectionKind::Instances => !content.indoms.is_empty(),
                SectionKind::Metrics | SectionKind::Values => true,
                SectionKind::Strings | SectionKind::Labels => *count > 0,
            });
        let values_end = values_at.map(|at| at + (content.values.len() * ValueEntry::BYTES) as u64);
        let after_toc = Header::BYTES + sections.clone().count() * TocEntry::BYTES;
        let mut end = values_end.unwrap_or(after_toc as u64);
        let toc = sections.map(|(kind, count)| {
            let mut offset = end;
            match values_at {
                Some(at) if kind == SectionKind::Values => offset = at,
                _ => end += (count * kind.entry_bytes(version)) as u64,
            }
            TocEntry { kind: kind.code(), count: count as i32, offset }
        });
        Self { version, toc: toc.collect() }
    }

    /// Returns the offset of an entry of a section that is there.
    fn entry(&self, kind: SectionKind, index: usize) -> u64 {
        let start = self.toc.iter().find(|entry| entry.kind == kind.code());
        start.map_or(0, |start| start.offset) + (index * kind.entry_bytes(self.version)) as u64
    }

    /// Returns the offsets of both help texts of a metric or domain; 0 for none.
    fn help(&self, texts: [Option<usize>; 2]) -> [u64; 2] {
        texts.map(|text| text.map_or(0, |text| self.entry(SectionKind::Strings, text)))
    }
}

/// Copies `text`, cut to leave room for a NUL, into `N` bytes, padded with NULs.
fn padded<const N: usize>(text: &[u8]) -> [u8; N] {
    let mut bytes = [0; N];
    for (to, from) in bytes.iter_mut().take(N - 1).zip(text) {
        *to = *from;
    }
    bytes
}
