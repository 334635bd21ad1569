//! An archive that is hard to draw.

use std::path::PathBuf;

use pcp_archive::Pmid;
use tempfile::TempDir;
use test_archives::{Builder, Cell, scratch};

/// Text that must stay text wherever it is shown.
pub(crate) const HOSTILE: &str = "</script><!-- <img src=x onerror=\"alert(1)\"> &amp; {{x}}";

const MANY: i32 = 50;

/// Writes five minutes with a record each second, apart from the third of them: a mark, then
/// nothing.
pub(crate) fn archive() -> (TempDir, PathBuf) {
    let directory = scratch();
    let base = directory.path().join("pictures");
    let pmid = |item| Pmid::new(60, 1, item).unwrap();
    let long = format!("pictures.{}", "long_name.".repeat(19) + "end");
    let workers: Vec<_> = (0..MANY).map(|n| format!("worker-{n:02}")).collect();
    let names: Vec<_> = (0..3).map(|n| format!("{n} {}", "instance ".repeat(22))).collect();
    let mut builder = Builder::of_host("pictures.example.com", &base)
        .metric_with(pmid(1), "pictures.wave", "double instant Kbyte")
        .metric_with(pmid(2), "pictures.many", "u64 counter count")
        .metric_with(pmid(3), "pictures.spike", "u64 instant")
        .metric_with(pmid(4), "pictures.constant", "i32 instant")
        .metric_with(pmid(5), "pictures.large", "u64 instant byte")
        .metric_with(pmid(6), "pictures.once", "u32 instant")
        .metric_with(pmid(7), "pictures.step", "u32 discrete")
        .metric_with(pmid(8), "pictures.hostile", "double instant")
        .metric_with(pmid(9), "pictures.text", "string instant")
        .metric_with(pmid(10), "pictures.never", "u32 instant")
        .metric_with(pmid(11), "pictures.time", "u64 counter millisec")
        .metric_with(pmid(12), "pictures.tiny", "double instant")
        .metric_with(pmid(20), &long, "double instant")
        .help("pictures.wave", "A wave, and nothing where logging was interrupted")
        .help("pictures.hostile", HOSTILE)
        .instances("pictures.many", workers.iter().map(String::as_str))
        .instances(&long, names.iter().map(String::as_str))
        .instances("pictures.hostile", [HOSTILE, "plain"]);
    for second in (0..120).chain(180..300) {
        if second == 180 {
            builder = builder.mark(121);
        }
        let turn = f64::from(second) / 20.0;
        let spike = if second == 77 { 1_000_000_000 } else { u64::from(second % 3 == 0) };
        let half = if second % 60 < 30 { 0 } else { 1_u64 << 62 };
        let mut values: Vec<(String, Cell)> = Vec::new();
        let mut put = |name: &str, value: Cell| values.push((format!("pictures.{name}"), value));
        put("wave", (100.0 + 50.0 * turn.sin()).into());
        for n in 0..MANY {
            let speed = 100.0 / f64::from(n + 1);
            let grown = f64::from(second) * speed + 10.0 * (turn + f64::from(n)).sin();
            put(&format!("many[{n}]"), (1000 + grown.max(0.0) as u64).into());
        }
        put("spike", spike.into());
        put("constant", 42.into());
        put("large", ((1 << 63) + half).into());
        put("hostile[0]", turn.cos().into());
        put("hostile[1]", (turn.cos() * 2.0).into());
        put("text", HOSTILE.into());
        put("time", (second * 400).into());
        put("tiny", (1e9 + 1e-3 * turn.sin()).into());
        values.extend((0..3).map(|n| (format!("{long}[{n}]"), (turn.cos() + f64::from(n)).into())));
        if second % 50 == 0 {
            values.push(("pictures.step".into(), (second / 50 % 3).into()));
        }
        if second == 200 {
            values.push(("pictures.once".into(), 7.into()));
        }
        builder = builder.row(second, values);
    }
    builder.finish();
    (directory, base)
}
