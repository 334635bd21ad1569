//! Makes the panels of heat maps from what histograms counted.

use std::time::Duration;

use mmv_chart::HeatCell;
use pcp_archive::replay::{Replay, times};
use pcp_archive::{InstanceId, Source};

use super::Clock;
use crate::columns;
use crate::image::Panel;
use crate::time::Window;

/// A panel for each histogram, those that counted most first, and no more than `top`.
pub(super) fn panels(
    source: Source<'_>,
    replay: &Replay<'_>,
    window: Window,
    step: Duration,
    clock: &Clock,
    top: usize,
) -> Vec<Panel> {
    let mut panels = Vec::new();
    for (place, metric) in replay.metrics().enumerate() {
        let Some(name) = replay.histogram_of(place) else { continue };
        let indom = metric.desc.indom;
        let names = indom.map(|indom| columns::instance_names(source.metadata(), indom));
        for instance in replay.instances(place) {
            let cells = cells(replay, (place, instance), window, step, clock);
            let counted: f64 = cells.iter().map(|cell| cell.count).sum();
            let label = names.as_ref().zip(instance).and_then(|(names, id)| names.get(&id));
            let label = label.map(|label| format!("[{label}]")).unwrap_or_default();
            let unit = format!("{name}{label}: {}, {} values", metric.desc.units, counted.round());
            let panel = Panel { unit, lines: Vec::new(), is_histogram: true, heat: cells };
            panels.extend((counted > 0.0).then_some((counted, panel)));
        }
    }
    panels.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    panels.into_iter().take(top).map(|(_, panel)| panel).collect()
}

/// What a histogram counted in each interval of the window.
fn cells(
    replay: &Replay<'_>,
    (place, instance): (usize, Option<InstanceId>),
    window: Window,
    step: Duration,
    clock: &Clock,
) -> Vec<HeatCell> {
    let mut cells = Vec::new();
    for at in times(window.start.saturating_add(step)..=window.end, step) {
        let since = at.saturating_sub(step);
        let counts = replay.bucket_counts(place, since, at);
        let own = counts.into_iter().filter(|(owner, _)| *owner == instance);
        cells.extend(own.flat_map(|(_, buckets)| buckets).map(|bucket| HeatCell {
            time: (clock.seconds(since), clock.seconds(at)),
            value: (bucket.first, bucket.last + 1.0),
            count: bucket.count,
        }));
    }
    cells
}
