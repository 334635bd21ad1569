//! Several archives on the command line: as one timeline, or one by one.

use std::path::Path;

use tempfile::TempDir;
use test_archives::Builder;

use crate::program::{printed, run};

const START: i64 = 1_700_000_000;

/// Writes archives `a` and `b` of a host, ten seconds each with ten in between, and `c` of the
/// same times as `b`.
fn three() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, from) in [("a", 0), ("b", 20), ("c", 20)] {
        write(&directory.path().join(name), from);
    }
    directory
}

/// Writes records at `from`, five and ten seconds later; a value is its time.
fn write(base: &Path, from: i32) {
    let builder = Builder::of_host("host", base).metric("acme.level", "u64 instant count");
    builder.rows([from, from + 5, from + 10].map(|n| (n, [("acme.level", n)]))).finish();
}

#[test]
fn report_of_a_list_is_one_timeline_with_marks_between() {
    let directory = three();
    let csv = |archives| {
        let arguments = ["report", archives, "acme", "-t", "5s", "--format", "csv", "-Z", "UTC"];
        let text = printed(directory.path(), &arguments);
        let values = text.lines().skip(1).map(|line| line.rsplit(',').next().unwrap().to_owned());
        values.collect::<Vec<_>>()
    };
    assert_eq!(csv("b,a"), ["0", "5", "10", "", "20", "25", "30"]);
    assert_eq!(csv("a"), ["0", "5", "10"]);
    let raw = printed(directory.path(), &["report", "a,b", "acme", "--raw", "--json"]);
    let marks = raw.lines().filter(|line| line.contains("mark")).collect::<Vec<_>>();
    assert_eq!(marks.len(), 1, "{raw}");
    assert!(marks[0].contains(&format!("\"seconds\":{}.001", START + 10)), "{raw}");
}

#[test]
fn quick_info_prints_the_indexed_end_of_what_is_one_stream() {
    let directory = three();
    let exact = printed(directory.path(), &["info", "a", "--quick"]);
    let whole = printed(directory.path(), &["info", "a"]);
    assert!(whole.starts_with(&exact) && !exact.contains("records"), "{exact}");
    printed(directory.path(), &["convert", "a", "--compress", "gzip", "-o", "packed"]);
    let packed = printed(directory.path(), &["info", "packed", "--quick"]);
    assert!(packed.contains("\nend               at least 2023-11-14"), "{packed}");
    let json = printed(directory.path(), &["info", "packed", "--quick", "--json"]);
    assert!(json.contains("\"is_end_exact\":false") && !json.contains("records"), "{json}");
    // The end of the stream is not read, which the counts need.
    let volume = directory.path().join("packed.0.gz");
    let bytes = std::fs::read(&volume).unwrap();
    std::fs::write(&volume, &bytes[..bytes.len() - 20]).unwrap();
    assert_eq!(printed(directory.path(), &["info", "packed", "--quick"]), packed);
}

#[test]
fn other_commands_handle_archives_one_by_one() {
    let directory = three();
    let info = printed(directory.path(), &["info", "."]);
    let headings: Vec<_> = info.lines().filter(|line| line.starts_with("==>")).collect();
    assert_eq!(headings, ["==> ./a <==", "==> ./b <==", "==> ./c <=="]);
    assert_eq!(info.matches("\nrecords           3, of these 0 marks\n").count(), 3, "{info}");
    let alone = printed(directory.path(), &["info", "a"]);
    assert!(info.starts_with(&format!("==> ./a <==\n{alone}\n==> ./b")), "{info}");
    let json = printed(directory.path(), &["dump", "a,b", "--json"]);
    let headings: Vec<_> = json.lines().filter(|line| line.contains("\"archive\"")).collect();
    assert_eq!(headings, ["{\"schema\":1,\"archive\":\"a\"}", "{\"schema\":1,\"archive\":\"b\"}"]);
    assert_eq!(json.lines().count(), 8);
    let metrics = printed(directory.path(), &["metrics", "a,b", "--all"]);
    assert_eq!(metrics.matches("acme.level  PMID").count(), 2, "{metrics}");
}

