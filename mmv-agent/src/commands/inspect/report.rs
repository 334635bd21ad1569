//! The report on an MMV file.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use mmv_format::layout::{self, SectionKind, TocEntry};
use mmv_format::view::{self, Contents, Flags, LabelClass, Limits};
use serde::Serialize;
use zerocopy::FromBytes;

use super::values::value_of;
use crate::metadata::complete_name;

/// Limit on shown entries of the table of contents, since the header may claim any number.
const TOC_SHOWN: usize = 64;

/// The result of `inspect`.
#[derive(Debug, Default, Serialize)]
pub(crate) struct MmvReport {
    /// Path as given.
    pub file: String,
    pub size: u64,
    /// Reason why the file as a whole is refused. The report then has the header and the table of
    /// contents as far as they can be read, unchecked.
    pub refusal: Option<String>,
    pub header: Option<Header>,
    /// Table of contents.
    pub toc: Vec<Section>,
    pub indoms: Vec<Indom>,
    pub metrics: Vec<Metric>,
    pub labels: Vec<LabelReport>,
    /// The first entries that are left out.
    pub skipped: Vec<Flaw>,
    /// Number of further entries that are left out.
    pub unlisted: usize,
    /// Metrics that are not logged because their complete name, which begins with the file name,
    /// is not a metric name.
    pub misnamed: Vec<String>,
}

/// The fields of the header as they are in the file.
#[derive(Debug, Serialize)]
pub(crate) struct Header {
    pub version: i32,
    pub generations: [u64; 2],
    pub flags: u32,
    /// Names of the bits in `flags`.
    pub flag_names: Vec<&'static str>,
    pub pid: i32,
    pub cluster: i32,
    /// Number of entries in the table of contents.
    pub toc_count: i32,
}

