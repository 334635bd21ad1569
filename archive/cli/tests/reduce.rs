//! `mmv-archive reduce`.

use tempfile::TempDir;
use test_archives::Builder;

use crate::program::{printed, run};
use crate::programs;

/// Writes two archives, of the seconds 0 to 99 and 200 to 299 after the start of test archives,
/// which is 20 s after a minute.
fn two() -> TempDir {
    let directory = test_archives::scratch();
    for (name, first) in [("a", 0), ("b", 200)] {
        let rows = (first..first + 100)
            .map(|second| (second, [("app.sold", 3 * second), ("app.queue", second % 10)]));
        Builder::in_directory(directory.path(), name)
            .metric("app.sold", "u64 counter count")
            .metric("app.queue", "u32 instant none")
            .rows(rows)
            .finish();
    }
    directory
}

#[test]
fn archives_become_one_with_a_value_a_minute() {
    let directory = two();
    let text = printed(directory.path(), &["reduce", "a,b", "-o", "minutes"]);
    assert!(text.starts_with("minutes: 8 records from 2023-11-14 22:13:20"), "{text}");
    printed(directory.path(), &["check", "minutes"]);
    let report = printed(directory.path(), &["report", "minutes", "app.sold", "--raw"]);
    let times: Vec<&str> = report
        .lines()
        .filter_map(|line| line.split_whitespace().find(|w| w.contains(':')))
        .collect();
    let expected =
        ["22:13:20", "22:14:00", "22:14:59", "22:16:40", "22:17:00", "22:18:00", "22:18:19"];
    for time in expected {
        assert!(times.iter().any(|found| found.starts_with(time)), "{time} in {report}");
    }
    let sums = |archive: &str| {
        let all = printed(directory.path(), &["summary", archive, "app.sold", "--json"]);
        let summary: serde_json::Value = serde_json::from_str(all.lines().next().unwrap()).unwrap();
        summary["sum"].clone()
    };
    assert_eq!(sums("a,b"), sums("minutes"));
}

#[test]
fn grid_window_instances_and_metrics_are_chosen() {
    let directory = two();
    let options = ["-t", "30s", "--origin", "@1700000005", "-S", "20s", "-T", "@1700000070"];
    let selected = [&["reduce", "a", "app.queue", "-o", "part"], &options[..]].concat();
    let text = printed(directory.path(), &selected);
    assert!(text.starts_with("part: 3 records from 2023-11-14 22:13:55"), "{text}");
    let dump = printed(directory.path(), &["dump", "part", "--json"]);
    assert!(!dump.contains("app.sold"), "{dump}");
}

#[test]
fn nothing_is_overwritten_and_bad_options_are_refused() {
    let directory = two();
    let status = |arguments: &[&str]| run(directory.path(), arguments).status.code();
    let before = std::fs::read(directory.path().join("a.0")).unwrap();
    assert_eq!(status(&["reduce", "a", "-o", "a"]), Some(74));
    assert_eq!(status(&["reduce", "a", "-o", "./a", "--force"]), Some(74), "its own source");
    assert_eq!(status(&["reduce", "a", "-o", "b"]), Some(74));
    assert_eq!(std::fs::read(directory.path().join("a.0")).unwrap(), before);
    for interval in ["0", "-1s", "soon"] {
        assert_eq!(status(&["reduce", "a", "-o", "c", "-t", interval]), Some(2), "{interval}");
    }
    assert_eq!(status(&["reduce", "a", "no.such", "-o", "c"]), Some(1));
    assert_eq!(status(&["reduce", "a", "-o", "c", "--origin", "nonsense"]), Some(2));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 6, "nothing is left");
    assert_eq!(status(&["reduce", "a", "-o", "b", "--force"]), Some(0));
}

#[test]
fn version_2_is_written_where_it_can_be() {
    let directory = two();
    printed(directory.path(), &["reduce", "a", "-o", "old", "--archive-version", "2"]);
    printed(directory.path(), &["check", "old"]);
    assert!(printed(directory.path(), &["info", "old"]).contains("version 2"));
}

#[test]
fn runs_of_a_program_are_dated_by_the_events_that_are_kept() {
    let (directory, base) = programs::shop(true);
    let base = base.to_str().unwrap();
    let reduced = directory.path().join("reduced");
    let reduced = reduced.to_str().unwrap();
    printed(directory.path(), &["reduce", base, "-t", "20s", "-o", reduced]);
    printed(directory.path(), &["check", reduced]);
    for arguments in [&["events"][..], &["summary", "mmv.shop.orders", "--json"]] {
        let [command, options @ ..] = arguments else { panic!("a command") };
        let of = |archive| printed(directory.path(), &[&[*command, archive], options].concat());
        let names = |text: String| text.lines().map(str::to_owned).collect::<Vec<_>>();
        if *command == "events" {
            assert_eq!(names(of(base)), names(of(reduced)));
            continue;
        }
        let sums = |text: String| {
            let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
            lines.map(|line: serde_json::Value| line["sum"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(sums(of(base)), sums(of(reduced)));
    }
}