#[test]
fn overlapping_archives_are_an_error() {
    let directory = three();
    let output = run(directory.path(), &["report", ".", "acme"]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8(output.stderr).unwrap();
    let expected = "begins at 2023-11-14T22:13:40Z, before ./b ends at 2023-11-14T22:13:50Z; they \
                    do not form a timeline: mmv-archive view A=ARCHIVE B=ARCHIVE shows them side by side";
    assert!(message.contains(expected), "{message}");
}

#[test]
fn a_failure_of_one_archive_does_not_hide_the_others() {
    let directory = three();
    let index = directory.path().join("a.index");
    std::fs::remove_file(index).unwrap();
    let checked = run(directory.path(), &["check", "a,b"]);
    let text = String::from_utf8(checked.stdout).unwrap();
    let clean = run(directory.path(), &["check", "a"]).status.code();
    assert_eq!(checked.status.code(), clean, "{text}");
    assert!(text.contains("==> b <=="), "{text}");
    std::fs::write(directory.path().join("a.meta"), "no label").unwrap();
    let output = run(directory.path(), &["info", "a,b"]);
    assert_eq!(output.status.code(), Some(65));
    assert!(String::from_utf8(output.stdout).unwrap().contains("records           3"));
    let gone = run(directory.path(), &["dump", "a,nothing"]);
    assert_eq!(gone.status.code(), Some(74));
    // A window that misses one of them is not a failure.
    let late = run(directory.path(), &["dump", "b,c", "-S", "@1700000000"]);
    assert_eq!(late.status.code(), Some(0));
}

/// Lists the files of the directory that are not an archive of [`three`].
fn others(directory: &TempDir) -> Vec<String> {
    let entries = std::fs::read_dir(directory.path()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| !name.starts_with(['a', 'b', 'c'])).collect();
    names.sort();
    names
}

#[test]
fn an_extract_of_two_archives_is_one_archive_with_a_mark() {
    let directory = three();
    let text = printed(directory.path(), &["extract", "a,b", "-o", "new", "--volume-size", "1kB"]);
    assert!(text.starts_with("new: 7 records from 2023-11-14 22:13:20"), "{text}");
    assert!(run(directory.path(), &["check", "new"]).status.success());
    assert_eq!(others(&directory), ["new.0", "new.1", "new.index", "new.meta"]);
    let dump = printed(directory.path(), &["dump", "new", "--json"]);
    assert_eq!((dump.lines().count(), dump.matches("\"mark\":true").count()), (7, 1), "{dump}");
}

#[test]
fn an_extract_of_a_window_has_its_bounds_in_json() {
    let directory = three();
    let window = ["-S", "3s", "-T", "@1700000010", "--json"];
    let text = printed(
        directory.path(),
        &[&["extract", "a", "acme.*", "-o", "new"], &window[..]].concat(),
    );
    let text: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(text["start_seconds"].as_f64(), Some((START + 5) as f64));
    assert_eq!(text["end_seconds"].as_f64(), Some((START + 10) as f64));
    assert_eq!((&text["records"], &text["volumes"]), (&2.into(), &1.into()));
    assert_eq!(text["archive"], "new");
}

#[test]
fn archives_appear_complete_and_are_replaced_only_by_force() {
    let directory = three();
    let status = |arguments: &[&str]| run(directory.path(), arguments).status.code();
    let before = std::fs::read(directory.path().join("a.0")).unwrap();
    assert_eq!(status(&["extract", "a", "no.such", "-o", "new"]), Some(1));
    assert_eq!(status(&["extract", "a", "-S", "1s", "-T", "@1700000004", "-o", "new"]), Some(1));
    assert_eq!(status(&["extract", "b,c", "-o", "new"]), Some(2), "they overlap");
    assert_eq!(status(&["convert", "a", "-o", "new", "--rename", "nothing=x"]), Some(2));
    assert_eq!(status(&["convert", "a", "-o", "new", "--pmid", "acme.level=1.2"]), Some(2));
    assert_eq!(status(&["extract", "a", "-o", "a"]), Some(74));
    assert_eq!(status(&["extract", "a", "-o", "./a", "--force"]), Some(74), "its own source");
    assert_eq!(status(&["extract", "a", "-o", "b"]), Some(74));
    assert_eq!(std::fs::read(directory.path().join("a.0")).unwrap(), before);
    assert_eq!(others(&directory), [""; 0]);
    assert_eq!(status(&["extract", "a", "-o", "b", "--force"]), Some(0));
    assert_eq!(std::fs::read(directory.path().join("b.0")).unwrap(), before);
}

#[test]
fn a_conversion_renames_renumbers_and_compresses() {
    let directory = three();
    let names = ["--rename", "acme=works.north", "--pmid", "acme.level=300.7.5"];
    let how = ["convert", "a,b", "-o", "new", "--compress", "xz"];
    printed(directory.path(), &[&how, &names[..]].concat());
    // Each archive begins a volume.
    assert_eq!(others(&directory), ["new.0.xz", "new.1.xz", "new.index", "new.meta"]);
    let metrics = printed(directory.path(), &["metrics", "new", "--json"]);
    let metric: serde_json::Value = serde_json::from_str(&metrics).unwrap();
    assert_eq!(
        (&metric["metric"], &metric["pmid"]),
        (&"works.north.level".into(), &"300.7.5".into())
    );
    let csv = ["works.north.level", "-t", "5s", "--format", "csv"];
    let values = |archive, options: &[&str]| {
        let text = printed(directory.path(), &[&["report", archive], options].concat());
        text.lines().skip(1).map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(values("new", &csv), values("a,b", &["acme.level", "-t", "5s", "--format", "csv"]));
}

#[test]
fn a_conversion_to_version_2_and_back_has_the_same_content() {
    let directory = three();
    printed(directory.path(), &["convert", "a", "-o", "old", "--archive-version", "2"]);
    printed(directory.path(), &["convert", "old", "-o", "new"]);
    let dump = |name| printed(directory.path(), &["dump", "-m", "--json", name]);
    assert!(printed(directory.path(), &["info", "old", "--json"]).contains("\"version\":2"));
    assert!(printed(directory.path(), &["info", "new", "--json"]).contains("\"version\":3"));
    assert_eq!(dump("old"), dump("a"));
    assert_eq!(dump("new"), dump("a"));
    for name in ["old", "new"] {
        assert_eq!(printed(directory.path(), &["check", name]), "", "nothing is wrong with {name}");
    }
    let status =
        run(directory.path(), &["convert", "a", "-o", "x", "--archive-version", "4"]).status;
    assert_eq!(status.code(), Some(2));
}

#[test]
fn directory_of_the_only_host_is_found_and_others_listed() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(directory.path().join("archives/web")).unwrap();
    write(&directory.path().join("archives/web/a"), 0);
    let csv = printed(directory.path(), &["report", "archives", "acme", "--format", "csv"]);
    assert_eq!(csv.lines().count(), 12);
    let missing = run(directory.path(), &["info", "archives/b"]);
    assert_eq!(missing.status.code(), Some(74));
    let error = String::from_utf8(missing.stderr).unwrap();
    let expected = "archives/b: no archive of this name; archives has archives/web/a\n";
    assert!(error.ends_with(expected), "{error}");
    std::fs::create_dir(directory.path().join("archives/db")).unwrap();
    write(&directory.path().join("archives/db/a"), 0);
    let several = run(directory.path(), &["info", "archives"]);
    assert_eq!(several.status.code(), Some(2));
    let error = String::from_utf8(several.stderr).unwrap();
    assert!(error.ends_with("name one: archives/db, archives/web\n"), "{error}");
}

#[test]
fn names_of_metrics_of_several_archives_are_printed_once() {
    let directory = three();
    assert_eq!(printed(directory.path(), &["metrics", "a,b", "--names"]), "acme.level\n");
    let none = run(directory.path(), &["metrics", "a,b", "--names", "acme.none"]);
    assert_eq!(none.status.code(), Some(1));
    assert!(
        String::from_utf8(none.stderr)
            .unwrap()
            .ends_with("none of the metrics is in the archive\n")
    );
}

#[test]
fn units_that_fit_nothing_are_said_to_be_ignored() {
    let directory = three();
    let output = run(directory.path(), &["report", "a", "acme", "--units", "Mbyte"]);
    assert!(output.status.success() && !output.stdout.is_empty());
    let warning = String::from_utf8(output.stderr).unwrap();
    let expected = "mmv-archive: --units \"Mbyte\" fits no metric and is ignored: the units here \
                    are \"count\", ";
    assert!(warning.starts_with(expected), "{warning}");
    printed(directory.path(), &["report", "a", "acme", "--units", "count x 10^3"]);
}

#[test]
fn help_shows_which_arguments_are_required() {
    let directory = three();
    for command in ["report", "plot"] {
        let help = printed(directory.path(), &[command, "--help"]);
        let usage = format!("Usage: mmv-archive {command} [OPTIONS] <ARCHIVE> <METRIC>...\n");
        assert!(help.contains(&usage), "{help}");
    }
    let summary = printed(directory.path(), &["summary", "--help"]);
    assert!(summary.contains("<ARCHIVE> [METRIC]...\n"), "{summary}");
    let error = run(directory.path(), &["report", "a", "acme", "--intervall", "1s"]);
    assert!(String::from_utf8(error.stderr).unwrap().contains("'--interval'"));
}

#[test]
fn archive_without_a_readable_record_is_named() {
    for (volume, packing) in [("a.0", &[][..]), ("a.0.zst", &["--compress", "zstd"])] {
        let directory = tempfile::tempdir().unwrap();
        let set = directory.path().join("set");
        std::fs::create_dir(&set).unwrap();
        write(&directory.path().join("a"), 0);
        printed(directory.path(), &[&["convert", "a", "-o", "set/a"], packing].concat());
        write(&set.join("b"), 20);
        let file = set.join(volume);
        let mut bytes = std::fs::read(&file).unwrap();
        // A plain volume begins with the length of its label.
        let label = u32::from_be_bytes(bytes[..4].try_into().unwrap()) as usize;
        let damage = if packing.is_empty() { label } else { bytes.len() / 2 };
        let end = if packing.is_empty() { bytes.len() } else { damage + 16 };
        bytes[damage..end].fill(0xff);
        std::fs::write(&file, bytes).unwrap();
        for command in ["report", "summary"] {
            let output = run(directory.path(), &[command, "set", "acme.level"]);
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(65), "{command}, {volume}: {said}");
            assert!(said.contains(volume) && said.contains("are lost"), "{volume}: {said}");
            assert!(!output.stdout.is_empty(), "{command}, {volume}: the values of the other");
        }
    }
}

