//! Selectors: texts that select metrics and instances by name and by labels.
//!
//! In: `mmv.shop.requests{code="500", path=~"/api/.*"}`, with the matchers of Prometheus.
//! Out: the metrics of the name, and which of their instances have such labels.
//!
//! | matcher | true if the label |
//! |---|---|
//! | `code="500"` | is `500` |
//! | `code!="500"` | is not `500`, or there is none |
//! | `code=~"5.."` | matches the regular expression, as a whole |
//! | `code!~"5.."` | does not match, or there is none |
//!
//! A label that is not there is empty: `code=""` selects what has no `code`. The labels of
//! an instance are the newest that it had, and those that it inherits from its metric,
//! cluster, domain and host at the end of the archive. A bucket also has the labels of the
//! histogram that it is of.

use std::collections::BTreeMap;
use std::str::FromStr;

use hashbrown::{HashMap, HashSet};
use regex_lite::Regex;

use super::histogram::HistogramLayout;
use crate::{
    InDom, IndomHistory, InstanceId, LabelHistory, LabelSet, LabelTarget, Metadata, Metric,
    MetricDesc, Timestamp,
};

/// A text that is not a selector, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error(
    "\"{text}\": {reason}, in a selector such as mmv.shop.requests{{code=\"500\",path=~\"/a.*\"}}"
)]
pub struct SelectorError {
    text: String,
    reason: String,
}

impl SelectorError {
    /// Returns the reason why the text is not a selector.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

/// A name, a branch of the name space or a pattern, and what labels must be.
#[derive(Debug, Clone)]
pub struct Selector {
    name: String,
    matchers: Vec<Matcher>,
}

#[derive(Debug, Clone)]
struct Matcher {
    label: String,
    test: Test,
    /// The test must fail.
    negated: bool,
}

#[derive(Debug, Clone)]
enum Test {
    Equals(String),
    Matches(Regex),
}

impl Matcher {
    fn accepts(&self, value: &str) -> bool {
        let is_met = match &self.test {
            Test::Equals(wanted) => wanted == value,
            Test::Matches(regex) => regex.is_match(value),
        };
        is_met != self.negated
    }
}

/// Labels by name, as text: strings without quotes.
type Labels = BTreeMap<String, String>;

impl Selector {
    /// Selects a name, branch or pattern without labels; braces in it have no meaning.
    pub fn of_name(name: &str) -> Self {
        Self { name: name.to_owned(), matchers: Vec::new() }
    }

    /// Parses a selector. A name that an archive has is not a selector, whatever it looks like.
    ///
    /// # Errors
    ///
    /// [`SelectorError`] for a text that is neither.
    pub fn parse_in(text: &str, metadata: &Metadata) -> Result<Self, SelectorError> {
        let is_name = metadata.metric_by_name(text).is_some();
        if is_name { Ok(Self::of_name(text)) } else { text.parse() }
    }

    /// Returns the name, branch or pattern; empty for all metrics.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether labels decide.
    pub fn has_matchers(&self) -> bool {
        !self.matchers.is_empty()
    }

    /// Returns the names of the labels that decide.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        self.matchers.iter().map(|matcher| matcher.label.as_str())
    }

    /// Returns the metrics that are selected by the names, in their order, and which of their
    /// instances, if not all. Without any such instance a metric is not selected.
    pub fn select<'m>(
        &'m self,
        metadata: &'m Metadata,
    ) -> impl Iterator<Item = (&'m str, &'m Metric, Option<HashSet<InstanceId>>)> {
        metadata.select(&self.name).filter_map(move |(name, metric)| {
            if !self.has_matchers() {
                return Some((name, metric, None));
            }
            let labels = MetricLabels::new(metadata, &metric.desc);
            let ids = self.instances(&labels, metric.desc.indom);
            let is_any = ids.as_ref().is_none_or(|ids| !ids.is_empty());
            is_any.then_some((name, metric, ids))
        })
    }

    /// Returns the instances of a metric that have such labels; `None` for a metric without
    /// instances that has them.
    pub(crate) fn instances(
        &self,
        labels: &MetricLabels,
        indom: Option<InDom>,
    ) -> Option<HashSet<InstanceId>> {
        if indom.is_none() && self.accepts(&labels.inherited, None) {
            return None;
        }
        let own = labels.own.iter();
        let accepted = own.filter(|(_, own)| self.accepts(&labels.inherited, Some(own)));
        Some(accepted.map(|(id, _)| *id).collect())
    }

    /// Returns a label that decides, that no instance of a metric has and that must not be empty.
    pub(crate) fn unknown_label(&self, labels: &MetricLabels) -> Option<&str> {
        let names = labels.names();
        self.matchers
            .iter()
            .find(|matcher| !names.contains(&matcher.label.as_str()) && !matcher.accepts(""))
            .map(|matcher| matcher.label.as_str())
    }

    /// Returns whether the labels of an instance of a metric are selected.
    pub fn selects_instance(
        &self,
        metadata: &Metadata,
        desc: &MetricDesc,
        instance: Option<InstanceId>,
    ) -> bool {
        if !self.has_matchers() {
            return true;
        }
        let labels = MetricLabels::new(metadata, desc);
        self.accepts(&labels.inherited, instance.and_then(|id| labels.own.get(&id)))
    }

    fn accepts(&self, inherited: &Labels, own: Option<&Labels>) -> bool {
        self.matchers.iter().all(|matcher| {
            let own = own.and_then(|own| own.get(&matcher.label));
            let value = own.or_else(|| inherited.get(&matcher.label));
            matcher.accepts(value.map_or("", String::as_str))
        })
    }
}

