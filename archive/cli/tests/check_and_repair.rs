//! Output and exit status of `check` and `repair`.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;
use test_archives::Builder;

use crate::program::{run, stdout};

const RECORD: usize = 4 + 12 + 4 + 20 + 4;

/// Writes three records, a second apart.
fn archive() -> (TempDir, PathBuf) {
    let builder = Builder::named("acme").metric("acme.level", "u32 instant");
    builder.rows((0..3).map(|n| (n, [("acme.level", n)]))).finish().into_parts()
}

fn damage(base: &Path) {
    let path = base.with_extension("0");
    let mut bytes = fs::read(&path).unwrap();
    bytes[808 + RECORD + 2] = 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn check_of_a_clean_archive_prints_nothing_and_exits_with_0() {
    let (directory, _) = archive();
    assert_eq!(stdout(&run(directory.path(), &["check", "acme"]), 0), "");
    let sums = stdout(&run(directory.path(), &["check", "--json", "acme"]), 0).to_owned();
    assert_eq!(
        sums,
        "{\"schema\":1,\"findings\":0,\"suppressed\":0,\"records\":3,\"marks\":0,\"values\":3}\n"
    );
}

#[test]
fn notes_beyond_the_hundredth_are_counted_only_with_the_others() {
    let (directory, base) = Builder::named("acme")
        .metric("acme.counter", "u32 counter")
        .rows((0..300).map(|n| (n, [("acme.counter", n % 2)])))
        .finish()
        .into_parts();
    assert!(base.with_extension("0").exists());
    assert_eq!(stdout(&run(directory.path(), &["check", "acme"]), 0), "");
    let notes = run(directory.path(), &["check", "acme", "-n"]);
    assert!(stdout(&notes, 0).ends_with("and 49 more findings of these rules\n"), "{notes:?}");
    let sums = run(directory.path(), &["check", "acme", "--json"]);
    assert!(
        stdout(&sums, 0).starts_with("{\"schema\":1,\"findings\":0,\"suppressed\":0,"),
        "{sums:?}"
    );
}

#[test]
fn findings_have_file_offset_severity_and_rule_and_exit_with_1() {
    let (directory, base) = archive();
    damage(&base);
    let output = run(directory.path(), &["check", "acme"]);
    let expected = "acme.0: offset 852: error: record: expected 300 bytes, found 88; \
                    44 bytes belong to no record [record-frame]\n";
    assert_eq!(stdout(&output, 1), expected);
    assert_eq!(output.stderr, b"");
    let json = run(directory.path(), &["check", "--json", "acme"]);
    let first: serde_json::Value =
        serde_json::from_str(stdout(&json, 1).lines().next().unwrap()).unwrap();
    assert_eq!(first["rule"], "record-frame");
    assert_eq!((&first["offset"], &first["severity"]), (&852.into(), &"error".into()));
}

#[test]
fn a_missing_archive_exits_with_74() {
    let (directory, _) = archive();
    for command in [&["check", "other"][..], &["repair", "other", "--index"]] {
        assert_eq!(stdout(&run(directory.path(), command), 74), "");
    }
}

#[test]
fn repair_prints_what_is_kept_and_lost() {
    let (directory, base) = archive();
    damage(&base);
    let output = run(directory.path(), &["repair", "acme", "--output", "whole"]);
    let text = stdout(&output, 0);
    assert!(text.contains("records           2\n"), "{text}");
    let lost = "lost acme.0: offset 852: 44 bytes, after 2023-11-14T22:13:20";
    assert!(text.contains(lost), "{text}");
    assert_eq!(stdout(&run(directory.path(), &["check", "whole"]), 0), "");
    assert_ne!(stdout(&run(directory.path(), &["check", "acme"]), 1), "");
}

#[test]
fn repair_names_the_archive_of_records_that_step_back() {
    let (directory, base) = archive();
    let path = base.with_extension("0");
    let mut bytes = fs::read(&path).unwrap();
    let seconds = 808 + 2 * RECORD + 4;
    bytes[seconds..seconds + 4].copy_from_slice(&1_600_000_000_u32.to_be_bytes());
    fs::write(path, bytes).unwrap();
    let output = run(directory.path(), &["repair", "acme", "--output", "whole"]);
    let text = stdout(&output, 0);
    let further = "further archive   whole-2, of records whose time steps back\n  \
                   records         1\n";
    assert!(text.contains("records           2\n") && text.contains(further), "{text}");
    for archive in ["whole", "whole-2"] {
        assert_eq!(stdout(&run(directory.path(), &["check", archive]), 0), "");
    }
    let output = run(directory.path(), &["repair", "acme", "--in-place", "--json"]);
    let json: serde_json::Value = serde_json::from_str(stdout(&output, 0)).unwrap();
    let archive = &json["further"][0]["archive"];
    assert!(archive.as_str().is_some_and(|archive| archive.ends_with("acme-2")), "{json}");
    assert_eq!(stdout(&run(directory.path(), &["check", "acme-2"]), 0), "");
}

#[test]
fn repair_needs_an_output() {
    let (directory, base) = archive();
    damage(&base);
    let before = fs::read(base.with_extension("0")).unwrap();
    stdout(&run(directory.path(), &["repair", "acme"]), 2);
    stdout(&run(directory.path(), &["repair", "acme", "--in-place", "--output", "b"]), 2);
    stdout(&run(directory.path(), &["repair", "acme", "--in-place", "--index"]), 2);
    assert!(fs::read(base.with_extension("0")).unwrap() == before);
    let output = run(directory.path(), &["repair", "acme", "--in-place", "--json"]);
    let json: serde_json::Value = serde_json::from_str(stdout(&output, 0)).unwrap();
    assert_eq!((&json["records"], &json["lost"][0]["bytes"]), (&2.into(), &44.into()));
    assert_eq!(stdout(&run(directory.path(), &["check", "acme"]), 0), "");
}

#[test]
fn repair_of_the_index_alone_exits_with_65_for_other_damage() {
    let (directory, base) = archive();
    fs::remove_file(base.with_extension("index")).unwrap();
    stdout(&run(directory.path(), &["check", "acme"]), 1);
    assert!(
        stdout(&run(directory.path(), &["repair", "acme", "--index"]), 0)
            .ends_with("index entries\n")
    );
    assert_eq!(stdout(&run(directory.path(), &["check", "acme"]), 0), "");
    damage(&base);
    assert_eq!(stdout(&run(directory.path(), &["repair", "acme", "--index"]), 65), "");
}

#[test]
fn a_missing_volume_is_reported_and_marked() {
    let row = |n| (n, [("acme.value", n)]);
    let builder = Builder::named("acme").metric("acme.value", "u32 instant");
    let builder = builder.rows((0..10).map(row)).volume().rows((10..20).map(row));
    let (directory, base) = builder.volume().rows((20..30).map(row)).finish().into_parts();
    fs::remove_file(base.with_extension("1")).unwrap();
    let missing = "mmv-archive: acme: volume 1 does not exist; nothing is known of its time\n";
    for command in
        [&["info", "acme"][..], &["report", "acme", "acme"], &["extract", "acme", "-o", "copy"]]
    {
        let output = run(directory.path(), command);
        stdout(&output, 0);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(stderr.matches(missing).count(), 1, "{command:?}: {stderr}");
    }
    assert_eq!(stdout(&run(directory.path(), &["check", "copy"]), 0), "", "numbers are new");
    stdout(&run(directory.path(), &["repair", "acme", "--index"]), 0);
    let output = run(directory.path(), &["repair", "acme", "--output", "whole"]);
    let text = stdout(&output, 0);
    assert!(text.contains("marks put in      1\n"), "{text}");
    assert!(text.contains("lost acme.1: offset 0: 0 bytes"), "{text}");
    assert!(text.contains("the volume does not exist"), "{text}");
    assert_eq!(stdout(&run(directory.path(), &["check", "whole"]), 0), "");
    let output = run(directory.path(), &["info", "whole"]);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "numbers are new");
}

#[test]
fn an_archive_that_is_being_written_is_not_replaced() {
    let (directory, base) = archive();
    let script = "exec 9>>acme.0; echo ready; read end";
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).current_dir(directory.path());
    let mut writer = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    BufReader::new(writer.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    let before = fs::metadata(base.with_extension("index")).unwrap().ino();
    for command in [&["repair", "acme", "--in-place"][..], &["repair", "acme", "--index"]] {
        let output = run(directory.path(), command);
        stdout(&output, 75);
        let stderr = String::from_utf8_lossy(&output.stderr);
        let expected = format!("acme.0: process {} (sh) is writing to it", writer.id());
        assert!(stderr.contains(&expected), "{stderr}");
    }
    assert_eq!(fs::metadata(base.with_extension("index")).unwrap().ino(), before);
    stdout(&run(directory.path(), &["repair", "acme", "--output", "copy"]), 0);
    writer.kill().unwrap();
    writer.wait().unwrap();
    // One that only reads is no reason.
    let _reader = fs::File::open(base.with_extension("0")).unwrap();
    stdout(&run(directory.path(), &["repair", "acme", "--index"]), 0);
    stdout(&run(directory.path(), &["repair", "acme", "--in-place"]), 0);
}