/// Offsets of magic number, process and volume in a label (`docs/archive-format.md`).
const LABEL_FIELDS: [(&str, usize); 3] = [("magic number", 4), ("pid", 8), ("volume", 24)];

#[test]
fn damaged_label_costs_only_its_archive() {
    for extension in ["meta", "0"] {
        for (field, offset) in LABEL_FIELDS {
            let directory = tempfile::tempdir().unwrap();
            let set = directory.path().join("set");
            std::fs::create_dir(&set).unwrap();
            write(&set.join("a"), 0);
            write(&set.join("b"), 20);
            overwrite(&set.join("a").with_extension(extension), offset);
            for arguments in [
                &["report", "set", "acme"][..],
                &["summary", "set"],
                &["plot", "set", "acme"],
                &["snapshot", "set", "-o", "page.html"],
                &["extract", "set", "-o", "copy"],
                &["convert", "set", "--compress", "xz", "-o", "compressed"],
            ] {
                let output = run(directory.path(), arguments);
                let said = String::from_utf8_lossy(&output.stderr);
                let context = format!("{arguments:?}, {extension}, {field}: {said}");
                assert_eq!(output.status.code(), Some(65), "{context}");
                assert!(said.contains("set/a.") && said.contains(": offset 0: "), "{context}");
                assert!(said.contains("\"repair\""), "{context}");
            }
            let report =
                run(directory.path(), &["report", "set", "acme", "--raw", "--format", "csv"]);
            let report = String::from_utf8(report.stdout).unwrap();
            assert_eq!(report.lines().count(), 4, "a heading and the values of b: {report}");
            let alone = run(directory.path(), &["report", "set/a", "acme"]);
            assert_eq!(alone.status.code(), Some(65), "{extension}, {field}: nothing is left");
        }
    }
}

