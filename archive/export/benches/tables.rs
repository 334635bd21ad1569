//! `ci/bench fleet`: archives as tables. Prints CPU time and peak memory of `mmv-export parquet`,
//! and bytes a value, for archives that are made on the spot.
//!
//! With `MMV_ORACLE`, the file `env` of `ci/oracle`, also PCP's `pcp2csv` and `pcp2json` beside
//! `--csv` and `--jsonl`, of the same archive.
//!
//! Options: `--records N` (5000), `--rounds N` (3, the least CPU time is shown), `--large`
//! (31250 records, which are 1 GB).

#[path = "../tests/shared/server.rs"]
mod server;

use std::path::Path;
use std::process::{Command, Stdio};

use pcp_archive::raw::{FetchResult, ValueSet};
use pcp_archive::{
    ArchiveWriter, InDom, Instance, InstanceId, MetricDesc, OwnedValue, Pmid, Semantics, Timestamp,
    Units, ValueType, WriterLabel, WriterOptions,
};
use wait4::Wait4 as _;

const VALUES: u32 = 1_000;
/// Seconds between records.
const INTERVAL: i64 = 10;

#[derive(Debug, Clone, Copy)]
struct Shape {
    name: &'static str,
    instances: u32,
}

const SHAPES: [Shape; 2] = [
    Shape { name: "1000 metrics", instances: 0 },
    Shape { name: "10 metrics x 100 instances", instances: 100 },
];

fn main() {
    let (mut records, mut rounds) = (5_000, 3);
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().and_then(|text| text.parse().ok()).expect("a number");
        match argument.as_str() {
            "--records" => records = number(),
            "--rounds" => rounds = number(),
            "--large" => (records, rounds) = (31_250, 1),
            other => panic!("unknown option {other}"),
        }
    }
    let program = program();
    println!(
        "{:<28} {:>8} {:>9} {:>10} {:>13} {:>8}",
        "archive", "output", "CPU s", "M values/s", "bytes a value", "peak MB"
    );
    for shape in SHAPES {
        let scratch = tempfile::tempdir().expect("a directory");
        let base = scratch.path().join("web1").join("a");
        write(&base, shape, records);
        for options in [&[][..], &["--narrow"], &["--csv"]] {
            let runs = (0..rounds).map(|_| measure(&program, scratch.path(), options));
            let run = runs.min_by(|one, other| one.cpu.total_cmp(&other.cpu)).expect("a run");
            let values = records as f64 * f64::from(VALUES);
            println!(
                "{:<28} {:>8} {:>9.3} {:>10.1} {:>13.2} {:>8.1}",
                shape.name,
                options.first().map_or("tables", |option| option.trim_start_matches('-')),
                run.cpu,
                values / run.cpu / 1e6,
                run.bytes as f64 / values,
                run.peak as f64 / 1e6,
            );
        }
    }
    if let Ok(oracle) = std::env::var("MMV_ORACLE") {
        compare_with_pcp(&program, &oracle);
    }
}

const PEER_RECORDS: i64 = 500;

const PEERS: [(&str, &str); 2] = [("pcp2csv", "--csv"), ("pcp2json", "--jsonl")];

fn compare_with_pcp(program: &Path, oracle: &str) {
    let scratch = tempfile::tempdir().expect("a directory");
    let base = scratch.path().join("web1").join("a");
    write(&base, SHAPES[0], PEER_RECORDS);
    for (peer, option) in PEERS {
        let ours = measure(program, scratch.path(), &[option]);
        let printed = scratch.path().join("peer");
        let mut command = Command::new("sh");
        command.args([
            "-c",
            ". \"$0\"; exec \"$1\" -a \"$2\" -S @2000-01-01 -t \"$3\" mmv >\"$4\"",
            oracle,
            peer,
        ]);
        command.arg(&base).arg(format!("{INTERVAL}s")).arg(&printed);
        let mut child = command.stderr(Stdio::null()).spawn().expect("start a shell");
        let used = child.wait4().expect("its end");
        let lines = std::fs::read_to_string(&printed).expect("its output").lines().count() as i64;
        let is_whole = used.status.success() && lines >= PEER_RECORDS;
        assert!(is_whole, "{peer}: {} {lines} lines", used.status);
        let cpu = (used.rusage.utime + used.rusage.stime).as_secs_f64();
        println!(
            "{} x {PEER_RECORDS} records: {peer} {cpu:.2} s, ours with {option} {:.3} s of CPU: {:.0} x",
            SHAPES[0].name,
            ours.cpu,
            cpu / ours.cpu
        );
    }
}

