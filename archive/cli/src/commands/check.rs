//! `mmv-archive check`: errors, warnings and notes about an archive.

use std::path::Path;

use clap::Args;
use pcp_archive::check::{self, Finding, Report, Severity};
use serde::Serialize;

use crate::Failure;
use crate::options::{ArchiveArgument, ProgressOptions};
use crate::text::{Output, shown};

/// The end of the help.
const EXAMPLES: &str = "\
Examples:
  Is the copy of an archive sound? The exit status is 0 if it is:
    mmv-archive check backup/20261123.00.10
  Check all archives of this machine's agent:
    mmv-archive check @
  Count the findings of each rule:
    mmv-archive check @ --json | jq -r '.rule // empty' | sort | uniq -c";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct CheckCommand {
    #[command(flatten)]
    archive: ArchiveArgument,

    /// Also print notes about conditions that are common in sound archives: counters that
    /// decrease, instances without a name
    #[arg(long, short)]
    notes: bool,

    /// Print one JSON object per finding, and one with the totals
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    progress: ProgressOptions,
}

#[derive(Serialize)]
struct JsonFinding<'f> {
    file: &'f Path,
    offset: u64,
    rule: &'static str,
    severity: String,
    text: String,
}

#[derive(Serialize)]
struct JsonTotals {
    findings: usize,
    suppressed: u64,
    records: u64,
    marks: u64,
    values: u64,
}

impl CheckCommand {
    /// Prints the findings; [`Failure::Findings`] if there is an error or a warning.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        self.archive.each_base(self.json, |base, out| self.print(base, out))
    }

    fn print(&self, base: &Path, out: &mut Output) -> Result<(), Failure> {
        let mut progress = self.progress.start();
        let show = &mut |done, all| progress.show(done, all);
        let report = check::check_watched(base, show)?;
        drop(progress);
        let findings = report.findings().iter();
        let wanted: Vec<_> = findings.filter(|f| self.notes || !f.defect.is_usual()).collect();
        let notes = if self.notes { 0 } else { report.suppressed_notes() };
        let suppressed = report.suppressed() - notes;
        if self.json {
            print_json(out, &report, &wanted, suppressed)?;
        } else {
            for finding in &wanted {
                let line = format!("{}\n", shown(&finding.to_string()));
                out.text.extend_from_slice(line.as_bytes());
                out.spill()?;
            }
            if suppressed > 0 {
                let more = format!("and {suppressed} more findings of these rules\n");
                out.text.extend_from_slice(more.as_bytes());
            }
        }
        match report.worst() {
            Some(Severity::Warning | Severity::Error) => Err(Failure::Findings),
            _ => Ok(()),
        }
    }
}

fn print_json(
    out: &mut Output,
    report: &Report,
    shown: &[&Finding],
    suppressed: u64,
) -> Result<(), Failure> {
    for Finding { file, offset, defect } in shown {
        out.json_line(&JsonFinding {
            file,
            offset: *offset,
            rule: defect.rule(),
            severity: defect.severity().to_string(),
            text: defect.to_string(),
        })?;
    }
    out.json_line(&JsonTotals {
        findings: shown.len(),
        suppressed,
        records: report.records(),
        marks: report.marks(),
        values: report.values(),
    })
}
