//! The bytes of requests of OTLP over HTTP.
//!
//! A family becomes a metric: counters are cumulative monotonic sums, and the parts of a histogram
//! at one time are one point, as is an exponential histogram. A stale marker is a point without a
//! recorded value.

use hashbrown::HashMap;
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value};
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, DataPointFlags, ExponentialHistogram, ExponentialHistogramDataPoint,
    Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics,
    Sum, exponential_histogram_data_point::Buckets, metric::Data, number_data_point,
};
use prost::Message as _;

use super::native::Exponential;
use super::series::{Point, Series, SeriesTable};
use crate::mapping::{Kind, Label};
use crate::samples::{FamilyPart, stale_value};

/// Limit on the buckets of an exponential histogram, most of which are empty.
const MAX_BUCKETS: usize = 1_024;

/// Returns the number of points that the receiver refused and its reason; `None` if it stored all.
pub(super) fn refused(answer: &[u8]) -> Option<(u64, String)> {
    // Some receivers answer without this message, or with text.
    let partial = ExportMetricsServiceResponse::decode(answer).ok()?.partial_success?;
    let refused =
        u64::try_from(partial.rejected_data_points).ok().filter(|refused| *refused > 0)?;
    Some((refused, partial.error_message))
}

/// Returns the key that all samples of one point of OTLP share.
pub(super) fn key(point: &Point, table: &SeriesTable) -> (i64, u32) {
    (point.milliseconds, table.get(point.series).map_or(point.series, |series| series.group))
}

/// Encodes a request of samples that are sorted by key.
pub(super) fn encode(points: &[Point], table: &SeriesTable) -> Vec<u8> {
    let mut metrics: Vec<Metric> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for parts in points.chunk_by(|one, other| key(one, table) == key(other, table)) {
        let Some(series) = parts.first().and_then(|point| table.get(point.series)) else {
            continue;
        };
        let place = *places.entry(&*series.family).or_insert_with(|| {
            metrics.push(metric(series));
            metrics.len() - 1
        });
        let data = metrics.get_mut(place).and_then(|metric| metric.data.as_mut());
        match data {
            Some(Data::Gauge(Gauge { data_points }) | Data::Sum(Sum { data_points, .. })) => {
                data_points.extend(parts.iter().map(|point| number(point, series)));
            }
            Some(Data::Histogram(Histogram { data_points, .. })) => {
                data_points.extend(histogram(parts, series, table));
            }
            Some(Data::ExponentialHistogram(ExponentialHistogram { data_points, .. })) => {
                data_points.extend(parts.iter().map(|point| exponential(point, series)));
            }
            _ => {}
        }
    }
    // Without a scope, whose name receivers would add as a label to each series.
    let scope_metrics = vec![ScopeMetrics { metrics, ..ScopeMetrics::default() }];
    let resource_metrics = vec![ResourceMetrics { scope_metrics, ..ResourceMetrics::default() }];
    ExportMetricsServiceRequest { resource_metrics }.encode_to_vec()
}

fn metric(series: &Series) -> Metric {
    let cumulative = AggregationTemporality::Cumulative.into();
    let data = match series.kind {
        Kind::Gauge => Data::Gauge(Gauge::default()),
        Kind::Counter => Data::Sum(Sum {
            aggregation_temporality: cumulative,
            is_monotonic: true,
            ..Sum::default()
        }),
        Kind::Histogram if series.is_native() => Data::ExponentialHistogram(ExponentialHistogram {
            aggregation_temporality: cumulative,
            ..ExponentialHistogram::default()
        }),
        Kind::Histogram => Data::Histogram(Histogram {
            aggregation_temporality: cumulative,
            ..Histogram::default()
        }),
    };
    let name = match series.kind {
        Kind::Counter => series.of.name.to_string(),
        Kind::Gauge | Kind::Histogram => series.family.to_string(),
    };
    Metric { name, unit: ucum(&series.unit).to_owned(), data: Some(data), ..Metric::default() }
}

/// Returns the code of a base unit in the Unified Code for Units of Measure, as OTLP requires.
/// Receivers that append units to names then recognize that the name has the unit already.
fn ucum(unit: &str) -> &str {
    match unit {
        "seconds" => "s",
        "bytes" => "By",
        "celsius" => "Cel",
        "volts" => "V",
        "amperes" => "A",
        "watts" => "W",
        _ => "",
    }
}