/// The labels of a metric and those of its instances.
#[derive(Debug)]
pub struct MetricLabels {
    inherited: Labels,
    own: HashMap<InstanceId, Labels>,
}

impl MetricLabels {
    /// Returns the labels at the end of the archive; of instances the newest that they had.
    pub fn new(metadata: &Metadata, desc: &MetricDesc) -> Self {
        let mut inherited = Labels::new();
        for target in LabelTarget::of_metric(desc) {
            for set in metadata.labels_at(target, Timestamp::MAX).unwrap_or_default() {
                inherited.extend(pairs(set));
            }
        }
        let mut own = desc.indom.map(|indom| of_instances(metadata, indom)).unwrap_or_default();
        if let Some(layout) = layout_of(metadata, desc)
            && let Some(indom) = layout.indom()
        {
            let of_histograms = of_instances(metadata, indom);
            for (id, labels) in &mut own {
                let histogram = layout.bucket(*id).and_then(|bucket| bucket.histogram);
                let of_histogram = histogram.and_then(|id| of_histograms.get(&id));
                for (name, value) in of_histogram.into_iter().flatten() {
                    labels.entry(name.clone()).or_insert_with(|| value.clone());
                }
            }
        }
        Self { inherited, own }
    }

    /// Returns the labels of the instances of a domain, whatever metric has it.
    pub fn of_domain(metadata: &Metadata, indom: InDom) -> Self {
        Self { inherited: Labels::new(), own: of_instances(metadata, indom) }
    }

    /// Returns the value of a label of an instance; empty without the label.
    pub(crate) fn value(&self, instance: InstanceId, label: &str) -> &str {
        let own = self.own.get(&instance).and_then(|own| own.get(label));
        own.or_else(|| self.inherited.get(label)).map_or("", String::as_str)
    }

    /// Returns the own labels of an instance, by name: without those that it inherits.
    pub fn of_instance(&self, instance: InstanceId) -> Option<&BTreeMap<String, String>> {
        self.own.get(&instance)
    }

    /// Returns the names of all labels, sorted.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.all().flat_map(Labels::keys).map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Returns all values of a label, sorted.
    pub fn values(&self, name: &str) -> Vec<&str> {
        let mut values: Vec<&str> =
            self.all().filter_map(|labels| labels.get(name)).map(String::as_str).collect();
        values.sort_unstable();
        values.dedup();
        values
    }

    fn all(&self) -> impl Iterator<Item = &Labels> {
        std::iter::once(&self.inherited).chain(self.own.values())
    }
}

fn of_instances(metadata: &Metadata, indom: InDom) -> HashMap<InstanceId, Labels> {
    let domain = metadata.indom_history(indom);
    let named =
        domain.map(IndomHistory::by_identity).into_iter().flat_map(IndomHistory::ever_named);
    let mut all: HashMap<InstanceId, Labels> =
        named.map(|instance| (instance.id, Labels::new())).collect();
    let history = metadata.label_history(LabelTarget::Instances(indom));
    for state in history.into_iter().flat_map(LabelHistory::states) {
        for set in &state.sets {
            let identity = match (set.instance, domain) {
                (Some(number), Some(domain)) => domain.identity_at(number, state.timestamp),
                (number, _) => number,
            };
            if let Some(id) = identity {
                all.insert(id, pairs(set).collect());
            }
        }
    }
    all
}

/// Returns the layout of the histogram whose buckets a metric counts.
fn layout_of(metadata: &Metadata, desc: &MetricDesc) -> Option<HistogramLayout> {
    let names = &metadata.metric(desc.pmid)?.names;
    names.iter().find_map(|name| HistogramLayout::find(metadata, name, desc))
}

fn pairs(set: &LabelSet) -> impl Iterator<Item = (String, String)> {
    set.pairs().map(|(name, value, _)| (name.to_owned(), unquoted(value)))
}

/// Returns a JSON value as text: a string without its quotes and escapes.
fn unquoted(value: &str) -> String {
    let value = value.trim();
    let Some(inner) = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')) else {
        return value.to_owned();
    };
    pcp_types::json::unescape(inner)
}

impl FromStr for Selector {
    type Err = SelectorError;

