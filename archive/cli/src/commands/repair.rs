//! `mmv-archive repair`.

use std::path::{Path, PathBuf};

use clap::Args;
use jiff::tz::TimeZone;
use pcp_archive::Timestamp;
use pcp_archive::repair::{self, MetricRename, RepairReport};
use pcp_archive::salvage::Loss;
use serde::Serialize;

use crate::Failure;
use crate::options::{ProgressOptions, base_names};
use crate::text::{EpochSeconds, Output, Rfc3339, shown, shown_path};
use crate::time::Zone;

/// The end of the help.
const EXAMPLES: &str = "\
Examples:
  Make a valid archive from all that can be read of a damaged one:
    mmv-archive repair damaged -o repaired
  Replace the damaged archive by the repaired one:
    mmv-archive repair damaged --in-place
  Rebuild a missing or damaged index, and leave all else as it is:
    mmv-archive repair damaged --index
  List what is lost, and between which times:
    mmv-archive repair damaged -o repaired --json | jq .lost";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct RepairCommand {
    /// Archive: its base name, any of its files, or a directory with a single archive
    archive: PathBuf,

    /// Base name of the new archive; records whose time steps back become further archives,
    /// BASE-2, BASE-3 and so on, as far as these names are free
    #[arg(long, short, value_name = "BASE", required_unless_present_any = ["in_place", "index"], value_parser = base_names())]
    output: Option<PathBuf>,

    /// Replace the archive by the repaired one; further archives are named as with --output
    #[arg(long, conflicts_with = "output")]
    in_place: bool,

    /// Rebuild only the index; fails if anything else is damaged
    #[arg(long, conflicts_with_all = ["output", "in_place", "json"])]
    index: bool,

    /// Print one JSON object, with times as [seconds, nanoseconds]
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    progress: ProgressOptions,
}

#[derive(Serialize)]
struct RepairJson<'r> {
    archive: &'r Path,
    records: u64,
    thinned: u64,
    dropped: u64,
    marks: u64,
    metadata_records: u64,
    dropped_metadata: u64,
    index_entries: u64,
    start: Rfc3339,
    start_seconds: EpochSeconds,
    end: Rfc3339,
    end_seconds: EpochSeconds,
    lost: Vec<LostJson<'r>>,
    renamed: Vec<RenameJson<'r>>,
    further: Vec<RepairJson<'r>>,
}

#[derive(Serialize)]
struct LostJson<'r> {
    file: &'r Path,
    offset: u64,
    bytes: u64,
    reason: &'r str,
    after: Option<Rfc3339>,
    after_seconds: Option<EpochSeconds>,
    before: Option<Rfc3339>,
    before_seconds: Option<EpochSeconds>,
}

#[derive(Serialize)]
struct RenameJson<'r> {
    pmid: String,
    old: &'r str,
    new: &'r str,
    reason: &'r str,
}

impl RepairCommand {
    /// Prints the counts of records that are kept, and what is lost; or the number of index
    /// entries.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let mut out = Output::new();
        let mut progress = self.progress.start();
        let mut show = |done, all| progress.show(done, all);
        if self.index {
            let entries = repair::reindex(&self.archive, &mut show)?;
            drop(progress);
            out.text.extend_from_slice(format!("{entries} index entries\n").as_bytes());
            return out.finish();
        }
        let repaired = match &self.output {
            Some(base) => repair::repair_watched(&self.archive, base, &mut show)?,
            None => repair::repair_in_place_watched(&self.archive, &mut show)?,
        };
        drop(progress);
        if self.json {
            out.json_line(&json(&repaired))?;
        } else {
            out.text.extend_from_slice(text(&repaired).as_bytes());
        }
        out.finish()
    }
}

fn text(repaired: &RepairReport) -> String {
    let zone = Zone::new(TimeZone::UTC);
    let (start, end) = repaired.span;
    let mut lines = vec![
        format!("archive           {}", shown_path(&repaired.base)),
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
    for further in &repaired.further {
        let (start, end) = further.span;
        lines.extend([
            format!(
                "further archive   {}, of records whose time steps back",
                shown_path(&further.base)
            ),
            format!("  records         {}", further.records),
            format!("  without some    {}", further.thinned),
            format!("  marks put in    {}", further.marks),
            format!("  metadata        {}", further.metadata_records),
            format!("  start           {}", zone.rfc3339(start)),
            format!("  end             {}", zone.rfc3339(end)),
        ]);
    }
    lines.extend(repaired.lost.iter().map(|lost| line_of(lost, &zone)));
    lines.extend(repaired.renamed.iter().map(|MetricRename { pmid, old, new, reason }| {
        let [old, new] = [old, new].map(|name| shown(name));
        format!("renamed metric {pmid} from \"{old}\" to \"{new}\": {reason}")
    }));
    lines.join("\n") + "\n"
}

/// Formats a loss as `lost FILE: offset N: N bytes, after TIME, before TIME: REASON`.
fn line_of(lost: &Loss, zone: &Zone) -> String {
    let Loss { file, offset, bytes, reason, after, before } = lost;
    let time = |word: &str, timestamp: &Option<Timestamp>| {
        timestamp
            .map(|timestamp| format!(", {word} {}", zone.rfc3339(timestamp)))
            .unwrap_or_default()
    };
    let span = time("after", after) + &time("before", before);
    format!("lost {}: offset {offset}: {bytes} bytes{span}: {}", shown_path(file), shown(reason))
}

fn json(repaired: &RepairReport) -> RepairJson<'_> {
    let lost = repaired.lost.iter().map(|lost| LostJson {
        file: &lost.file,
        offset: lost.offset,
        bytes: lost.bytes,
        reason: &lost.reason,
        after: lost.after.map(Rfc3339),
        after_seconds: lost.after.map(EpochSeconds),
        before: lost.before.map(Rfc3339),
        before_seconds: lost.before.map(EpochSeconds),
    });
    let renamed = repaired.renamed.iter().map(|MetricRename { pmid, old, new, reason }| {
        RenameJson { pmid: pmid.to_string(), old, new, reason }
    });
    RepairJson {
        archive: &repaired.base,
        records: repaired.records,
        thinned: repaired.thinned,
        dropped: repaired.dropped,
        marks: repaired.marks,
        metadata_records: repaired.metadata_records,
        dropped_metadata: repaired.dropped_metadata,
        index_entries: repaired.index_entries,
        start: Rfc3339(repaired.span.0),
        start_seconds: EpochSeconds(repaired.span.0),
        end: Rfc3339(repaired.span.1),
        end_seconds: EpochSeconds(repaired.span.1),
        lost: lost.collect(),
        renamed: renamed.collect(),
        further: repaired.further.iter().map(json).collect(),
    }
}
