//! From what was registered to bytes: where each section is and what is in it.
//!
//! Pure: no file, no mapping. The values section comes first, right behind the
//! room for six table entries, so that a value's place is known when it is
//! registered, whatever comes after it:
//!
//! | at | what |
//! |---|---|
//! | 0 | header |
//! | 40 | table of contents, up to six entries |
//! | 136 | unused |
//! | 160 | values, 32 bytes each |
//! | behind them | indoms, instances, metrics, strings, labels, without gaps |
//!
//! The strings begin with the texts of string values, in the values' order, so
//! the part of the strings that changes is contiguous.

use pcp_types::InstanceId;
use zerocopy::IntoBytes;

use crate::layout::{
    Header, IndomEntry, InstanceV1, InstanceV2, LabelEntry, MetricV1, MetricV2, NAME_BYTES,
    STRING_BYTES, SectionKind, TocEntry, ValueEntry, Version, nul_padded,
};
use crate::registry::model::{Help, LabelRecord, MetricRecord, Model, ValueRecord};

/// Where the values section starts: the first multiple of a value entry's size
/// behind the header and six table entries.
pub(crate) const VALUES_AT: u64 = 160;

const _: () = assert!(Header::BYTES + 6 * TocEntry::BYTES <= VALUES_AT as usize);
const _: () = assert!(VALUES_AT.is_multiple_of(size_of::<ValueEntry>() as u64));

/// Bytes of a value entry.
pub(crate) const VALUE_BYTES: u64 = size_of::<ValueEntry>() as u64;

/// Where the entry of a value stands, by its index.
pub(crate) fn value_at(index: usize) -> u64 {
    VALUES_AT + index as u64 * VALUE_BYTES
}

/// Value entries in a cache line.
pub(crate) const VALUES_PER_LINE: usize = 2;

/// The first index from `index` on whose entry starts a cache line.
pub(crate) fn line_start(index: usize) -> usize {
    let line = VALUES_PER_LINE as u64 * VALUE_BYTES;
    if value_at(index).is_multiple_of(line) { index } else { index + 1 }
}

/// What a value entry says besides its cell; all zero in one that is unused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Link {
    /// The string entry of a text. Other values have their `extra` already: an
    /// interval may be running in it.
    pub(crate) extra: Option<u64>,
    pub(crate) metric: u64,
    pub(crate) instance: u64,
}

/// A file's content, but for its cells, its generations and who writes it.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The table of contents.
    pub(crate) toc: Vec<TocEntry>,
    /// Everything behind the values, in one piece.
    pub(crate) tail: Vec<u8>,
    /// Where the tail starts.
    pub(crate) tail_at: u64,
    /// One for each value.
    pub(crate) links: Vec<Link>,
    /// Where the strings section starts: the texts of string values.
    pub(crate) texts_at: u64,
    /// How many texts there are.
    pub(crate) texts: usize,
}

impl Plan {
    /// The plan for a model in a version that can hold it.
    pub(crate) fn new(model: &Model, version: Version) -> Self {
        let places = Places::new(model, version);
        let mut strings = Strings::new(places.strings);
        let values = model.values.iter().flatten();
        let texts = values.filter(|value| value.text.is_some()).count();
        for _ in 0..texts {
            strings.add("");
        }
        let mut sections: [Vec<u8>; 6] = Default::default();
        sections[SectionKind::Indoms as usize] = encode_indoms(model, &places, &mut strings);
        sections[SectionKind::Instances as usize] = encode_instances(model, &places, &mut strings);
        sections[SectionKind::Metrics as usize] = encode_metrics(model, version, &mut strings);
        sections[SectionKind::Labels as usize] =
            model.labels.iter().flat_map(encode_label).collect();
        sections[SectionKind::Strings as usize] = strings.bytes;
        let links = places.links(model);
        let (toc, tail) = places.assemble(version, model.values.len(), sections);
        let tail_at = value_at(model.values.len());
        Self { toc, tail, tail_at, links, texts_at: places.strings, texts }
    }

