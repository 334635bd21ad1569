//! Names that a name space of today could not have, in archives as old versions of PCP
//! and other programs wrote them: what can be read is copied, to the byte.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pcp_archive::raw::{TextKind, TextTarget};
use pcp_archive::{InDom, Pmid};
use serde_json::{Value, json};
use test_archives::Builder;

use crate::harness::binaries;
use crate::harness::oracle::Oracle;
use crate::harness::scratch::Scratch;

/// The names that the writer is given; a test puts others of the same length in their
/// place.
const SINGLE: &str = "single";
const MANY: &str = "many.of.two";

/// Writes an archive of a metric without instances and one of two instances, in whose metadata
/// some bytes are replaced by as many others.
fn archive(scratch: &Scratch, replaced: &[(&str, &[u8])]) -> PathBuf {
    let base = scratch.path().join("given");
    let row = |second| {
        let values = [
            ("single", 100 + second),
            ("many.of.two[left]", 200 + second),
            ("many.of.two[right]", 300 + second),
        ];
        (second, values)
    };
    Builder::in_directory(scratch.path(), "given")
        .metric(SINGLE, "u32 instant count")
        .metric(MANY, "u32 instant count")
        .help(SINGLE, "short help")
        .in_domain(MANY, 1)
        .with_writer(|writer| {
            let single = TextTarget::Metric(Pmid::new(70, 1, 1).unwrap());
            writer.declare_text(single, TextKind::Full, "longest\nhelp").unwrap();
            let domain = TextTarget::InDom(InDom::new(70, 1).unwrap());
            writer.declare_text(domain, TextKind::OneLine, "of the domain").unwrap();
        })
        .numbered_instances(MANY, [(2, "left"), (5, "right")])
        .labels(SINGLE, &[("where", "item")])
        .instance_labels(MANY, &[("left", &[("where", "west")]), ("right", &[("where", "east")])])
        .rows((0..4).map(row))
        .finish();
    for (old, new) in replaced {
        replace(&base.with_extension("meta"), old.as_bytes(), new);
    }
    base
}

fn replace(file: &Path, old: &[u8], new: &[u8]) {
    assert_eq!(old.len(), new.len());
    let mut bytes = fs::read(file).unwrap();
    let found: Vec<usize> = offsets(&bytes, old);
    let [at] = *found else { panic!("{} times {old:?}", found.len()) };
    bytes[at..at + new.len()].copy_from_slice(new);
    fs::write(file, bytes).unwrap();
}

fn offsets(bytes: &[u8], part: &[u8]) -> Vec<usize> {
    let windows = bytes.windows(part.len()).enumerate();
    windows.filter(|(_, window)| *window == part).map(|(at, _)| at).collect()
}

fn mmv_archive<S: AsRef<OsStr>>(arguments: &[S]) -> Output {
    Command::new(binaries::mmv_archive()).args(arguments).output().expect("start mmv-archive")
}

#[track_caller]
fn copied(command: &str, base: &Path, options: &[&str]) -> PathBuf {
    let copy = base.with_file_name(command);
    let mut arguments = vec![OsStr::new(command), base.as_os_str()];
    arguments.extend([OsStr::new("--output"), copy.as_os_str()]);
    arguments.extend(options.iter().map(OsStr::new));
    let output = mmv_archive(&arguments);
    assert!(output.status.success(), "{command}: {output:?}");
    copy
}

/// Returns the output of pminfo about all metrics, and of pmdumplog about all records.
fn printed(oracle: &Oracle, base: &Path) -> [String; 2] {
    let info = oracle.run("pminfo", &[OsStr::new("-dmfT"), OsStr::new("-a"), base.as_os_str()]);
    [info, oracle.run("pmdumplog", &[OsStr::new("-dim"), base.as_os_str()])]
}

#[test]
fn names_with_leading_digits_are_copied_as_by_pmlogextract() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    let base = archive(&scratch, &[(SINGLE, b"40.4.6"), (MANY, b"7.8.9_1.abc")]);
    let theirs = scratch.path().join("theirs");
    oracle.run("pmlogextract", &[base.as_os_str(), theirs.as_os_str()]);
    let expected = printed(&oracle, &theirs);
    assert!(expected[0].contains("\n40.4.6 PMID: 70.1.1"), "{}", expected[0]);
    for command in ["convert", "extract", "repair"] {
        assert_eq!(printed(&oracle, &copied(command, &base, &[])), expected, "{command}");
    }
}

#[test]
fn a_name_that_is_a_leaf_and_a_branch_is_copied() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    let base = archive(&scratch, &[(MANY, b"leaf.a.more"), (SINGLE, b"leaf.a")]);
    let theirs = scratch.path().join("theirs");
    oracle.run("pmlogextract", &[base.as_os_str(), theirs.as_os_str()]);
    assert_eq!(printed(&oracle, &copied("convert", &base, &[])), printed(&oracle, &theirs));
}

