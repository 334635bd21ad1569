//! JSON Lines: one object per value.

use pcp_archive::replay::Sample;
use pcp_archive::{InstanceId, Timestamp};
use serde::Serialize;

use super::Report;
use crate::Failure;
use crate::columns::{Column, present};
use crate::text::{Json, Output, json_time};

/// One value, or a mark.
#[derive(Serialize)]
pub(crate) struct Line<'a> {
    time: (i64, u32),
    metric: &'a str,
    pmid: String,
    instance: Option<i32>,
    name: Option<&'a str>,
    value: Json<'a>,
    /// Only of rates and converted values.
    #[serde(skip_serializing_if = "Option::is_none")]
    units: Option<&'a str>,
}

impl<'a> Line<'a> {
    pub(crate) fn new(
        timestamp: Timestamp,
        column: &'a Column,
        pmid: String,
        value: Json<'a>,
    ) -> Self {
        Self {
            time: json_time(timestamp),
            metric: &column.name,
            pmid,
            instance: column.number.map(InstanceId::get),
            name: column.instance_name.as_deref(),
            value,
            units: Some(column.scale.units.as_str()).filter(|_| column.scale.is_computed),
        }
    }
}

/// A mark in raw values: values before and after it must not be joined.
#[derive(Serialize)]
pub(crate) struct Mark {
    pub(crate) time: (i64, u32),
    pub(crate) mark: bool,
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
        let time = json_time(sample.timestamp);
        if sample.is_mark {
            out.json_line(&Mark { time, mark: true })?;
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
