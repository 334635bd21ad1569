//! Computes with the values of a metric column by column, in one pass and in
//! memory that does not grow with the archive: for each instance how many
//! values there are, their mean, and the longest time without one.
//!
//! Usage: `columnar ARCHIVE METRIC [INSTANCE ...]`

use pcp_archive::scan::{Columns, Selection};
use pcp_archive::{Archive, InstanceId, Timestamp};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// What is known of one instance after some chunks.
struct Instance {
    id: Option<InstanceId>,
    count: u64,
    sum: f64,
    newest: Option<Timestamp>,
    longest_gap: f64,
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: columnar ARCHIVE METRIC [INSTANCE ...]";
    let archive = Archive::open(arguments.next().ok_or(usage)?)?;
    let metric = arguments.next().ok_or(usage)?;
    let mut selection = Selection::new(&archive);
    if selection.select(&metric) != 1 {
        return Err(format!("{metric} is not the name of one metric").into());
    }
    for instance in arguments {
        selection.select_instance(instance);
    }

    let mut instances: Vec<Instance> = Vec::new();
    let mut columns = Columns::open(&selection, ..)?;
    while let Some(chunk) = columns.next_chunk()? {
        // The metric is the first of the selection. Its columns are those of
        // the last chunk in the same order, and then those of new instances.
        let columns = chunk.columns(0);
        for column in columns.iter().skip(instances.len()) {
            let (id, newest) = (column.instance(), None);
            instances.push(Instance { id, count: 0, sum: 0.0, newest, longest_gap: 0.0 });
        }
        for (column, instance) in columns.iter().zip(&mut instances) {
            for (row, value) in column.numbers() {
                let timestamp = chunk.timestamps()[row as usize];
                let gap = instance.newest.map_or(0.0, |newest| timestamp.seconds_since(newest));
                instance.longest_gap = instance.longest_gap.max(gap);
                instance.newest = Some(timestamp);
                instance.count += 1;
                instance.sum += value;
            }
        }
    }

    for Instance { id, count, sum, longest_gap, .. } in instances {
        let name = id.map_or(metric.clone(), |id| format!("{metric}[{}]", id.get()));
        let mean = sum / count as f64;
        println!("{name}: {count} values, mean {mean:.3}, longest gap {longest_gap:.3} s");
    }
    Ok(())
}
