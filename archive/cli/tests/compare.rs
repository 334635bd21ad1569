//! `compare`: what differs between two runs whose difference is known.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use test_archives::{Builder, TestArchive};

use crate::output_schema::documented;
use crate::program::{printed_of, run};

/// Buckets of the histogram, and the values of each in base and new run for each search.
const BUCKETS: [&str; 5] = ["0..9", "10..19", "20..29", "30..39", "40.."];
const SECONDS: u64 = 400;

/// What one run of the shop does each second.
#[derive(Clone, Copy)]
struct Shop {
    /// Searches and orders per second, on average.
    searches: u64,
    orders: u64,
    /// The first bucket that a search is counted in; the others are the next ones.
    bucket: usize,
    /// Searches, of 100 in the second of these buckets, that are in the first or third one instead.
    scattered: u64,
    /// Orders that fail, of 100.
    failures: u64,
    seed: u64,
}

const BASE: Shop = Shop { searches: 40, orders: 20, bucket: 0, scattered: 0, failures: 0, seed: 1 };

impl Shop {
    /// `SplitMix64`, from 0 to below a limit.
    fn random(&mut self, limit: u64) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.seed;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    /// Writes a run of 400 seconds; its counters fall to 0 after `restart`.
    fn run(mut self, name: &str, restart: u64) -> TestArchive {
        let mut rows = Vec::new();
        let mut requests = [0_u64; 3];
        let mut buckets = [0_u64; 5];
        let mut sum = 0;
        for second in 0..SECONDS {
            if second == restart {
                (requests, buckets, sum) = ([0; 3], [0; 5], 0);
            }
            let searches = self.searches / 2 + self.random(self.searches);
            let orders = self.orders / 2 + self.random(self.orders);
            let failed = (0..orders).filter(|_| self.random(100) < self.failures).count() as u64;
            requests = [requests[0] + searches, requests[1] + orders, requests[2] + failed];
            for _ in 0..searches {
                let mut bucket = self.bucket + [0, 0, 0, 1, 1, 2][self.random(6) as usize];
                let is_second = bucket == self.bucket + 1;
                if is_second && self.scattered > 0 && self.random(100) < self.scattered {
                    bucket = self.bucket + 2 * self.random(2) as usize;
                }
                buckets[bucket] += 1;
                sum += 10 * bucket as u64 + 5;
            }
            let mut row: Vec<(String, u64)> = BUCKETS
                .iter()
                .zip(buckets)
                .filter(|(_, count)| *count > 0)
                .map(|(name, count)| (format!("shop.latency.bucket[bucket={name}]"), count))
                .collect();
            row.push(("shop.latency.sum".to_owned(), sum));
            row.push(("shop.requests[search]".to_owned(), requests[0]));
            row.push(("shop.requests[order]".to_owned(), requests[1]));
            if failed > 0 || requests[2] > 0 {
                row.push(("shop.requests[failed]".to_owned(), requests[2]));
            }
            row.push(("shop.queue".to_owned(), 3 + self.random(4)));
            row.push(("shop.workers".to_owned(), 8));
            rows.push((second, row));
        }
        Builder::named(name)
            .metric("shop.latency.bucket", "u64 counter count")
            .metric("shop.latency.sum", "u64 counter millisec")
            .metric("shop.requests", "u64 counter count")
            .metric("shop.queue", "u64 instant count")
            .metric("shop.workers", "u64 discrete count")
            .instances(
                "shop.latency.bucket",
                BUCKETS.map(|name| format!("bucket={name}")).iter().map(String::as_str),
            )
            .instances("shop.requests", ["search", "order", "failed"])
            .labels("shop.latency.bucket", &[("histogram", "millisec")])
            .rows(rows)
            .finish()
    }
}

fn compare(arguments: &[&str]) -> Output {
    run(Path::new("."), &[&["compare"], arguments].concat())
}

fn sides(base: &TestArchive, new: &TestArchive) -> [String; 2] {
    let named = |name: &str, base: &Path| format!("{name}={}", base.display());
    [named("base", base.base()), named("new", new.base())]
}