/// Offsets of the halves of the start time's seconds in a label of version 3: the lower one makes
/// the archive overlap with the one before, the upper one makes it begin after its end.
const START_SECONDS: [usize; 2] = [12, 16];

#[test]
fn damaged_start_time_is_no_overlap() {
    for offset in START_SECONDS {
        let directory = tempfile::tempdir().unwrap();
        let set = directory.path().join("set");
        std::fs::create_dir(&set).unwrap();
        write(&set.join("a"), 0);
        write(&set.join("b"), 20);
        overwrite(&set.join("b.meta"), offset);
        for arguments in [
            &["report", "set", "acme"][..],
            &["summary", "set"],
            &["extract", "set", "-o", "copy"],
            &["convert", "set", "--compress", "xz", "-o", "compressed"],
        ] {
            let output = run(directory.path(), arguments);
            let said = String::from_utf8_lossy(&output.stderr);
            let context = format!("{arguments:?}, {offset}: {said}");
            assert_eq!(output.status.code(), Some(65), "{context}");
            assert!(said.contains("set/b.meta: offset 0: label: start time "), "{context}");
            assert!(said.contains("expected 1700000020"), "{context}");
        }
        let report = run(directory.path(), &["report", "set", "acme", "--raw", "--format", "csv"]);
        let report = String::from_utf8(report.stdout).unwrap();
        assert_eq!(report.lines().count(), 4, "{offset}: a heading and the values of a: {report}");
    }
}

