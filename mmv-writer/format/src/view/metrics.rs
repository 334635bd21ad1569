//! Metric descriptors.

use hashbrown::HashSet;
use pcp_types::{Semantics, Units, ValueType};
use zerocopy::FromBytes;

use super::indoms::{Indoms, NameField};
use super::section::{CopiedEntry, Section};
use super::{Lookup, Metric, MetricKind, Parser, Problem, ReadError, Refusal, Source, lossy};
use crate::layout::{MAX_ITEM, MetricV1, MetricV2, NAME_BYTES, SectionKind, TYPE_ELAPSED, Version};
use pcp_types::names::is_metric_name;

/// The metrics, and the metric of each entry of the section.
pub(super) struct Metrics {
    pub(super) all: Vec<Metric>,
    /// Index in `all`, by number of the copied entry; `None` for entries left out.
    by_entry: Vec<Option<usize>>,
    items: HashSet<u32>,
    removed: HashSet<u32>,
}

impl Metrics {
    /// Looks up the metric of the entry at `offset`: its index in `all`.
    pub(super) fn index_at(&self, section: &Section, offset: u64) -> Lookup<usize> {
        Lookup::new(&section.find(offset), &self.by_entry)
    }

    pub(super) fn has_item(&self, item: u32) -> bool {
        self.items.contains(&item)
    }

    pub(super) fn was_removed(&self, item: u32) -> bool {
        self.removed.contains(&item)
    }
}

/// Parses the section. A metric that was removed is not listed.
pub(super) fn parse<S: Source + ?Sized>(
    parser: &mut Parser<'_, S>,
    indoms: &Indoms,
) -> Result<Metrics, Refusal> {
    let sections = parser.sections;
    let section = sections.get(SectionKind::Metrics);
    let mut metrics = Metrics {
        all: Vec::new(),
        by_entry: parser.budget.filled(None, section.copies())?,
        items: HashSet::new(),
        removed: HashSet::new(),
    };
    let mut taken = UsedNames::default();
    for entry in section.copies_in(0..section.copies()) {
        let CopiedEntry { number, index, offset, .. } = entry;
        let Some((name, raw)) = raw_metric(entry, parser.version()) else { continue };
        if raw.name == MetricV2::REMOVED {
            metrics.removed.insert(raw.item);
            continue;
        }
        if raw.name == 0 && sections.growing.is_some() {
            // Its program was killed while it wrote the entry.
            continue;
        }
        let metric = read_metric(parser, &name, &raw, indoms, &mut taken);
        let Some(mut metric) = parser.settle(SectionKind::Metrics, index, offset, metric)? else {
            continue;
        };
        metric.short_help = parser.help(SectionKind::Metrics, index, offset, raw.short_help)?;
        metric.long_help = parser.help(SectionKind::Metrics, index, offset, raw.long_help)?;
        if let Some(slot) = metrics.by_entry.get_mut(number) {
            *slot = Some(metrics.all.len());
        }
        parser.budget.push(&mut metrics.all, metric)?;
    }
    metrics.items = taken.items;
    Ok(metrics)
}

/// Names and items of the metrics so far, to detect duplicates.
#[derive(Default)]
struct UsedNames {
    names: HashSet<String>,
    items: HashSet<u32>,
}

/// Converts an entry of any version to a version 2 one, with the name apart.
fn raw_metric(entry: CopiedEntry<'_>, version: Version) -> Option<(NameField<'_>, MetricV2)> {
    if version == Version::V1 {
        let raw = MetricV1::read_from_bytes(entry.bytes).ok()?;
        let name = entry.bytes.get(..NAME_BYTES)?;
        return Some((NameField::Inline(name, entry.offset), without_name(&raw)));
    }
    let raw = MetricV2::read_from_bytes(entry.bytes).ok()?;
    Some((NameField::At(raw.name), raw))
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

/// Reads an entry's metric, without its help texts.
fn read_metric<S: Source + ?Sized>(
    parser: &mut Parser<'_, S>,
    name: &NameField<'_>,
    raw: &MetricV2,
    indoms: &Indoms,
    taken: &mut UsedNames,
) -> Result<Metric, ReadError> {
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

/// Checks everything about a descriptor but its help texts.
fn check(
    name: &str,
    raw: &MetricV2,
    indoms: &Indoms,
    taken: &UsedNames,
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
