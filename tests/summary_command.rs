//! Summaries of the archives of the corpus, against those of pmlogsummary.
//!
//! Where the two differ and why is the table in the documentation of
//! `pcp_archive::summary`; [`deviation`] knows its rows, and everything else
//! must be equal as far as pmlogsummary prints it.

use std::collections::BTreeMap;
use std::path::Path;

use pcp_archive::replay::Decrease;
use pcp_archive::scan::Selection;
use pcp_archive::summary::{MetricSummary, Statistics, summarize};
use pcp_archive::{Archive, InstanceId, Pmid, Semantics};

use crate::harness::corpus::Corpus;
use crate::harness::oracle::Oracle;

const PLACES: &str = "9";

/// The figures of an instance in the order in which pmlogsummary prints them.
const NAMES: [&str; 5] = ["stochastic average", "time average", "minimum", "maximum", "count"];

/// A metric, which may have several names, and the name of an instance or else
/// its number.
type Key = (Pmid, String);

/// Counters of an archive whose value blocks have a stale type, so that libpcp
/// does not swap their bytes.
const STALE_TYPES: (&str, [&str; 2]) = ("babylon.pmview_v2", ["disk.all.read", "disk.all.write"]);

#[derive(Debug)]
struct Figures {
    figures: [f64; 5],
    units: String,
}

#[test]
fn summaries_of_the_corpus_are_those_of_pmlogsummary() {
    let (Some(oracle), Some(corpus)) = (Oracle::find(), Corpus::find()) else { return };
    let (mut compared, mut differences) = (0, Vec::new());
    for (name, base) in corpus.archives() {
        let archive = Archive::open(&base).unwrap_or_else(|error| panic!("{name}: {error}"));
        let ours = of_ours(&archive);
        let theirs = of_pmlogsummary(&oracle, &archive, &base);
        let context = Context::new(&name, &archive);
        for (key, expected) in &theirs {
            compared += 1;
            differences.extend(context.compare(key, ours.get(key), expected.as_ref()));
        }
        let only_ours = ours.keys().filter(|key| !theirs.contains_key(*key));
        differences.extend(only_ours.map(|key| format!("{name} {key:?}: only ours has it")));
    }
    assert!(compared > 5000, "only {compared} summaries compared");
    let shown = differences.iter().take(20).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(differences.is_empty(), "{} differences, such as\n{shown}", differences.len());
}

/// One archive, with the reasons for which pmlogsummary differs.
struct Context<'a> {
    name: &'a str,
    archive: &'a Archive,
    has_marks: bool,
}

impl<'a> Context<'a> {
    fn new(name: &'a str, archive: &'a Archive) -> Self {
        let mut records = archive.records().unwrap();
        let mut has_marks = false;
        while let Some(record) = records.next().unwrap() {
            has_marks |= record.is_mark();
        }
        Self { name, archive, has_marks }
    }

    fn compare(
        &self,
        key: &Key,
        found: Option<&Option<(Statistics, String)>>,
        expected: Option<&Figures>,
    ) -> Option<String> {
        let metric = self.archive.metadata().metric(key.0)?;
        let name = metric.display_name();
        if self.name == STALE_TYPES.0 && STALE_TYPES.1.contains(&name.as_str()) {
            return None;
        }
        let place = format!("{} {name}[{}]", self.name, key.1);
        let (found, expected) = match (found, expected) {
            (Some(Some(found)), Some(expected)) => (found, expected),
            (Some(None), None) => return None,
            (found, expected) => {
                return Some(format!("{place}: found {found:?}, expected {expected:?}"));
            }
        };
        let (statistics, units) = found;
        // Release 6.0.3 knows no units of power and current.
        if *units != expected.units && metric.desc.units.extra_unit() == 0 {
            return Some(format!("{place}: units {units}, expected {}", expected.units));
        }
        let figures = [
            statistics.stochastic_average,
            statistics.time_average,
            statistics.minimum.value,
            statistics.maximum.value,
            statistics.count as f64,
        ];
        let pairs = NAMES.iter().zip(figures.iter().zip(&expected.figures));
        let mut others = pairs.filter(|(name, (found, expected))| {
            !is_close(**found, **expected) && self.deviation(key, name, statistics).is_none()
        });
        let (name, (found, expected)) = others.next()?;
        Some(format!("{place}: {name} {found}, expected {expected}"))
    }

