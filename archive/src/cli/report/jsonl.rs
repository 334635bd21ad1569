//! A JSON object a value.

use pcp_types::InstanceId;
use serde::Serialize;

use super::{Failure, Output, Report, Sample};
use crate::cli::columns::present;
use crate::cli::value::Json;

/// One value, or a mark.
#[derive(Serialize)]
pub(in crate::cli) struct Line<'a> {
    pub(in crate::cli) time: (i64, u32),
    pub(in crate::cli) metric: &'a str,
    pub(in crate::cli) pmid: String,
    pub(in crate::cli) instance: Option<i32>,
    pub(in crate::cli) name: Option<&'a str>,
    pub(in crate::cli) value: Json<'a>,
    /// Of values that are not what was logged: rates and converted ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) units: Option<&'a str>,
}

/// A mark in the raw values: nothing before it continues after it.
#[derive(Serialize)]
pub(in crate::cli) struct Mark {
    pub(in crate::cli) time: (i64, u32),
    pub(in crate::cli) mark: bool,
}

/// Writes a line a value; returns their number.
pub(super) fn write<'r>(
    out: &mut Output,
    report: &Report<'r>,
    samples: impl Iterator<Item = Sample<'r>>,
) -> Result<u64, Failure> {
    let mut values = 0;
    for sample in samples {
        let time = (sample.timestamp.seconds(), sample.timestamp.nanoseconds());
        if sample.is_mark {
            out.json_line(&Mark { time, mark: true })?;
        }
        for (column, value) in present(&sample, &report.columns) {
            values += 1;
            out.json_line(&Line {
                time,
                metric: &column.name,
                pmid: report.pmids.get(column.metric).cloned().unwrap_or_default(),
                instance: column.instance.map(InstanceId::get),
                name: column.instance_name.as_deref(),
                value: Json::new(value, report.metadata),
                units: Some(column.scale.units.as_str()).filter(|_| column.scale.is_computed),
            })?;
        }
    }
    Ok(values)
}
