//! The time of one operation out of many.

use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Returns the nanoseconds of `work`, done `count` times, on average. It is given the turn's
/// number.
#[inline(never)]
pub(crate) fn each(count: u64, mut work: impl FnMut(u64)) -> f64 {
    let start = Instant::now();
    for turn in 0..count {
        work(turn);
    }
    share(start.elapsed(), count)
}

/// Runs two threads at once, each on its own work; returns the time of the slower one.
pub(crate) fn each_of_two<W: FnMut(u64) + Send>(count: u64, works: [W; 2]) -> f64 {
    let barrier = Barrier::new(2);
    let run = |work: W| {
        barrier.wait();
        each(count, work)
    };
    let [first, second] = works;
    std::thread::scope(|scope| {
        let other = scope.spawn(|| run(second));
        let time = run(first);
        other.join().map_or(f64::NAN, |other| other.max(time))
    })
}

/// Returns the nanoseconds of something that is done once; dropping the result does not count.
pub(crate) fn once<T>(work: impl FnOnce() -> T) -> f64 {
    let start = Instant::now();
    let made = work();
    let time = start.elapsed();
    drop(made);
    share(time, 1)
}

#[expect(clippy::cast_precision_loss, reason = "some seconds at most")]
fn share(time: Duration, count: u64) -> f64 {
    time.as_nanos() as f64 / count as f64
}
