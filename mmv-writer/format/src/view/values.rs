//! Locations of the values.

use hashbrown::HashSet;
use pcp_types::InstanceId;

use super::indoms::{EntryOwner, Indoms};
use super::metrics::Metrics;
use super::section::CopiedEntry;
use super::{Lookup, MetricKind, Parser, Problem, Refusal, Source, ValueLocation};
use crate::layout::{EXTRA_OFFSET, STRING_BYTES, SectionKind, ValueEntry};

/// Approximate memory of a key of `seen`.
const SEEN_BYTES: u64 = 40;

/// Parses the section.
///
/// The value of a metric or instance that was left out is not listed, since that entry is listed
/// already.
pub(super) fn parse<S: Source + ?Sized>(
    parser: &mut Parser<'_, S>,
    indoms: &Indoms,
    metrics: &Metrics,
) -> Result<Vec<ValueLocation>, Refusal> {
    let sections = parser.sections;
    let section = sections.get(SectionKind::Values);
    let mut values = Vec::new();
    // Most files list them in the order of metrics and of instance entries: then a comparison
    // with the last one shows that the value is new, since no two entries of a domain have the
    // same number.
    let mut last: Option<(usize, u64)> = None;
    let mut seen: Option<HashSet<(usize, Option<InstanceId>)>> = None;
    let key = |value: &ValueLocation| (value.metric, value.instance);
    for (entry, raw) in section.entries::<ValueEntry>() {
        let CopiedEntry { index, offset, .. } = entry;
        if raw.metric == 0 {
            continue;
        }
        match read_value(parser, indoms, metrics, offset, &raw) {
            Ok(Some(value)) => {
                let entries = (value.metric, raw.instance);
                if seen.is_none() && last.is_some_and(|last| last >= entries) {
                    parser.budget.spend(values.len() as u64 * SEEN_BYTES)?;
                    seen = Some(values.iter().map(key).collect());
                }
                last = Some(entries);
                if seen.is_some() {
                    parser.budget.spend(SEEN_BYTES)?;
                }
                if seen.as_mut().is_none_or(|seen| seen.insert(key(&value))) {
                    parser.budget.push(&mut values, value)?;
                } else {
                    let problem =
                        Problem::ValueTwice { metric: raw.metric, instance: raw.instance };
                    parser.skip(SectionKind::Values, index, offset, problem);
                }
            }
            Ok(None) => {}
            Err(problem) => parser.skip(SectionKind::Values, index, offset, problem),
        }
    }
    Ok(values)
}

fn read_value<S: Source + ?Sized>(
    parser: &Parser<'_, S>,
    indoms: &Indoms,
    metrics: &Metrics,
    offset: u64,
    raw: &ValueEntry,
) -> Result<Option<ValueLocation>, Problem> {
    let metric = match metrics.index_at(parser.sections.get(SectionKind::Metrics), raw.metric) {
        Lookup::Nothing => return Err(Problem::NotAMetric { found: raw.metric }),
        Lookup::LeftOut => return Ok(None),
        Lookup::Found(metric) => metric,
    };
    let Some(descriptor) = metrics.all.get(metric) else { return Ok(None) };
    let instance = match descriptor.indom {
        None if raw.instance == 0 => None,
        None => return Err(Problem::NotAnInstance { found: raw.instance }),
        Some(serial) => match instance_of(parser, indoms, serial, raw.instance)? {
            Some(owner) => Some(owner),
            None => return Ok(None),
        },
    };
    let string = match descriptor.kind {
        MetricKind::String => Some(string_of(parser, raw.extra)?),
        _ => None,
    };
    Ok(Some(ValueLocation {
        metric,
        instance: instance.map(|owner| owner.id),
        cell: offset,
        extra: offset + EXTRA_OFFSET,
        string,
        metric_at: raw.metric,
        instance_at: raw.instance,
        instance_reuses: instance.map_or(0, |owner| owner.reuses),
    }))
}

/// Looks up the instance entry at `offset`, which must be in the domain of `serial`; `None` if it
/// was left out.
fn instance_of<S: Source + ?Sized>(
    parser: &Parser<'_, S>,
    indoms: &Indoms,
    serial: u32,
    offset: u64,
) -> Result<Option<EntryOwner>, Problem> {
    let problem = Problem::NotAnInstance { found: offset };
    let section = parser.sections.get(SectionKind::Instances);
    match indoms.instance_at(section, offset) {
        Lookup::LeftOut => Ok(None),
        Lookup::Found(owner) if Some(owner.domain as usize) == indoms.find(serial) => {
            Ok(Some(owner))
        }
        Lookup::Nothing | Lookup::Found(_) => Err(problem),
    }
}

fn string_of<S: Source + ?Sized>(parser: &Parser<'_, S>, extra: i64) -> Result<u64, Problem> {
    let problem = Problem::NotAString { found: extra };
    let offset = u64::try_from(extra).map_err(|_| problem.clone())?;
    let strings = parser.sections.get(SectionKind::Strings);
    strings.holds(offset, STRING_BYTES as u64).then_some(offset).ok_or(problem)
}