/// Bytes that are no UTF-8 in names, help texts and the label; a control character, a
/// backslash that reads as a byte, and one that does not.
const BYTES: &[(&str, &[u8])] = &[
    (SINGLE, b"s\xffn\x07le"),
    (MANY, b"ma\0y.of t\xe9o"),
    ("left", b"\xe9e\x1ft"),
    ("right", b"\\xe9t"),
    ("short help", b"sh\xf6rt h\xe9lp"),
    ("longest\nhelp", b"C:\\nger\nh\xe9lp"),
    ("of the domain", b"\xff\xfe the domain"),
];

fn archive_of_bytes(scratch: &Scratch) -> PathBuf {
    let base = archive(scratch, BYTES);
    for extension in ["0", "meta", "index"] {
        replace(&base.with_extension(extension), b"host\0", b"h\xf6st\0");
    }
    base
}

#[test]
fn all_bytes_of_names_texts_and_labels_are_copied() {
    let scratch = Scratch::new();
    let base = archive_of_bytes(&scratch);
    let metadata = fs::read(base.with_extension("meta")).unwrap();
    for command in ["convert", "extract"] {
        let copy = copied(command, &base, &[]);
        assert!(fs::read(copy.with_extension("meta")).unwrap() == metadata, "{command}");
        let data = fs::read(copy.with_extension("0")).unwrap();
        assert_eq!(offsets(&data, b"h\xf6st\0").len(), 1, "{command}");
        fs::remove_file(copy.with_extension("0")).unwrap();
    }
    // A repair replaces a NUL, at which readers cut a name, and what follows it by the PMID.
    let repaired = fs::read(copied("repair", &base, &[]).with_extension("meta")).unwrap();
    for (_, bytes) in BYTES {
        let bytes = if bytes.contains(&0) { b"ma_70_1_2" } else { *bytes };
        assert_eq!(offsets(&repaired, bytes).len(), 1, "{bytes:?}");
    }
    let old = copied("convert", &base, &["--archive-version", "2", "--force"]);
    let metadata = fs::read(old.with_extension("meta")).unwrap();
    for (_, bytes) in BYTES {
        assert_eq!(offsets(&metadata, bytes).len(), 1, "{bytes:?}");
    }
}

#[test]
fn bytes_are_copied_as_pmlogextract_copies_them() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    // PCP's programs cut a name at its NUL.
    let bytes: Vec<_> = BYTES.iter().copied().filter(|(_, new)| !new.contains(&0)).collect();
    let base = archive(&scratch, &bytes);
    let theirs = scratch.path().join("theirs");
    oracle.run("pmlogextract", &[base.as_os_str(), theirs.as_os_str()]);
    let printed = |base: &Path| {
        let dump = [OsStr::new("-dihmlt"), base.as_os_str()];
        let output = oracle.output("pmdumplog", &dump);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let expected = printed(&theirs);
    assert!(expected.contains("(s\u{fffd}n\u{7}le)"), "{expected}");
    let copy = copied("convert", &base, &[]);
    let metrics = |text: &str| text.lines().filter(|line| line.contains("PMID")).count();
    assert_eq!(metrics(&printed(&copy)), metrics(&expected));
    let info = |base: &Path| {
        oracle.output("pminfo", &[OsStr::new("-dmfT"), OsStr::new("-a"), base.as_os_str()]).stdout
    };
    assert_eq!(info(&copy), info(&theirs));
}