#[test]
fn damaged_label_of_an_index_costs_only_speed() {
    for (field, offset) in LABEL_FIELDS {
        let directory = tempfile::tempdir().unwrap();
        write(&directory.path().join("a"), 0);
        write(&directory.path().join("b"), 20);
        overwrite(&directory.path().join("a.index"), offset);
        let report = run(directory.path(), &["report", ".", "acme", "--raw", "--format", "csv"]);
        let said = String::from_utf8_lossy(&report.stderr);
        assert_eq!(report.status.code(), Some(0), "{field}: {said}");
        assert!(said.contains("a.index: offset 0: ") && said.contains(field), "{field}: {said}");
        assert!(said.contains("the index is ignored"), "{field}: {said}");
        assert_eq!(String::from_utf8(report.stdout).unwrap().lines().count(), 7, "{field}");
    }
}

#[test]
fn damaged_label_of_one_volume_leaves_the_others() {
    for damaged in 0..3 {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().join("a");
        let mut archive = Builder::of_host("host", &base).metric("acme.level", "u64 instant count");
        for seconds in 0..3 {
            archive = archive.row(seconds, [("acme.level", seconds)]).volume();
        }
        archive.finish();
        write(&directory.path().join("b"), 20);
        overwrite(&base.with_extension(damaged.to_string()), 4);
        for (path, rows) in [(".", 6), ("a", 3)] {
            let report =
                run(directory.path(), &["report", path, "acme", "--raw", "--format", "csv"]);
            let said = String::from_utf8_lossy(&report.stderr);
            assert_eq!(report.status.code(), Some(65), "{damaged}, {path}: {said}");
            assert!(said.contains(&format!("a.{damaged}: offset 0: ")), "{damaged}: {said}");
            let values = String::from_utf8(report.stdout).unwrap();
            assert!(values.lines().count() >= rows, "{damaged}, {path}: {values}");
        }
    }
}

fn overwrite(file: &Path, offset: usize) {
    let mut bytes = std::fs::read(file).unwrap();
    bytes[offset..offset + 4].copy_from_slice(&[0, 1, 2, 3]);
    std::fs::write(file, bytes).unwrap();
}
