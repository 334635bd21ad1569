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
