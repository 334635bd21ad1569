//! Prints the records of an archive: times, names, instances, values.
//!
//! Usage: `dump ARCHIVE`. The command `mmv-archive dump` prints more, and as
//! pmdumplog does; this shows how little a program needs for it.

use pcp_archive::raw::event::EventArray;
use pcp_archive::{Archive, InstanceId, Metric, Timestamp, Value};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let path = std::env::args_os().nth(1).ok_or("usage: dump ARCHIVE")?;
    let archive = Archive::open(path)?;
    let label = archive.label();
    println!("{} from {} to {}", label.hostname, label.start, archive.end());

    let mut records = archive.records()?;
    while let Some(record) = records.next()? {
        let time = record.timestamp();
        if record.is_mark() {
            println!("{time} mark");
            continue;
        }
        for set in record.value_sets() {
            let Some(metric) = archive.metadata().metric(set.pmid()) else { continue };
            if let Some(error) = set.error() {
                println!("{time} {}: {error}", metric.display_name());
            }
            // The type of the values is in the metadata, not in the record.
            for observed in set.values(metric.desc.value_type) {
                let (instance, value) = observed?;
                let name = instance_name(&archive, metric, instance, time);
                println!("{time} {}{name} {}", metric.display_name(), text(value));
            }
        }
    }
    Ok(())
}

/// `[red]`, or nothing for a metric without instances.
fn instance_name(
    archive: &Archive,
    metric: &Metric,
    instance: Option<InstanceId>,
    time: Timestamp,
) -> String {
    let (Some(indom), Some(id)) = (metric.desc.indom, instance) else { return String::new() };
    let history = archive.metadata().indom_history(indom);
    let name = history.and_then(|history| history.name_at(id, time));
    format!("[{}]", name.unwrap_or("?"))
}

fn text(value: Value<'_>) -> String {
    match value {
        Value::I32(v) => v.to_string(),
        Value::U32(v) => v.to_string(),
        Value::I64(v) => v.to_string(),
        Value::U64(v) => v.to_string(),
        Value::Float(v) => v.to_string(),
        Value::Double(v) => v.to_string(),
        Value::String(bytes) => format!("{:?}", String::from_utf8_lossy(bytes)),
        Value::Aggregate(bytes) => format!("{} bytes", bytes.len()),
        Value::Event(_) | Value::HighresEvent(_) => events(value),
    }
}

fn events(value: Value<'_>) -> String {
    let Ok(array) = EventArray::unpack(value) else { return "damaged event array".to_owned() };
    let records = array.records().map(|record| {
        let parameters = record.parameters().map(|(pmid, value)| format!("{pmid}={}", text(value)));
        let parameters: Vec<_> = parameters.collect();
        format!("{} {} {}", record.timestamp(), record.flags(), parameters.join(" "))
    });
    records.collect::<Vec<_>>().join("; ")
}
