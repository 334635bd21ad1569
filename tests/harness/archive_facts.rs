//! Parser of the output of `pmdumplog` and `mmv-archive dump` into [`Facts`].
//!
//! Both print the same lines, so one parser reads both; only the order of metrics,
//! labels and help differs. The sections are asked for one by one, with
//! `-xxx`, which adds the seconds since 1970 to each date:
//!
//! ```text
//! Sun Apr  3 06:50:55.422385141 2022 (0.020760792) 1648968655 22 metrics
//!     29.0.158 (sample.proc.time):
//!         inst [1 or "0001 init"] value 0
//!     2.0.24 (pmcd.seqnum): value 19
//! ```

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use super::binaries;
use super::facts::{Facts, InDoms, Label, Metric, Record, Stamp, Values, number};
use super::oracle::Oracle;

/// The options that each section is asked for with.
const LABEL: &[&str] = &["-L"];
const DESCRIPTORS: &[&str] = &["-d"];
const INDOMS: &[&str] = &["-i"];
const LABEL_SETS: &[&str] = &["-e"];
const TEXTS: &[&str] = &["--helptext"];
const RECORDS: &[&str] = &["-m", "-M"];

#[track_caller]
pub(crate) fn of_pmdumplog(oracle: &Oracle, archive: &Path) -> Facts {
    let archive = archive.to_str().expect("a UTF-8 path");
    read(|section| {
        let arguments = [&["-xxx", "-Z", "UTC"], section, &[archive]].concat();
        oracle.run("pmdumplog", &arguments)
    })
}

/// Reads a whole archive through our own command.
#[track_caller]
pub(crate) fn of_mmv_archive(archive: &Path) -> Facts {
    read(|section| match dump(archive, section) {
        Ok(printed) => printed,
        Err(complaint) => panic!("mmv-archive dump {section:?}: {complaint}"),
    })
}

/// Reads metrics and records of an archive that is still written, through our own command; `None`
/// if it cannot be read right now.
pub(crate) fn so_far(archive: &Path) -> Option<Facts> {
    let metrics = descriptors(&dump(archive, DESCRIPTORS).ok()?);
    let records = records(&dump(archive, RECORDS).ok()?, &metrics)?;
    Some(Facts { metrics, records, ..Facts::default() })
}

fn dump(archive: &Path, section: &[&str]) -> Result<String, String> {
    let mut command = Command::new(binaries::mmv_archive());
    command.args(["dump", "--raw-text", "-xxx", "-Z", "UTC"]).args(section).arg(archive);
    let output = command.output().expect("start mmv-archive");
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr)))
    }
}

fn read(section: impl Fn(&[&str]) -> String) -> Facts {
    let metrics = descriptors(&section(DESCRIPTORS));
    let records = records(&section(RECORDS), &metrics).expect("metrics with descriptors");
    Facts {
        label: label(&section(LABEL)),
        indoms: indoms(&section(INDOMS)),
        labels: label_sets(&section(LABEL_SETS)).into_iter().collect(),
        texts: texts(&section(TEXTS)).into_iter().collect(),
        metrics,
        records,
    }
}

/// Parses the timestamp at the start of a line; also returns the rest of the line.
fn parse_timestamp(line: &str) -> Option<(Stamp, &str)> {
    let time = line.get(11..)?;
    let (_, fraction) = time.split_once(' ')?.0.split_once('.')?;
    let nanoseconds = format!("{fraction:0<9}").parse().ok()?;
    let after_year = time.split_once(' ')?.1.get(4..)?.trim_start();
    let (seconds, rest) = match after_year.strip_prefix('(') {
        Some(offset) => offset.split_once(") ")?.1,
        None => after_year,
    }
    .split_at_checked(10)?;
    Some(((seconds.parse().ok()?, nanoseconds), rest.trim_start()))
}