/// The command, built beside this program.
fn program() -> std::path::PathBuf {
    let this = std::env::current_exe().expect("the path of this program");
    let profile = this.ancestors().nth(2).expect("a profile directory");
    profile.join("mmv-export")
}

struct Run {
    cpu: f64,
    peak: u64,
    bytes: u64,
}

fn measure(program: &Path, scratch: &Path, options: &[&str]) -> Run {
    let lake = scratch.join("lake");
    let _ = std::fs::remove_dir_all(&lake);
    let mut command = Command::new(program);
    command.arg("parquet").arg(scratch.join("web1")).arg("-o").arg(&lake).args(options);
    let mut child = command.stdout(Stdio::null()).spawn().expect("start mmv-export");
    let peak = server::peak_memory(child.id());
    let used = child.wait4().expect("its end");
    assert!(used.status.success(), "{}", used.status);
    let cpu = (used.rusage.utime + used.rusage.stime).as_secs_f64();
    Run { cpu, peak: peak.join().expect("its memory"), bytes: size(&lake) }
}

fn size(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).expect("a directory");
    let sizes = entries.map(|entry| {
        let entry = entry.expect("an entry");
        let metadata = entry.metadata().expect("its size");
        if metadata.is_dir() { size(&entry.path()) } else { metadata.len() }
    });
    sizes.sum()
}

/// Half of the metrics are counters that grow by up to 1000, half are gauges that wander.
fn write(base: &Path, shape: Shape, records: i64) {
    std::fs::create_dir_all(base.parent().expect("a directory")).expect("a directory");
    let label = WriterLabel {
        pid: 1,
        hostname: "web1".into(),
        timezone: "UTC".into(),
        zoneinfo: "".into(),
    };
    let mut writer =
        ArchiveWriter::create_with(base, label, WriterOptions::default()).expect("writer");
    let descs = declare(&mut writer, shape);
    let mut random = 88_172_645_463_325_252_u64;
    let mut numbers = vec![1_000_000_u64; VALUES as usize];
    for record in 0..records {
        let mut numbers = numbers.iter_mut();
        let mut value = |desc: &MetricDesc| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let number = numbers.next().expect("a number of each value");
            let is_counter = desc.semantics == Semantics::Counter;
            *number += if is_counter { random % 1_000 } else { random % 201 };
            *number -= if is_counter { 0 } else { 100 };
            OwnedValue::U64(*number)
        };
        let value_sets = descs.iter().map(|desc| {
            let instances: Vec<_> = match shape.instances {
                0 => vec![None],
                count => (0..count as i32).map(|id| InstanceId::new(id).ok()).collect(),
            };
            let values = instances.into_iter().map(|id| (id, value(desc))).collect();
            ValueSet { pmid: desc.pmid, values: Ok(values) }
        });
        let value_sets = value_sets.collect();
        let timestamp = Timestamp::new(1_700_000_000 + record * INTERVAL, 0).expect("a time");
        writer.write_result(&FetchResult { timestamp, value_sets }).expect("a record");
    }
    writer.finish().expect("an archive");
}

fn declare(writer: &mut ArchiveWriter, shape: Shape) -> Vec<MetricDesc> {
    let indom = InDom::new(70, 2049).expect("a domain");
    if shape.instances > 0 {
        let instance = |id: u32| Instance {
            id: InstanceId::new(id as i32).expect("a number"),
            name: format!("/path/{id}").as_str().into(),
        };
        let instances: Vec<Instance> = (0..shape.instances).map(instance).collect();
        writer.declare_indom(indom, &instances).expect("a domain");
    }
    let metrics = VALUES / shape.instances.max(1);
    let descs = (0..metrics).map(|item| MetricDesc {
        pmid: Pmid::new(70, 1, item).expect("a number"),
        value_type: ValueType::U64,
        indom: (shape.instances > 0).then_some(indom),
        semantics: if item % 2 == 0 { Semantics::Counter } else { Semantics::Instant },
        units: Units::NONE,
    });
    let descs: Vec<MetricDesc> = descs.collect();
    for desc in &descs {
        let name = format!("mmv.shop.http.m{}", desc.pmid.item());
        writer.declare_metric(desc, &[&name]).expect("a metric");
    }
    descs
}
