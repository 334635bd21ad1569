//! Makes the panels of heat maps from what histograms counted.

use std::collections::BTreeMap;
use std::time::Duration;

use mmv_chart::HeatCell;
use pcp_archive::replay::{self, HistogramCounts, Replay};
use pcp_archive::{InstanceId, Source, Timestamp};

use super::Clock;
use crate::image::Panel;
use crate::{Failure, columns};

/// A histogram: the place of its first metric, and the instance.
type Key = (usize, Option<InstanceId>);

/// Returns a panel for each histogram, those that counted most first, and no more than `top`.
pub(super) fn panels(
    source: Source<'_>,
    window: &mut replay::Window<'_>,
    start: Timestamp,
    step: Duration,
    clock: &Clock,
    top: usize,
) -> Result<Vec<Panel>, Failure> {
    let mut maps: BTreeMap<Key, Vec<HeatCell>> = BTreeMap::new();
    window.for_each(
        |replay, span| {
            // Intervals must begin within the window.
            let times = replay::times(span, step).filter(|at| at.saturating_sub(step) >= start);
            Ok::<_, Failure>(cells(replay, times, step, clock))
        },
        |cells| {
            for (key, cell) in cells {
                maps.entry(key).or_default().push(cell);
            }
            Ok(())
        },
    )?;
    let replay = window.replay();
    let mut panels = Vec::new();
    for ((place, instance), cells) in maps {
        let (Some(metric), Some(name)) = (replay.metrics().nth(place), replay.histogram_of(place))
        else {
            continue;
        };
        let indom = metric.desc.indom;
        let names = indom.map(|indom| columns::instance_names(source.metadata(), indom));
        let counted: f64 = cells.iter().map(|cell| cell.count).sum();
        let label = names.as_ref().zip(instance).and_then(|(names, id)| names.get(&id));
        let label = label.map(|label| format!("[{label}]")).unwrap_or_default();
        let panel = Panel {
            unit: format!("{name}{label}: {} values", counted.round()),
            is_histogram: true,
            heat: cells,
            heat_units: metric.desc.units,
            metrics: vec![metric.name.clone()],
            ..Panel::default()
        };
        panels.extend((counted > 0.0).then_some((counted, panel)));
    }
    panels.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    Ok(panels.into_iter().take(top).map(|(_, panel)| panel).collect())
}

/// Returns the counts of histograms in the intervals that end at some times.
fn cells(
    replay: &Replay<'_>,
    times: impl Iterator<Item = Timestamp>,
    step: Duration,
    clock: &Clock,
) -> Vec<(Key, HeatCell)> {
    let places: Vec<usize> =
        (0..replay.metrics().len()).filter(|place| replay.histogram_of(*place).is_some()).collect();
    let mut cells = Vec::new();
    for at in times {
        let since = at.saturating_sub(step);
        for &place in &places {
            for HistogramCounts { instance, buckets, .. } in replay.bucket_counts(place, since, at)
            {
                cells.extend(buckets.into_iter().map(|bucket| {
                    let cell = HeatCell {
                        time: (clock.seconds(since), clock.seconds(at)),
                        value: (bucket.first, bucket.last + 1.0),
                        count: bucket.count,
                    };
                    ((place, instance), cell)
                }));
            }
        }
    }
    cells
}