/// An entry of the table of contents.
#[derive(Debug, Serialize)]
pub(crate) struct Section {
    /// Code of the section.
    pub kind: i32,
    /// Name of the section, if the code is known.
    pub name: Option<String>,
    /// Number of entries.
    pub count: i32,
    pub offset: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Indom {
    /// Number within the file.
    pub serial: u32,
    pub short_help: Option<String>,
    pub long_help: Option<String>,
    pub instances: Vec<Instance>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Instance {
    pub id: i32,
    pub name: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct Metric {
    pub item: u32,
    /// Name in the file, without the file name.
    pub name: String,
    /// Complete name, if it is a metric name.
    pub complete_name: Option<String>,
    /// Type of the values.
    #[serde(rename = "type")]
    pub kind: String,
    pub semantics: String,
    pub units: String,
    /// Serial of the instance domain.
    pub indom: Option<u32>,
    pub short_help: Option<String>,
    pub long_help: Option<String>,
    pub values: Vec<Value>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Value {
    /// Number of the instance.
    pub instance: Option<i32>,
    /// Offset of its eight bytes.
    pub offset: u64,
    /// Offset of its text, for a string.
    pub string_offset: Option<u64>,
    /// The value; null for "no value". Numbers that JSON cannot represent are strings.
    #[serde(rename = "value")]
    pub content: serde_json::Value,
}

#[derive(Debug, Serialize)]
pub(crate) struct LabelReport {
    /// "cluster", "indom", "item" or "instance".
    pub class: &'static str,
    /// Number of the object it is attached to, within the class.
    pub identity: u32,
    /// Number of the instance.
    pub instance: Option<i32>,
    /// True if it does not identify, but only describes.
    pub optional: bool,
    pub name: String,
    /// Value as JSON.
    pub value: String,
}

/// An entry that is left out.
#[derive(Debug, Serialize)]
pub(crate) struct Flaw {
    pub section: String,
    /// Index in the section, from 0.
    pub index: usize,
    pub offset: u64,
    /// Description with the found and expected numbers.
    pub problem: String,
}

impl MmvReport {
    /// Reports on an open file, whose path is `path`.
    pub(crate) fn new(path: &Path, file: &File) -> Self {
        let size = file.metadata().map_or(0, |metadata| metadata.len());
        // A file with another magic number has no header.
        let head = read_header(file).filter(|head| head.magic == layout::MAGIC);
        let toc = head.as_ref().map_or_else(Vec::new, |head| read_toc(file, head.toc_count));
        let mut report = Self {
            file: path.display().to_string(),
            size,
            header: head.as_ref().map(header),
            toc,
            ..Self::default()
        };
        match Contents::read(file, &Limits::default()) {
            Ok(contents) => report.fill(path, file, &contents),
            Err(refusal) => report.refusal = Some(refusal.to_string()),
        }
        report
    }

    fn fill(&mut self, path: &Path, file: &File, contents: &Contents) {
        let stem = path.file_name().unwrap_or_default();
        self.indoms = contents.indoms.iter().map(indom).collect();
        self.metrics = metrics(stem, file, contents, &mut self.misnamed);
        self.labels = contents.labels.iter().map(label).collect();
        let flaws = contents.skipped.iter().map(|defect| Flaw {
            section: defect.section.to_string(),
            index: defect.index,
            offset: defect.offset,
            problem: defect.problem.to_string(),
        });
        self.skipped = flaws.collect();
        self.unlisted = contents.unlisted;
    }
}

fn read_header(file: &File) -> Option<layout::Header> {
    let mut bytes = [0; layout::Header::BYTES];
    file.read_exact_at(&mut bytes, 0).ok()?;
    layout::Header::read_from_bytes(&bytes).ok()
}

fn header(head: &layout::Header) -> Header {
    let flags = Flags::from_raw(head.flags);
    let names = [
        (Flags::NO_PREFIX, "NOPREFIX"),
        (Flags::PROCESS, "PROCESS"),
        (Flags::SENTINEL, "SENTINEL"),
    ];
    let set = names.into_iter().filter(|(flag, _)| flags.contains(*flag));
    Header {
        version: head.version,
        generations: [head.generation1, head.generation2],
        flags: head.flags,
        flag_names: set.map(|(_, name)| name).collect(),
        pid: head.pid,
        cluster: head.cluster,
        toc_count: head.toc_count,
    }
}

fn read_toc(file: &File, count: i32) -> Vec<Section> {
    let count = usize::try_from(count).unwrap_or(0).min(TOC_SHOWN);
    let entries = (0..count).map_while(|index| {
        let mut bytes = [0; TocEntry::BYTES];
        let at = layout::Header::BYTES + index * TocEntry::BYTES;
        file.read_exact_at(&mut bytes, at as u64).ok()?;
        TocEntry::read_from_bytes(&bytes).ok()
    });
    let sections = entries.map(|entry| Section {
        kind: entry.kind,
        name: SectionKind::from_code(entry.kind).map(|kind| kind.to_string()),
        count: entry.count,
        offset: entry.offset,
    });
    sections.collect()
}

fn indom(found: &view::Indom) -> Indom {
    let instances = found.instances.iter();
    let instances =
        instances.map(|one| Instance { id: one.id.get(), name: one.name.clone() }).collect();
    Indom {
        serial: found.serial,
        short_help: found.short_help.clone(),
        long_help: found.long_help.clone(),
        instances,
    }
}

fn metrics(
    stem: &OsStr,
    file: &File,
    contents: &Contents,
    misnamed: &mut Vec<String>,
) -> Vec<Metric> {
    let no_prefix = contents.header.flags.contains(Flags::NO_PREFIX);
    let mut metrics = Vec::with_capacity(contents.metrics.len());
    for metric in &contents.metrics {
        let complete = complete_name(stem, no_prefix, &metric.name);
        let complete = complete.map_err(|error| misnamed.push(error.to_string())).ok();
        metrics.push(describe(metric, complete));
    }
    let sentinel = contents.header.flags.contains(Flags::SENTINEL);
    for entry in &contents.values {
        let kind = contents.metrics.get(entry.metric).map(|metric| metric.kind);
        if let (Some(metric), Some(kind)) = (metrics.get_mut(entry.metric), kind) {
            metric.values.push(Value {
                instance: entry.instance.map(pcp_types::InstanceId::get),
                offset: entry.cell,
                string_offset: entry.string,
                content: value_of(file, kind, entry, sentinel),
            });
        }
    }
    metrics
}

/// Describes a metric without its values.
fn describe(metric: &view::Metric, complete_name: Option<String>) -> Metric {
    Metric {
        item: metric.item,
        name: metric.name.clone(),
        complete_name,
        kind: match metric.kind {
            view::MetricKind::Elapsed => "elapsed".to_owned(),
            kind => kind.value_type().to_string(),
        },
        semantics: metric.semantics.to_string(),
        units: metric.units.to_string(),
        indom: metric.indom,
        short_help: metric.short_help.clone(),
        long_help: metric.long_help.clone(),
        values: Vec::new(),
    }
}

fn label(found: &view::Label) -> LabelReport {
    LabelReport {
        class: match found.class {
            LabelClass::Cluster => "cluster",
            LabelClass::Indom => "indom",
            LabelClass::Item => "item",
            LabelClass::Instances => "instance",
        },
        identity: found.identity,
        instance: found.instance.map(pcp_types::InstanceId::get),
        optional: found.optional,
        name: found.name.clone(),
        value: found.json_value.clone(),
    }
}