#[test]
fn bytes_are_shown_by_the_documented_rule() {
    let scratch = Scratch::new();
    let base = archive_of_bytes(&scratch);
    let text = |arguments: &[&str]| {
        let (command, options) = arguments.split_first().unwrap();
        let mut all = vec![OsStr::new(command), base.as_os_str()];
        all.extend(options.iter().map(OsStr::new));
        let output = mmv_archive(&all);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let dump = text(&["dump", "-a", "-H"]);
    for shown in [
        "host h\\xf6st\n",
        "70.1.1 (s\\xffn\\x07le): value 100\n",
        "70.1.2 (ma\\x00y.of t\\xe9o):\n",
        "inst [2 or \"\\xe9e\\x1ft\"] value 200\n",
        "inst [5 or \"\\x5cxe9t\"] value 300\n",
        "[sh\\xf6rt h\\xe9lp]\n",
        "\nC:\\nger\nh\\xe9lp\n",
    ] {
        assert!(dump.contains(shown), "{shown:?} in {dump}");
    }
    let info: Value = serde_json::from_str(&text(&["info", "--json"])).unwrap();
    assert_eq!(info["host"], "h\\xf6st");
    assert!(text(&["info"]).contains("h\\xf6st\n"));
    let metrics = text(&["metrics", "--json"]);
    let metrics: Vec<Value> =
        metrics.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let many = metrics.iter().find(|metric| metric["pmid"] == "70.1.2").unwrap();
    assert_eq!(many["metric"], "ma\0y.of t\\xe9o");
    assert_eq!(many["instances"][0]["name"], "\\xe9e\u{1f}t");
    assert_eq!(many["instances"][1]["name"], "\\x5cxe9t");
    let single = metrics.iter().find(|metric| metric["pmid"] == "70.1.1").unwrap();
    assert_eq!(single["oneline"], "sh\\xf6rt h\\xe9lp");
    let report = text(&["report", "*", "--format", "csv"]);
    let head = report.lines().next().unwrap();
    assert!(
        head.ends_with(",ma\\x00y.of t\\xe9o[\\xe9e\\x1ft] (count),s\\xffn\\x07le (count)"),
        "{head}"
    );
    let table = text(&["report", "*"]);
    assert!(table.contains("[\\xe9e\\x1ft]"), "{table}");
}

#[test]
fn a_name_is_selected_by_the_text_that_is_shown() {
    let scratch = Scratch::new();
    let base = archive(&scratch, &[(SINGLE, b"s\xffngle"), ("left", b"\xe9eft")]);
    let select = [OsStr::new("report"), base.as_os_str(), OsStr::new("--json")];
    let lines = |more: &[&str]| {
        let arguments: Vec<_> = select.iter().copied().chain(more.iter().map(OsStr::new)).collect();
        let output = mmv_archive(&arguments);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().lines().count()
    };
    assert!(lines(&["s\\xffngle", "--raw"]) == 4);
    assert!(lines(&[MANY, "--raw", "-i", "\\xe9eft"]) == 4);
    let copy = copied("convert", &base, &["--rename", "s\\xffngle=good"]);
    assert_eq!(offsets(&fs::read(copy.with_extension("meta")).unwrap(), b"good").len(), 1);
}

#[test]
fn label_set_that_is_not_utf_8_or_json_costs_itself_alone() {
    let scratch = Scratch::new();
    let base = archive(&scratch, &[("\"west\"", b"\"we\xfft\""), ("\"item\"", b"'item'")]);
    let output = mmv_archive(&[OsStr::new("metrics"), OsStr::new("--json"), base.as_os_str()]);
    assert!(output.status.success(), "{output:?}");
    let metrics = String::from_utf8(output.stdout).unwrap();
    let many = metrics.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let many = many.into_iter().find(|metric| metric["metric"] == MANY).unwrap();
    assert_eq!(many["instances"][0]["labels"], Value::Null);
    assert_eq!(many["instances"][1]["labels"], json!({"where": "east"}));
    let metadata = fs::read(base.with_extension("meta")).unwrap();
    let warnings = String::from_utf8(output.stderr).unwrap();
    let json = offsets(&metadata, b"\"we\xfft\"")[0];
    let expected = [
        "labels of metric 70.1.1: JSON is not a JSON object; not used",
        "labels of instances of 70.1, instance 2: JSON is not valid UTF-8 at byte 12; not used",
    ];
    assert_eq!(warnings.lines().count(), 2, "{warnings}");
    for (line, expected) in warnings.lines().zip(expected) {
        let (place, warning) = line.split_once(": offset ").unwrap();
        assert!(place.ends_with("given.meta"), "{line}");
        let (offset, warning) = warning.split_once(": ").unwrap();
        assert_eq!(warning, expected);
        let offset: usize = offset.parse().unwrap();
        assert!(offset > 808 && offset < json, "{line}");
        assert_eq!(metadata[offset + 4..offset + 8], [0, 0, 0, 7], "a record of labels");
    }
    let check = mmv_archive(&[OsStr::new("check"), base.as_os_str()]);
    let found = String::from_utf8(check.stdout).unwrap();
    let found: Vec<_> = found.lines().filter(|line| line.contains("[label-json]")).collect();
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().all(|line| line.contains(": warning: ")), "{found:?}");
    // The set that is JSON for PCP, which does not parse it, is copied; the other is not.
    let copy = fs::read(copied("convert", &base, &[]).with_extension("meta")).unwrap();
    assert_eq!(offsets(&copy, b"'item'").len(), 1);
    assert_eq!(offsets(&copy, b"\"east\"").len(), 1);
    assert_eq!(offsets(&copy, b"\"we\xfft\"").len(), 0);
    // What is not JSON is damage, what is not UTF-8 is not.
    let repaired = fs::read(copied("repair", &base, &[]).with_extension("meta")).unwrap();
    assert_eq!(offsets(&repaired, b"'item'").len(), 0);
    assert_eq!(offsets(&repaired, b"\"we\xfft\"").len(), 1);
}

#[test]
fn check_finds_names_that_readers_trip_over() {
    let scratch = Scratch::new();
    let base = archive_of_bytes(&scratch);
    let output = mmv_archive(&[OsStr::new("check"), base.as_os_str()]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let found = String::from_utf8(output.stdout).unwrap();
    let file = format!("{}.meta: offset ", base.display());
    let names: Vec<_> = found.lines().filter_map(|line| line.strip_prefix(&file)).collect();
    let expected = [
        "note: metric 70.1.1: byte 1 of its name \"s\\xffn\\x07le\" is 0xff [metric-name]",
        "error: metric 70.1.2: byte 2 of its name \"ma\\x00y.of t\\xe9o\" is 0x00 [metric-name]",
    ];
    let findings: Vec<_> = names.iter().filter_map(|line| Some(line.split_once(": ")?.1)).collect();
    assert_eq!(findings, expected, "{found}");
    assert_eq!(found.lines().count(), 2);
}
