//! What histograms and live registries cost.
//!
//! ```text
//! cargo bench -p mmv-writer --bench live -- [record | lookup | instances | register]
//! ```
//!
//! Prints the median and the best of several rounds. The machine should be idle: with two threads
//! each row needs both processors.

#[path = "live/instances.rs"]
mod instances;
#[path = "live/lookup.rs"]
mod lookup;
#[path = "live/record.rs"]
mod record;
#[path = "live/register.rs"]
mod register;

fn main() {
    let only = std::env::args().nth(1).filter(|argument| !argument.starts_with('-'));
    let parts: [(&str, fn()); 4] = [
        ("record", record::report),
        ("lookup", lookup::report),
        ("instances", instances::report),
        ("register", register::report),
    ];
    for (name, report) in parts {
        if only.as_deref().is_none_or(|only| only == name) {
            report();
        }
    }
}

/// Median and best of rounds that each return their duration.
fn rounds(count: usize, mut round: impl FnMut() -> f64) -> (f64, f64) {
    let mut times: Vec<f64> = (0..count).map(|_| round()).collect();
    times.sort_by(f64::total_cmp);
    (times.get(count / 2).copied().unwrap_or(0.0), times.first().copied().unwrap_or(0.0))
}

fn row(what: &str, (median, best): (f64, f64), target: &str) {
    println!("{what:60} {median:9.1} {best:9.1}  {target}");
}
