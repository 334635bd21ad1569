//! The bytes of a file, in libpcp_mmv's layout: the sections follow the table of
//! contents in the order of their codes, without gaps. The strings are, in this
//! order: names of instances and of metrics (versions 2 and 3), room for the texts
//! of values, help of metrics, help of domains.
//!
//! Source: `mmv_init` of `src/libpcp_mmv/src/mmv_stats.c`.

use std::ffi::CStr;

use mmv_format::layout::{
    Header, IndomEntry, InstanceV1, InstanceV2, MAGIC, MetricV1, MetricV2, NAME_BYTES,
    STRING_BYTES, SectionKind, TocEntry, ValueEntry, Version,
};
use zerocopy::IntoBytes;

use crate::content::{Content, Help, Metric};
use crate::value::TYPE_STRING;

/// The header's fields that do not depend on the content.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Identity {
    pub(crate) version: Version,
    pub(crate) cluster: i32,
    pub(crate) flags: u32,
}

/// Encodes all bytes of a file; the generations, which are set at publication, are 0.
pub(crate) fn encode(content: &Content, identity: Identity) -> Vec<u8> {
    let texts = Texts::new(content, identity.version);
    let places = Places::new(content, identity.version, &texts);
    let toc = places.toc(content);
    let header = Header {
        magic: MAGIC,
        version: identity.version.code(),
        generation1: 0,
        generation2: 0,
        toc_count: toc.len() as i32,
        flags: identity.flags,
        pid: std::process::id().cast_signed(),
        cluster: identity.cluster,
    };
    let mut file = Vec::new();
    file.extend(header.as_bytes());
    file.extend(toc.as_bytes());
    add_indoms(&mut file, content, &places, &texts);
    add_instances(&mut file, content, &places);
    add_metrics(&mut file, content, &places, &texts);
    add_values(&mut file, content, &places, &texts);
    file.extend(texts.entries.iter().flat_map(|text| padded::<STRING_BYTES>(text)));
    file.extend(content.labels.as_bytes());
    file
}

/// The texts of the strings section, and their indexes in it.
struct Texts<'a> {
    entries: Vec<&'a CStr>,
    /// Index of the first metric's name; the instances' names come before it.
    metric_names: usize,
    /// Index of the first text of a value.
    values: usize,
    /// Indexes of both help texts of each metric.
    metric_help: Vec<[Option<usize>; 2]>,
    /// Indexes of both help texts of each domain.
    indom_help: Vec<[Option<usize>; 2]>,
}

impl<'a> Texts<'a> {
    fn new(content: &'a Content, version: Version) -> Self {
        let mut entries: Vec<&CStr> = Vec::new();
        if version != Version::V1 {
            let instances = content.indoms.iter().flat_map(|indom| &indom.instances);
            entries.extend(instances.map(|(_, name)| name.as_c_str()));
        }
        let metric_names = entries.len();
        if version != Version::V1 {
            entries.extend(content.metrics.iter().map(|metric| metric.name.as_c_str()));
        }
        let values = entries.len();
        for metric in content.metrics.iter().filter(|metric| metric.type_code == TYPE_STRING) {
            entries.resize(entries.len() + values_of(content, metric), c"");
        }
        let mut add = |help: &'a Help| {
            [&help.short, &help.long].map(|text| {
                let text = text.as_deref()?;
                entries.push(text);
                Some(entries.len() - 1)
            })
        };
        let metric_help = content.metrics.iter().map(|metric| add(&metric.help)).collect();
        let indom_help = content.indoms.iter().map(|indom| add(&indom.help)).collect();
        Self { entries, metric_names, values, metric_help, indom_help }
    }
}

/// Returns the number of values of a metric.
fn values_of(content: &Content, metric: &Metric) -> usize {
    content.instances_of(metric).map_or(1, <[_]>::len)
}

/// Offsets and numbers of entries of all sections, in the order of their codes.
struct Places {
    version: Version,
    starts: [u64; 6],
    counts: [usize; 6],
}

impl Places {
    fn new(content: &Content, version: Version, texts: &Texts) -> Self {
        let counts = [
            content.indoms.len(),
            content.indoms.iter().map(|indom| indom.instances.len()).sum(),
            content.metrics.len(),
            content.metrics.iter().map(|metric| values_of(content, metric)).sum(),
            texts.entries.len(),
            content.labels.len(),
        ];
        let mut places = Self { version, starts: [0; 6], counts };
        let mut start = (Header::BYTES + places.toc(content).len() * TocEntry::BYTES) as u64;
        for ((place, kind), count) in places.starts.iter_mut().zip(SectionKind::ALL).zip(counts) {
            *place = start;
            start += (count * kind.entry_bytes(version)) as u64;
        }
        places
    }

