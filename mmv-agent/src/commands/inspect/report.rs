//! The report on an MMV file.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use mmv_format::file::read_header;
use mmv_format::layout::{self, SectionKind, TocEntry};
use mmv_format::view::{Contents, Defect, Flags, Indom, Label, Limits, Metric};
use pcp_types::InstanceId;
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
    pub metrics: Vec<MetricValues>,
    pub labels: Vec<Label>,
    /// The first entries that are left out.
    pub skipped: Vec<Defect>,
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
pub(crate) struct MetricValues {
    #[serde(flatten)]
    pub metric: Metric,
    /// Complete name, if it is a metric name.
    pub complete_name: Option<String>,
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
            Ok(contents) => report.fill(path, file, contents),
            Err(refusal) => report.refusal = Some(refusal.to_string()),
        }
        report
    }

    fn fill(&mut self, path: &Path, file: &File, contents: Contents) {
        let stem = path.file_name().unwrap_or_default();
        let flags = contents.header.flags;
        for metric in contents.metrics {
            let complete = complete_name(stem, flags.contains(Flags::NO_PREFIX), &metric.name);
            let complete_name =
                complete.map_err(|error| self.misnamed.push(error.to_string())).ok();
            self.metrics.push(MetricValues { metric, complete_name, values: Vec::new() });
        }
        for entry in &contents.values {
            let Some(of) = self.metrics.get_mut(entry.metric) else { continue };
            of.values.push(Value {
                instance: entry.instance.map(InstanceId::get),
                offset: entry.cell,
                string_offset: entry.string,
                content: value_of(file, of.metric.kind, entry, flags.contains(Flags::SENTINEL)),
            });
        }
        self.indoms = contents.indoms;
        self.labels = contents.labels;
        self.skipped = contents.skipped;
        self.unlisted = contents.unlisted;
    }
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