    /// Reads `NAME`, `NAME{LABEL="VALUE",...}` or `{LABEL="VALUE"}`.
    fn from_str(text: &str) -> Result<Self, SelectorError> {
        let wrong = |reason: String| SelectorError { text: text.to_owned(), reason };
        let Some((name, rest)) = text.split_once('{') else {
            return Ok(Self::of_name(text));
        };
        let mut rest = rest.trim_start();
        let mut matchers = Vec::new();
        loop {
            if let Some(after) = rest.strip_prefix('}') {
                if !after.trim().is_empty() {
                    return Err(wrong(format!("nothing may follow the brace, found {after}")));
                }
                return Ok(Self { name: name.trim().to_owned(), matchers });
            }
            let (matcher, after) = matcher(rest).map_err(wrong)?;
            matchers.push(matcher);
            rest = after.trim_start();
            match rest.strip_prefix(',') {
                Some(after) => rest = after.trim_start(),
                None if rest.starts_with('}') => {}
                None => return Err(wrong("a comma or a brace is missing".to_owned())),
            }
        }
    }
}

fn matcher(text: &str) -> Result<(Matcher, &str), String> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.');
    let (label, rest) = text.split_at(end.unwrap_or(text.len()));
    if label.is_empty() {
        return Err("the name of a label is missing".to_owned());
    }
    let rest = rest.trim_start();
    let operators =
        [("=~", true, false), ("!~", true, true), ("!=", false, true), ("=", false, false)];
    let found = operators.into_iter().find_map(|(operator, is_regex, negated)| {
        Some((rest.strip_prefix(operator)?, is_regex, negated))
    });
    let (rest, is_regex, negated) =
        found.ok_or_else(|| format!("{label} is followed by none of =, !=, =~ and !~"))?;
    let (value, rest) = quoted(rest.trim_start())
        .ok_or_else(|| format!("the value of {label} is not between quotes"))?;
    let condition = if is_regex {
        let anchored = format!("^(?s:{value})$");
        Test::Matches(Regex::new(&anchored).map_err(|error| format!("{label}: {error}"))?)
    } else {
        Test::Equals(value)
    };
    Ok((Matcher { label: label.to_owned(), test: condition, negated }, rest))
}

/// Returns a text between `"` or `'`, in which a backslash quotes the next character, and what
/// follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next().filter(|c| ['"', '\''].contains(c))?;
    let mut value = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        if c == quote {
            return Some((value, text.get(at + 1..)?));
        }
        if c != '\\' {
            value.push(c);
            continue;
        }
        match chars.next()?.1 {
            'n' => value.push('\n'),
            't' => value.push('\t'),
            c if c == quote || c == '\\' => value.push(c),
            // Of a regular expression: `\d`.
            other => value.extend(['\\', other]),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(selector: &str, own: &[(&str, &str)]) -> bool {
        let selector: Selector = selector.parse().unwrap();
        let own = own.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let inherited = Labels::from([("host".to_owned(), "web-1".to_owned())]);
        selector.accepts(&inherited, Some(&own.collect()))
    }

    #[test]
    fn matchers_mean_what_they_mean_in_prometheus() {
        let own = [("code", "500"), ("path", "/a")];
        for (selector, expected) in [
            (r#"m{code="500"}"#, true),
            (r#"m{code="50"}"#, false),
            (r#"m{code!="500"}"#, false),
            (r#"m{code=~"5.."}"#, true),
            (r#"m{code=~"5."}"#, false),
            (r#"m{code!~"5.."}"#, false),
            (r#"m{code=~"4..|5.."}"#, true),
            (r#"m{code=~"\\d+"}"#, true),
            (r#"m{code=~"\d+", path = '/a' , }"#, true),
            (r#"m{code="500",path="/b"}"#, false),
            (r#"m{host="web-1"}"#, true),
            (r#"m{none=""}"#, true),
            (r#"m{none!=""}"#, false),
            (r#"m{none!="x"}"#, true),
            (r#"{code=~".+"}"#, true),
            ("m{}", true),
        ] {
            assert_eq!(accepts(selector, &own), expected, "{selector}");
        }
        assert!(accepts(r#"m{q="a\"b\\c"}"#, &[("q", "a\"b\\c")]));
        assert!(accepts(r#"m{host="web-2"}"#, &[("host", "web-2")]), "its own comes first");
    }

    #[test]
    fn other_text_is_refused_with_the_reason() {
        for (text, reason) in [
            ("m{", "the name of a label is missing"),
            ("m{code}", "code is followed by none of"),
            ("m{code=500}", "the value of code is not between quotes"),
            (r#"m{code="500}"#, "the value of code is not between quotes"),
            (r#"m{code="500"} x"#, "nothing may follow the brace"),
            (r#"m{code="500" path="a"}"#, "a comma or a brace is missing"),
            (r#"m{code=~"("}"#, "code: "),
        ] {
            let error = text.parse::<Selector>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
