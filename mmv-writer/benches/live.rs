//! What histograms and live registries cost.
//!
//! ```text
//! cargo bench -p mmv-writer --bench live
//! ```
//!
//! Prints the median and the best of several rounds, in nanoseconds a call. The
//! machine should be idle: with two threads each row needs both processors.

#[path = "live/lookup.rs"]
mod lookup;
#[path = "live/record.rs"]
mod record;

fn main() {
    record::report();
    lookup::report();
}

/// Median and best of rounds that each say how long they took.
fn rounds(count: usize, mut round: impl FnMut() -> f64) -> (f64, f64) {
    let mut times: Vec<f64> = (0..count).map(|_| round()).collect();
    times.sort_by(f64::total_cmp);
    (times.get(count / 2).copied().unwrap_or(0.0), times.first().copied().unwrap_or(0.0))
}

fn row(what: &str, (median, best): (f64, f64), target: &str) {
    println!("{what:60} {median:9.1} {best:9.1}  {target}");
}
