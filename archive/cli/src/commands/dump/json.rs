//! Prints records as JSON Lines.

use pcp_archive::raw::Record;
use pcp_archive::{InstanceId, Pmid};
use serde::Serialize;

use super::Dump;
use super::records::Options;
use crate::Failure;
use crate::text::{EpochSeconds, Json, Rfc3339};
use crate::walk::Walk;

#[derive(Serialize)]
struct Line<'a> {
    time: Rfc3339,
    seconds: EpochSeconds,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    mark: bool,
    sets: Vec<JsonValueSet<'a>>,
}

/// A metric of a record: its values by instance, or an error. The values of a
/// metric without a descriptor have no type and cannot be read.
#[derive(Serialize)]
struct JsonValueSet<'a> {
    pmid: String,
    metric: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    values: Vec<(Option<i32>, Json<'a>)>,
}

pub(super) fn records(dump: &mut Dump<'_>, options: &Options<'_>) -> Result<(), Failure> {
    let mut records = Walk::new(dump.archive, options.window, options.reverse)?;
    loop {
        let record = match records.next() {
            Ok(Some(record)) => record,
            Ok(None) => return records.finish(),
            Err(failure) => {
                records.skip_damage(failure)?;
                continue;
            }
        };
        let sets = sets(dump, &record, options.chosen)?;
        if sets.is_empty() && !(record.is_mark() && options.marks) {
            continue;
        }
        let at = record.timestamp();
        let mark = record.is_mark();
        dump.out.json_line(&Line { time: Rfc3339(at), seconds: EpochSeconds(at), mark, sets })?;
    }
}

fn sets<'r>(
    dump: &Dump<'r>,
    record: &Record<'r>,
    chosen: Option<&[Pmid]>,
) -> Result<Vec<JsonValueSet<'r>>, Failure> {
    let mut sets = Vec::new();
    for view in record.value_sets() {
        if chosen.is_some_and(|chosen| !chosen.contains(&view.pmid())) {
            continue;
        }
        let metric = dump.archive.metadata().metric(view.pmid());
        let error = view.error().map(|error| error.to_string());
        let unreadable = metric.is_none().then(|| "no descriptor".to_owned());
        let mut set = JsonValueSet {
            pmid: view.pmid().to_string(),
            metric: metric.and_then(|metric| metric.names.first()).map(AsRef::as_ref),
            error: error.or(unreadable),
            values: Vec::with_capacity(view.len()),
        };
        if let Some(metric) = metric {
            for observed in view.values(metric.desc.value_type) {
                let (instance, value) = match observed {
                    Ok(pair) => pair,
                    Err(error) => {
                        set.error.get_or_insert_with(|| error.to_string());
                        dump.archive.leave_out(record, error)?;
                        continue;
                    }
                };
                if !dump.shows(view.pmid(), instance) {
                    continue;
                }
                let json = Json::new(value, dump.archive.metadata());
                set.values.push((instance.map(InstanceId::get), json));
            }
        }
        sets.push(set);
    }
    Ok(sets)
}
