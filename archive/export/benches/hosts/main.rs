//! `ci/bench hosts`: a fleet in simulation, and what a host of it costs.
//!
//! Archives of many hosts are pushed by a few processes into one `VictoriaMetrics`, first by a
//! back-fill, then by `--follow`, and exported as Parquet into one tree, which `DataFusion` and
//! Spark read. What the engines have is compared with what was generated. Processor times are those
//! of the kernel; all of it shares one machine.
//!
//! Options: `--hosts N` (1000; each takes three open files), `--series N` of each (10000),
//! `--records N` by back-fill, and as many by `--follow` (6, a minute), `--senders N` (2),
//! `--directory DIR` for all files (a temporary one).

#[path = "../../tests/shared/archives.rs"]
mod archives;
mod disk_usage;
#[path = "../../tests/engines/engine.rs"]
mod engine;
mod generated;
mod lake;
mod receiver;
#[path = "../../tests/shared/server.rs"]
mod server;
mod sizing;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use wait4::Wait4 as _;

use generated::Fleet;
use receiver::Receiver;
use sizing::Costs;

#[derive(Debug)]
struct Options {
    hosts: u32,
    series: u32,
    records: u32,
    senders: usize,
    directory: Option<PathBuf>,
}

impl Options {
    fn of_arguments() -> Self {
        let mut options =
            Self { hosts: 1_000, series: 10_000, records: 6, senders: 2, directory: None };
        let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
        while let Some(argument) = arguments.next() {
            let value = arguments.next().unwrap_or_else(|| panic!("{argument} needs a value"));
            let number = || value.parse::<u32>().expect("a number");
            match argument.as_str() {
                "--hosts" => options.hosts = number(),
                "--series" => options.series = number(),
                "--records" => options.records = number(),
                "--senders" => options.senders = number() as usize,
                "--directory" => options.directory = Some(value.into()),
                other => panic!("unknown option {other}"),
            }
        }
        options
    }
}

#[derive(Debug, Default, Clone, Copy)]
struct Usage {
    /// From the start of the first to the end of the last, in seconds.
    wall: f64,
    /// Of all, in seconds.
    cpu: f64,
    /// The most memory that one of them had, in bytes.
    peak: u64,
}

/// Returns directories as one argument.
fn listed(hosts: &[PathBuf]) -> OsString {
    hosts.iter().map(|host| host.as_os_str()).collect::<Vec<_>>().join(OsStr::new(","))
}

struct Processes {
    children: Vec<Child>,
    start: Instant,
}

impl Processes {
    fn start(
        parts: &[Vec<PathBuf>],
        log: &Path,
        arguments: impl Fn(&mut Command, usize, &[PathBuf]),
    ) -> Self {
        let start = Instant::now();
        let children = parts.iter().enumerate().map(|(number, hosts)| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_mmv-export"));
            arguments(&mut command, number, hosts);
            let log = File::create(log.join(format!("log{number}"))).expect("a log");
            command.stdout(Stdio::null()).stderr(log).spawn().expect("start mmv-export")
        });
        Self { children: children.collect(), start }
    }

    fn processor_seconds(&self) -> f64 {
        self.children.iter().map(|child| server::processor_seconds(child.id())).sum()
    }

    fn terminate(&self) {
        for child in &self.children {
            let status = Command::new("kill").arg(child.id().to_string()).status();
            assert!(status.expect("run kill").success(), "{} has ended", child.id());
        }
    }

    fn usage(self) -> Usage {
        let mut usage = Usage::default();
        let ids: Vec<u32> = self.children.iter().map(Child::id).collect();
        let looks = ids.into_iter().map(server::peak_memory);
        let looks: Vec<_> = looks.collect();
        for mut child in self.children {
            let used = child.wait4().expect("its end");
            assert!(used.status.success(), "mmv-export: {}", used.status);
            usage.cpu += (used.rusage.utime + used.rusage.stime).as_secs_f64();
        }
        let peaks = looks.into_iter().map(|look| look.join().expect("its peak"));
        usage.peak = peaks.max().unwrap_or_default();
        Usage { wall: self.start.elapsed().as_secs_f64(), ..usage }
    }
}

fn main() {
    let options = Options::of_arguments();
    let Some(program) = engine::program("victoria-metrics@sid", "victoria-metrics") else { return };
    let scratch = match &options.directory {
        Some(directory) => tempfile::tempdir_in(directory),
        None => tempfile::tempdir(),
    };
    let scratch = scratch.expect("a directory");
    let mut fleet = Fleet::new(&scratch.path().join("hosts"), &options);
    println!(
        "{} hosts with {} series each, a record every {} s, {} senders",
        options.hosts,
        options.series,
        generated::INTERVAL,
        options.senders
    );
    (0..options.records).for_each(|_| fleet.log());
    println!("{:<44} {:>10.2} MB", "archives, plain, a host", fleet.bytes_of_a_host() / 1e6);

    let parts = fleet.parts(options.senders);
    let receiver = Receiver::start(&program, &scratch.path().join("victoria"));
    let url = format!("http://{}/api/v1/write", receiver.address());
    let push = |command: &mut Command, number: usize, hosts: &[PathBuf]| {
        let state = scratch.path().join(format!("state{number}"));
        command.args(["push", "--url", &url, "--state"]).arg(state).arg(listed(hosts));
    };
    let sent = Processes::start(&parts, scratch.path(), push).usage();
    let registered = receiver.usage_until(fleet.samples());
    sizing::print_push("back-fill of new series", &fleet, fleet.samples(), sent, &registered);

    let followers = Processes::start(&parts, scratch.path(), |command, number, hosts| {
        push(command, number, hosts);
        command.arg("--follow");
    });
    // They read their archives from the start, to know the series.
    fleet.log();
    receiver.usage_until(fleet.samples());
    let before = (fleet.samples(), followers.processor_seconds(), Instant::now());
    for _ in 0..options.records {
        fleet.log();
        receiver.wait_until(fleet.samples());
    }
    let live = fleet.samples() - before.0;
    let cpu = followers.processor_seconds() - before.1;
    let wall = before.2.elapsed().as_secs_f64();
    let known = receiver.usage_until(fleet.samples());
    followers.terminate();
    let follow = Usage { wall, cpu, ..followers.usage() };
    sizing::print_push("--follow, one sample a series a request", &fleet, live, follow, &known);
    receiver.assert_has(&fleet);
    // Samples are few, so it is mostly the index.
    let stored = receiver.stop() as f64 / (fleet.hosts() * fleet.series() as f64);
    println!("    {:<40} {stored:>10.0} bytes", "its files, a series");

    let tree = scratch.path().join("lake");
    let tables = Processes::start(&parts, scratch.path(), |command, _, hosts| {
        command.arg("parquet").arg(listed(hosts)).arg("-o").arg(&tree);
    });
    let tables = tables.usage();
    let bytes = disk_usage::directory_bytes(&tree);
    sizing::print_tables(&fleet, tables, bytes);
    lake::query(&tree, &fleet);

    let costs = Costs {
        sender: follow.cpu / live as f64,
        receiver: known.cpu / live as f64,
        sender_memory: follow.peak as f64 * options.senders as f64 / f64::from(options.hosts),
        receiver_memory: known.memory as f64 / f64::from(options.hosts),
        tables_cpu: tables.cpu / fleet.samples() as f64,
        tables_disk: bytes as f64 / fleet.samples() as f64,
    };
    sizing::print(&costs, options.series);
}
