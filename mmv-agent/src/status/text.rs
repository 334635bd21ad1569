//! A status for people.

use std::io::{self, Write};

use super::{GroupStatus, SourceStatus, Status};

/// Prints a status: one JSON object, or some lines of text.
///
/// # Errors
///
/// From `out`.
pub fn print(status: &Status, json: bool, out: &mut impl Write) -> io::Result<()> {
    if json {
        serde_json::to_writer(&mut *out, status)?;
        return writeln!(out);
    }
    let Status { version, pid, uptime, .. } = status;
    writeln!(out, "mmv-agent {version}, process {pid}, up {uptime:.0} s")?;
    let archive = &status.archive;
    match &archive.base {
        Some(base) => writeln!(out, "writing {base}, volume {}", archive.volume)?,
        None => writeln!(out, "writing nothing")?,
    }
    if let Some(error) = &archive.error {
        writeln!(out, "cannot write: {error}")?;
    }
    writeln!(
        out,
        "records: {} written, {} lost, {} dropped; ticks missed: {}; waiting: {} of {} bytes",
        archive.written,
        archive.lost,
        status.dropped,
        status.missed,
        status.queued,
        status.queue_limit
    )?;
    for GroupStatus { name, interval, values, bytes_a_day } in &status.groups {
        let megabytes = *bytes_a_day as f64 / 1e6;
        writeln!(out, "group {name}: {values} values each {interval} s, {megabytes:.1} MB a day")?;
    }
    for SourceStatus { file, reason, values } in &status.sources {
        // Names and reasons come from files that anybody may make.
        let file = file.escape_debug();
        match reason {
            None => writeln!(out, "file {file}: {values} values")?,
            Some(reason) => writeln!(out, "file {file}: not harvested: {}", reason.escape_debug())?,
        }
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_file_cannot_begin_a_line() {
        let source = SourceStatus {
            file: "a\nfile b".to_owned(),
            reason: Some("it is\x1b[2J".to_owned()),
            values: 0,
        };
        let status = Status { sources: vec![source], ..Status::default() };
        let mut out = Vec::new();
        print(&status, false, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.ends_with("file a\\nfile b: not harvested: it is\\u{1b}[2J\n"), "{text}");
    }
}