fn json(base: &TestArchive, new: &TestArchive, more: &[&str]) -> Value {
    let [base, new] = sides(base, new);
    let output = compare(&[&[base.as_str(), new.as_str(), "--json"], more].concat());
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Compares the last run with the others.
fn json_of_runs(runs: &[TestArchive]) -> Value {
    let mut arguments = vec!["--json".to_owned()];
    for (place, run) in runs.iter().enumerate() {
        let name = if place + 1 == runs.len() { "new".to_owned() } else { format!("base{place}") };
        arguments.push(format!("{name}={}", run.base().display()));
    }
    let output = compare(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn damaged_run_is_refused_with_the_place_and_what_to_do() {
    let base = BASE.run("base", SECONDS);
    let new = BASE.run("new", SECONDS);
    let volume = new.member("0");
    let mut bytes = fs::read(&volume).unwrap();
    let place = bytes.len() - 2;
    bytes[place..].fill(0xff);
    fs::write(&volume, &bytes).unwrap();
    let [base, damaged] = sides(&base, &new);
    let output = compare(&[&base, &damaged]);
    assert_eq!(output.status.code(), Some(65));
    let message = String::from_utf8(output.stderr).unwrap();
    let place = message.contains("new.0: offset ") && message.contains("trailer length 65535");
    assert!(place, "{message}");
    assert!(message.contains("; \"check\" lists the damage, \"repair\" writes"), "{message}");
}

fn number<'j>(json: &'j Value, wanted: &str) -> &'j Value {
    let title = |number: &Value| {
        let statistic = match number["quantile"].as_f64() {
            Some(rank) => format!("p{}", (rank * 100.0).round()),
            None => number["statistic"].as_str().unwrap().to_owned(),
        };
        let instance = number["instance"].as_str().map(|name| format!("[{name}]"));
        format!(
            "{statistic} {}{}",
            number["metric"].as_str().unwrap(),
            instance.unwrap_or_default()
        )
    };
    let numbers = json["series"].as_array().unwrap();
    numbers
        .iter()
        .find(|number| title(number) == wanted)
        .unwrap_or_else(|| panic!("{wanted}: {json}"))
}

#[track_caller]
fn assert_number(json: &Value, wanted: &str, verdict: &str, ratio: f64) {
    let number = number(json, wanted);
    assert_eq!(number["verdict"], verdict, "{number}");
    let (low, high) = (number["low"].as_f64().unwrap(), number["high"].as_f64().unwrap());
    assert!((low..=high).contains(&ratio), "{number}");
}

#[test]
fn what_changed_is_found_and_nothing_else() {
    let base = BASE.run("base", SECONDS);
    let new = Shop { orders: 40, bucket: 1, failures: 5, seed: 2, ..BASE }.run("new", SECONDS);
    let json = json(&base, &new, &[]);
    assert_number(&json, "rate shop.requests[order]", "higher", 2.0);
    // 40 of 60 requests, then 40 of 82.
    assert_number(&json, "share shop.requests[search]", "lower", 0.732);
    // 3 of 6 values are 5 ms, 2 are 15 and one is 25: 11.7 on average, and 10 ms more in the new
    // run.
    assert_number(&json, "mean shop.latency", "higher", 1.857);
    for (quantile, base, new) in [("p50", 4.5, 14.5), ("p90", 24.5, 34.5), ("p99", 24.5, 34.5)] {
        let number = number(&json, &format!("{quantile} shop.latency"));
        assert_eq!((&number["base"], &number["new"]), (&base.into(), &new.into()), "{number}");
        assert_eq!(number["verdict"], "higher", "{number}");
    }
    // An instance that was never hit was 0.
    let failed = number(&json, "rate shop.requests[failed]");
    assert_eq!((failed["base"].as_f64(), &failed["ratio"]), (Some(0.0), &Value::Null));
    assert_eq!(failed["verdict"], "higher");
    for unchanged in ["rate shop.requests[search]", "rate shop.latency", "value shop.queue"] {
        let verdict = &number(&json, unchanged)["verdict"];
        assert!(verdict == "same" || verdict == "unclear", "{unchanged}: {json}");
    }
    assert_eq!(number(&json, "value shop.workers")["verdict"], "same");
    assert_eq!(json["schema"], 1);
    for run in json["runs"].as_array().unwrap() {
        for end in ["begin", "end"] {
            let text: jiff::Timestamp = run[end].as_str().unwrap().parse().unwrap();
            let seconds = run[format!("{end}_seconds")].as_f64().unwrap();
            assert_eq!(text.as_second(), seconds as i64, "{run}");
        }
    }
    // The greatest change comes first: that from nothing.
    assert_eq!(json["series"][0]["instance"], "failed", "{json}");
}

/// Writes a run with this many values in each bucket of five each second, on average.
fn run_of_buckets(name: &str, seed: u64, buckets: [u64; 5]) -> TestArchive {
    let mut random = Shop { seed, ..BASE };
    let mut counts = [0; 5];
    let mut sum = 0;
    let mut rows = Vec::new();
    for second in 0..SECONDS {
        for (place, (count, usual)) in (0..).zip(counts.iter_mut().zip(buckets)) {
            let added = usual / 2 + random.random(usual + 1);
            *count += added;
            sum += (10 * place + 5) * added;
        }
        let mut row = vec![("shop.latency.sum".to_owned(), sum)];
        for (name, count) in BUCKETS.iter().zip(counts) {
            row.push((format!("shop.latency.bucket[bucket={name}]"), count));
        }
        rows.push((second, row));
    }
    Builder::named(name)
        .metric("shop.latency.bucket", "u64 counter count")
        .metric("shop.latency.sum", "u64 counter millisec")
        .instances(
            "shop.latency.bucket",
            BUCKETS.map(|name| format!("bucket={name}")).iter().map(String::as_str),
        )
        .labels("shop.latency.bucket", &[("histogram", "millisec")])
        .rows(rows)
        .finish()
}

#[test]
fn values_that_move_between_quantiles_are_one_more_number() {
    // p50 is in the first bucket, p90 and p99 in the fourth, and the mean is the same.
    let base = run_of_buckets("base", 1, [62, 10, 0, 28, 0]);
    let moved = run_of_buckets("moved", 2, [62, 0, 20, 18, 0]);
    let found = json(&base, &moved, &[]);
    for title in ["p50", "p90", "p99", "mean"] {
        let verdict = &number(&found, &format!("{title} shop.latency"))["verdict"];
        assert!(verdict == "same" || verdict == "unclear", "{title}: {found}");
    }
    let share = number(&found, "share_above shop.latency");
    assert_eq!((&share["limit"], &share["verdict"]), (&20.0.into(), &"higher".into()), "{share}");
    assert!((share["base"].as_f64().unwrap() - 0.28).abs() < 0.01, "{share}");
    assert!((share["new"].as_f64().unwrap() - 0.38).abs() < 0.01, "{share}");
    let [without, with] = sides(&base, &moved);
    let text = String::from_utf8(compare(&[&without, &with]).stdout).unwrap();
    let row = text.lines().find(|line| line.starts_with("share above 20 ms shop.latency"));
    assert!(row.is_some_and(|row| row.contains(" %") && row.ends_with("higher")), "{text}");
    // Where a quantile says it, it is not said twice.
    let slow = json(&base, &run_of_buckets("slow", 3, [20, 10, 20, 50, 0]), &[]);
    assert_eq!(number(&slow, "p50 shop.latency")["verdict"], "higher", "{slow}");
    let numbers = slow["series"].as_array().unwrap();
    assert!(numbers.iter().all(|number| number["statistic"] != "share_above"), "{slow}");
    // Nothing moved.
    let equal = json(&base, &run_of_buckets("equal", 4, [62, 10, 0, 28, 0]), &[]);
    assert_eq!(number(&equal, "share_above shop.latency")["verdict"], "same", "{equal}");
}

#[test]
fn fields_of_json_are_the_documented_ones() {
    let run = |name, own: &str| {
        let own = format!("shop.{own}");
        let rows = (0..100).map(|second| (second, [("shop.orders", 5 * second), (&own, 8)]));
        Builder::named(name)
            .metric("shop.orders", "u64 counter count")
            .metric(&own, "u64 instant count")
            .rows(rows)
            .finish()
    };
    let json = json(&run("base", "carts"), &run("new", "queue"), &["--warm-up", "9s"]);
    let keys = |object: &Value| object.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let mut fields: BTreeSet<String> = keys(&json).into_iter().collect();
    for list in ["runs", "series", "excluded", "only_base", "only_new"] {
        fields.extend(keys(&json[list][0]));
    }
    assert_eq!(fields, documented("compare --json"));
    assert_eq!(keys(&json["left_out"]), ["excluded", "only_base", "only_new", "series"]);
    assert_eq!(keys(&json["only_new"][0]), ["instance", "metric"]);
    let names: Vec<&str> =
        json["runs"].as_array().unwrap().iter().map(|run| run["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["base", "new"]);
}

#[test]
fn two_runs_of_a_kind_do_not_differ() {
    let base = BASE.run("base", SECONDS);
    for seed in 3..9 {
        let new = Shop { seed, ..BASE }.run("new", SECONDS);
        let json = json(&base, &new, &[]);
        let numbers = json["series"].as_array().unwrap();
        assert!(numbers.len() > 8);
        let different =
            |number: &&Value| ["higher", "lower"].iter().any(|it| number["verdict"] == **it);
        assert_eq!(numbers.iter().filter(different).count(), 0, "{json}");
    }
}

#[test]
fn a_restart_and_a_gap_cost_no_more_than_their_time() {
    let base = BASE.run("base", SECONDS);
    let new = Shop { seed: 4, ..BASE }.run("new", 200);
    let json = json(&base, &new, &[]);
    let searches = number(&json, "rate shop.requests[search]");
    let ratio = searches["ratio"].as_f64().unwrap();
    assert!((0.9..1.1).contains(&ratio), "{searches}");
}

#[test]
fn parts_of_one_archive_are_compared() {
    let archive = BASE.run("one", SECONDS);
    let base = archive.base().to_str().unwrap();
    let arguments = [base, "--before", "0s..180s", "--after", "200s..380s", "--all", "shop.queue"];
    let output = compare(&arguments);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(text.contains("value shop.queue"), "{text}");
    // Both ends count from the start of the archive.
    assert!(text.contains("22:16:40 to 22:19:40"), "{text}");
    assert!(text.contains("0 of 1 numbers differ"), "{text}");
    let output = compare(&[base, "shop.queue"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("--before and --after"), "{message}");
    let output = compare(&[base, "--before", "0s", "--after", "1s..2s"]);
    assert_eq!(output.status.code(), Some(2));
    let output = compare(&[base, "--before", "0s..1s", "--after", "1h..2h"]);
    assert_eq!(output.status.code(), Some(1), "the archive has no such part");
}

#[test]
fn parts_that_overlap_are_refused() {
    let archive = BASE.run("one", SECONDS);
    let base = archive.base().to_str().unwrap();
    let output = compare(&[base, "--before", "0s..200s", "--after", "100s..300s"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("--before and --after overlap"), "{message}");
    let output = compare(&[base, "--before", "0s..200s", "--after", "200s..390s"]);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_gap_has_the_length_of_what_is_missing() {
    let row = |second: u64| (second, [("shop.orders", 20 * second)]);
    let build = |name, gap_end: u64| {
        let builder = Builder::named(name).metric("shop.orders", "u64 counter count");
        builder.rows((0..300).map(row)).mark(300).rows((gap_end..gap_end + 300).map(row)).finish()
    };
    let base = build("base", 420);
    let new = build("new", 100_000);
    let json = json(&base, &new, &[]);
    let gap = &json["excluded"][0];
    assert_eq!(gap["reason"], "gap in the archive");
    let seconds = gap["end_seconds"].as_f64().unwrap() - gap["begin_seconds"].as_f64().unwrap();
    assert!((seconds - 120.0).abs() < 1e-6, "{gap}");
    let [base, new] = sides(&base, &new);
    let text = String::from_utf8(compare(&[&base, &new]).stdout).unwrap();
    assert!(text.contains("  gap in the archive from 22:18:20 to 22:20:20\n"), "{text}");
    // A run of more than a day.
    let dated = "  gap in the archive from 2023-11-14 22:18:20 to 2023-11-16 02:00:00\n";
    assert!(text.contains(dated), "{text}");
}

/// Writes a run whose latencies are in the first bucket and sometimes the second.
fn run_of_latencies(name: &str, seconds: u64, each_second: u64) -> TestArchive {
    let rows = (0..seconds).map(|second| {
        let fast = ("shop.latency.bucket[bucket=0..0]", each_second * second);
        let slow = ("shop.latency.bucket[bucket=1..1]", each_second * (second + 1) / 2);
        (second, [fast, slow])
    });
    Builder::named(name)
        .metric("shop.latency.bucket", "u64 counter count")
        .instances("shop.latency.bucket", ["bucket=0..0", "bucket=1..1"])
        .labels("shop.latency.bucket", &[("histogram", "millisec")])
        .rows(rows)
        .finish()
}

#[test]
fn bounds_that_are_missing_have_the_reason() {
    let bounds = |each_second| {
        let base = run_of_latencies("base", 60, each_second);
        let new = run_of_latencies("new", 60, each_second);
        let [base, new] = sides(&base, &new);
        let text = String::from_utf8(compare(&[&base, &new, "--all"]).stdout).unwrap();
        let row = |title: &str| {
            let row = text.lines().find(|line| line.starts_with(title));
            row.unwrap_or_else(|| panic!("{title}: {text}")).to_owned()
        };
        (row("p50 shop.latency"), row("p99 shop.latency"))
    };
    // Half of the values and more are 0.
    let (median, _) = bounds(200);
    assert!(median.contains("base may be 0"), "{median}");
    let (_, highest) = bounds(1);
    assert!(highest.contains("too few values"), "{highest}");
}

#[test]
fn compressed_archives_give_the_same_bytes_each_time() {
    let base = BASE.run("base", SECONDS);
    let new = Shop { orders: 40, seed: 2, ..BASE }.run("new", SECONDS);
    let packed = new.directory().join("packed");
    printed_of(&new, &["convert", "--compress", "zstd", "--output", "packed"]);
    let [base, plain] = sides(&base, &new);
    let packed = format!("new={}", packed.display());
    let expected = compare(&[&base, &plain, "--json"]).stdout;
    assert!(!expected.is_empty());
    assert_eq!(compare(&[&base, &plain, "--json"]).stdout, expected);
    assert_eq!(compare(&[&base, &packed, "--json"]).stdout, expected);
}

#[test]
fn a_condition_that_holds_is_an_exit_status() {
    let base = BASE.run("base", SECONDS);
    let new = Shop { bucket: 1, seed: 2, ..BASE }.run("new", SECONDS);
    let [base, new] = sides(&base, &new);
    let status = |condition: &str| {
        let output = compare(&[&base, &new, "--fail-if", condition]);
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, message) = status("p99(shop.latency) > +5%");
    assert_eq!(code, Some(1), "{message}");
    let expected = "p99(shop.latency) > +5%: p99 shop.latency was 24.5 ms and is 34.5 ms";
    assert!(message.contains(expected), "{message}");
    assert_eq!(status("p99(shop.latency) > +100%").0, Some(0));
    assert_eq!(status("rate(shop.requests[order]) < -5%").0, Some(0));
    let (code, message) = status("p99(shop.nothing) > +5%");
    assert_eq!(code, Some(2));
    assert!(message.contains("this number was not compared"), "{message}");
    for quantile in ["p95", "p99.9", "0.75"] {
        let (code, message) = status(&format!("{quantile}(shop.latency) > +5%"));
        assert_eq!(code, Some(1), "{quantile}: {message}");
    }
    assert_eq!(status("p99 of shop").0, Some(2));
}

#[test]
fn conditions_select_by_labels_as_metrics_are_selected() {
    let run = |name, slow: u64| {
        Builder::named(name)
            .metric("shop.requests", "u64 counter count")
            .instances("shop.requests", ["first", "second"])
            .instance_labels(
                "shop.requests",
                &[("first", &[("code", "200")]), ("second", &[("code", "500")])],
            )
            .metric("shop.latency.bucket", "u64 counter count")
            .labels("shop.latency.bucket", &[("histogram", "microsec")])
            .instances("shop.latency.bucket", ["path=/a,bucket=4..5", "path=/b,bucket=6..7"])
            .metric("shop.latency.sum", "u64 counter microsec")
            .instances("shop.latency.sum", ["path=/a", "path=/b"])
            .instance_labels(
                "shop.latency.sum",
                &[("path=/a", &[("path", "/a")]), ("path=/b", &[("path", "/b")])],
            )
            .rows((0..100).map(|second: u64| {
                let row = [
                    ("shop.requests[first]", 20 * second),
                    ("shop.requests[second]", slow * second),
                    ("shop.latency.bucket[path=/a,bucket=4..5]", 9 * second),
                    ("shop.latency.bucket[path=/b,bucket=6..7]", slow * second),
                    ("shop.latency.sum[path=/a]", 45 * second),
                    ("shop.latency.sum[path=/b]", 7 * slow * second),
                ];
                (second, row)
            }))
            .finish()
    };
    let base = run("base", 4);
    let new = run("new", 8);
    let [base, new] = sides(&base, &new);
    let status = |condition: &str| {
        let output = compare(&[&base, &new, "--fail-if", condition]);
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, message) = status("rate(shop.requests{code='500'}) > +5%");
    assert_eq!(code, Some(1), "{message}");
    assert!(message.contains("rate shop.requests[second] was 4"), "{message}");
    assert_eq!(status("rate(shop.requests{code=\"200\"}) > +5%").0, Some(0));
    assert_eq!(status("rate(shop.latency{path=~'/[b]'}) > +5%").0, Some(1));
    assert_eq!(status("rate(shop.latency{path='/a'}) > +5%").0, Some(0));
    let (code, message) = status("rate(shop.requests{code='404'}) > +5%");
    assert_eq!(code, Some(2), "{message}");
}

#[test]
fn all_numbers_for_which_conditions_hold_are_named() {
    let run = |name, factor: u64| {
        let instances: Vec<String> = (0..14).map(|place| format!("i{place:02}")).collect();
        let rows = (0..100).map(|second: u64| {
            let row = instances
                .iter()
                .map(move |instance| (format!("shop.requests[{instance}]"), factor * second));
            (second, row.chain([("shop.orders".to_owned(), 3 * factor * second)]))
        });
        Builder::named(name)
            .metric("shop.requests", "u64 counter count")
            .instances("shop.requests", instances.iter().map(String::as_str))
            .metric("shop.orders", "u64 counter count")
            .rows(rows)
            .finish()
    };
    let base = run("base", 5);
    let new = run("new", 10);
    let [base, new] = sides(&base, &new);
    let conditions = ["rate(shop.orders) > +50%", "rate(shop.requests) > +5%"];
    let fail_if = ["--fail-if", conditions[0], "--fail-if", conditions[1]];
    let output = compare(&[&[base.as_str(), new.as_str()], fail_if.as_slice()].concat());
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    let lines: Vec<&str> = message.lines().collect();
    assert!(lines[0].starts_with(&format!("mmv-archive: {}: ", conditions[0])), "{message}");
    assert!(lines[1].contains("rate shop.requests[i00] was 5"), "{message}");
    assert_eq!(lines.len(), 11, "{message}");
    let more = "mmv-archive: 5 more numbers for which a condition holds";
    assert_eq!(lines.last(), Some(&more));
}

#[test]
fn an_undecided_condition_is_named_and_no_failure() {
    let base = BASE.run("base", 40);
    let new = Shop { seed: 2, ..BASE }.run("new", 40);
    let [base, new] = sides(&base, &new);
    let output =
        compare(&[&base, &new, "-T", "30s", "--fail-if", "rate(shop.requests[order]) > +1%"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{message}");
    let start = "mmv-archive: not decided: too few values: rate(shop.requests[order]) > +1%: rate \
                 shop.requests[order] was ";
    assert!(message.starts_with(start), "{message}");
    assert!(message.contains("; their ratio may be 0."), "{message}");
}

#[test]
fn differences_between_base_runs_are_no_news() {
    // The second base run has as many orders more as the new one has.
    let orders = [20, 40, 20, 40].into_iter().zip(10..);
    let runs: Vec<TestArchive> = orders
        .map(|(orders, seed)| Shop { orders, seed, ..BASE }.run(&format!("run{seed}"), SECONDS))
        .collect();
    let names: Vec<String> = runs
        .iter()
        .zip(["a", "b", "c", "new"])
        .map(|(run, name)| format!("{name}={}", run.base().display()))
        .collect();
    let mut arguments: Vec<&str> = names.iter().map(String::as_str).collect();
    arguments.push("--json");
    let output = compare(&arguments);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(number(&json, "rate shop.requests[order]")["verdict"], "unclear", "{json}");
    let output = compare(&[&names[0], &names[3], "--json"]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(number(&json, "rate shop.requests[order]")["verdict"], "higher", "{json}");
}

/// Writes a run with a rate of requests for each code; a rate of 0 leaves the code out.
fn run_of_codes(name: &str, seed: u64, codes: [u64; 2]) -> TestArchive {
    let mut random = Shop { seed, ..BASE };
    let mut totals = [0; 2];
    let mut rows = Vec::new();
    for second in 0..SECONDS {
        let mut row = Vec::new();
        for ((total, rate), title) in totals.iter_mut().zip(codes).zip(["200", "500"]) {
            if rate > 0 {
                *total += rate / 2 + random.random(rate + 1);
                row.push((format!("shop.requests[code={title}]"), *total));
            }
        }
        rows.push((second, row));
    }
    Builder::named(name)
        .metric("shop.requests", "u64 counter count")
        .instances("shop.requests", ["code=200", "code=500"])
        .rows(rows)
        .finish()
}

#[test]
fn an_instance_that_a_run_lacks_has_a_share_of_nothing() {
    let none = run_of_codes("none", 1, [20, 0]);
    let some = run_of_codes("some", 2, [20, 2]);
    let [without, with] = sides(&none, &some);
    let more = json(&none, &some, &[]);
    let failed = number(&more, "share shop.requests[code=500]");
    assert_eq!((failed["base"].as_f64(), &failed["verdict"]), (Some(0.0), &"higher".into()));
    assert_eq!(number(&more, "share shop.requests[code=200]")["base"], 1.0);
    let condition = "share(shop.requests[code=500]) > +5%";
    let output = compare(&[&without, &with, "--fail-if", condition]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let fewer = json(&some, &none, &[]);
    let failed = number(&fewer, "share shop.requests[code=500]");
    assert_eq!((failed["new"].as_f64(), &failed["verdict"]), (Some(0.0), &"lower".into()));
}

#[test]
fn base_runs_without_an_instance_count_in_its_mean_share() {
    let runs = [[20, 0], [20, 5], [20, 0], [20, 2]];
    let runs: Vec<TestArchive> = (1..)
        .zip(runs)
        .map(|(seed, codes)| run_of_codes(&format!("run{seed}"), seed, codes))
        .collect();
    let json = json_of_runs(&runs);
    let failed = number(&json, "share shop.requests[code=500]");
    let base = failed["base"].as_f64().unwrap();
    assert!((base - 0.2 / 3.0).abs() < 0.005, "{failed}");
    assert_eq!(failed["verdict"], "unclear", "{failed}");
}

#[test]
fn the_warm_up_is_left_out_and_named() {
    let base = BASE.run("base", SECONDS);
    let new = Shop { seed: 4, ..BASE }.run("new", SECONDS);
    let json = json(&base, &new, &["--warm-up", "30s"]);
    let cuts = json["excluded"].as_array().unwrap();
    assert_eq!(cuts.len(), 2, "{json}");
    assert_eq!(cuts[0]["reason"], "warm-up");
    assert_eq!(cuts[0]["run"], "base");
}

#[test]
fn a_restart_without_events_is_named_and_followed_by_a_warm_up() {
    let base = BASE.run("base", SECONDS);
    let new = Shop { seed: 4, ..BASE }.run("new", 200);
    let cuts = |arguments: &[&str]| {
        let json = json(&base, &new, arguments);
        let mut cuts = Vec::new();
        for cut in json["excluded"].as_array().unwrap() {
            if !cut["program"].is_null() {
                let reason = cut["reason"].as_str().unwrap().to_owned();
                let begin = cut["begin"].as_str().unwrap()[11..19].to_owned();
                cuts.push((reason, begin, cut["end"].as_str().unwrap()[11..19].to_owned()));
            }
        }
        cuts
    };
    let fall = ("counters fell".to_owned(), "22:16:40".to_owned(), "22:16:40".to_owned());
    assert_eq!(cuts(&[]), std::slice::from_ref(&fall));
    let warm_up = ("warm-up".to_owned(), "22:16:40".to_owned(), "22:17:00".to_owned());
    assert_eq!(cuts(&["--warm-up", "20s"]), [fall, warm_up]);
    // A program that does nothing at first.
    let idle = |name, restart: u64| {
        let rows = (0..SECONDS).map(|second| {
            let since = if second < restart { second } else { second - restart };
            (second, [("shop.orders", 20 * since.saturating_sub(50))])
        });
        let builder = Builder::named(name).metric("shop.orders", "u64 counter count");
        builder.rows(rows).finish()
    };
    let steady = idle("steady", SECONDS);
    let restarted = idle("restarted", 200);
    let ratio = |arguments: &[&str]| {
        let json = self::json(&steady, &restarted, arguments);
        number(&json, "rate shop.orders")["ratio"].as_f64().unwrap()
    };
    assert!(ratio(&[]) < 0.9);
    assert!((ratio(&["--warm-up", "60s"]) - 1.0).abs() < 1e-9);
}

#[test]
fn a_table_has_the_change_and_the_rest_in_numbers() {
    let base = BASE.run("base", SECONDS);
    let new = Shop { orders: 40, seed: 2, ..BASE }.run("new", SECONDS);
    let [base, new] = sides(&base, &new);
    let output = compare(&[&base, &new]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("base  "), "{text}");
    let row = text.lines().find(|line| line.starts_with("rate shop.requests[order]")).unwrap();
    assert!(row.ends_with("higher"), "{text}");
    assert!(text.contains("numbers differ"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

mod engines {
    use super::*;

    fn table(run: &TestArchive) -> Value {
        let text = printed_of(run, &["report", "--raw", "--buckets", "--format", "csv", "shop"]);
        let mut lines = text.lines();
        // `shop.latency.bucket[bucket=0..9] (count)`
        let heads = lines.next().unwrap().split(',').skip(2);
        let names: Vec<&str> =
            heads.map(|head| head.split_once(" (").map_or(head, |(name, _)| name)).collect();
        let mut columns = vec![Vec::new(); names.len()];
        for line in lines {
            for (column, value) in columns.iter_mut().zip(line.split(',').skip(2)) {
                column.push(value.parse::<u64>().ok());
            }
        }
        let mut table = serde_json::json!({"counters": {}, "instants": {}, "histogram": {}});
        for (name, values) in names.into_iter().zip(columns) {
            let bucket = name.strip_prefix("shop.latency.bucket[bucket=");
            let (kind, name) = match bucket.and_then(|name| name.strip_suffix(']')) {
                Some(bucket) => ("histogram", bucket),
                None if name == "shop.latency.sum" => ("histogram", "sum"),
                None if name.starts_with("shop.requests") => ("counters", name),
                None => ("instants", name),
            };
            table[kind][name] = values.into();
        }
        table
    }

    fn computed(python: &Path, comparisons: &[Vec<TestArchive>]) -> Vec<Value> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compare.py");
        let mut child = Command::new(python)
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        let mut lines = Vec::new();
        for runs in comparisons {
            let tables: Vec<Value> = runs.iter().map(table).collect();
            lines.push(serde_json::to_string(&tables).unwrap() + "\n");
        }
        let write = std::thread::spawn(move || input.write_all(lines.concat().as_bytes()));
        let output = child.wait_with_output().unwrap();
        write.join().unwrap().unwrap();
        assert!(output.status.success());
        let lines = output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
    }

    fn assert_near(found: &Value, expected: &Value, context: &str) {
        match (found.as_f64(), expected.as_f64()) {
            (Some(found), Some(expected)) => {
                let near = (found - expected).abs() <= 1e-6 * expected.abs().max(1e-3);
                assert!(near, "{context}: {found}, expected {expected}");
            }
            _ => assert_eq!(found, expected, "{context}"),
        }
    }

    #[test]
    #[ignore = "needs the engines that ci/columns fetches"]
    fn fifty_comparisons_have_the_verdicts_that_scipy_computes() {
        let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/columns/bin/python");
        if !python.with_file_name("../scipy.complete").exists() {
            assert!(std::env::var_os("PCP").is_none_or(|pcp| pcp != "require"), "no scipy");
            eprintln!("skipped: no scipy, which ci/columns scipy fetches");
            return;
        }
        let comparisons: Vec<Vec<TestArchive>> = (0..50)
            .map(|number| {
                // In some of them the first base run has none of the failures, or the new run.
                let failures = |run: u64| match (number % 5, run) {
                    (1, 0) | (2, 9) => 0,
                    _ => 5,
                };
                let bases = if number % 4 == 3 { 3 } else { 1 };
                let mut runs = Vec::new();
                for run in 0..bases {
                    let seed = 100 + 10 * number + run;
                    let base = Shop { failures: failures(run), seed, ..BASE };
                    runs.push(base.run(&format!("base{run}"), SECONDS));
                }
                let new = Shop {
                    searches: BASE.searches + number % 7,
                    orders: BASE.orders + number % 3,
                    bucket: usize::from(number % 5 == 0),
                    scattered: if number % 5 == 1 { 60 } else { 0 },
                    failures: failures(9),
                    seed: 1000 + number,
                };
                runs.push(new.run("new", SECONDS));
                runs
            })
            .collect();
        let mut verdicts = BTreeMap::new();
        let mut moves = 0;
        let all_computed = computed(&python, &comparisons);
        assert_eq!(all_computed.len(), comparisons.len());
        for (place, (runs, computed)) in comparisons.iter().zip(&all_computed).enumerate() {
            let json = json_of_runs(runs);
            let computed = computed.as_object().unwrap();
            assert_eq!(json["series"].as_array().unwrap().len(), computed.len(), "{json}");
            for (title, expected) in computed {
                let found = number(&json, title);
                let context = format!("comparison {place}, {title}");
                assert_eq!(found["verdict"], expected["verdict"], "{context}: {found} {expected}");
                for field in ["base", "new", "low", "high", "significance"] {
                    assert_near(&found[field], &expected[field], &format!("{context}, {field}"));
                }
                *verdicts.entry(found["verdict"].to_string()).or_insert(0) += 1;
                let is_different = ["higher", "lower"].iter().any(|it| found["verdict"] == **it);
                moves += usize::from(is_different && title.starts_with("share_above"));
            }
        }
        assert_eq!(verdicts.len(), 4, "comparisons of all kinds: {verdicts:?}");
        assert!(moves > 0, "some that no quantile shows");
    }
}
