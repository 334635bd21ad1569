//! The bytes of a sealed file: where each section is and what is in it.
//!
//! In: what is registered in the file. Out: everything except the cells. Pure: no
//! file, no mapping. The values section comes first, right after the room for six
//! table entries, so that a value's place is known when it is registered,
//! whatever is registered after it:
//!
//! | at | what |
//! |---|---|
//! | 0 | header |
//! | 40 | table of contents, up to six entries |
//! | 136 | unused |
//! | 160 | values, 32 bytes each |
//! | after them | indoms, instances, metrics, strings, labels, without gaps |
//!
//! The strings begin with the texts of string values, in the values' order, so
//! the part of the strings that changes is contiguous.

use std::sync::Arc;

use mmv_format::layout::{
    Header, IndomEntry, InstanceV1, InstanceV2, MetricV1, NAME_BYTES, STRING_BYTES, SectionKind,
    TocEntry, ValueEntry, Version,
};
use zerocopy::IntoBytes;

use crate::metric::SharedText;
use crate::registration::{Help, Indom, LabelRecord, MetricRecord, padded, version_for_name};

/// Everything that goes into one file.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// Domains with their serials.
    pub(super) indoms: Vec<(Indom, u32)>,
    pub(super) metrics: Vec<MetricRecord>,
    /// In the order of their cells in the file. `None` is an unused entry, which leaves a cache
    /// line to its neighbour.
    pub(super) values: Vec<Option<ValueRecord>>,
    /// Filled when the file is written.
    pub(super) labels: Vec<LabelRecord>,
}

/// A value: its metric, its instance, and its text if it is one.
#[derive(Debug)]
pub(super) struct ValueRecord {
    /// Index into the metrics.
    pub(super) metric: usize,
    /// Index of the domain, index of the instance in it.
    pub(super) instance: Option<(usize, usize)>,
    pub(super) text: Option<Arc<SharedText>>,
}

impl Content {
    /// Returns the lowest version that can hold everything.
    pub(super) fn lowest_version(&self) -> Version {
        if !self.labels.is_empty() {
            return Version::V3;
        }
        let metrics = self.metrics.iter().map(|metric| metric.name.as_str());
        let instances = self.indoms.iter().flat_map(|(indom, _)| indom.record.members.iter());
        let instances = instances.map(|(_, name)| name.as_str());
        metrics.chain(instances).map(version_for_name).max().unwrap_or(Version::V1)
    }
}

/// Offset of the values section: the first multiple of a value entry's size after the header and
/// six table entries.
const VALUES_AT: u64 = 160;

const _: () = assert!(Header::BYTES + 6 * TocEntry::BYTES <= VALUES_AT as usize);
const _: () = assert!(VALUES_AT.is_multiple_of(size_of::<ValueEntry>() as u64));

/// Returns the offset of a value entry.
pub(super) fn value_at(index: usize) -> u64 {
    VALUES_AT + (index * ValueEntry::BYTES) as u64
}

/// The fields of a value entry besides its cell; all zero in an unused entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Link {
    /// The string entry of a text. Other values have their `extra` already: an
    /// interval may be running in it.
    pub(super) extra: Option<u64>,
    pub(super) metric: u64,
    pub(super) instance: u64,
}

/// The bytes of a file, except for its header and its cells.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) toc: Vec<TocEntry>,
    /// Everything after the values, in one piece.
    pub(super) tail: Vec<u8>,
    /// Offset of the tail.
    pub(super) tail_at: u64,
    /// Links of the value entries, one for each.
    pub(super) links: Vec<Link>,
    /// Offset of the strings section, which starts with the texts of string values.
    pub(super) texts_at: u64,
    /// Number of these texts.
    pub(super) texts: usize,
}

impl Image {
    /// Encodes a content in a version that can hold it.
    pub(super) fn new(content: &Content, version: Version) -> Self {
        let places = Places::new(content, version);
        let mut strings = Strings::new(places.strings);
        let values = content.values.iter().flatten();
        let texts = values.filter(|value| value.text.is_some()).count();
        for _ in 0..texts {
            strings.add("");
        }
        let mut sections: [Vec<u8>; 6] = Default::default();
        sections[SectionKind::Indoms as usize] = encode_indoms(content, &places, &mut strings);
        sections[SectionKind::Instances as usize] =
            encode_instances(content, &places, &mut strings);
        sections[SectionKind::Metrics as usize] = encode_metrics(content, version, &mut strings);
        sections[SectionKind::Labels as usize] =
            content.labels.iter().flat_map(|label| label.entry().as_bytes().to_vec()).collect();
        sections[SectionKind::Strings as usize] = strings.bytes;
        let links = places.links(content);
        let (toc, tail) = places.assemble(version, content.values.len(), sections);
        let tail_at = value_at(content.values.len());
        Self { toc, tail, tail_at, links, texts_at: places.strings, texts }
    }

