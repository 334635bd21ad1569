//! Two archives to be compared.
#![allow(dead_code, reason = "each test needs a part of this")]

use std::path::PathBuf;
use std::time::Duration;

use pcp_archive::{
    InDom, Instance, InstanceId, MetricDesc, OwnedValue, Semantics, Timestamp, Units, ValueSet,
    ValueType, WriterOptions,
};
use tempfile::TempDir;

use super::archives;

/// A minute of two programs, a record every second; the second one begins half a second, and
/// `later`, after the first, and was not logged from 20 s to 40 s.
///
/// | metric | one | other |
/// |---|---|---|
/// | `sides.level` | 100 | 130 |
/// | `sides.count` (counter) | 10 a second | 25 a second |
/// | `sides.worker` | x 1, y 2 | y 5, z 7 |
/// | `sides.alone` | 1 | |
pub(crate) fn pair(later: Duration) -> [(TempDir, PathBuf); 2] {
    let start = archives::at(0);
    let one = write("one", start, [100.0, 10.0], &[("x", 1), ("y", 2)]);
    let start = start.saturating_add(later).saturating_add(Duration::from_millis(500));
    [one, write("other", start, [130.0, 25.0], &[("y", 5), ("z", 7)])]
}

fn write(
    name: &str,
    start: Timestamp,
    [level_at, speed]: [f64; 2],
    workers: &[(&str, i32)],
) -> (TempDir, PathBuf) {
    let (directory, base, mut writer) = archives::begin(name, WriterOptions::default());
    let indom = InDom::new(70, 1).unwrap();
    let level = archives::desc(1, ValueType::Double);
    let count = MetricDesc {
        semantics: Semantics::Counter,
        units: Units::count(),
        ..archives::desc(2, ValueType::U64)
    };
    let worker = MetricDesc { indom: Some(indom), ..archives::desc(3, ValueType::I32) };
    let alone = archives::desc(4, ValueType::U32);
    for (desc, name) in [(&level, "level"), (&count, "count"), (&worker, "worker")] {
        writer.declare_metric(desc, &[&format!("sides.{name}")]).unwrap();
    }
    let is_one = name == "one";
    if is_one {
        writer.declare_metric(&alone, &["sides.alone"]).unwrap();
    }
    let id = |place: usize| InstanceId::new(place as i32).unwrap();
    let instances: Vec<Instance> = workers
        .iter()
        .enumerate()
        .map(|(place, (name, _))| Instance { id: id(place), name: (*name).into() })
        .collect();
    writer.declare_indom(indom, &instances).unwrap();
    for second in 0..=60u64 {
        let at = start.saturating_add(Duration::from_secs(second));
        if !is_one && (20..40).contains(&second) {
            if second == 20 {
                writer.write_mark(at).unwrap();
            }
            continue;
        }
        let values = workers
            .iter()
            .enumerate()
            .map(|(place, (_, value))| (Some(id(place)), OwnedValue::I32(*value)));
        let mut sets = vec![
            archives::single(&level, OwnedValue::Double(level_at)),
            archives::single(&count, OwnedValue::U64((speed * second as f64) as u64)),
            ValueSet { pmid: worker.pmid, values: Ok(values.collect()) },
        ];
        if is_one {
            sets.push(archives::single(&alone, OwnedValue::U32(1)));
        }
        archives::write(&mut writer, at, sets);
    }
    writer.finish().unwrap();
    (directory, base)
}
