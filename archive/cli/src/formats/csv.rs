//! Comma-separated values (RFC 4180): lines end in CR LF; a field with a comma,
//! a quote or a line end is quoted, and its quotes are doubled.

use pcp_archive::Value;
use pcp_archive::replay::Sample;

use super::Report;
use crate::Failure;
use crate::columns::cell;
use crate::text::{Output, push_plain};

/// Writes the header.
pub(crate) fn write_header(out: &mut Output, report: &Report<'_>) {
    out.text.extend_from_slice(b"Time");
    for column in &report.columns {
        let name = match column.instance_title() {
            Some(instance) => format!("{}[{instance}]", column.name),
            None => column.name.clone(),
        };
        out.text.push(b',');
        push_field(&mut out.text, name.as_bytes());
    }
    out.text.extend_from_slice(b"\r\n");
}

/// Writes one line per sample; returns the number of values. Marks have no line.
pub(crate) fn write<'r>(
    out: &mut Output,
    report: &Report<'_>,
    samples: impl Iterator<Item = Sample<'r>>,
) -> Result<u64, Failure> {
    let mut values = 0;
    let mut field = Vec::new();
    for sample in samples.filter(|sample| !sample.is_mark) {
        out.text.extend_from_slice(report.zone.rfc3339(sample.timestamp).as_bytes());
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

/// Numbers are never quoted. `field` is a buffer for other values.
fn push_value(out: &mut Vec<u8>, field: &mut Vec<u8>, value: Value<'_>, places: Option<usize>) {
    if value.as_f64().is_some() {
        return push_plain(out, value, places);
    }
    field.clear();
    push_plain(field, value, places);
    push_field(out, field);
}

/// Appends a field, quoted if necessary.
pub(crate) fn push_field(out: &mut Vec<u8>, field: &[u8]) {
    if !field.iter().any(|byte| b",\"\r\n".contains(byte)) {
        out.extend_from_slice(field);
        return;
    }
    out.push(b'"');
    for &byte in field {
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

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        let field = |text: &str| {
            let mut out = Vec::new();
            push_field(&mut out, text.as_bytes());
            String::from_utf8(out).unwrap()
        };
        assert_eq!(field("plain text"), "plain text");
        assert_eq!(field("a,b"), "\"a,b\"");
        assert_eq!(field("say \"x\""), "\"say \"\"x\"\"\"");
        assert_eq!(field("two\nlines"), "\"two\nlines\"");
    }
}