fn number(point: &Point, series: &Series) -> NumberDataPoint {
    let is_stale = is_stale(point);
    NumberDataPoint {
        attributes: attributes(&series.of.labels),
        start_time_unix_nano: start(series),
        time_unix_nano: nanos(point),
        flags: flags(is_stale),
        value: (!is_stale).then_some(number_data_point::Value::AsDouble(point.value)),
        ..NumberDataPoint::default()
    }
}

/// Converts a histogram to a point; `None` without its count, as for the sample of a bucket that was
/// not known at that time.
fn histogram(parts: &[Point], series: &Series, table: &SeriesTable) -> Option<HistogramDataPoint> {
    let mut buckets = Vec::new();
    let mut sum = None;
    let mut count = None;
    for point in parts {
        match table.get(point.series)?.of.part {
            FamilyPart::Bucket(bound) => buckets.push((bound, point.value)),
            FamilyPart::Sum => sum = Some(point),
            FamilyPart::Count => count = Some(point),
            FamilyPart::Value | FamilyPart::CustomBuckets | FamilyPart::ExponentialBuckets => {}
        }
    }
    let count = count?;
    let mut made = HistogramDataPoint {
        attributes: attributes(&series.of.labels),
        start_time_unix_nano: start(series),
        time_unix_nano: nanos(count),
        flags: flags(is_stale(count)),
        ..HistogramDataPoint::default()
    };
    made.attributes.retain(|attribute| attribute.key != "le");
    if is_stale(count) {
        return Some(made);
    }
    buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut below = 0;
    for (bound, cumulative) in buckets {
        // Counts are whole numbers.
        let cumulative = cumulative as u64;
        if bound.is_finite() {
            made.explicit_bounds.push(bound);
            made.bucket_counts.push(cumulative.saturating_sub(below));
            below = cumulative.max(below);
        }
    }
    made.count = count.value as u64;
    made.bucket_counts.push(made.count.saturating_sub(below));
    made.sum = sum.map(|sum| sum.value);
    Some(made)
}

/// Converts a native histogram to a point.
fn exponential(point: &Point, series: &Series) -> ExponentialHistogramDataPoint {
    let mut made = ExponentialHistogramDataPoint {
        attributes: attributes(&series.of.labels),
        start_time_unix_nano: start(series),
        time_unix_nano: nanos(point),
        flags: flags(is_stale(point)),
        ..ExponentialHistogramDataPoint::default()
    };
    let Some(counts) = &point.buckets else { return made };
    let exponential = Exponential::new(counts);
    let dense = exponential.dense(MAX_BUCKETS);
    made.count = counts.total();
    made.sum = (!point.value.is_nan()).then_some(point.value);
    made.scale = dense.scale;
    made.zero_count = exponential.zeros;
    made.positive = Some(Buckets { offset: dense.offset, bucket_counts: dense.counts });
    made
}

fn attributes(labels: &[Label]) -> Vec<KeyValue> {
    let mut attributes = Vec::new();
    for label in labels {
        let value = AnyValue { value: Some(Value::StringValue(label.value.to_string())) };
        let key = label.name.to_string();
        attributes.push(KeyValue { key, value: Some(value), ..KeyValue::default() });
    }
    attributes
}

fn is_stale(point: &Point) -> bool {
    point.value.to_bits() == stale_value().to_bits()
}

const fn flags(is_stale: bool) -> u32 {
    if is_stale { DataPointFlags::NoRecordedValueMask as u32 } else { 0 }
}

/// Returns the start time in nanoseconds; 0 if it is unknown.
fn start(series: &Series) -> u64 {
    series.of.start.and_then(|start| u64::try_from(start).ok()).unwrap_or(0)
}

/// Returns the time in nanoseconds; 0 before 1970, which OTLP cannot represent.
fn nanos(point: &Point) -> u64 {
    u64::try_from(point.milliseconds).unwrap_or(0).saturating_mul(1_000_000)
}

#[cfg(test)]
mod tests;