    /// Returns the table of contents. It has both domains and instances or neither, and strings and
    /// labels only if there are any.
    fn toc(&self, content: &Content) -> Vec<TocEntry> {
        let entries = SectionKind::ALL.into_iter().zip(self.starts).zip(self.counts);
        let there = entries.filter(|((kind, _), count)| match kind {
            SectionKind::Indoms | SectionKind::Instances => !content.indoms.is_empty(),
            SectionKind::Metrics | SectionKind::Values => true,
            SectionKind::Strings | SectionKind::Labels => *count > 0,
        });
        there
            .map(|((kind, offset), count)| TocEntry {
                kind: kind.code(),
                count: count as i32,
                offset,
            })
            .collect()
    }

    /// Returns the offset of an entry.
    fn entry_offset(&self, kind: SectionKind, index: usize) -> u64 {
        let start = self.starts.get(kind as usize).copied().unwrap_or_default();
        start + (index * kind.entry_bytes(self.version)) as u64
    }

    /// Returns the offsets of both help texts of a metric or domain; 0 for none.
    fn help(&self, all: &[[Option<usize>; 2]], index: usize) -> [u64; 2] {
        let texts = all.get(index).copied().unwrap_or_default();
        texts.map(|text| text.map_or(0, |text| self.entry_offset(SectionKind::Strings, text)))
    }
}

fn add_indoms(file: &mut Vec<u8>, content: &Content, places: &Places, texts: &Texts) {
    let mut first = 0;
    for (index, indom) in content.indoms.iter().enumerate() {
        let [short_help, long_help] = places.help(&texts.indom_help, index);
        let count = indom.instances.len();
        let instances = places.entry_offset(SectionKind::Instances, first);
        let entry = IndomEntry {
            serial: indom.serial,
            count: count as u32,
            instances,
            short_help,
            long_help,
        };
        file.extend(entry.as_bytes());
        first += count;
    }
}

fn add_instances(file: &mut Vec<u8>, content: &Content, places: &Places) {
    let mut texts = 0..;
    for (index, indom) in content.indoms.iter().enumerate() {
        let indom_at = places.entry_offset(SectionKind::Indoms, index);
        for ((id, name), text) in indom.instances.iter().zip(&mut texts) {
            let indom = indom_at;
            let padding = 0;
            let id = *id;
            if places.version == Version::V1 {
                file.extend(InstanceV1 { indom, padding, id, name: padded(name) }.as_bytes());
            } else {
                let name = places.entry_offset(SectionKind::Strings, text);
                file.extend(InstanceV2 { indom, padding, id, name }.as_bytes());
            }
        }
    }
}

fn add_metrics(file: &mut Vec<u8>, content: &Content, places: &Places, texts: &Texts) {
    for (index, metric) in content.metrics.iter().enumerate() {
        let [short_help, long_help] = places.help(&texts.metric_help, index);
        let name = places.entry_offset(SectionKind::Strings, texts.metric_names + index);
        let entry = MetricV2 {
            name,
            item: metric.item,
            type_code: metric.type_code,
            semantics: metric.semantics,
            units: metric.units,
            indom: metric.indom,
            padding: 0,
            short_help,
            long_help,
        };
        if places.version == Version::V1 {
            file.extend(padded::<NAME_BYTES>(&metric.name));
            // After the name, both versions of an entry are the same.
            file.extend(entry.as_bytes().iter().skip(size_of_val(&entry.name)));
        } else {
            file.extend(entry.as_bytes());
        }
    }
}

const _: () = assert!(size_of::<MetricV1>() - NAME_BYTES == size_of::<MetricV2>() - 8);

fn add_values(file: &mut Vec<u8>, content: &Content, places: &Places, texts: &Texts) {
    let mut text = texts.values;
    for (index, metric) in content.metrics.iter().enumerate() {
        let metric_at = places.entry_offset(SectionKind::Metrics, index);
        let first = first_instance(content, metric);
        for value in 0..values_of(content, metric) {
            let mut extra = 0;
            if metric.type_code == TYPE_STRING {
                extra = places.entry_offset(SectionKind::Strings, text).cast_signed();
                text += 1;
            }
            let instance =
                first.map_or(0, |first| places.entry_offset(SectionKind::Instances, first + value));
            let entry = ValueEntry { cell: 0, extra, metric: metric_at, instance };
            file.extend(entry.as_bytes());
        }
    }
}

/// Returns the index of the first instance of a metric's domain; `None` for a singular one.
fn first_instance(content: &Content, metric: &Metric) -> Option<usize> {
    content.instances_of(metric)?;
    let before = content.indoms.iter().take_while(|indom| indom.serial != metric.indom);
    Some(before.map(|indom| indom.instances.len()).sum())
}

/// Copies `text`, cut to leave room for a NUL, into `N` bytes, padded with NULs.
fn padded<const N: usize>(text: &CStr) -> [u8; N] {
    let mut bytes = [0; N];
    for (to, from) in bytes.iter_mut().take(N - 1).zip(text.to_bytes()) {
        *to = *from;
    }
    bytes
}
