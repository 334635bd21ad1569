//! The instances with the largest values, for `--top`.

use std::cmp::Ordering;

use hashbrown::HashMap;
use pcp_archive::Metadata;
use pcp_archive::replay::{Replay, ReplaySelection};

use super::samples::{Request, Samples};
use crate::Failure;
use crate::columns::{Column, cell};
use crate::order::histogram_name;

/// The sum and the number of the values of a column.
#[derive(Clone, Copy, Default)]
struct Mean {
    sum: f64,
    count: u32,
}

impl Mean {
    fn get(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / f64::from(self.count))
    }
}

/// Keeps the columns of the `top` instances of each metric with the largest means over the samples,
/// those of a histogram by its highest quantile. Returns the number of instances that are left out.
pub(super) fn keep(
    columns: &mut Vec<Column>,
    top: usize,
    selection: ReplaySelection<'_>,
    metadata: &Metadata,
    request: &Request,
) -> Result<usize, Failure> {
    let mut samples = Samples::new(selection, request)?;
    let means = means(columns, &mut samples, request)?;
    let families = families(samples.replay(), metadata);
    let family_of = |column: &Column| families.get(column.metric).cloned().unwrap_or_default();
    // Of a histogram the column of its highest quantile is the last.
    let mut instances: HashMap<String, HashMap<_, (usize, Option<f64>)>> = HashMap::new();
    for (column, mean) in columns.iter().zip(&means) {
        let of_family = instances.entry(family_of(column)).or_default();
        let known = of_family.entry(column.instance).or_insert((column.metric, None));
        if column.metric >= known.0 {
            *known = (column.metric, mean.get());
        }
    }
    let mut left_out = 0;
    let mut kept = HashMap::new();
    for (family, instances) in instances {
        let mut ranked: Vec<_> = instances.into_iter().collect();
        ranked.sort_by(|(one, (_, a)), (other, (_, b))| descending(*a, *b).then(one.cmp(other)));
        left_out += ranked.len().saturating_sub(top);
        ranked.truncate(top);
        let ranked: Vec<_> = ranked.into_iter().map(|(instance, _)| instance).collect();
        kept.insert(family, ranked);
    }
    columns.retain(|column| {
        kept.get(&family_of(column)).is_some_and(|kept| kept.contains(&column.instance))
    });
    Ok(left_out)
}

/// Orders numbers from the largest down, missing ones last.
fn descending(one: Option<f64>, other: Option<f64>) -> Ordering {
    match (one, other) {
        (Some(one), Some(other)) => other.total_cmp(&one),
        (one, other) => other.is_some().cmp(&one.is_some()),
    }
}

/// Returns the name of each metric, or of the histogram that it is a number of.
fn families(replay: &Replay<'_>, metadata: &Metadata) -> Vec<String> {
    let name = |metric| histogram_name(metadata, metric).unwrap_or(&metric.name).to_owned();
    replay.metrics().map(name).collect()
}

fn means(
    columns: &[Column],
    samples: &mut Samples<'_>,
    request: &Request,
) -> Result<Vec<Mean>, Failure> {
    let mut means = vec![Mean::default(); columns.len()];
    samples.for_each(
        request,
        |sample| -> Vec<Option<f64>> {
            columns.iter().map(|column| cell(sample, column)?.as_f64()).collect()
        },
        |values| {
            for (mean, value) in means.iter_mut().zip(values) {
                if let Some(value) = value.filter(|value| value.is_finite()) {
                    mean.sum += value;
                    mean.count += 1;
                }
            }
        },
    )?;
    Ok(means)
}
