//! An archive with what is hard to draw.

use std::path::PathBuf;

use pcp_archive::Semantics::{Counter, Discrete, Instant};
use pcp_archive::{
    ArchiveWriter, InDom, Instance, InstanceId, MetricDesc, OwnedValue, Pmid, TextKind, TextTarget,
    Timestamp, Units, ValueSet, ValueType, WriterLabel, WriterOptions,
};
use tempfile::TempDir;

use crate::archives;

/// What must stay text wherever it is shown.
pub(crate) const HOSTILE: &str = "</script><!-- <img src=x onerror=\"alert(1)\"> &amp; {{x}}";

/// The number of instances of `pictures.many`.
const MANY: i32 = 50;

fn domain(serial: u32) -> InDom {
    InDom::new(60, serial).unwrap()
}

fn instances(all: impl Iterator<Item = String>) -> Vec<Instance> {
    let instance = |(id, name): (i32, String)| Instance {
        id: InstanceId::new(id).unwrap(),
        name: name.into(),
    };
    (0..).zip(all).map(instance).collect()
}

/// A value of each instance.
fn each(desc: &MetricDesc, count: i32, value: impl Fn(i32) -> OwnedValue) -> ValueSet {
    let values = (0..count).map(|id| (Some(InstanceId::new(id).unwrap()), value(id)));
    ValueSet { pmid: desc.pmid, values: Ok(values.collect()) }
}

/// Five minutes with a record each second, apart from the third of them: a mark, then nothing.
pub(crate) fn archive() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let base = directory.path().join("pictures");
    let label = WriterLabel { hostname: "pictures.example.com".into(), ..archives::label() };
    let mut writer = ArchiveWriter::create(&base, label, WriterOptions::default()).unwrap();
    let desc = |item, value_type, semantics, indom, units| {
        let pmid = Pmid::new(60, 1, item).unwrap();
        MetricDesc { pmid, value_type, indom, semantics, units }
    };
    let (many, long, hostile) = (Some(domain(1)), Some(domain(2)), Some(domain(3)));
    let all = [
        ("wave", desc(1, ValueType::Double, Instant, None, Units::kilobytes())),
        ("many", desc(2, ValueType::U64, Counter, many, Units::count())),
        ("spike", desc(3, ValueType::U64, Instant, None, Units::NONE)),
        ("constant", desc(4, ValueType::I32, Instant, None, Units::NONE)),
        ("large", desc(5, ValueType::U64, Instant, None, Units::bytes())),
        ("once", desc(6, ValueType::U32, Instant, None, Units::NONE)),
        ("step", desc(7, ValueType::U32, Discrete, None, Units::NONE)),
        ("hostile", desc(8, ValueType::Double, Instant, hostile, Units::NONE)),
        ("text", desc(9, ValueType::String, Instant, None, Units::NONE)),
        ("never", desc(10, ValueType::U32, Instant, None, Units::NONE)),
        ("time", desc(11, ValueType::U64, Counter, None, Units::milliseconds())),
        ("tiny", desc(12, ValueType::Double, Instant, None, Units::NONE)),
    ];
    for (name, desc) in &all {
        writer.declare_metric(desc, &[&format!("pictures.{name}")]).unwrap();
    }
    let long_name = format!("pictures.{}", "long_name.".repeat(19) + "end");
    let long_desc = desc(20, ValueType::Double, Instant, long, Units::NONE);
    writer.declare_metric(&long_desc, &[&long_name]).unwrap();
    let help = |writer: &mut ArchiveWriter, place: usize, text: &str| {
        let target = TextTarget::Metric(all[place].1.pmid);
        writer.declare_text(target, TextKind::OneLine, text).unwrap();
    };
    help(&mut writer, 0, "A wave, and nothing where logging was interrupted");
    help(&mut writer, 7, HOSTILE);
    let workers = instances((0..MANY).map(|n| format!("worker-{n:02}")));
    writer.declare_indom(domain(1), &workers).unwrap();
    let name = |n: i32| format!("{n} {}", "instance ".repeat(22));
    writer.declare_indom(domain(2), &instances((0..3).map(name))).unwrap();
    let named = instances([HOSTILE.to_owned(), "plain".to_owned()].into_iter());
    writer.declare_indom(domain(3), &named).unwrap();
    let [wave, many, spike, constant, large, once, step, hostile, text, _, time, tiny] =
        all.map(|(_, desc)| desc);
    for second in (0..120).chain(180..300) {
        let turn = f64::from(second) / 20.0;
        if second == 180 {
            writer.write_mark(at(121)).unwrap();
        }
        let count = |n: i32| {
            let speed = 100.0 / f64::from(n + 1);
            let grown = f64::from(second) * speed + 10.0 * (turn + f64::from(n)).sin();
            OwnedValue::U64(1000 + grown.max(0.0) as u64)
        };
        let spiked = if second == 77 { 1_000_000_000 } else { u64::from(second % 3 == 0) };
        let half = if second % 60 < 30 { 0 } else { 1 << 62 };
        let mut sets = vec![
            archives::single(&wave, OwnedValue::Double(100.0 + 50.0 * turn.sin())),
            each(&many, MANY, count),
            archives::single(&spike, OwnedValue::U64(spiked)),
            archives::single(&constant, OwnedValue::I32(42)),
            archives::single(&large, OwnedValue::U64((1 << 63) + half)),
            each(&long_desc, 3, |n| OwnedValue::Double(turn.cos() + f64::from(n))),
            each(&hostile, 2, |n| OwnedValue::Double(turn.cos() * f64::from(n + 1))),
            archives::single(&text, OwnedValue::String(HOSTILE.as_bytes().to_vec())),
            archives::single(&time, OwnedValue::U64(second as u64 * 400)),
            archives::single(&tiny, OwnedValue::Double(1e9 + 1e-3 * turn.sin())),
        ];
        if second % 50 == 0 {
            sets.push(archives::single(&step, OwnedValue::U32(second as u32 / 50 % 3)));
        }
        if second == 200 {
            sets.push(archives::single(&once, OwnedValue::U32(7)));
        }
        archives::write(&mut writer, at(second.into()), sets);
    }
    writer.finish().unwrap();
    (directory, base)
}

fn at(second: i64) -> Timestamp {
    Timestamp::new(1_700_000_000 + second, 0).unwrap()
}
