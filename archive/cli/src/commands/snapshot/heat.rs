//! What histograms counted, for heat maps.

use std::collections::BTreeMap;
use std::time::Duration;

use pcp_archive::Source;
use pcp_archive::replay::{Replay, times};

use super::payload::Heat;
use crate::columns;
use crate::time::Window;

/// The most columns of a heat map.
const MAX_COLUMNS: u128 = 256;
/// The most heat maps.
const MAX_MAPS: usize = 200;

/// A map for each histogram that counted anything, in the order of the metrics.
pub(super) fn maps(source: Source<'_>, replay: &Replay<'_>, window: Window) -> Vec<Heat> {
    let span = window.end.nanos_since(window.start).unsigned_abs();
    let least = Duration::from_nanos(u64::try_from(span / MAX_COLUMNS).unwrap_or(u64::MAX).max(1));
    let step = replay.typical_interval().map_or(least, |logged| logged.max(least));
    let mut maps = Vec::new();
    for (place, metric) in replay.metrics().enumerate() {
        let Some(name) = replay.histogram_of(place) else { continue };
        let names =
            metric.desc.indom.map(|indom| columns::instance_names(source.metadata(), indom));
        // By instance: the column, the bucket and the count.
        let mut all = BTreeMap::new();
        for (column, at) in times(window.start.saturating_add(step)..=window.end, step).enumerate()
        {
            for (instance, buckets) in replay.bucket_counts(place, at.saturating_sub(step), at) {
                let cells: &mut Vec<_> = all.entry(instance).or_default();
                cells.extend(buckets.into_iter().map(|bucket| (column, bucket)));
            }
        }
        for (instance, cells) in all.into_iter().take(MAX_MAPS - maps.len().min(MAX_MAPS)) {
            let label = names.as_ref().zip(instance).and_then(|(names, id)| names.get(&id));
            let mut buckets: Vec<[f64; 2]> =
                cells.iter().map(|(_, bucket)| [bucket.first, bucket.last + 1.0]).collect();
            buckets.sort_by(|one, other| one[0].total_cmp(&other[0]));
            buckets.dedup();
            let place = |first: f64| buckets.partition_point(|bucket| bucket[0] < first);
            let cells =
                cells.iter().map(|(column, bucket)| (*column, place(bucket.first), bucket.count));
            maps.push(Heat {
                name: name.to_owned(),
                instance: label.map(ToString::to_string),
                units: metric.desc.units.to_string(),
                step: step.as_secs_f64(),
                cells: cells.collect(),
                buckets,
            });
        }
    }
    maps.retain(|map| !map.cells.is_empty());
    maps
}