    /// The file's size.
    pub(crate) fn file_len(&self) -> u64 {
        self.tail_at + self.tail.len() as u64
    }
}

/// Where the sections start. Labels stand behind the strings, whose number is
/// known only when all else is encoded.
struct Places {
    indoms: u64,
    instances: u64,
    metrics: u64,
    strings: u64,
    instance_bytes: u64,
    metric_bytes: u64,
    /// Index of each domain's first instance in the instances section.
    first_instance: Vec<u64>,
}

impl Places {
    fn new(model: &Model, version: Version) -> Self {
        let instance_bytes = SectionKind::Instances.entry_bytes(version) as u64;
        let metric_bytes = SectionKind::Metrics.entry_bytes(version) as u64;
        let mut first_instance = Vec::with_capacity(model.indoms.len());
        let mut total = 0;
        for indom in &model.indoms {
            first_instance.push(total);
            total += indom.members.list().len() as u64;
        }
        let indoms = value_at(model.values.len());
        let instances = indoms + (model.indoms.len() * size_of::<IndomEntry>()) as u64;
        let metrics = instances + total * instance_bytes;
        let strings = metrics + model.metrics.len() as u64 * metric_bytes;
        Self { indoms, instances, metrics, strings, instance_bytes, metric_bytes, first_instance }
    }

    fn indom(&self, index: usize) -> u64 {
        self.indoms + (index * size_of::<IndomEntry>()) as u64
    }

    fn instance(&self, indom: usize, index: usize) -> u64 {
        let first = self.first_instance.get(indom).copied().unwrap_or(0);
        self.instances + (first + index as u64) * self.instance_bytes
    }

    fn links(&self, model: &Model) -> Vec<Link> {
        let mut text_at = self.strings;
        let link = |value: &Option<ValueRecord>| {
            let Some(value) = value else { return Link::default() };
            let extra = value.text.is_some().then_some(text_at);
            if extra.is_some() {
                text_at += STRING_BYTES as u64;
            }
            Link {
                extra,
                metric: self.metrics + value.metric as u64 * self.metric_bytes,
                instance: value.instance.map_or(0, |(indom, index)| self.instance(indom, index)),
            }
        };
        model.values.iter().map(link).collect()
    }

    /// The table of contents, in the order of the section codes, and the
    /// sections behind the values in one piece.
    fn assemble(
        &self,
        version: Version,
        values: usize,
        sections: [Vec<u8>; 6],
    ) -> (Vec<TocEntry>, Vec<u8>) {
        let strings = sections[SectionKind::Strings as usize].len() as u64;
        let has_indoms = !sections[SectionKind::Indoms as usize].is_empty();
        let mut toc = Vec::new();
        let mut tail = Vec::with_capacity(sections.iter().map(Vec::len).sum());
        for (kind, bytes) in SectionKind::ALL.into_iter().zip(sections) {
            let (offset, wanted) = match kind {
                SectionKind::Indoms => (self.indoms, has_indoms),
                SectionKind::Instances => (self.instances, has_indoms),
                SectionKind::Metrics => (self.metrics, true),
                SectionKind::Values => (VALUES_AT, true),
                SectionKind::Strings => (self.strings, !bytes.is_empty()),
                SectionKind::Labels => (self.strings + strings, !bytes.is_empty()),
            };
            let count = match kind {
                SectionKind::Values => values,
                _ => bytes.len() / kind.entry_bytes(version),
            };
            if wanted {
                toc.push(TocEntry { kind: kind.code(), count: count as i32, offset });
            }
            tail.extend_from_slice(&bytes);
        }
        (toc, tail)
    }
}

/// The strings section while it grows.
struct Strings {
    start: u64,
    bytes: Vec<u8>,
}