fn label(printed: &str) -> Label {
    let mut label = Label::default();
    for line in printed.lines() {
        if let Some(rest) = line.strip_prefix("Log Label (Log Format Version ") {
            label.version = rest.trim_end_matches(')').parse().expect("a version");
        } else if let Some(host) = line.strip_prefix("Performance metrics from host ") {
            host.clone_into(&mut label.host);
        } else if let Some(date) = line.strip_prefix("    commencing ") {
            label.start = parse_timestamp(date).expect("a date").0;
        } else if let Some(date) = line.strip_prefix("    ending     ") {
            label.end = parse_timestamp(date).expect("a date").0;
        } else if let Some(timezone) = line.strip_prefix("Archive timezone: ") {
            timezone.clone_into(&mut label.timezone);
        } else if let Some(zoneinfo) = line.strip_prefix("Archive zoneinfo: ") {
            zoneinfo.clone_into(&mut label.zoneinfo);
        } else if let Some(pid) = line.strip_prefix("PID for pmlogger: ") {
            label.pid = pid.parse().expect("a process number");
        }
    }
    label
}

fn descriptors(printed: &str) -> BTreeMap<String, Metric> {
    let mut metrics: BTreeMap<String, Metric> = BTreeMap::new();
    let mut current = String::new();
    for line in printed.lines() {
        if let Some((pmid, names)) = parts(line, "PMID: ", " (") {
            let names = names.trim_end_matches(')').split(" or ").map(str::to_owned).collect();
            pmid.clone_into(&mut current);
            metrics.insert(current.clone(), Metric { names, ..Metric::default() });
        } else if let Some(metric) = metrics.get_mut(&current) {
            descriptor_line(metric, line);
        }
    }
    metrics
}

fn descriptor_line(metric: &mut Metric, line: &str) {
    if let Some((data_type, indom)) = parts(line, "    Data Type: ", "  InDom: ") {
        data_type.clone_into(&mut metric.data_type);
        let word = indom.split(' ').next().unwrap_or_default();
        metric.indom = (word != "PM_INDOM_NULL").then(|| word.to_owned());
    } else if let Some((semantics, units)) = parts(line, "    Semantics: ", "  Units: ") {
        semantics.clone_into(&mut metric.semantics);
        units.clone_into(&mut metric.units);
    }
}

/// Splits `<prefix>ONE<middle>TWO` into `ONE` and `TWO`.
fn parts<'a>(line: &'a str, prefix: &str, middle: &str) -> Option<(&'a str, &'a str)> {
    line.strip_prefix(prefix)?.split_once(middle)
}

fn indoms(printed: &str) -> InDoms {
    let mut indoms = InDoms::new();
    let mut current = String::new();
    for line in printed.lines() {
        if let Some(indom) = line.strip_prefix("InDom: ") {
            indom.clone_into(&mut current);
        } else if let Some((timestamp, _)) = parse_timestamp(line) {
            indoms.entry(current.clone()).or_default().push((timestamp, BTreeMap::new()));
        } else if let Some((id, name)) =
            line.strip_prefix("   ").and_then(|line| line.trim_start().split_once(" or \""))
        {
            let (_, instances) =
                indoms.get_mut(&current).and_then(|states| states.last_mut()).expect("a state");
            let name = name.strip_suffix('"').unwrap_or(name);
            instances.insert(id.parse().expect("an instance number"), name.to_owned());
        }
    }
    indoms
}

/// Parses timestamp, owner and JSON of each change of labels: libpcp drops a set that repeats the
/// one before.
fn label_sets(printed: &str) -> Vec<(Stamp, String, String)> {
    let mut timestamp = (0, 0);
    let mut known: BTreeMap<&str, &str> = BTreeMap::new();
    let mut sets = Vec::new();
    for line in printed.lines() {
        if let Some((next, _)) = parse_timestamp(line) {
            timestamp = next;
        } else if let Some((owner, rest)) = parts(line, "    ", " labels (") {
            let (_, json) = rest.split_once(" bytes): ").expect("the labels' JSON");
            if known.insert(owner, json) != Some(json) {
                sets.push((timestamp, owner.to_owned(), json.to_owned()));
            }
        }
    }
    sets
}

/// Parses help texts: owner, whether the text is the one-line help, and the text.
fn texts(printed: &str) -> Vec<(String, bool, String)> {
    let mut texts: Vec<(String, bool, String)> = Vec::new();
    for line in printed.lines() {
        let owner = ["PMID: ", "InDom: "].iter().find(|prefix| line.starts_with(**prefix));
        if owner.is_some() {
            match line.split_once(" [") {
                Some((owner, text)) => {
                    texts.push((owner.to_owned(), true, text.trim_end_matches(']').to_owned()));
                }
                None => texts.push((line.to_owned(), false, String::new())),
            }
        } else if let Some((_, false, text)) = texts.last_mut() {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(line);
        }
    }
    texts
}

