//! `explain` on archives of pmlogger in which something is known to have happened.

use serde_json::Value;

use crate::harness::corpus::Corpus;
use crate::harness::mmv_archive::printed_of;

/// What an archive has, by `pmval` or `report`.
struct Known {
    archive: &'static str,
    metric: &'static str,
    instance: Option<&'static str>,
    begin: [&'static str; 2],
    ratio: f64,
}

/// Rows in which a known event is looked for: a metric of the whole machine and of a part of it may
/// have the same.
const MAX_ROWS: usize = 2;

/// A disk that was read for ten minutes at 5 MB/s, after a minute at 24 kB/s and none before, and a
/// program of low priority that had a quarter
/// of a processor for ten minutes, after half a percent for another ten.
const KNOWN: [Known; 2] = [
    Known {
        archive: "20130706-a",
        metric: "disk.dev.read_bytes",
        instance: Some("sda"),
        begin: ["2013-07-05T15:59:01", "2013-07-05T16:01:02"],
        ratio: 1000.0,
    },
    Known {
        archive: "kenj-pc-1",
        metric: "kernel.all.cpu.nice",
        instance: None,
        begin: ["2004-02-08T01:45", "2004-02-08T01:46"],
        ratio: 30.0,
    },
];

#[test]
fn known_events_of_pmlogger_archives_are_among_first_changes() {
    let Some(corpus) = Corpus::find() else { return };
    for known in KNOWN {
        let archive = corpus.archive(known.archive);
        let printed = printed_of(&archive, &["explain", "-S", "0s", "--json"]);
        let json: Value = serde_json::from_str(&printed).expect("JSON");
        let changes = json["changes"].as_array().expect("changes");
        let is_known = |change: &&Value| {
            let begin = change["begin"].as_str().expect("a time");
            change["metric"] == known.metric
                && change["instance"].as_str() == known.instance
                && (known.begin[0]..known.begin[1]).contains(&begin)
        };
        let found = changes.iter().take(MAX_ROWS).find(is_known);
        let found = found.unwrap_or_else(|| panic!("{json}"));
        assert!(found["ratio"].as_f64().expect("a ratio") > known.ratio, "{found}");
    }
}
