//! `ci/bench fleet`: what it costs to hand archives to other engines.
//!
//! Processor time of `mmv-export`, the receiver excluded, as the kernel counts it (hundredths of
//! seconds): each row repeats its work and prints the average, beside its limit. The first scrape
//! is measured by the clock on the wall.

#[path = "../../tests/shared/archives.rs"]
mod archives;
mod push;
mod serve;
#[path = "../../tests/shared/server.rs"]
mod server;

pub(crate) fn row(what: &str, seconds: f64, limit: f64) -> bool {
    let is_kept = seconds <= limit;
    let verdict = if is_kept { "" } else { "  ABOVE" };
    println!("{what:<52} {:>8.1} ms  (limit {:.0} ms){verdict}", seconds * 1e3, limit * 1e3);
    is_kept
}

fn main() {
    let is_kept = [serve::measure(), push::measure()];
    if is_kept.contains(&false) {
        std::process::exit(1);
    }
}
