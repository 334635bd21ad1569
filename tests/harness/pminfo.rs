//! Parser of the output of `pminfo -dmfltT` about metrics.
//!
//! One block a metric:
//!
//! ```text
//! mmv.acme.busy PMID: 70.321.6 [one line of help]
//!     Data Type: 64-bit int  InDom: 70.657409 0x118a0801
//!     Semantics: counter  Units: microsec
//!     labels {"agent":"mmv","app":"acme"}
//! Help:
//! the full help, perhaps of several lines
//!     inst [0 or "first"] value 0
//!     inst [0 or "first"] labels {"agent":"mmv","app":"acme","zone":"a"}
//! ```

use std::collections::BTreeMap;

use serde_json::Value;

use super::oracle::Oracle;

/// Labels by name. Nested ones are flattened, see [`labels`].
pub(crate) type Labels = BTreeMap<String, Value>;

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Metric {
    /// In the form `70.321.6`.
    pub(crate) pmid: String,
    /// As `64-bit int`.
    pub(crate) data_type: String,
    /// As `70.657409`; `None` for a singular metric.
    pub(crate) indom: Option<String>,
    /// `counter`, `instant` or `discrete`.
    pub(crate) semantics: String,
    /// As `Kbyte / sec`; `none` if there are none.
    pub(crate) units: String,
    pub(crate) one_line: Option<String>,
    pub(crate) help: Option<String>,
    /// The labels of the metric: context, domain, cluster, indom and item merged.
    pub(crate) labels: Labels,
    /// Values by instance, as `0 or "first"`; under the empty name for a singular one.
    pub(crate) values: BTreeMap<String, String>,
    pub(crate) instance_labels: BTreeMap<String, Labels>,
}

/// Asks pminfo about all metrics under `mmv`, except pmdammv's own, by name.
///
/// `source` is the option for the source: `-h HOST` or `-a ARCHIVE`.
#[track_caller]
pub(crate) fn ask(oracle: &Oracle, source: [&str; 2]) -> BTreeMap<String, Metric> {
    let printed = oracle.run("pminfo", &[source[0], source[1], "-dmfltT", "mmv"]);
    let mut metrics = parse(&printed);
    metrics.retain(|name, _| !name.starts_with("mmv.control."));
    metrics
}

pub(crate) fn parse(printed: &str) -> BTreeMap<String, Metric> {
    let mut metrics = BTreeMap::new();
    let mut current: Option<(String, Block)> = None;
    for line in printed.lines() {
        if let Some((name, block)) = Block::begin(line) {
            metrics.extend(current.take().map(|(name, block)| (name, block.end())));
            current = Some((name, block));
        } else if let Some((_, block)) = &mut current {
            block.line(line);
        }
    }
    metrics.extend(current.map(|(name, block)| (name, block.end())));
    metrics
}

/// A metric whose lines are being read.
#[derive(Debug, Default)]
struct Block {
    metric: Metric,
    in_help: bool,
    last_value: Option<String>,
}

impl Block {
    /// Parses the first line of a block: name, PMID, and the one-line help.
    fn begin(line: &str) -> Option<(String, Self)> {
        let (name, rest) = line.split_once(" PMID: ")?;
        let (pmid, help) = rest.split_once(' ').unwrap_or((rest, ""));
        let mut block = Self::default();
        pmid.clone_into(&mut block.metric.pmid);
        block.metric.one_line =
            help.strip_prefix('[').and_then(|help| help.strip_suffix(']')).map(str::to_owned);
        (!name.contains(' ')).then(|| (name.to_owned(), block))
    }

    fn line(&mut self, line: &str) {
        let known = line.strip_prefix("    ").is_some_and(|line| self.field(line));
        if known || line.starts_with("No value(s)") || line.starts_with("Full Help: Error") {
            self.in_help = false;
        } else if line == "Help:" {
            self.in_help = true;
            self.metric.help = Some(String::new());
        } else if let (true, Some(help)) = (self.in_help, &mut self.metric.help) {
            if !help.is_empty() {
                help.push('\n');
            }
            help.push_str(line);
        } else if let Some(value) =
            self.last_value.as_ref().and_then(|instance| self.metric.values.get_mut(instance))
        {
            // A string value of several lines; the blank line ends the block.
            if !line.is_empty() {
                value.push('\n');
                value.push_str(line);
            }
        }
    }

