//! Values, rates, quantiles and summaries of a program that ends and starts again, with
//! the agent's events in the archive.

use std::path::Path;

use pcp_archive::follow::Follower;
use pcp_archive::internal::programs::{events_metric, items};
use pcp_archive::raw::event::{EventArrayBuilder, EventFlags};
use pcp_archive::replay::{Decrease, Gaps, SelectedMetric, SuccessiveRates};
use pcp_archive::scan::Selection;
use pcp_archive::summary::summarize;
use pcp_archive::{Archive, Pmid, Timestamp, Value};
use test_archives::{Builder, TestArchive, at};

use crate::program::{printed_of, run_on, stdout, text};
use crate::programs::{shop, shop_that_ends};
use crate::report_csv::cells;

/// Returns the lines without their first field; none if there are no values.
fn lines(command: &str, base: &Path, arguments: &[&str]) -> Vec<String> {
    let output = run_on(base, &[&[command, "--format", "csv"], arguments].concat());
    let stderr = String::from_utf8_lossy(&output.stderr);
    if stderr.contains("the metrics have no values at these times") {
        return Vec::new();
    }
    assert!(output.status.success(), "{stderr}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().skip(1).map(cells).collect()
}

fn rounded(line: &str) -> String {
    line.split(',')
        .map(|cell| match cell.parse::<f64>() {
            Ok(number) => ((number * 1e3).round() / 1e3).to_string(),
            Err(_) => cell.to_owned(),
        })
        .collect::<Vec<_>>()
        .join(",")
}

fn report(base: &Path, arguments: &[&str]) -> Vec<String> {
    lines("report", base, &[&["-t", "10s"], arguments].concat())
}

#[test]
fn a_program_that_is_away_has_no_values() {
    let (_directory, base) = shop(true);
    let gauge = report(&base, &["mmv.shop.queue"]);
    assert_eq!(gauge, ["5", "5", "6", "6", "", "", "8", "8", "9", "9", "9"]);
    let as_pcp = report(&base, &["mmv.shop.queue", "--pcp"]);
    assert_eq!(as_pcp, ["5", "5", "6", "6", "6", "8", "8", "8", "9", "9", "9"]);
    // A counter does not slide down to the first value of the next run.
    let counter = report(&base, &["mmv.shop.orders", "-i", "a"]);
    assert_eq!(counter, ["0", "100", "200", "300", "", "", "20", "40", "60", "80", "100"]);
    let discrete = report(&base, &["mmv.shop.version"]);
    assert_eq!(discrete, ["1", "1", "1", "1", "", "", "2", "2", "2", "2", "2"]);
    let sum = report(&base, &["mmv.shop.queue", "-e", "s = sum(mmv.shop.orders)"]);
    assert_eq!(sum[3..7], ["6,303", ",", ",", "8,30"].map(str::to_owned));
}

#[test]
fn rates_are_whole_before_and_after_a_restart() {
    let (_directory, base) = shop(true);
    // Instance b is higher after the restart than before.
    let rates = report(&base, &["mmv.shop.orders", "--rate"]);
    let rates: Vec<String> = rates.iter().map(|line| rounded(line)).collect();
    let mut expected = vec![","];
    expected.extend(["10,0.1"; 3]);
    // The second run has counted 20 and 10 in the ten seconds before its first record.
    expected.extend([",", ",", "2,1"]);
    expected.extend(["2,0"; 4]);
    assert_eq!(rates, expected);
    let sums = report(&base, &["mmv.shop.orders", "--rate", "--sum"]);
    let sums: Vec<String> = sums.iter().map(|line| rounded(line)).collect();
    assert_eq!(sums[3..8], ["10.1", "", "", "3", "2"]);
    // Over the end, what was counted up to it; over both runs, each for its time.
    let over = |at: &str, span: &str| {
        let at = format!("@17000000{at}.000000001");
        lines("report", &base, &["mmv.shop.orders", "--rate", "-i", "a", "--at", &at, "-t", span])
            .iter()
            .map(|line| rounded(line))
            .collect::<Vec<_>>()
    };
    assert_eq!(over("35", "10s"), ["10"]);
    assert_eq!(over("40", "20s"), ["10"]);
    assert_eq!(over("80", "60s"), ["4"], "(100 + 60) in (10 + 30) s: the second run was 0 at 50 s");
    assert_eq!(over("50", "10s"), [""; 0]);
}

#[test]
fn a_moment_of_a_run_has_the_rate_of_its_interval() {
    let (_directory, base) = shop_that_ends();
    // 30 ms of the interval before the end, and of the one after the start: less than a count. The
    // run has counted 20 and 10 in the ten seconds before.
    for (second, expected) in [("39.97", [10.0, 0.1]), ("60.03", [2.0, 0.997]), ("55", [2.0, 1.0])]
    {
        let at = format!("@17000000{second}");
        let options = ["mmv.shop.orders", "--rate", "--at", &at, "-t", "10s"];
        let [line] = &lines("report", &base, &options)[..] else { panic!("{second}: one line") };
        let rates: Vec<f64> = line.split(',').map(|rate| rate.parse().unwrap()).collect();
        let is_near = rates.iter().zip(expected).all(|(rate, near)| (rate - near).abs() < 1e-3);
        assert!(rates.len() == 2 && is_near, "{second}: {rates:?}");
    }
}

#[test]
fn sums_of_counters_have_rates_and_differences_over_a_restart() {
    let (_directory, base) = shop(true);
    let (a, b) = ("scalar(mmv.shop.orders[a])", "scalar(mmv.shop.orders[b])");
    let at = |base: &Path, expression: &str, second: i64, options: &[&str]| -> String {
        let at = format!("@{}.000000001", 1_700_000_000 + second);
        let expression = format!("x = {expression}");
        let options = [&["-e", &expression, "--at", &at], options].concat();
        rounded(&lines("report", base, &options).pop().unwrap_or_default())
    };
    let minute = |expression: &str| at(&base, expression, 80, &["-t", "60s", "--no-rate"]);
    // b: (1 + 10) in (10 + 30) s.
    for expression in [
        format!("rate({a} + {b})"),
        format!("rate({a}) + rate({b})"),
        "rate(sum(mmv.shop.orders))".to_owned(),
        "sum(rate(mmv.shop.orders))".to_owned(),
        format!("rate(2 * {a} + {b} / 0.5) / 2"),
    ] {
        assert_eq!(minute(&expression), "4.275", "{expression}");
    }
    assert_eq!(minute(&format!("rate({a} - {b})")), "3.725");
    // As a counter in a table is.
    assert_eq!(at(&base, &format!("{a} + {b}"), 80, &["-t", "60s", "--rate"]), "4.275");
    assert_eq!(minute(&format!("delta({a})")), "160");
    assert_eq!(minute(&format!("delta({a} + {b})")), "171");
    assert_eq!(minute("delta(sum(mmv.shop.orders))"), "171");
    assert_eq!(minute("rate(max(mmv.shop.orders))"), "", "no sum");
    assert_eq!(at(&base, &format!("delta({a} + {b})"), 30, &["-t", "10s"]), "101");
    assert_eq!(at(&base, &format!("rate({a} + {b})"), 35, &["-t", "10s"]), "10.1");
    let as_pcp = at(&base, &format!("delta({a})"), 80, &["-t", "60s", "--pcp"]);
    assert_eq!(as_pcp, "-140", "PCP subtracts");
    // Without events it is not known when the second run began.
    let (_directory, base) = shop(false);
    for function in ["rate", "delta"] {
        let expression = format!("{function}({a} + {b})");
        assert_eq!(at(&base, &expression, 80, &["-t", "60s"]), "", "{expression}");
        assert_ne!(at(&base, &expression, 80, &["-t", "10s"]), "", "{expression}");
    }
}

#[test]
fn no_instance_has_a_rate_over_the_fall_of_another() {
    let (_directory, base) = shop(false);
    let rates = report(&base, &["mmv.shop.orders", "--rate"]);
    let expected = [",", "10,0.1", "10,0.1", "10,0.1", ",", ",", ",", "2,0", "2,0", "2,0", "2,0"];
    assert_eq!(rates, expected);
    let sums = report(&base, &["mmv.shop.orders", "--rate", "--sum"]);
    assert_eq!(sums[3..8], ["10.1", "", "", "", "2"].map(str::to_owned));
    let as_pcp = report(&base, &["mmv.shop.orders", "--rate", "--pcp"]);
    assert_eq!(as_pcp[4..7], [",0.2", ",0.3", ",0.2"].map(str::to_owned));
}

/// All names of the domain are known from the start; those of 6..7 and 8..11 are logged from 60 s
/// and 70 s on, of a program that began after 50 s.
#[test]
fn rates_of_buckets_of_a_fixed_domain_add_up_to_counts() {
    let (_directory, base) = shop(true);
    let rates = report(&base, &["mmv.shop.latency.bucket", "--rate"]);
    let counted = |bucket: usize, rows: std::ops::Range<usize>| -> u64 {
        let rows = rates[rows].iter();
        let cells = rows.filter_map(|line| line.split(',').nth(bucket)?.parse::<f64>().ok());
        (cells.sum::<f64>() * 10.0).round() as u64
    };
    // From 10 at 0 s to 40 at 30 s.
    assert_eq!(counted(0, 1..4), 30, "{rates:?}");
    // The row of 60 s has what was counted before the first record as well.
    assert_eq!([counted(1, 6..11), counted(2, 6..11)], [5, 1], "{rates:?}");
    let buckets = report(&base, &["mmv.shop.latency", "--buckets", "--rate"]);
    let without_sum = buckets.iter().map(|line| line.rsplit_once(',').unwrap().0);
    assert_eq!(without_sum.collect::<Vec<_>>(), rates);
}

#[test]
fn quantiles_are_of_counts_within_the_window() {
    let (_directory, base) = shop(true);
    let quantile = |options: &[&str]| {
        report(&base, &[&["mmv.shop.latency", "--quantile", "0.5,1"], options].concat())
    };
    // The last run: 1, 2, .. of 6..7, and from 70 s on one of 8..11.
    let mut expected = vec![","];
    expected.extend(["4.5,4.5"; 3]);
    expected.extend([",", ",", "6.5,6.5", "6.5,9.5"]);
    expected.extend(["6.5,6.5"; 3]);
    assert_eq!(quantile(&[]), expected);
    let at = |second: i64, span: &str| {
        let at = format!("@{}.000000001", 1_700_000_000 + second);
        let options = ["mmv.shop.latency", "--quantile", "0.5,0.99,1", "--at", &at, "-t", span];
        lines("report", &base, &options)
    };
    assert_eq!(at(37, "8s"), ["4.5,4.5,4.5"], "it ended within these seconds");
    assert_eq!(at(49, "8s"), [""; 0], "it was away all the time");
    assert_eq!(at(57, "8s"), ["6.5,6.5,6.5"], "the second run was 0 at 50 s");
    // 30 of 4..5 up to the end, 3 of 6..7 and one of 8..11 since the start.
    assert_eq!(at(80, "80s"), ["4.5,9.5,9.5"]);
    assert_eq!(at(80, "50s"), ["6.5,9.5,9.5"], "without those of the first run");
}

#[test]
fn records_have_quantiles_since_the_record_before() {
    let (_directory, base) = shop(true);
    let follow = |arguments: &[&str]| {
        let options = ["follow", "mmv.shop.latency", "-S", "0s", "-s", "9"];
        let output = run_on(&base, &[&options[..], arguments].concat());
        (stdout(&output, 0).to_owned(), text(&output.stderr).to_owned())
    };
    let (table, stderr) = follow(&["--quantile", "0.5,1", "--exact"]);
    let columns = |line: &str| line.split_whitespace().skip(2).map(str::to_owned).collect();
    let rows: Vec<Vec<String>> = table.lines().skip(4).map(columns).collect();
    let row = |first: &str, second: &str| vec![first.to_owned(), second.to_owned()];
    let mut expected = vec![row("-", "-")];
    expected.extend(vec![row("4.500", "4.500"); 3]);
    // From 0, and one of 8..11 at 70 s.
    expected.extend([row("6.500", "6.500"), row("6.500", "9.500")]);
    expected.extend(vec![row("6.500", "6.500"); 3]);
    assert_eq!(rows, expected, "{table}");
    let runs = "mmv-archive: shop ended at 2023-11-14 22:14:00 UTC; waiting until it starts again\n\
                mmv-archive: shop started again at 2023-11-14 22:14:10 UTC (pid 8)\n";
    assert_eq!(stderr, runs);
    let (lines, _) = follow(&["--quantile", "0.5", "--json"]);
    let first = lines.lines().next().unwrap();
    assert!(first.contains(r#""metric":"mmv.shop.latency.p50""#), "{first}");
    assert!(first.contains(r#""seconds":1700000010.0"#) && first.contains(":4.5"), "{first}");
    // The events are not known, but that bucket 4..5 is missing is not a fall.
    let (table, _) = follow(&["--quantile", "1", "--pcp"]);
    let rows: Vec<Vec<String>> = table.lines().skip(4).map(columns).collect();
    assert_eq!(rows[4], ["-"], "the sum fell: {table}");
    assert_eq!(rows[5], ["9.500"]);
}

#[test]
fn last_values_of_a_run_have_rates() {
    let (_directory, base) = shop_that_ends();
    let follow = |arguments: &[&str]| {
        let options = ["follow", "-S", "0s", "-s", "9"];
        let text = printed_of(&base, &[&options[..], arguments].concat());
        text.lines()
            .skip_while(|line| !line.starts_with("2023"))
            .map(|line| line.split_whitespace().next_back().unwrap_or("").to_owned())
            .collect::<Vec<_>>()
    };
    // The second run has counted 20 since it was noticed 10 s ago; the last record is 30 s ago.
    let rates = follow(&["mmv.shop.orders", "-i", "a", "--exact"]);
    assert_eq!(rates[..6], ["-", "10.000", "10.000", "10.000", "2.000", "2.000"]);
    let quantiles = follow(&["mmv.shop.latency", "--quantile", "1", "--exact"]);
    assert_eq!(quantiles[..5], ["-", "4.500", "4.500", "4.500", "6.500"]);
}

fn successive_rates(base: &Path, metric: &str, instance: &str) -> Vec<f64> {
    let mut follower = Follower::open(base).unwrap();
    let mut rates = SuccessiveRates::new(Gaps::Keep);
    let mut found = Vec::new();
    while let Some(followed) = follower.next().unwrap() {
        rates.begin_record(&followed);
        let described = followed.metadata.metric_by_name(metric).unwrap();
        let metric = SelectedMetric { name: metric.to_owned(), desc: described.desc };
        let indom = metric.desc.indom.unwrap();
        let identities = followed.metadata.identities(indom).unwrap();
        for set in followed.record.value_sets().filter(|set| set.pmid() == metric.desc.pmid) {
            let values: Vec<_> = set.values(metric.desc.value_type).map(Result::unwrap).collect();
            let all = rates.rates(&metric, &values, &followed);
            let wanted = values.iter().zip(all).filter(|((id, _), _)| {
                *identities.name_at(id.unwrap(), Timestamp::MAX).unwrap() == *instance
            });
            found.extend(wanted.filter_map(|(_, rate)| rate));
        }
    }
    found
}

#[test]
fn successive_rates_have_the_count_and_mean_of_the_summary() {
    let jobs = Builder::named("jobs")
        .metric("mmv.jobs.done", "u64 counter count")
        .instances("mmv.jobs.done", ["a"])
        .row(0, [("mmv.jobs.done[a]", 3)])
        .row(10, [("mmv.jobs.done[a]", 5)])
        .instances("mmv.jobs.done", ["a", "b"])
        .row(20, [("mmv.jobs.done[a]", 6), ("mmv.jobs.done[b]", 30)])
        .row(30, [("mmv.jobs.done[a]", 2), ("mmv.jobs.done[b]", 31)])
        .mark(31)
        .row(40, [("mmv.jobs.done[a]", 9), ("mmv.jobs.done[b]", 50)])
        .row(50, [("mmv.jobs.done[a]", 19), ("mmv.jobs.done[b]", 52)])
        .finish();
    assert_eq!(successive_rates(&jobs, "mmv.jobs.done", "b"), [3.0, 0.1, 0.2], "a new instance");
    let (_with_events, restarted) = shop(true);
    let (_with_ends, ended) = shop_that_ends();
    let (_without_events, unknown) = shop(false);
    for (base, metric) in [
        (jobs.base(), "mmv.jobs.done"),
        (&restarted, "mmv.shop.orders"),
        (&ended, "mmv.shop.orders"),
        (&unknown, "mmv.shop.orders"),
    ] {
        let archive = Archive::open(base).unwrap();
        let mut selection = Selection::new(&archive);
        selection.select(metric);
        let span = archive.label().start..=archive.end();
        let summary = summarize(&selection, span, Decrease::Reset).unwrap();
        assert_eq!(summary[0].instances.len(), 2);
        for (instance, summary) in ["a", "b"].into_iter().zip(&summary[0].instances) {
            let rates = successive_rates(base, metric, instance);
            let statistics = summary.statistics.as_ref().unwrap();
            assert_eq!(statistics.count, rates.len() as u64, "{base:?} {instance}");
            let mean = rates.iter().sum::<f64>() / rates.len() as f64;
            assert!((mean - statistics.stochastic_average).abs() < 1e-9, "{base:?} {instance}");
        }
    }
}

#[test]
fn a_removed_instance_of_a_program_has_no_values() {
    let archive = Builder::named("jobs")
        .metric("mmv.jobs.state", "u32 discrete")
        .metric("mmv.jobs.ticks", "u32 instant")
        .instances("mmv.jobs.state", ["a", "b"])
        .row(0, [("mmv.jobs.ticks", 0), ("mmv.jobs.state[a]", 7), ("mmv.jobs.state[b]", 7)])
        .instances("mmv.jobs.state", ["a"])
        .rows((1..5).map(|step| (10 * step, [("mmv.jobs.ticks", step)])))
        .finish();
    let states = |options: &[&str]| report(&archive, &[&["mmv.jobs.state"], options].concat());
    assert_eq!(states(&[]), ["7,7", "7,7", "7,", "7,", "7,"]);
    assert_eq!(states(&["--pcp"]), ["7,7"; 5]);
    let window = ["-S", "25s", "-T", "10s"];
    assert_eq!(states(&window), ["7,", "7,"]);
}

#[test]
fn a_table_has_the_events_between_its_rows() {
    let (_directory, base) = shop(true);
    let run = |options: &[&str]| {
        let report = ["report", "mmv.shop.queue", "-t", "20s", "--exact"];
        run_on(&base, &[&report[..], options].concat())
    };
    let output = run(&["--events"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let table = lines[lines.len() - 10..].join("\n");
    let expected = "\
2023-11-14 22:13:20.000  agent started
2023-11-14 22:13:20.000  shop appeared (pid 7)
2023-11-14 22:13:20.000               5
2023-11-14 22:13:40.000               6
2023-11-14 22:14:00.000  shop vanished (pid 7)
2023-11-14 22:14:00.000               -
2023-11-14 22:14:10.001  shop appeared (pid 8)
2023-11-14 22:14:20.000               8
2023-11-14 22:14:40.000               9
2023-11-14 22:15:00.000               9";
    assert_eq!(table, expected);
    let short = run(&["--events", "-S", "30s", "-T", "15s"]);
    let short = String::from_utf8(short.stdout).unwrap();
    assert!(
        short.ends_with("22:14:00.000  shop vanished (pid 7)\n"),
        "after the last row: {short}"
    );
    let output = run(&["--events", "--format", "csv"]);
    assert_eq!(output.status.code(), Some(2));
}

/// Writes two programs that end, `shop`, whose metrics share its name, and `bank`, whose metrics
/// are in cluster 9; and `farm`, which no report selects.
fn three_programs() -> TestArchive {
    let parameter = |item| Pmid::new(70, 0, item).unwrap();
    let mut array = EventArrayBuilder::new();
    for (file, cluster) in [("shop", None), ("bank", Some(9)), ("farm", None)] {
        array.record(at(10), EventFlags::POINT).unwrap();
        array.parameter(parameter(items::KIND), Value::String(b"ended")).unwrap();
        array.parameter(parameter(items::FILE), Value::String(file.as_bytes())).unwrap();
        if let Some(cluster) = cluster {
            array.parameter(parameter(items::CLUSTER), Value::U32(cluster)).unwrap();
        }
    }
    let in_cluster = |cluster, item| Pmid::new(70, cluster, item).unwrap();
    let buckets = [(4, "4..5"), (5, "6..7")];
    let row = |count: u64| {
        [
            ("mmv.shop.orders", count),
            ("mmv.shop.queue", count),
            ("mmv.transfers", count),
            ("mmv.latency.bucket[4..5]", count),
            ("mmv.farm.cows", count),
        ]
    };
    Builder::new()
        .metric_with(events_metric(), "mmv.agent.events", "event instant")
        .metric_with(in_cluster(1, 1), "mmv.shop.orders", "u64 counter count")
        .metric_with(in_cluster(1, 2), "mmv.shop.queue", "u64 instant")
        .metric_with(in_cluster(9, 1), "mmv.transfers", "u64 counter count")
        .metric_with(in_cluster(9, 2), "mmv.latency.bucket", "u64 counter count")
        .metric_with(in_cluster(3, 1), "mmv.farm.cows", "u64 instant")
        .numbered_instances("mmv.latency.bucket", buckets)
        .labels("mmv.latency.bucket", &[("histogram", "microsec")])
        .domain_labels("mmv.latency.bucket", &[("bucket_max", 10), ("bucket_precision", 1)])
        .row(0, row(0))
        .row(10, [("mmv.agent.events", array.finish())])
        .row(20, row(20))
        .finish()
}

#[test]
fn a_table_has_the_events_of_the_programs_asked_for_only() {
    let archive = three_programs();
    let programs = |arguments: &[&str]| {
        let options = ["report", "--events", "-t", "10s"];
        let output = run_on(&archive, &[&options[..], arguments].concat());
        let text = text(&output.stdout);
        let ended = text.lines().filter_map(|line| line.strip_suffix(" ended"));
        let names = ended.filter_map(|line| line.split(' ').next_back());
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(programs(&["mmv.shop.orders"]), ["shop"]);
    assert_eq!(programs(&["mmv.shop.orders", "mmv.shop.queue"]), ["shop"]);
    assert_eq!(programs(&["mmv.shop.orders", "mmv.transfers"]), ["shop", "bank"]);
    assert_eq!(programs(&["-e", "rate(mmv.shop.orders) / 2"]), ["shop"]);
    assert_eq!(programs(&["-e", "rate(mmv.shop.orders) + rate(mmv.transfers)"]), ["shop", "bank"]);
    assert_eq!(programs(&["mmv.transfers", "-e", "sum(mmv.latency.bucket)"]), ["bank"]);
    assert_eq!(programs(&["mmv.latency.bucket", "--quantile", "0.5"]), ["bank"]);
    assert_eq!(programs(&["mmv.latency.bucket", "--sum"]), ["bank"]);
}

#[test]
fn a_summary_is_of_the_time_in_which_a_program_ran() {
    let (_directory, base) = shop(true);
    let columns = |line: &String| -> Vec<f64> {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |place: usize| fields[place].parse::<f64>().unwrap();
        [1, 2, 5].map(|place| (number(place) * 1e5).round() / 1e5).to_vec()
    };
    let of = |metric: &str, options: &[&str]| {
        columns(&lines("summary", &base, &[&[metric], options].concat())[0])
    };
    // 5, 5, 6 for 10 s each; 8, 8, 9, 9 for 10 s each.
    assert_eq!(of("mmv.shop.queue", &[]), [9.0, 70.0, 7.142_86]);
    // And 6 for 30 s.
    assert_eq!(of("mmv.shop.queue", &["--pcp"]), [9.0, 100.0, 6.8]);
    // 1 until the end at 40 s, 2 until the end of the archive.
    assert_eq!(of("mmv.shop.version", &[]), [2.0, 80.0, 1.5]);
    // From 0 after 50 s to 10 at 60 s as well.
    assert_eq!(of("mmv.shop.orders", &["-i", "b"])[..2], [8.0, 79.999]);
}
