//! The contents of an archive, in a form that makes the accounts of two programs comparable.

use std::collections::{BTreeMap, BTreeSet};

/// Seconds since 1970 in UTC, and nanoseconds.
pub(crate) type Stamp = (i64, u32);

/// The states of each instance domain: from when, and its instances by number.
pub(crate) type InDoms = BTreeMap<String, Vec<(Stamp, BTreeMap<i32, String>)>>;

/// An account of a whole archive.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Facts {
    pub(crate) label: Label,
    /// Descriptors by PMID.
    pub(crate) metrics: BTreeMap<String, Metric>,
    pub(crate) indoms: InDoms,
    /// Label sets in the order of their timestamps: from when, whose, and the JSON.
    pub(crate) labels: BTreeSet<(Stamp, String, String)>,
    /// Help texts: owner, whether the text is the one-line help, and the text.
    pub(crate) texts: BTreeSet<(String, bool, String)>,
    pub(crate) records: Vec<Record>,
}

/// The fields of the label, and the time of the last record.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Label {
    pub(crate) version: u32,
    pub(crate) host: String,
    pub(crate) start: Stamp,
    pub(crate) end: Stamp,
    pub(crate) timezone: String,
    pub(crate) zoneinfo: String,
    pub(crate) pid: i64,
}

/// Names and descriptor of a metric, in PCP's words.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Metric {
    pub(crate) names: BTreeSet<String>,
    pub(crate) data_type: String,
    pub(crate) indom: Option<String>,
    pub(crate) semantics: String,
    pub(crate) units: String,
}

/// A record of the data volumes; a mark has no sets.
#[derive(Debug, PartialEq)]
pub(crate) struct Record {
    pub(crate) timestamp: Stamp,
    pub(crate) mark: bool,
    /// PMID and values, in the order of the record.
    pub(crate) sets: Vec<(String, Values)>,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Values {
    /// By instance, in the order of the record. Numbers are in the form of
    /// [`number`], strings are in double quotes.
    These(Vec<(Option<i32>, String)>),
    /// An error code stands in their place; PCP prints its text, we its name.
    Error,
}

impl Record {
    /// Returns whether the record has values of MMV files: marks and the prologue have none.
    pub(crate) fn has_samples(&self) -> bool {
        self.sets.iter().any(|(pmid, _)| pmid.starts_with("70."))
    }

    pub(crate) fn values(&self, pmid: &str) -> impl Iterator<Item = (Option<i32>, &str)> {
        let set = self.sets.iter().find(|(set, _)| set == pmid);
        let values = match set {
            Some((_, Values::These(values))) => values.as_slice(),
            _ => &[],
        };
        values.iter().map(|(id, text)| (*id, text.as_str()))
    }

    pub(crate) fn value(&self, pmid: &str, instance: Option<i32>) -> Option<&str> {
        self.values(pmid).find(|(id, _)| *id == instance).map(|(_, text)| text)
    }
}

/// Reduces a number's text to sign, significant digits and exponent, so that `0.5`, `5e-1` and
/// `0.50` agree. Other text is returned unchanged.
pub(crate) fn number(text: &str) -> String {
    let Ok(value) = text.parse::<f64>() else { return text.to_owned() };
    if !value.is_finite() {
        return text.trim_start_matches('-').to_lowercase();
    }
    let exact = text.trim_start_matches(['-', '+']).to_lowercase();
    let (mantissa, exponent) = exact.split_once('e').unwrap_or((&exact, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let leading = all.len() - all.trim_start_matches('0').len();
    let figures = all.trim_matches('0');
    if figures.is_empty() {
        return "0".to_owned();
    }
    let exponent: isize = exponent.parse().expect("an exponent");
    let power = exponent + whole.len() as isize - leading as isize;
    format!("{}0.{figures}e{power}", if value < 0.0 { "-" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_number_in_several_spellings_is_one_number() {
        for spelling in ["0.5", "5e-1", "0.50", "+.5"] {
            assert_eq!(number(spelling), "0.5e0");
        }
        assert_eq!(number("-1200"), "-0.12e4");
        assert_eq!(number("1.2e+3"), number("1200"));
        assert_eq!(number("-0"), number("0.0"));
        assert_ne!(number("18446744073709551615"), number("18446744073709551614"));
    }
}
