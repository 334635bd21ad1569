//! JSON Lines: one object per value.

use std::borrow::Cow;
use std::sync::Arc;

use pcp_archive::replay::Sample;
use pcp_archive::{InstanceId, Timestamp};
use serde::Serialize;

use super::Report;
use crate::Failure;
use crate::columns::{Column, Labels, present};
use crate::text::{EpochSeconds, Json, Output, Rfc3339};

/// The metric and instance of a line.
#[derive(Serialize)]
pub(crate) struct SeriesJson<'a> {
    pub(crate) metric: &'a str,
    /// The name of the instance, or its number if no record names it.
    pub(crate) instance: Option<Arc<str>>,
    pub(crate) labels: Cow<'a, Labels>,
    pub(crate) units: Cow<'a, str>,
    pub(crate) pmid: String,
    pub(crate) instance_id: Option<i32>,
}

/// One value.
#[derive(Serialize)]
pub(crate) struct Line<'a> {
    time: Rfc3339,
    seconds: EpochSeconds,
    #[serde(flatten)]
    series: SeriesJson<'a>,
    value: Json<'a>,
}

impl<'a> Line<'a> {
    pub(crate) fn new(at: Timestamp, column: &'a Column, pmid: String, value: Json<'a>) -> Self {
        let series = SeriesJson {
            metric: &column.name,
            instance: column.instance_title(),
            labels: Cow::Borrowed(&column.labels),
            units: Cow::Borrowed(&column.scale.units),
            pmid,
            instance_id: column.number.map(InstanceId::get),
        };
        Self { time: Rfc3339(at), seconds: EpochSeconds(at), series, value }
    }
}

/// A mark in raw values: values before and after it must not be joined.
#[derive(Serialize)]
pub(crate) struct MarkLine {
    time: Rfc3339,
    seconds: EpochSeconds,
    mark: bool,
}

impl MarkLine {
    pub(crate) const fn new(at: Timestamp) -> Self {
        Self { time: Rfc3339(at), seconds: EpochSeconds(at), mark: true }
    }
}

/// Writes one line per value; returns their number.
pub(crate) fn write<'r>(
    out: &mut Output,
    report: &Report<'r>,
    samples: impl Iterator<Item = Sample<'r>>,
) -> Result<u64, Failure> {
    let mut values = 0;
    let mut columns: Vec<&Column> = report.columns.iter().collect();
    columns.sort_by_key(|column| (column.metric, column.instance));
    for sample in samples {
        if sample.is_mark {
            out.json_line(&MarkLine::new(sample.timestamp))?;
        }
        for (column, value) in present(&sample, &columns) {
            values += 1;
            let pmid = report.pmids.get(column.metric).cloned().unwrap_or_default();
            let value = Json::new(value, report.metadata);
            out.json_line(&Line::new(sample.timestamp, column, pmid, value))?;
        }
    }
    Ok(values)
}
