//! Conditions of `report --fail-if`: expressions that must hold in no row.

use std::sync::Arc;

use pcp_archive::replay::{Expression, Replay, ReplaySelection, Sample};
use pcp_archive::{InstanceId, Metadata, Timestamp, Value};

use super::samples::{Request, Samples};
use crate::Failure;
use crate::columns::{instance_title, names_in_replay};
use crate::text::shown;
use crate::time::Zone;

/// The result of a condition for the rows so far.
#[derive(Debug, Clone, Default)]
struct Finding {
    has_values: bool,
    /// Rows in which it holds for some instance.
    rows: usize,
    /// The first of them, and the first instance for which it holds there.
    first: Option<(Timestamp, Option<InstanceId>)>,
}

impl Finding {
    fn of_sample(sample: &Sample<'_>, metric: usize) -> Self {
        let values = sample.values.get(metric).into_iter().flatten();
        let mut found = Self::default();
        for (instance, value) in values {
            found.has_values = true;
            if found.rows == 0 && holds(*value) {
                found.rows = 1;
                found.first = Some((sample.timestamp, *instance));
            }
        }
        found
    }

    /// Adds a later row.
    fn add(&mut self, next: &Self) {
        self.has_values |= next.has_values;
        self.rows += next.rows;
        self.first = self.first.or(next.first);
    }
}

fn holds(value: Value<'_>) -> bool {
    value.as_f64().is_some_and(|value| value != 0.0 && !value.is_nan())
}

/// Adds conditions to a selection that has nothing else.
///
/// # Errors
///
/// [`Failure::Usage`], also for metrics that the archive does not have: a condition that cannot be
/// checked must not pass.
pub(super) fn select<'a>(
    mut selection: ReplaySelection<'a>,
    conditions: &[Expression],
) -> Result<ReplaySelection<'a>, Failure> {
    for condition in conditions {
        selection.derive(condition)?;
    }
    Ok(selection)
}

/// Evaluates conditions at the times of a request.
///
/// # Errors
///
/// [`Failure::Condition`] for the first condition that holds, [`Failure::NoData`] for one without
/// values.
pub(super) fn check(
    selection: ReplaySelection<'_>,
    conditions: &[Expression],
    request: &Request,
    zone: &Zone,
) -> Result<(), Failure> {
    let metadata = selection.source().metadata();
    let mut samples = Samples::new(selection, request)?;
    let mut found = vec![Finding::default(); conditions.len()];
    let of_sample = |sample: &Sample<'_>| -> Vec<Finding> {
        (0..conditions.len()).map(|place| Finding::of_sample(sample, place)).collect()
    };
    samples.for_each(request, of_sample, |findings| {
        for (all, next) in found.iter_mut().zip(findings) {
            all.add(&next);
        }
    })?;
    for (place, (condition, found)) in conditions.iter().zip(&found).enumerate() {
        let text = condition.name();
        if let Some((at, instance)) = found.first {
            let instance = title(metadata, samples.replay(), place, instance);
            let instance = instance.map(|name| format!(" of {name}")).unwrap_or_default();
            let others = match found.rows {
                1 => String::new(),
                rows => format!(", the first of {rows} rows"),
            };
            let text = format!("{text}: holds at {}{instance}{others}", zone.long(at));
            return Err(Failure::Condition(shown(&text).into_owned()));
        }
        if !found.has_values {
            let reason = format!("{text}: no value at these times");
            return Err(Failure::NoData(shown(&reason).into_owned()));
        }
    }
    Ok(())
}

fn title(
    metadata: &Metadata,
    replay: &Replay<'_>,
    place: usize,
    instance: Option<InstanceId>,
) -> Option<Arc<str>> {
    let indom = replay.metrics().nth(place)?.desc.indom;
    let names = indom.map(|indom| names_in_replay(metadata, replay, indom));
    let name = names.as_ref().zip(instance).and_then(|(names, id)| names.get(&id));
    instance_title(instance, name)
}
