//! The programs of archives: how many metrics each has, and when it started or ended last.

use std::time::Duration;

use pcp_archive::{Source, Timestamp};

use super::Archives;
use crate::Failure;
use crate::commands::metrics::MetricTree;
use crate::explanation::read_events;
use crate::left_out::check_whole_set;
use crate::options::ArchiveArgument;
use crate::text::{Output, shown};
use crate::time::ZoneOptions;

/// The last part of an archive whose events are read.
const RECENT: Duration = Duration::from_secs(86_400);

/// Prints the programs of one archive, or of all.
///
/// # Errors
///
/// The first failure of opening or reading an archive.
pub(super) fn print(archives: &Archives, chosen: Option<&str>) -> Result<(), Failure> {
    let mut out = Output::new();
    for (name, archive) in &archives.0 {
        if chosen.is_none_or(|chosen| chosen == name) {
            print_archive(&mut out, name, archive)?;
        }
    }
    out.finish()
}

fn print_archive(out: &mut Output, name: &str, archive: &ArchiveArgument) -> Result<(), Failure> {
    let set = archive.open(&[])?;
    let source = Source::from(&set);
    let zone = ZoneOptions::default().zone(source.label())?;
    let title = if name.is_empty() { "archive" } else { name };
    let host = &source.label().hostname;
    let logged = zone.period(&(source.start()..=source.end()));
    let now = zone.strftime(Timestamp::now(), "%F %T");
    push_line(out, &format!("{title}: host {host}, {logged}; it is {now} now"));
    let mut tree = MetricTree::default();
    tree.add(source.metadata());
    let recent = source.end().saturating_sub(RECENT).max(source.start());
    let events = read_events(source, recent..=source.end())?;
    for (branch, line) in tree.branches() {
        let is_own = |program: &Option<String>| {
            program.as_deref().is_some_and(|program| branch.strip_prefix("mmv.") == Some(program))
        };
        let mut own = events.iter().rev().filter(|event| is_own(&event.program));
        let last = own.find(|event| event.kind != "grew");
        let last = last.map(|event| {
            let time = zone.strftime(event.time, "%F %T");
            format!("; {} {time}", event.kind)
        });
        push_line(out, &format!("{line}{}", last.unwrap_or_default()));
    }
    out.spill()?;
    check_whole_set(&set)
}

fn push_line(out: &mut Output, line: &str) {
    out.text.extend_from_slice(shown(line).as_bytes());
    out.text.push(b'\n');
}