    /// Returns the size of the file.
    pub(super) fn file_len(&self) -> u64 {
        self.tail_at + self.tail.len() as u64
    }
}

/// Offsets of the sections. Labels follow the strings, whose number is known only when everything
/// else is encoded.
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
    fn new(content: &Content, version: Version) -> Self {
        let instance_bytes = SectionKind::Instances.entry_bytes(version) as u64;
        let metric_bytes = SectionKind::Metrics.entry_bytes(version) as u64;
        let mut first_instance = Vec::with_capacity(content.indoms.len());
        let mut total = 0;
        for (indom, _) in &content.indoms {
            first_instance.push(total);
            total += indom.record.members.len() as u64;
        }
        let indoms = value_at(content.values.len());
        let instances = indoms + (content.indoms.len() * size_of::<IndomEntry>()) as u64;
        let metrics = instances + total * instance_bytes;
        let strings = metrics + content.metrics.len() as u64 * metric_bytes;
        Self { indoms, instances, metrics, strings, instance_bytes, metric_bytes, first_instance }
    }

    fn indom(&self, index: usize) -> u64 {
        self.indoms + (index * size_of::<IndomEntry>()) as u64
    }

    fn instance(&self, indom: usize, index: usize) -> u64 {
        let first = self.first_instance.get(indom).copied().unwrap_or(0);
        self.instances + (first + index as u64) * self.instance_bytes
    }

    fn links(&self, content: &Content) -> Vec<Link> {
        let mut text_at = self.strings;
        let links = content.values.iter().map(|value| {
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
        });
        links.collect()
    }

    /// Returns the table of contents, in the order of the section codes, and the sections after the
    /// values in one piece.
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

/// The strings section while it is encoded.
struct Strings {
    start: u64,
    bytes: Vec<u8>,
}

impl Strings {
    fn new(start: u64) -> Self {
        Self { start, bytes: Vec::new() }
    }

    /// Adds an entry and returns its offset.
    fn add(&mut self, text: &str) -> u64 {
        let offset = self.start + self.bytes.len() as u64;
        self.bytes.extend_from_slice(&padded::<STRING_BYTES>(text));
        offset
    }

    /// Adds a help text and returns its offset; 0 if there is none.
    fn add_help(&mut self, text: Option<&str>) -> u64 {
        text.map_or(0, |text| self.add(text))
    }

    fn add_both(&mut self, help: &Help) -> (u64, u64) {
        (self.add_help(help.short.as_deref()), self.add_help(help.long.as_deref()))
    }
}

fn encode_indoms(content: &Content, places: &Places, strings: &mut Strings) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, (indom, serial)) in content.indoms.iter().enumerate() {
        let (short_help, long_help) = strings.add_both(&indom.record.help);
        let entry = IndomEntry {
            serial: *serial,
            count: indom.record.members.len() as u32,
            instances: places.instance(index, 0),
            short_help,
            long_help,
        };
        bytes.extend_from_slice(entry.as_bytes());
    }
    bytes
}

fn encode_instances(content: &Content, places: &Places, strings: &mut Strings) -> Vec<u8> {
    let is_v1 = places.instance_bytes == size_of::<InstanceV1>() as u64;
    let mut bytes = Vec::new();
    for (index, (registered, _)) in content.indoms.iter().enumerate() {
        let indom = places.indom(index);
        for (id, name) in registered.record.members.iter() {
            let id = id.get();
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

fn encode_metrics(content: &Content, version: Version, strings: &mut Strings) -> Vec<u8> {
    let mut bytes = Vec::new();
    for metric in &content.metrics {
        if version == Version::V1 {
            bytes.extend_from_slice(metric_v1(metric, strings).as_bytes());
        } else {
            let name = strings.add(&metric.name);
            let help = strings.add_both(&metric.help);
            bytes.extend_from_slice(metric.entry(name, help).as_bytes());
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