    /// Returns why pmlogsummary has another figure.
    fn deviation(&self, key: &Key, figure: &str, ours: &Statistics) -> Option<&'static str> {
        let metric = self.archive.metadata().metric(key.0)?;
        match (metric.desc.semantics, figure) {
            (Semantics::Discrete, "stochastic average") => {
                Some("the last value counts again at each mark and at the end")
            }
            (Semantics::Discrete, "time average") if self.has_marks => {
                Some("a value lasts beyond a mark, up to the next one")
            }
            (_, "time average") if ours.seconds <= 0.0 => Some("0 where no time passes"),
            _ => None,
        }
    }
}

/// Returns the summaries of all metrics, with the units as pmlogsummary writes them.
fn of_ours(archive: &Archive) -> BTreeMap<Key, Option<(Statistics, String)>> {
    let mut selection = Selection::new(archive);
    selection.select("");
    let span = archive.label().start..=archive.end();
    let summaries = summarize(&selection, span, Decrease::Reset).unwrap();
    let mut ours = BTreeMap::new();
    for summary in summaries {
        let units = summary.units.to_string();
        let units = if units.is_empty() { "none".to_owned() } else { units };
        for instance in &summary.instances {
            let title = title(archive, &summary, instance.instance);
            let statistics = instance.statistics.clone();
            let found = statistics.map(|statistics| (statistics, units.clone()));
            ours.insert((summary.metric.desc.pmid, title), found);
        }
    }
    ours
}

fn title(archive: &Archive, summary: &MetricSummary, instance: Option<InstanceId>) -> String {
    let Some(instance) = instance else { return String::new() };
    let history = summary.metric.desc.indom.and_then(|i| archive.metadata().indom_history(i));
    let name = history.and_then(|history| history.name_at(instance, archive.end()));
    name.map_or_else(|| instance.get().to_string(), str::to_owned)
}

/// Parses `NAME TAB [INSTANCE] TAB FIGURE ... TAB UNITS`, an asterisk in front.
fn of_pmlogsummary(
    oracle: &Oracle,
    archive: &Archive,
    base: &Path,
) -> BTreeMap<Key, Option<Figures>> {
    let base = base.to_str().expect("a path in ASCII");
    let output = oracle.output("pmlogsummary", &["-bmMyf", "-p", PLACES, base]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(|line| line_of(archive, line)).collect()
}

fn line_of(archive: &Archive, line: &str) -> (Key, Option<Figures>) {
    let mut fields = line.trim_start_matches('*').split('\t');
    let mut next = || fields.next().unwrap_or_else(|| panic!("{line}"));
    let name = next();
    let metric = archive.metadata().metric_by_name(name).unwrap_or_else(|| panic!("{line}"));
    let pmid = metric.desc.pmid;
    let instance = next().trim_matches(['[', ']']).trim_matches('"').to_owned();
    let first = next();
    if first.starts_with("- insufficient") {
        return ((pmid, instance), None);
    }
    let figures = [first, next(), next(), next(), next()]
        .map(|text| text.parse::<f64>().unwrap_or_else(|_| panic!("{line}")));
    ((pmid, instance), Some(Figures { figures, units: next().to_owned() }))
}

/// Returns whether figures are equal as far as they are printed. Release 6.0.3 takes times in
/// microseconds, which is as much as a thousandth of the shortest intervals.
fn is_close(found: f64, expected: f64) -> bool {
    let difference = (found - expected).abs();
    difference <= 2e-9 || difference <= 1e-5 * found.abs().max(expected.abs())
}
