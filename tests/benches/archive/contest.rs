//! Rivals that do the same work in turns, and the table of their times.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::child::{self, Cost};

pub(crate) struct Rival<'a> {
    pub(crate) name: &'static str,
    /// The command of one run; each run gets a new one.
    pub(crate) command: Box<dyn Fn() -> Result<Command, String> + 'a>,
    pub(crate) output: Option<PathBuf>,
}

impl<'a> Rival<'a> {
    pub(crate) fn new(
        name: &'static str,
        command: impl Fn() -> Result<Command, String> + 'a,
    ) -> Self {
        Self { name, command: Box::new(command), output: None }
    }

    pub(crate) fn to(self, output: PathBuf) -> Self {
        Self { output: Some(output), ..self }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Medians {
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
    pub(crate) peak: u64,
}

/// Runs the rivals in turns for `rounds` rounds; their medians in order.
pub(crate) fn hold(rivals: &[Rival<'_>], rounds: usize) -> Result<Vec<Medians>, String> {
    let mut costs: Vec<Vec<Cost>> = vec![Vec::new(); rivals.len()];
    for _ in 0..rounds.max(1) {
        for (rival, costs) in rivals.iter().zip(&mut costs) {
            let cost = child::run((rival.command)()?, rival.output.as_deref());
            costs.push(cost.map_err(|error| format!("{}: {error}", rival.name))?);
        }
    }
    Ok(costs.iter().map(|costs| Medians::of(costs)).collect())
}

impl Medians {
    fn of(costs: &[Cost]) -> Self {
        Self {
            wall: median(costs, |cost| cost.wall),
            cpu: median(costs, |cost| cost.cpu),
            peak: median(costs, |cost| cost.peak),
        }
    }
}

fn median<T: Ord>(costs: &[Cost], of: impl Fn(&Cost) -> T) -> T {
    let mut all: Vec<T> = costs.iter().map(of).collect();
    all.sort_unstable();
    all.swap_remove(all.len() / 2)
}

pub(crate) fn ratio(peer: Duration, ours: Duration) -> f64 {
    peer.as_secs_f64() / ours.as_secs_f64().max(1e-9)
}

pub(crate) fn head() {
    println!("| work | peer | its time | ours | ratio | target | CPU ratio |");
    println!("|---|---|---|---|---|---|---|");
}

pub(crate) fn row(work: &str, peer: (&str, Medians), ours: Medians, target: Option<f64>) {
    let (name, peer) = peer;
    let wall = ratio(peer.wall, ours.wall);
    let target = target.map_or("-".to_owned(), |target| {
        let verdict = if wall >= target { "reached" } else { "MISSED" };
        format!("{target:.1} x {verdict}")
    });
    println!(
        "| {work} | {name} | {:.1} ms | {:.1} ms | {wall:.1} x | {target} | {:.1} x |",
        peer.wall.as_secs_f64() * 1e3,
        ours.wall.as_secs_f64() * 1e3,
        ratio(peer.cpu, ours.cpu),
    );
}
