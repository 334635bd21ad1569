//! Rows as text: CSV (RFC 4180, with a header), or one JSON object per line.
//!
//! Null is an empty field in CSV, and is left out in JSON. NaN and infinities are `NaN`, `inf` or
//! `-inf` in CSV, and null in JSON.

use std::fmt::{self, Write as _};
use std::io::{self, Write as _};
use std::path::Path;

use pcp_types::printable;

use super::batch::{Batch, Column, LabelColumn, RowKey, Shape};
use super::file::NewFile;
use crate::walk::Number;

/// Characters that begin a formula in spreadsheets, also in full width.
const FORMULA: [char; 8] = ['=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}'];

#[derive(Debug)]
pub(super) struct TextFile {
    file: NewFile,
    is_csv: bool,
    line: String,
}

impl TextFile {
    /// Creates a file of CSV with a header.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub(super) fn csv(
        directory: &Path,
        name: &str,
        shape: Shape,
        labels: &[LabelColumn],
        columns: &[&Column],
    ) -> io::Result<Self> {
        let mut file = NewFile::create(directory, name)?;
        let (before, after) = shape.columns();
        let labels = labels.iter().map(|label| label.column.as_str());
        let columns = columns.iter().map(|column| column.name.as_str());
        let all = before.into_iter().chain(labels).chain(after.iter().copied()).chain(columns);
        let header = all.collect::<Vec<_>>().join(",") + "\n";
        file.write_all(header.as_bytes())?;
        Ok(Self { file, is_csv: true, line: String::new() })
    }

    /// Creates a file of JSON Lines.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub(super) fn json_lines(directory: &Path, name: &str) -> io::Result<Self> {
        Ok(Self { file: NewFile::create(directory, name)?, is_csv: false, line: String::new() })
    }

    /// Writes rows.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub(super) fn write(&mut self, batch: &Batch<'_>) -> io::Result<()> {
        for (row, time) in batch.times.iter().enumerate() {
            let Some(key) = batch.key_of_row.get(row) else { continue };
            let Some(key) = batch.keys.get(*key as usize) else { continue };
            let begins = batch.begins.get(row).copied().unwrap_or_default();
            self.line.clear();
            if self.is_csv {
                csv_line(&mut self.line, batch, row, *time, begins, key);
            } else {
                json_line(&mut self.line, batch, row, *time, begins, key);
            }
            self.line.push('\n');
            self.file.write_all(self.line.as_bytes())?;
        }
        Ok(())
    }

    /// Completes the file, and returns its size.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub(super) fn finish(self) -> io::Result<u64> {
        self.file.finish()
    }
}

/// Writing to a `String` does not fail.
macro_rules! add {
    ($line:expr, $($what:tt)*) => { let _ = write!($line, $($what)*); };
}

fn csv_line(
    line: &mut String,
    batch: &Batch<'_>,
    row: usize,
    time: i64,
    begins: bool,
    key: &RowKey,
) {
    add!(line, "{},{time},{begins},", Instant(time));
    csv_text(line, &key.hostname);
    if batch.shape.has_name {
        line.push(',');
        csv_text(line, key.name.as_deref().unwrap_or_default());
    }
    if batch.shape.has_instances {
        line.push(',');
        if let Some(instance) = key.instance {
            add!(line, "{instance}");
        }
        line.push(',');
        csv_text(line, key.instance_name.as_deref().unwrap_or_default());
    }
    for label in batch.labels {
        line.push(',');
        csv_text(line, key.label(&label.label).map(|value| &**value).unwrap_or_default());
    }
    if batch.shape.has_bounds {
        let (lower, upper) = key.bounds.unzip();
        for bound in [lower, upper.flatten()] {
            line.push(',');
            if let Some(bound) = bound {
                add!(line, "{bound:?}");
            }
        }
    }
    for column in batch.columns {
        line.push(',');
        match column.get(row) {
            None => {}
            Some(Number::I64(value)) => {
                add!(line, "{value}");
            }
            Some(Number::U64(value)) => {
                add!(line, "{value}");
            }
            Some(Number::F64(value)) => {
                add!(line, "{value:?}");
            }
        }
    }
}

/// Appends a field, quoted if necessary. Text that spreadsheets would evaluate as a formula gets an
/// apostrophe in front; control characters are escaped.
fn csv_text(line: &mut String, text: &str) {
    let text = printable::line(text);
    let begins = text.trim_start().starts_with(FORMULA);
    let apostrophe = if begins && text.parse::<f64>().is_err() { "'" } else { "" };
    if !text.contains([',', '"']) {
        line.push_str(apostrophe);
        line.push_str(&text);
        return;
    }
    line.push('"');
    line.push_str(apostrophe);
    line.push_str(&text.replace('"', "\"\""));
    line.push('"');
}

fn json_line(
    line: &mut String,
    batch: &Batch<'_>,
    row: usize,
    time: i64,
    begins: bool,
    key: &RowKey,
) {
    add!(line, "{{\"timestamp\":\"{}\",\"timestamp_ns\":{time},\"begins\":{begins}", Instant(time));
    json_text(line, "hostname", Some(&key.hostname));
    json_text(line, "name", key.name.as_deref());
    if let Some(instance) = key.instance {
        add!(line, ",\"instid\":{instance}");
    }
    json_text(line, "instname", key.instance_name.as_deref());
    for label in batch.labels {
        json_text(line, &label.column, key.label(&label.label).map(|value| &**value));
    }
    if let Some((lower, upper)) = key.bounds {
        add!(line, ",\"lower\":{lower:?}");
        if let Some(upper) = upper {
            add!(line, ",\"upper\":{upper:?}");
        }
    }
    for column in batch.columns {
        let Some(value) = column.get(row) else { continue };
        add!(line, ",\"{}\":", column.name);
        match value {
            Number::I64(value) => {
                add!(line, "{value}");
            }
            Number::U64(value) => {
                add!(line, "{value}");
            }
            Number::F64(value) => line.push_str(&serde_json::Value::from(value).to_string()),
        }
    }
    line.push('}');
}

fn json_text(line: &mut String, name: &str, text: Option<&str>) {
    if let Some(text) = text {
        let text = serde_json::Value::from(text).to_string();
        add!(line, ",\"{name}\":{}", printable::json(&text));
    }
}

/// Nanoseconds since 1970 as RFC 3339 in microseconds, UTC.
struct Instant(i64);

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let instant = jiff::Timestamp::from_nanosecond(self.0.into()).map_err(|_| fmt::Error)?;
        write!(f, "{instant:.6}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_microseconds_cut_off() {
        let text = |nanos| Instant(nanos).to_string();
        assert_eq!(text(1_700_000_000_123_456_789), "2023-11-14T22:13:20.123456Z");
        assert_eq!(text(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(text(-1), "1969-12-31T23:59:59.999999Z");
    }

    #[test]
    fn fields_are_quoted_and_never_formulas() {
        let field = |text| {
            let mut line = String::new();
            csv_text(&mut line, text);
            line
        };
        assert_eq!(field("web 1"), "web 1");
        assert_eq!(field("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(field(" =1+1"), "' =1+1");
        assert_eq!(field("-5"), "-5");
        assert_eq!(field("a\nb"), r"a\x0ab");
    }
}
