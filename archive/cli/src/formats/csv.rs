//! Comma-separated values (RFC 4180): lines end in CR LF; a field with a comma or a quote
//! is quoted, and its quotes are doubled.
//!
//! Spreadsheets run a cell that begins like a formula. Names and strings therefore get an
//! apostrophe in front where they begin with `=`, `+`, `-` or `@`, in their usual or in
//! full width, unless they are a number; what is not printable is its bytes, as in text.
//! Numbers are never changed.

use pcp_archive::replay::Sample;
use pcp_archive::{Timestamp, Value};

use super::Report;
use crate::Failure;
use crate::columns::cell;
use crate::text::{Output, push_plain, shown};
use crate::time::Zone;

/// Writes the line with the names and units of columns.
pub(crate) fn write_header(out: &mut Output, report: &Report<'_>) {
    out.text.extend_from_slice(b"Time,Seconds");
    for column in &report.columns {
        let mut name = match column.instance_title() {
            Some(instance) => format!("{}[{instance}]", column.name),
            None => column.name.clone(),
        };
        if !column.scale.units.is_empty() {
            name = format!("{name} ({})", column.scale.units);
        }
        out.text.push(b',');
        push_text(&mut out.text, &name);
    }
    out.text.extend_from_slice(b"\r\n");
}

/// Writes one line per sample; returns the number of values. Marks have no line.
pub(crate) fn write<'r>(
    out: &mut Output,
    report: &Report<'_>,
    zone: &Zone,
    samples: impl Iterator<Item = Sample<'r>>,
) -> Result<u64, Failure> {
    let mut values = 0;
    let mut field = Vec::new();
    for sample in samples.filter(|sample| !sample.is_mark) {
        push_time(&mut out.text, zone, sample.timestamp);
        for column in &report.columns {
            out.text.push(b',');
            if let Some(value) = cell(&sample, column) {
                values += 1;
                push_value(&mut out.text, &mut field, value, report.precision);
            }
        }
        out.text.extend_from_slice(b"\r\n");
        out.spill()?;
    }
    Ok(values)
}

/// Appends a time as two fields: RFC 3339 with the offset of the zone, and seconds since 1970.
pub(crate) fn push_time(out: &mut Vec<u8>, zone: &Zone, at: Timestamp) {
    zone.push_rfc3339(out, at);
    out.extend_from_slice(format!(",{at}").as_bytes());
}

/// Numbers are never quoted. `field` is a buffer for other values.
fn push_value(out: &mut Vec<u8>, field: &mut Vec<u8>, value: Value<'_>, places: Option<usize>) {
    if value.as_f64().is_some() {
        return push_plain(out, value, places);
    }
    field.clear();
    push_plain(field, value, places);
    push_text(out, &String::from_utf8_lossy(field));
}

/// Characters that begin a formula in spreadsheets, also in full width.
const FORMULA: [char; 8] = ['=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}'];

/// Appends a field of text, which is not a formula, quoted if necessary.
pub(crate) fn push_text(out: &mut Vec<u8>, text: &str) {
    let text = shown(text);
    let begins = text.trim_start().starts_with(FORMULA);
    let apostrophe = if begins && text.parse::<f64>().is_err() { "'" } else { "" };
    if !text.contains([',', '"']) {
        out.extend_from_slice(apostrophe.as_bytes());
        out.extend_from_slice(text.as_bytes());
        return;
    }
    out.push(b'"');
    out.extend_from_slice(apostrophe.as_bytes());
    for byte in text.bytes() {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(text: &str) -> String {
        let mut out = Vec::new();
        push_text(&mut out, text);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn no_text_is_a_formula_and_numbers_stay() {
        for (text, expected) in [
            ("=cmd|'/c calc'!A1", "'=cmd|'/c calc'!A1"),
            ("=HYPERLINK(\"http://x\",1)", "\"'=HYPERLINK(\"\"http://x\"\",1)\""),
            ("+1+2", "'+1+2"),
            ("-2+3", "'-2+3"),
            ("@SUM(A1)", "'@SUM(A1)"),
            (" =1+1", "' =1+1"),
            ("\u{ff1d}1+1", "'\u{ff1d}1+1"),
            ("\t=1", r"\x09=1"),
            ("\r=1", r"\x0d=1"),
            ("-5", "-5"),
            ("+1.5e3", "+1.5e3"),
            ("a=b", "a=b"),
            ("", ""),
        ] {
            assert_eq!(field(text), expected);
        }
    }

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        assert_eq!(field("plain text"), "plain text");
        assert_eq!(field("a,b"), "\"a,b\"");
        assert_eq!(field("say \"x\""), "\"say \"\"x\"\"\"");
        assert_eq!(field("two\nlines"), r"two\x0alines");
    }
}