impl Strings {
    fn new(start: u64) -> Self {
        Self { start, bytes: Vec::new() }
    }

    /// Adds an entry; its offset.
    fn add(&mut self, text: &str) -> u64 {
        let offset = self.start + self.bytes.len() as u64;
        self.bytes.extend_from_slice(&padded::<STRING_BYTES>(text));
        offset
    }

    /// Adds a help text; 0 if there is none.
    fn add_help(&mut self, text: Option<&str>) -> u64 {
        text.map_or(0, |text| self.add(text))
    }

    fn add_both(&mut self, help: &Help) -> (u64, u64) {
        (self.add_help(help.short.as_deref()), self.add_help(help.long.as_deref()))
    }
}

/// A text whose length was checked when it was registered.
fn padded<const N: usize>(text: &str) -> [u8; N] {
    nul_padded(text.as_bytes()).unwrap_or([0; N])
}

fn encode_indoms(model: &Model, places: &Places, strings: &mut Strings) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, indom) in model.indoms.iter().enumerate() {
        let (short_help, long_help) = strings.add_both(&indom.help);
        let entry = IndomEntry {
            serial: indom.serial,
            count: indom.members.list().len() as u32,
            instances: places.instance(index, 0),
            short_help,
            long_help,
        };
        bytes.extend_from_slice(entry.as_bytes());
    }
    bytes
}

fn encode_instances(model: &Model, places: &Places, strings: &mut Strings) -> Vec<u8> {
    let is_v1 = places.instance_bytes == size_of::<InstanceV1>() as u64;
    let mut bytes = Vec::new();
    for (index, indom) in model.indoms.iter().enumerate() {
        for (id, name) in indom.members.list() {
            let (indom, id) = (places.indom(index), id.get());
            if is_v1 {
                let name = padded::<NAME_BYTES>(name);
                bytes.extend_from_slice(InstanceV1 { indom, padding: 0, id, name }.as_bytes());
            } else {
                let name = strings.add(name);
                bytes.extend_from_slice(InstanceV2 { indom, padding: 0, id, name }.as_bytes());
            }
        }
    }
    bytes
}

fn encode_metrics(model: &Model, version: Version, strings: &mut Strings) -> Vec<u8> {
    let mut bytes = Vec::new();
    for metric in &model.metrics {
        if version == Version::V1 {
            bytes.extend_from_slice(metric_v1(metric, strings).as_bytes());
        } else {
            let name = strings.add(&metric.name);
            let help = strings.add_both(&metric.help);
            bytes.extend_from_slice(metric_v2(metric, name, help).as_bytes());
        }
    }
    bytes
}

fn metric_v1(metric: &MetricRecord, strings: &mut Strings) -> MetricV1 {
    let (short_help, long_help) = strings.add_both(&metric.help);
    MetricV1 {
        name: padded(&metric.name),
        item: metric.item,
        type_code: metric.type_code,
        semantics: metric.semantics.code(),
        units: metric.units.raw(),
        indom: metric.indom.unwrap_or(u32::MAX),
        padding: 0,
        short_help,
        long_help,
    }
}

/// A metric's entry, with the offsets of its name and its help texts.
pub(crate) fn metric_v2(
    metric: &MetricRecord,
    name: u64,
    (short_help, long_help): (u64, u64),
) -> MetricV2 {
    MetricV2 {
        name,
        item: metric.item,
        type_code: metric.type_code,
        semantics: metric.semantics.code(),
        units: metric.units.raw(),
        indom: metric.indom.unwrap_or(u32::MAX),
        padding: 0,
        short_help,
        long_help,
    }
}

/// A label's entry.
pub(crate) fn encode_label(label: &LabelRecord) -> Vec<u8> {
    let entry = LabelEntry {
        flags: label.flags(),
        identity: label.identity,
        instance: label.instance.map_or(-1, InstanceId::get),
        json: padded(&label.json),
    };
    entry.as_bytes().to_vec()
}
