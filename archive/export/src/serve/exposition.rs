//! The text formats of scrapes: Prometheus' 0.0.4 and `OpenMetrics` 1.0.

use std::fmt::Write as _;

use crate::mapping::{Family, Kind, Label};
use crate::samples::float_text;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// The text format of Prometheus.
    Text,
    /// The format of `OpenMetrics`.
    OpenMetrics,
}

impl Format {
    /// Returns the format that a header `Accept` prefers; text if it names neither.
    pub(super) fn accepted(accept: &str) -> Self {
        let mut open_metrics: f64 = 0.0;
        let mut text: f64 = 0.0;
        for range in accept.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default().to_ascii_lowercase();
            let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse::<f64>().ok());
            let weight = weight.unwrap_or(1.0);
            match name.as_str() {
                "application/openmetrics-text" => open_metrics = open_metrics.max(weight),
                "text/plain" => text = text.max(weight),
                _ => {}
            }
        }
        let is_preferred = open_metrics > 0.0 && open_metrics >= text;
        if is_preferred { Self::OpenMetrics } else { Self::Text }
    }

    /// Returns the value of the header `Content-Type`.
    pub(super) const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Writes the lines before the samples of a family.
    pub(super) fn head(self, family: &Family, out: &mut String) {
        let name = match (self, family.kind) {
            (Self::Text, Kind::Counter) => family.sample_name(),
            _ => family.name.clone(),
        };
        let _ = write!(out, "# HELP {name} ");
        escape(&family.help, self == Self::OpenMetrics, out);
        let _ = write!(out, "\n# TYPE {name} {}\n", family.kind.as_str());
        if self == Self::OpenMetrics && !family.unit.is_empty() {
            let _ = writeln!(out, "# UNIT {name} {}", family.unit);
        }
    }

    /// Writes a sample, whose name and labels were made by [`series`].
    pub(super) fn sample(self, series: &str, value: f64, milliseconds: i64, out: &mut String) {
        out.push_str(series);
        out.push(' ');
        if value.fract() == 0.0 && value.abs() < 1e15 {
            let _ = write!(out, "{}", value as i64);
        } else {
            out.push_str(&float_text(value));
        }
        let _ = match self {
            Self::Text => writeln!(out, " {milliseconds}"),
            Self::OpenMetrics => {
                let sign = if milliseconds < 0 { "-" } else { "" };
                let magnitude = milliseconds.unsigned_abs();
                writeln!(out, " {sign}{}.{:03}", magnitude / 1_000, magnitude % 1_000)
            }
        };
    }

    /// Returns the line after all families.
    pub(super) const fn end(self) -> &'static str {
        match self {
            Self::Text => "",
            Self::OpenMetrics => "# EOF\n",
        }
    }
}

/// Formats the name and labels of a series, which are the same in both formats.
pub(super) fn series(name: &str, labels: &[Label]) -> String {
    let mut out = name.to_owned();
    for (place, Label { name, value }) in labels.iter().enumerate() {
        out.push(if place == 0 { '{' } else { ',' });
        let _ = write!(out, "{name}=\"");
        escape(value, true, &mut out);
        out.push('"');
    }
    if !labels.is_empty() {
        out.push('}');
    }
    out
}

fn escape(text: &str, quotes: bool, out: &mut String) {
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if quotes => out.push_str("\\\""),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::Scale;

    #[test]
    fn the_format_is_the_one_that_is_preferred() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,\
                          text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
        for (accept, format) in [
            ("", Format::Text),
            ("*/*", Format::Text),
            ("text/plain", Format::Text),
            ("application/openmetrics-text", Format::OpenMetrics),
            ("Application/OpenMetrics-Text; version=1.0.0", Format::OpenMetrics),
            ("application/openmetrics-text;q=0", Format::Text),
            ("application/openmetrics-text;q=0.2, text/plain;q=0.3", Format::Text),
            (prometheus, Format::OpenMetrics),
        ] {
            assert_eq!(Format::accepted(accept), format, "{accept}");
        }
    }

    #[test]
    fn families_and_samples_are_written_by_the_rules_of_each_format() {
        let family = Family {
            metric: "a.b".to_owned(),
            base: "a_b".to_owned(),
            name: "a_b_seconds".to_owned(),
            unit: "seconds".to_owned(),
            kind: Kind::Counter,
            scale: Scale::NONE,
            help: "Of \"a\",\nand \\b.".to_owned(),
        };
        let label = Label { name: "path".into(), value: "a\"b\\c\nd".into() };
        let series = series("a_b_seconds_total", &[label]);
        let written = |format: Format| {
            let mut out = String::new();
            format.head(&family, &mut out);
            format.sample(&series, 1.5, 1_700_000_000_007, &mut out);
            format.sample("x", 3e15, -1_500, &mut out);
            out
        };
        assert_eq!(
            written(Format::Text),
            "# HELP a_b_seconds_total Of \"a\",\\nand \\\\b.\n\
             # TYPE a_b_seconds_total counter\n\
             a_b_seconds_total{path=\"a\\\"b\\\\c\\nd\"} 1.5 1700000000007\n\
             x 3000000000000000 -1500\n"
        );
        assert_eq!(
            written(Format::OpenMetrics),
            "# HELP a_b_seconds Of \\\"a\\\",\\nand \\\\b.\n\
             # TYPE a_b_seconds counter\n\
             # UNIT a_b_seconds seconds\n\
             a_b_seconds_total{path=\"a\\\"b\\\\c\\nd\"} 1.5 1700000000.007\n\
             x 3000000000000000 -1.500\n"
        );
    }
}
