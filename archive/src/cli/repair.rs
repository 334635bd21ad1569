//! `mmv-archive repair` and `mmv-archive reindex`: from a damaged archive to a
//! whole one.

use std::path::{Path, PathBuf};

use clap::Args;
use jiff::tz::TimeZone;
use pcp_types::Timestamp;
use serde::Serialize;

use super::failure::Failure;
use super::output::Output;
use super::progress::ProgressOptions;
use super::zone::Zone;
use crate::repair::{self, Repaired};
use crate::salvage::Lost;

/// Options of `repair`.
#[derive(Debug, Args)]
pub(super) struct RepairArguments {
    /// The archive: its base name, any of its files, or a directory that holds
    /// a single archive.
    archive: PathBuf,

    /// The base name of the new archive. The old one stays as it is.
    #[arg(long, short, value_name = "BASE", required_unless_present = "in_place")]
    output: Option<PathBuf>,

    /// Put the new archive in the place of the old one, of which nothing
    /// stays.
    #[arg(long, conflicts_with = "output")]
    in_place: bool,

    /// Print one JSON object, with times as [seconds, nanoseconds].
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    progress: ProgressOptions,
}

/// Options of `reindex`.
#[derive(Debug, Args)]
pub(super) struct ReindexArguments {
    /// The archive: its base name, any of its files, or a directory that holds
    /// a single archive. All but its index must be whole.
    archive: PathBuf,

    #[command(flatten)]
    progress: ProgressOptions,
}

#[derive(Serialize)]
struct JsonRepaired<'r> {
    archive: &'r Path,
    records: u64,
    thinned: u64,
    dropped: u64,
    marks: u64,
    metadata_records: u64,
    dropped_metadata: u64,
    index_entries: u64,
    start: (i64, u32),
    end: (i64, u32),
    lost: Vec<JsonLost<'r>>,
}

#[derive(Serialize)]
struct JsonLost<'r> {
    file: &'r Path,
    offset: u64,
    bytes: u64,
    reason: &'r str,
    after: Option<(i64, u32)>,
    before: Option<(i64, u32)>,
}

impl RepairArguments {
    /// Prints what was kept and what is lost.
    pub(super) fn run(&self) -> Result<(), Failure> {
        let mut progress = self.progress.start();
        let mut show = |done, all| progress.show(done, all);
        let repaired = match &self.output {
            Some(base) => repair::repair_watched(&self.archive, base, &mut show)?,
            None => repair::repair_in_place_watched(&self.archive, &mut show)?,
        };
        drop(progress);
        let mut out = Output::new();
        if self.json {
            out.json_line(&json(&repaired))?;
        } else {
            out.text.extend_from_slice(text(&repaired).as_bytes());
        }
        out.finish()
    }
}

impl ReindexArguments {
    /// Prints the number of index entries.
    pub(super) fn run(&self) -> Result<(), Failure> {
        let mut progress = self.progress.start();
        let show = &mut |done, all| progress.show(done, all);
        let entries = repair::reindex_watched(&self.archive, show)?;
        drop(progress);
        let mut out = Output::new();
        out.text.extend_from_slice(format!("{entries} index entries\n").as_bytes());
        out.finish()
    }
}

fn text(repaired: &Repaired) -> String {
    let zone = Zone::new(TimeZone::UTC);
    let (start, end) = repaired.span;
    let mut lines = vec![
        format!("archive           {}", repaired.base.display()),
        format!("records           {}", repaired.records),
        format!("  without some    {}", repaired.thinned),
        format!("  left out        {}", repaired.dropped),
        format!("marks put in      {}", repaired.marks),
        format!("metadata records  {}", repaired.metadata_records),
        format!("  left out        {}", repaired.dropped_metadata),
        format!("index entries     {}", repaired.index_entries),
        format!("start             {}", zone.rfc3339(start)),
        format!("end               {}", zone.rfc3339(end)),
    ];
    lines.extend(repaired.lost.iter().map(|lost| line_of(lost, &zone)));
    lines.join("\n") + "\n"
}

/// `lost FILE: offset N: N bytes, after TIME, before TIME: REASON`
fn line_of(lost: &Lost, zone: &Zone) -> String {
    let Lost { file, offset, bytes, reason, after, before } = lost;
    let time = |word: &str, at: &Option<Timestamp>| {
        at.map(|at| format!(", {word} {}", zone.rfc3339(at))).unwrap_or_default()
    };
    let span = time("after", after) + &time("before", before);
    format!("lost {}: offset {offset}: {bytes} bytes{span}: {reason}", file.display())
}

fn json(repaired: &Repaired) -> JsonRepaired<'_> {
    let lost = repaired.lost.iter().map(|lost| JsonLost {
        file: &lost.file,
        offset: lost.offset,
        bytes: lost.bytes,
        reason: &lost.reason,
        after: lost.after.map(pair),
        before: lost.before.map(pair),
    });
    JsonRepaired {
        archive: &repaired.base,
        records: repaired.records,
        thinned: repaired.thinned,
        dropped: repaired.dropped,
        marks: repaired.marks,
        metadata_records: repaired.metadata_records,
        dropped_metadata: repaired.dropped_metadata,
        index_entries: repaired.index_entries,
        start: pair(repaired.span.0),
        end: pair(repaired.span.1),
        lost: lost.collect(),
    }
}

fn pair(stamp: Timestamp) -> (i64, u32) {
    (stamp.seconds(), stamp.nanoseconds())
}
