//! What a host costs, and the sizes that follow.

use crate::Usage;
use crate::generated::{Fleet, INTERVAL};
use crate::receiver::Received;

const DAY: f64 = 86_400.0;

#[derive(Debug)]
pub(crate) struct Costs {
    /// Processor time of the sender and of the receiver, in seconds.
    pub(crate) sender: f64,
    pub(crate) receiver: f64,
    pub(crate) sender_memory: f64,
    pub(crate) receiver_memory: f64,
    /// Processor time in seconds, and bytes.
    pub(crate) tables_cpu: f64,
    pub(crate) tables_disk: f64,
}

pub(crate) fn print_push(
    what: &str,
    fleet: &Fleet,
    samples: u64,
    sent: Usage,
    received: &Received,
) {
    let samples = samples as f64;
    let rate = |seconds: f64| samples / seconds / 1e6;
    println!("{what}, {:.1} M samples", samples / 1e6);
    println!("    {:<40} {:>10.2} M samples/s", "both, wall-clock time", rate(sent.wall));
    println!("    {:<40} {:>10.2} M samples/s of CPU", "senders", rate(sent.cpu));
    println!("    {:<40} {:>10.2} ms of CPU", "senders, a host", 1e3 * sent.cpu / fleet.hosts());
    println!("    {:<40} {:>10.1} MB", "each sender, at most", sent.peak as f64 / 1e6);
    println!("    {:<40} {:>10.2} M samples/s of CPU", "VictoriaMetrics", rate(received.cpu));
    println!("    {:<40} {:>10.1} MB", "its memory", received.memory as f64 / 1e6);
}

pub(crate) fn print_tables(fleet: &Fleet, usage: Usage, bytes: u64) {
    let values = fleet.samples() as f64;
    println!("Parquet, {:.1} M values", values / 1e6);
    println!("    {:<40} {:>10.2} M values/s of CPU", "export", values / usage.cpu / 1e6);
    println!("    {:<40} {:>10.2} ms of CPU", "export, a host", 1e3 * usage.cpu / fleet.hosts());
    println!("    {:<40} {:>10.1} MB", "each process, at most", usage.peak as f64 / 1e6);
    println!("    {:<40} {:>10.2} bytes", "a value", bytes as f64 / values);
}

/// Prints the sizes of fleets, with a record of each series in each [`INTERVAL`].
pub(crate) fn print(costs: &Costs, series: u32) {
    println!("fleets of hosts with {series} series at {INTERVAL} s");
    let line = |cells: [String; 8]| {
        let [hosts, rate, sender, memory, receiver, its_memory, cpu, disk] = cells;
        println!(
            "    {hosts:>7} {rate:>12} {sender:>10} {memory:>8} {receiver:>11} {its_memory:>9} \
             {cpu:>12} {disk:>9}"
        );
    };
    let names =
        ["hosts", "samples/s", "senders,", "memory,", "receiver,", "memory,", "tables,", "disk,"];
    line(names.map(str::to_owned));
    line(["", "", "CPUs", "GB", "CPUs", "GB", "CPU h a day", "GB a day"].map(str::to_owned));
    for hosts in [10.0, 1_000.0, 10_000.0] {
        let rate = hosts * f64::from(series) / INTERVAL as f64;
        line([
            format!("{hosts}"),
            format!("{rate:.0}"),
            format!("{:.3}", rate * costs.sender),
            format!("{:.2}", hosts * costs.sender_memory / 1e9),
            format!("{:.2}", rate * costs.receiver),
            format!("{:.2}", hosts * costs.receiver_memory / 1e9),
            format!("{:.2}", rate * DAY * costs.tables_cpu / 3_600.0),
            format!("{:.1}", rate * DAY * costs.tables_disk / 1e9),
        ]);
    }
}