/// Parses the records; `None` if a metric has no descriptor, as when it was added after the
/// descriptors were printed.
fn records(printed: &str, metrics: &BTreeMap<String, Metric>) -> Option<Vec<Record>> {
    let mut records: Vec<Record> = Vec::new();
    for line in printed.lines() {
        if let Some((timestamp, rest)) = parse_timestamp(line) {
            records.push(Record { timestamp, mark: rest == "<mark>", sets: Vec::new() });
        } else if let (Some(record), Some(line)) =
            (records.last_mut(), line.strip_prefix("    ").filter(|line| !line.is_empty()))
        {
            set_line(record, line, metrics)?;
        }
    }
    Some(records)
}

/// Parses a line of a record: the beginning of a value set, or one of its instances.
fn set_line(record: &mut Record, line: &str, metrics: &BTreeMap<String, Metric>) -> Option<()> {
    if let Some(instance) = line.strip_prefix("    ") {
        let (pmid, values) = record.sets.last_mut()?;
        if let Values::These(values) = values {
            values.extend(one_value(instance, metrics.get(pmid)?));
        }
        return Some(());
    }
    let (pmid, rest) = line.split_once(" (")?;
    let rest = rest.split_once("):")?.1.trim_start();
    let values = match one_value(rest, metrics.get(pmid)?) {
        Some(value) => Values::These(vec![value]),
        None if rest.is_empty() || rest == "No values returned!" => Values::These(Vec::new()),
        None => Values::Error,
    };
    record.sets.push((pmid.to_owned(), values));
    Some(())
}

/// Parses `value X` or `inst [ID or "NAME"] value X`.
fn one_value(text: &str, metric: &Metric) -> Option<(Option<i32>, String)> {
    let is_text = metric.data_type == "string";
    let normal = |value: &str| if is_text { value.to_owned() } else { number(value) };
    if let Some(value) = text.strip_prefix("value ") {
        return Some((None, normal(value)));
    }
    let (id, rest) = text.strip_prefix("inst [")?.split_once(" or ")?;
    let (_, value) = rest.split_once("] value ")?;
    Some((Some(id.parse().ok()?), normal(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_is_read_from_the_seconds_and_the_fraction() {
        let line = "Sun Apr  3 06:50:55.422385141 2022 (0.020760792) 1648968655 22 metrics";
        assert_eq!(parse_timestamp(line), Some(((1_648_968_655, 422_385_141), "22 metrics")));
        let line = "Sun Apr  3 06:50:55.401624349 2022 1648968655";
        assert_eq!(parse_timestamp(line), Some(((1_648_968_655, 401_624_349), "")));
        assert_eq!(parse_timestamp("    29.0.158 (sample.proc.time):"), None);
    }

    #[test]
    fn sets_of_one_value_of_several_and_of_none_are_distinguished() {
        let metric = |data_type: &str| Metric { data_type: data_type.into(), ..Metric::default() };
        let metrics = BTreeMap::from([
            ("1.1.1".to_owned(), metric("64-bit int")),
            ("1.1.2".to_owned(), metric("string")),
        ]);
        let printed = "Sun Apr  3 06:50:55.422385141 2022 (0.020760792) 1648968655 3 metrics\n    1.1.1 (a.b):\n        inst [1 or \"x\"] value 10\n        inst [-2 or \"y\"] value -1\n    1.1.2 (a.c): value \"10\"\n    1.1.1 (a.b): No values returned!\n    1.1.1 (a.b): Metric not supported\n";
        let records = records(printed, &metrics).unwrap();
        assert_eq!(records[0].value("1.1.1", Some(-2)), Some("-0.1e1"));
        assert_eq!(records[0].value("1.1.2", None), Some("\"10\""));
        assert_eq!(records[0].sets[2].1, Values::These(Vec::new()));
        assert_eq!(records[0].sets[3].1, Values::Error);
    }
}
