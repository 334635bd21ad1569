//! Metric descriptors.

use hashbrown::HashSet;
use pcp_types::{Semantics, Units, ValueType};

use super::indoms::{Indoms, NameField};
use super::sections::Section;
use super::{Lookup, Metric, MetricKind, Parser, Problem, Refusal, Source, Trouble, lossy};
use crate::layout::{MAX_ITEM, MetricV1, MetricV2, SectionKind, TYPE_ELAPSED, Version};
use pcp_types::names::is_metric_name;

/// The metrics, and which of them each entry of the section is.
pub(super) struct Metrics {
    pub(super) all: Vec<Metric>,
    /// By index of the metrics section; `None` for entries left out.
    by_entry: Vec<Option<usize>>,
    entry_bytes: usize,
    /// The items of metrics that were removed.
    removed: Vec<u32>,
}

impl Metrics {
    /// The metric of the entry at `offset`: its index in `all`.
    pub(super) fn at(&self, section: &Section, offset: u64) -> Lookup<usize> {
        let index = section.index_of(offset, self.entry_bytes);
        Lookup::new(index.and_then(|index| self.by_entry.get(index)))
    }

    /// Whether a metric that was removed had this item.
    pub(super) fn was_removed(&self, item: u32) -> bool {
        self.removed.contains(&item)
    }
}

/// Reads the section. A metric that was removed is not listed.
pub(super) fn parse<S: Source + ?Sized>(
    parser: &mut Parser<'_, S>,
    indoms: &Indoms,
) -> Result<Metrics, Refusal> {
    let section = parser.sections.get(SectionKind::Metrics);
    let mut metrics = Metrics {
        all: Vec::new(),
        by_entry: Vec::new(),
        entry_bytes: SectionKind::Metrics.entry_bytes(parser.version()),
        removed: Vec::new(),
    };
    let raw_metrics = raw_metrics(section, parser.version());
    let mut taken = Taken::with_capacity(raw_metrics.len());
    for (index, offset, name, raw) in raw_metrics {
        if raw.name == MetricV2::REMOVED {
            metrics.by_entry.push(None);
            metrics.removed.push(raw.item);
            continue;
        }
        let metric = read_metric(parser, &name, &raw, indoms, &mut taken);
        let metric = parser.settle(SectionKind::Metrics, index, offset, metric)?;
        metrics.by_entry.push(metric.as_ref().map(|_| metrics.all.len()));
        if let Some(mut metric) = metric {
            metric.short_help = parser.help(SectionKind::Metrics, index, offset, raw.short_help)?;
            metric.long_help = parser.help(SectionKind::Metrics, index, offset, raw.long_help)?;
            metrics.all.push(metric);
        }
    }
    Ok(metrics)
}

/// Names and items of the metrics so far.
struct Taken {
    names: HashSet<String>,
    items: HashSet<u32>,
}

impl Taken {
    fn with_capacity(metrics: usize) -> Self {
        Self { names: HashSet::with_capacity(metrics), items: HashSet::with_capacity(metrics) }
    }
}

/// Entries of any version, as version 2 ones with the name apart.
fn raw_metrics(section: &Section, version: Version) -> Vec<(usize, u64, NameField, MetricV2)> {
    if version == Version::V1 {
        let entries = section.entries::<MetricV1>();
        let raw = |(index, offset, entry): (usize, u64, MetricV1)| {
            let name = NameField::Inline(entry.name.into(), offset);
            (index, offset, name, without_name(&entry))
        };
        entries.map(raw).collect()
    } else {
        let entries = section.entries::<MetricV2>();
        let raw = |(index, offset, entry): (usize, u64, MetricV2)| {
            (index, offset, NameField::At(entry.name), entry)
        };
        entries.map(raw).collect()
    }
}

fn without_name(entry: &MetricV1) -> MetricV2 {
    MetricV2 {
        name: 0,
        item: entry.item,
        type_code: entry.type_code,
        semantics: entry.semantics,
        units: entry.units,
        indom: entry.indom,
        padding: entry.padding,
        short_help: entry.short_help,
        long_help: entry.long_help,
    }
}

/// An entry's metric, without its help texts.
fn read_metric<S: Source + ?Sized>(
    parser: &mut Parser<'_, S>,
    name: &NameField,
    raw: &MetricV2,
    indoms: &Indoms,
    taken: &mut Taken,
) -> Result<Metric, Trouble> {
    let name = lossy(name.read(parser)?);
    let (kind, semantics, indom) = check(&name, raw, indoms, taken)?;
    taken.names.insert(name.clone());
    taken.items.insert(raw.item);
    let elapsed = kind == MetricKind::Elapsed;
    Ok(Metric {
        name,
        item: raw.item,
        kind,
        semantics: if elapsed { Semantics::Counter } else { semantics },
        units: if elapsed { Units::microseconds() } else { Units::from_raw(raw.units) },
        indom,
        short_help: None,
        long_help: None,
    })
}

/// Everything about a descriptor but its texts.
fn check(
    name: &str,
    raw: &MetricV2,
    indoms: &Indoms,
    taken: &Taken,
) -> Result<(MetricKind, Semantics, Option<u32>), Problem> {
    if !is_metric_name(name) {
        return Err(Problem::Name { found: name.to_owned() });
    }
    if raw.item > MAX_ITEM {
        return Err(Problem::Item { found: raw.item });
    }
    let kind = kind_of(raw.type_code).ok_or(Problem::Type { found: raw.type_code })?;
    let semantics = semantics_of(raw.semantics)?;
    let indom = match raw.indom {
        0 | u32::MAX => None,
        serial if indoms.find(serial).is_some() => Some(serial),
        found => return Err(Problem::NoIndom { found }),
    };
    if taken.names.contains(name) {
        return Err(Problem::NameTwice { found: name.to_owned() });
    }
    if taken.items.contains(&raw.item) {
        return Err(Problem::ItemTwice { found: raw.item });
    }
    Ok((kind, semantics, indom))
}

fn kind_of(code: i32) -> Option<MetricKind> {
    if code == TYPE_ELAPSED {
        return Some(MetricKind::Elapsed);
    }
    match ValueType::from_code(code).ok()? {
        ValueType::String => Some(MetricKind::String),
        numeric if numeric.is_numeric() => Some(MetricKind::Numeric(numeric)),
        _ => None,
    }
}

fn semantics_of(code: i32) -> Result<Semantics, Problem> {
    if code == 0 {
        return Ok(Semantics::Counter);
    }
    Semantics::from_code(code).map_err(|_| Problem::Semantics { found: code })
}
