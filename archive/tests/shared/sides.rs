//! Two archives to be compared.

use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;
use test_archives::Builder;

/// Writes a minute of two programs, a record every second; the second one begins half a second,
/// and `later`, after the first, and was not logged from 20 s to 40 s.
///
/// | metric | one | other |
/// |---|---|---|
/// | `sides.level` | 100 | 130 |
/// | `sides.count` (counter) | 10 a second | 25 a second |
/// | `sides.worker` | x 1, y 2 | y 5, z 7 |
/// | `sides.alone` | 1 | |
pub(crate) fn pair(later: Duration) -> [(TempDir, PathBuf); 2] {
    let begin = |name| {
        Builder::named(name)
            .metric("sides.level", "double instant")
            .metric("sides.count", "u64 counter count")
            .metric("sides.worker", "i32 instant")
    };
    let row = |second| {
        let workers = [("sides.worker[x]", 1), ("sides.worker[y]", 2)];
        let rest = [("sides.level", 100), ("sides.count", 10 * second), ("sides.alone", 1)];
        (second, rest.into_iter().chain(workers))
    };
    let one = begin("one")
        .metric("sides.alone", "u32 instant")
        .instances("sides.worker", ["x", "y"])
        .rows((0..=60).map(row));
    let later = later.as_secs_f64() + 0.5;
    let row = |second| {
        let workers = [("sides.worker[y]", 5), ("sides.worker[z]", 7)];
        let rest = [("sides.level", 130), ("sides.count", 25 * second)];
        (later + f64::from(second), rest.into_iter().chain(workers))
    };
    let other = begin("other")
        .instances("sides.worker", ["y", "z"])
        .rows((0..20).map(row))
        .mark(later + 20.0)
        .rows((40..=60).map(row));
    [one, other].map(|builder| builder.finish().into_parts())
}

/// Writes two minutes of a histogram of milliseconds, 40 values each second:
///
/// | bucket | one | other, the first minute | other, the second minute |
/// |---|---|---|---|
/// | 10 to 19 | 30 | 30 | 15 |
/// | 20 to 29 | 10 | 10 | 10 |
/// | 80 to 89 | | | 15 |
pub(crate) fn histograms() -> [(TempDir, PathBuf); 2] {
    let buckets = ["bucket=10..19", "bucket=20..29", "bucket=80..89"];
    let usual = [30, 10, 0];
    let slow = [15, 10, 15];
    [("one", usual), ("other", slow)].map(|(name, later)| {
        let mut counts = [0_u64; 3];
        let mut sum = 0;
        let mut rows = Vec::new();
        for second in 0..=120 {
            let added = if second <= 60 { usual } else { later };
            for (count, added) in counts.iter_mut().zip(added) {
                *count += added;
            }
            sum += 15 * added[0] + 25 * added[1] + 85 * added[2];
            let cells = buckets.iter().zip(counts).filter(|(_, count)| *count > 0);
            let mut row: Vec<(String, u64)> = cells
                .map(|(bucket, count)| (format!("sides.latency.bucket[{bucket}]"), count))
                .collect();
            row.push(("sides.latency.sum".to_owned(), sum));
            rows.push((second, row));
        }
        Builder::named(name)
            .metric("sides.latency.bucket", "u64 counter count")
            .metric("sides.latency.sum", "u64 counter millisec")
            .instances("sides.latency.bucket", buckets)
            .labels("sides.latency.bucket", &[("histogram", "millisec")])
            .rows(rows)
            .finish()
            .into_parts()
    })
}