    /// Parses an indented line; false if pminfo would print no such line.
    fn field(&mut self, line: &str) -> bool {
        let metric = &mut self.metric;
        if let Some((data_type, indom)) = pair(line, "Data Type: ", "  InDom: ") {
            data_type.clone_into(&mut metric.data_type);
            let word = indom.split(' ').next().unwrap_or_default();
            metric.indom = (word != "PM_INDOM_NULL").then(|| word.to_owned());
        } else if let Some((semantics, units)) = pair(line, "Semantics: ", "  Units: ") {
            semantics.clone_into(&mut metric.semantics);
            units.clone_into(&mut metric.units);
        } else if let Some(text) = line.strip_prefix("labels ") {
            metric.labels = labels(text);
        } else if let Some(value) = line.strip_prefix("value ") {
            metric.values.insert(String::new(), value.to_owned());
            self.last_value = Some(String::new());
        } else if let Some((instance, text)) = pair(line, "inst [", "] labels ") {
            metric.instance_labels.insert(instance.to_owned(), labels(text));
        } else if let Some((instance, value)) = pair(line, "inst [", "] value ") {
            metric.values.insert(instance.to_owned(), value.to_owned());
            self.last_value = Some(instance.to_owned());
        } else {
            return false;
        }
        true
    }

    fn end(mut self) -> Metric {
        if let Some(help) = &mut self.metric.help {
            help.truncate(help.trim_end().len());
        }
        self.metric
    }
}

/// Splits `<prefix>ONE<middle>TWO` into `ONE` and `TWO`.
fn pair<'a>(line: &'a str, prefix: &str, middle: &str) -> Option<(&'a str, &'a str)> {
    line.strip_prefix(prefix)?.split_once(middle)
}

/// Parses labels, without those that depend on the machine.
///
/// A nested label stands under its innermost name: releases of PCP print
/// `{"map":{"a":{"b":1}}}` as `map.a.b`, `map.b` or `b`.
pub(crate) fn labels(text: &str) -> Labels {
    let mut found = Labels::new();
    let parsed: Value =
        serde_json::from_str(text).unwrap_or_else(|error| panic!("labels {text}: {error}"));
    flatten("", &parsed, &mut found);
    for machine in ["hostname", "domainname", "machineid", "userid", "groupid"] {
        found.remove(machine);
    }
    found
}

fn flatten(name: &str, value: &Value, found: &mut Labels) {
    match value {
        Value::Object(entries) => {
            entries.iter().for_each(|(name, value)| flatten(name, value, found));
        }
        other => {
            let innermost = name.rsplit('.').next().unwrap_or(name);
            found.insert(innermost.to_owned(), other.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_of_every_line_is_read_whole() {
        let printed = "\nmmv.a.busy PMID: 70.1.6 [one]\n    Data Type: 64-bit int  InDom: 70.2049 0x1180\n    Semantics: counter  Units: microsec\n    labels {\"agent\":\"mmv\",\"hostname\":\"here\",\"map\":{\"a\":{\"b\":1}}}\nHelp:\nfirst\n\nthird\n    inst [0 or \"x y\"] value 5\n    inst [0 or \"x y\"] labels {\"zone\":\"a\"}\n\nmmv.a.text PMID: 70.1.7 One-line Help: Error: none\n    Data Type: string  InDom: PM_INDOM_NULL 0xffffffff\n    Semantics: discrete  Units: none\n    labels {}\nFull Help: Error: none\n    value \"two\nlines\"\n";
        let metrics = parse(printed);
        let busy = &metrics["mmv.a.busy"];
        assert_eq!((busy.pmid.as_str(), busy.indom.as_deref()), ("70.1.6", Some("70.2049")));
        assert_eq!(busy.help.as_deref(), Some("first\n\nthird"));
        assert_eq!(busy.values["0 or \"x y\""], "5");
        assert_eq!(busy.instance_labels["0 or \"x y\""]["zone"], "a");
        assert_eq!(busy.labels.keys().collect::<Vec<_>>(), ["agent", "b"]);
        let text = &metrics["mmv.a.text"];
        assert_eq!((&text.indom, &text.one_line, &text.help), (&None, &None, &None));
        assert_eq!(text.values[""], "\"two\nlines\"");
    }
}
