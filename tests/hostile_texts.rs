//! Names, texts and values of anybody's files do nothing to a terminal, a spreadsheet or an
//! XML parser: every command over one hostile archive and one hostile MMV file.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use mmv_writer::pcp::{IndomMetricExt as _, RegistryBuilderExt as _, RegistryExt as _};
use mmv_writer::{Label, Registry};
use pcp_archive::raw::event::{EventArrayBuilder, EventFlags};
use pcp_archive::raw::{LabelClass, LabelSet, LabelTarget, TextKind, TextTarget};
use pcp_archive::{ArchiveWriter, Pmid, Value, WriterLabel, WriterOptions};
use pcp_types::printable::is_printable;
use serde_json::{Value as JsonValue, json};
use test_archives::{Builder, Cell, at};

use crate::harness::agent::Agent;
use crate::harness::binaries;
use crate::harness::scratch::Scratch;
use crate::harness::wait;

/// Clears a screen, in C0 and in C1; ends lines; reverses text; is no XML.
const HOSTILE: &str =
    "x\u{1b}[2J\u{7}\r\n\u{9b}2J\u{7f}\u{202e}\u{2066}\u{200f}\u{61c}\u{2028}\u{2029}\u{ffff}y";
/// Text that a spreadsheet would run as a formula.
const FORMULA: &str = "=cmd|'/c calc'!A1";
/// Name that is replaced in metadata by as many bytes, which end in a part of a character.
const NAME: &str = "hostile.abcdefghijkl";
const HOSTILE_NAME: &[u8] = b"hostile.\x1b[2J\xc2\x9b\xe2\x80\xae=1\xff";

/// Writes an archive in which every text is hostile, also the name of its files.
fn archive(directory: &Path) -> PathBuf {
    archive_of(directory, 4)
}

/// Writes such an archive with a record per second; from 20 s on its numbers are 90 higher.
fn archive_of(directory: &Path, seconds: u32) -> PathBuf {
    let base = directory.join("given");
    let label = WriterLabel {
        pid: 1,
        hostname: HOSTILE.into(),
        timezone: HOSTILE.into(),
        zoneinfo: HOSTILE.into(),
    };
    let pmid = |item| Pmid::new(70, 1, item).unwrap();
    let more = |writer: &mut ArchiveWriter| {
        for item in 1..=3 {
            let target = TextTarget::Metric(pmid(item));
            writer.declare_text(target, TextKind::Full, HOSTILE).unwrap();
        }
        let json = serde_json::to_string(HOSTILE).unwrap();
        let pairs = [("where", json.as_str(), false)];
        let labels = LabelSet::from_pairs(LabelClass::Item, pairs).unwrap();
        writer.declare_labels(LabelTarget::Item(pmid(1)), &[labels]).unwrap();
    };
    Builder::create(&base, label, WriterOptions::default())
        .metric(NAME, "u32 instant count")
        .metric("hostile.text", "string instant count")
        .metric("hostile.events", "event instant count")
        .metric("hostile.parameter", "string instant count")
        .help(NAME, HOSTILE)
        .help("hostile.text", HOSTILE)
        .help("hostile.events", HOSTILE)
        .numbered_instances(NAME, [(1, HOSTILE), (2, FORMULA)])
        .with_writer(more)
        .rows((0..seconds).map(|second: u32| {
            let string = [HOSTILE.as_bytes(), b"\xff\xfe"].concat();
            let string = if second == 0 { FORMULA.into() } else { string };
            let mut array = EventArrayBuilder::new();
            array.record(at(second), EventFlags::POINT).unwrap();
            array.parameter(pmid(4), Value::String(HOSTILE.as_bytes())).unwrap();
            let level = second + if second < 20 { 1 } else { 91 };
            let values = [
                (format!("{NAME}[1]"), level.into()),
                (format!("{NAME}[2]"), (level + 1).into()),
                ("hostile.text".to_owned(), string.into()),
                ("hostile.events".to_owned(), Cell::from(array.finish())),
            ];
            (second, values)
        }))
        .finish();
    replace(&base.with_extension("meta"), NAME.as_bytes(), HOSTILE_NAME);
    let hostile = directory.join(file_name());
    for suffix in ["meta", "index", "0"] {
        fs::rename(base.with_extension(suffix), with_suffix(&hostile, suffix)).unwrap();
    }
    hostile
}

/// Returns a name that moves the cursor, ends a line, turns text around and is not UTF-8.
fn file_name() -> OsString {
    OsString::from_vec([b"a\x1b[2J\nb\xc2\x9b".as_slice(), "\u{202e}".as_bytes(), b"\xff"].concat())
}

fn with_suffix(base: &Path, suffix: &str) -> PathBuf {
    let mut path = base.as_os_str().to_owned();
    path.push(format!(".{suffix}"));
    path.into()
}

fn replace(file: &Path, old: &[u8], new: &[u8]) {
    assert_eq!(old.len(), new.len());
    let mut bytes = fs::read(file).unwrap();
    let at = bytes.windows(old.len()).position(|window| window == old).expect("the name");
    bytes[at..at + new.len()].copy_from_slice(new);
    fs::write(file, bytes).unwrap();
}

/// Runs a program, and checks that both outputs are lines of printable characters.
#[track_caller]
fn run(program: &Path, arguments: &[&OsStr], ends: &str) -> Output {
    let output = Command::new(program).args(arguments).output().expect("start the program");
    for stream in [&output.stdout, &output.stderr] {
        let text = std::str::from_utf8(stream).unwrap_or_else(|_| panic!("{arguments:?}: bytes"));
        let hidden = text.chars().find(|c| !is_printable(*c) && !ends.contains(*c));
        assert_eq!(hidden, None, "{arguments:?}:\n{}", text.escape_debug());
    }
    output
}

fn mmv_archive(base: &Path, command: &str, options: &[&str]) -> Output {
    let mut arguments = vec![OsStr::new(command), base.as_os_str()];
    arguments.extend(options.iter().map(OsStr::new));
    let ends = if options.contains(&"csv") { "\r\n" } else { "\n\t" };
    run(&binaries::mmv_archive(), &arguments, ends)
}

#[track_caller]
fn printed(base: &Path, command: &str, options: &[&str]) -> String {
    let output = mmv_archive(base, command, options);
    let text = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{command} {options:?}: {text}{stderr}");
    text
}

/// The lines of the commands that read, each with text that its output must have.
const READERS: [(&str, &[&str], &str); 18] = [
    ("info", &[], r"x\x1b[2J\x07\x0d\x0a\xc2\x9b2J\x7f\xe2\x80\xae"),
    ("metrics", &["--all"], r"hostile.\x1b[2J\xc2\x9b\xe2\x80\xae=1\xff"),
    ("metrics", &["--names"], r"hostile.\x1b[2J\xc2\x9b\xe2\x80\xae=1\xff"),
    ("dump", &[], r#""x\x1b[2J\x07\x0d\x0a\xc2\x9b2J"#),
    ("dump", &["-a", "-e", "-H", "-I", "-xxx"], r"from host x\x1b[2J"),
    ("dump", &["--reverse"], r"x\x1b[2J"),
    ("dump", &["-v"], r"\xff.meta"),
    ("events", &[], r"x\x1b[2J"),
    ("report", &["hostile"], r"x\x1b[2J"),
    ("report", &["hostile", "--raw"], r"x\x1b[2J"),
    ("report", &["hostile", "--format", "csv"], r"x\x1b[2J"),
    ("summary", &["hostile"], r"x\x1b[2J"),
    ("summary", &["hostile", "--format", "csv"], r"x\x1b[2J"),
    ("plot", &["hostile"], r"x\x1b[2J"),
    ("explain", &["hostile", "-S", "0s"], r"x\x1b[2J"),
    ("compare", &["hostile", "--all", "--before", "0s..19s", "--after", "20s..39s"], r"x\x1b[2J"),
    ("follow", &["hostile", "-S", "0s", "-s", "3"], r"x\x1b[2J"),
    ("check", &["--notes"], ""),
];

#[test]
fn no_command_prints_what_is_not_printable_of_a_hostile_archive() {
    let scratch = Scratch::new();
    let base = archive_of(scratch.path(), 40);
    for (command, options, shown) in READERS {
        // Only the time zone is wrong: commands say so.
        let zone = ["-Z", "UTC"];
        let has_zone = !["check", "dump -v"].contains(&command) && !options.contains(&"-v");
        let options =
            [options, if has_zone && command != "metrics" { &zone } else { &[] }].concat();
        let output = mmv_archive(&base, command, &options);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains(shown), "{command} {options:?}: {output:?}");
    }
    let copy = with_suffix(&base, "copy");
    for command in ["extract", "reduce", "convert", "repair"] {
        let made = with_suffix(&copy, command);
        let output = mmv_archive(&base, command, &["-o", "/nonexistent\u{1b}[2J/x"]);
        assert!(!output.status.success());
        let arguments = [command.as_ref(), base.as_os_str(), "-o".as_ref(), made.as_os_str()];
        run(&binaries::mmv_archive(), &arguments, "\n");
    }
    mmv_archive(&base, "repair", &["--index"]);
}

/// Rules whose errors show texts of the archive, or of the file of rules, and those texts.
const REFUSED_RULES: [(&str, &str); 5] = [
    ("indom 70.* { inst 1 -> 2 }", r#"1 "x\x1b[2J"#),
    ("metric 70.1.1 { name -> hostile.text }", "is called hostile.text"),
    ("metric 70.1.1 { indom -> 70.9 }", r"metric hostile.\x1b[2J"),
    ("metric 70.1.1 { name -> \u{1b}[2J\u{202e} }", r#"found "\x1b"#),
    ("metric 70.1.2 { value /\u{1b}(\u{202e}/ -> /b/ }", "expected a regular expression"),
];

#[test]
fn no_error_of_rules_prints_anything_unprintable() {
    let scratch = Scratch::new();
    let base = archive(scratch.path());
    let rules = scratch.path().join("r\u{1b}[2J");
    let copy = scratch.path().join("copy");
    for (text, shown) in REFUSED_RULES {
        fs::write(&rules, text).unwrap();
        let options = ["-o".as_ref(), copy.as_os_str(), "--rules".as_ref(), rules.as_os_str()];
        let arguments = [&["convert".as_ref(), base.as_os_str()], &options[..]].concat();
        let output = run(&binaries::mmv_archive(), &arguments, "\n");
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{text}");
        assert!(errors.contains(shown), "{text}: {errors}");
    }
}

#[test]
fn no_text_of_an_archive_leaves_the_lines_of_data() {
    let scratch = Scratch::new();
    let base = archive(scratch.path());
    let tools = [
        ("programs", json!({}), "hostile"),
        ("metrics", json!({}), r"\x1b[2J\xc2\x9b"),
        ("metrics", json!({"metrics": ["hostile"]}), r"| x\x1b[2J\x07"),
        ("metrics", json!({"names": true}), r"hostile.\x1b[2J\xc2\x9b\xe2\x80\xae=1\xff"),
        ("report", json!({"metrics": ["hostile"], "since": "0s"}), r"x\x1b[2J"),
        ("report", json!({"metrics": ["hostile"], "since": "0s", "json": true}), r"x\u001b[2J"),
        ("summary", json!({"metrics": ["hostile"]}), r"x\x1b[2J"),
        ("events", json!({}), r"x\x1b[2J"),
        ("explain", json!({}), "mmv-archive: "),
        ("plot", json!({"metrics": ["hostile"]}), r"x\x1b[2J"),
        ("report", json!({"metrics": ["x\n\u{202e}"]}), r"x\x0a\xe2\x80\xae"),
    ];
    let requests = tools.iter().map(|(tool, arguments, _)| {
        let params = json!({"name": tool, "arguments": arguments});
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string()
    });
    let input = scratch.path().join("requests");
    fs::write(&input, requests.collect::<Vec<_>>().join("\n")).unwrap();
    let mut command = Command::new(binaries::mmv_archive());
    command.arg("mcp").arg(&base).env("TZ", "UTC");
    let output = command.stdin(fs::File::open(&input).unwrap()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let answers: Vec<&[u8]> = output.stdout.trim_ascii_end().split(|byte| *byte == b'\n').collect();
    assert_eq!(answers.len(), tools.len());
    for (answer, (tool, arguments, shown)) in answers.iter().zip(tools) {
        let answer: JsonValue = serde_json::from_slice(answer).unwrap();
        let content = answer["result"]["content"].as_array().unwrap();
        let text = content.last().unwrap()["text"].as_str().unwrap();
        assert!(text.contains(shown), "{tool} {arguments}: {text}");
        let (head, data) = text.split_once("\n\n").unwrap();
        assert!(!head.contains("hostile") && !head.contains('\\'), "{tool}: {head}");
        let count = data.lines().count();
        let is_counted = head.starts_with(&format!("The next {count} lines are data."))
            || count == 1 && head.starts_with("The next line is data.");
        assert!(is_counted, "{tool} {arguments}: {head}: {count}");
        let hidden = data.chars().find(|c| !is_printable(*c) && *c != '\n');
        assert_eq!(hidden, None, "{tool} {arguments}: {}", data.escape_debug());
    }
}

type Damage = fn(meta: &Path, volume: &Path);

#[test]
fn no_error_prints_anything_unprintable() {
    let scratch = Scratch::new();
    let base = archive(scratch.path());
    let commands = READERS.iter().map(|(command, options, _)| (*command, *options));
    let damages: [(&str, Damage); 4] = [
        ("a record", |_, volume| fs::write(volume, &fs::read(volume).unwrap()[..200]).unwrap()),
        ("metadata", |meta, _| {
            let mut bytes = fs::read(meta).unwrap();
            let end = bytes.len() - 40;
            bytes[end..].fill(7);
            fs::write(meta, bytes).unwrap();
        }),
        ("no metadata", |meta, _| fs::write(meta, b"junk").unwrap()),
        ("nothing", |meta, _| fs::remove_file(meta).unwrap()),
    ];
    for (what, damage) in damages {
        damage(&with_suffix(&base, "meta"), &with_suffix(&base, "0"));
        let mut said = 0;
        for (command, options) in commands.clone().chain([("repair", &["-o", "x/y"][..])]) {
            let output = mmv_archive(&base, command, options);
            assert!(what == "a record" || !output.status.success(), "{what}: {command}");
            said += output.stderr.len() + output.stdout.len();
        }
        assert!(said > 1000, "{what}");
    }
    // A pattern of the shell may have made this an option.
    let output = run(&binaries::mmv_archive(), &["info".as_ref(), "--\u{202e}".as_ref()], "\n");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains(r"--\xe2\x80\xae"), "{output:?}");
}

#[test]
fn dump_prints_the_bytes_of_pmdumplog_where_they_are_asked_for() {
    let scratch = Scratch::new();
    let base = archive(scratch.path());
    let arguments = ["dump".as_ref(), base.as_os_str(), "-a".as_ref(), "-z".as_ref()];
    let arguments =
        [&arguments[..3], &["-Z".as_ref(), "UTC".as_ref(), "--raw-text".as_ref()]].concat();
    let output = Command::new(binaries::mmv_archive()).args(arguments).output().unwrap();
    let has = |part: &[u8]| output.stdout.windows(part.len()).any(|window| window == part);
    assert!(has(HOSTILE_NAME) && has(HOSTILE.as_bytes()), "{output:?}");
    assert!(has(&[b"\"", HOSTILE.as_bytes(), b"\xff\xfe\""].concat()), "{output:?}");
}

#[test]
fn json_has_the_exact_texts_in_printable_characters() {
    let scratch = Scratch::new();
    let base = archive(scratch.path());
    let name = r"hostile.".to_owned() + "\u{1b}[2J\u{9b}\u{202e}=1\\xff";
    for (command, options, exact) in [
        ("info", &["--json"][..], HOSTILE),
        ("metrics", &["--json"], &name),
        ("metrics", &["--json"], HOSTILE),
        ("dump", &["--json"], &name),
        ("events", &["--json"], HOSTILE),
        ("report", &["hostile", "--json"], HOSTILE),
        ("summary", &["hostile", "--format", "jsonl"], HOSTILE),
        ("follow", &["hostile", "--json", "-S", "0s", "-s", "3"], FORMULA),
    ] {
        let options = if command == "metrics" {
            options.to_vec()
        } else {
            [options, &["-Z", "UTC"]].concat()
        };
        let text = printed(&base, command, &options);
        let lines = text.lines().map(|line| serde_json::from_str(line).expect("JSON"));
        let lines: Vec<JsonValue> = lines.collect();
        assert!(lines.iter().any(|line| has_text(line, exact)), "{command}: {text}");
    }
}

fn has_text(value: &JsonValue, wanted: &str) -> bool {
    match value {
        JsonValue::String(text) => text == wanted,
        JsonValue::Array(list) => list.iter().any(|value| has_text(value, wanted)),
        JsonValue::Object(map) => map.values().any(|value| has_text(value, wanted)),
        _ => false,
    }
}

#[test]
fn no_cell_of_csv_is_a_formula_and_numbers_stay() {
    let scratch = Scratch::new();
    let base = archive(scratch.path());
    for (command, options) in [
        ("report", &["hostile", "--format", "csv", "-Z", "UTC"][..]),
        ("report", &["hostile", "--raw", "--format", "csv", "-Z", "UTC"]),
        ("summary", &["hostile", "--format", "csv", "-Z", "UTC"]),
    ] {
        let text = printed(&base, command, options);
        let cells: Vec<&str> = text.lines().flat_map(|line| line.split(',')).collect();
        for cell in &cells {
            let cell = cell.trim_start_matches('"');
            let begins = cell.starts_with(['=', '+', '-', '@', '\t', '\r']);
            assert!(!begins || cell.parse::<f64>().is_ok(), "{command}: {cell}");
        }
        assert!(text.contains("=cmd|"), "{command}: {text}");
        assert!(cells.iter().any(|cell| *cell == "3" || *cell == "4"), "{command}: {text}");
    }
    let text = printed(&base, "report", &["hostile", "--raw", "--format", "csv", "-Z", "UTC"]);
    assert!(text.contains(",'=cmd|'/c calc'!A1\r\n"), "{text}");
}

#[test]
fn an_image_of_hostile_names_is_valid_xml() {
    let scratch = Scratch::new();
    let base = archive(scratch.path());
    for name in ["x.svg", "x.png"] {
        let image = scratch.path().join(name);
        let options = ["hostile", "-Z", "UTC", "-o", image.to_str().unwrap()];
        printed(&base, "plot", &options);
    }
    let svg = fs::read(scratch.path().join("x.svg")).unwrap();
    let svg = String::from_utf8(svg).expect("UTF-8");
    assert!(svg.contains(r"x\x1b[2J"), "{svg}");
    // `Char` of XML 1.0, section 2.2, without what no image needs.
    assert!(svg.chars().all(|c| is_printable(c) || c == '\n'), "{svg}");
    let markup = svg.replace("&lt;", "").replace("&gt;", "").replace("&amp;", "");
    let markup = markup.replace("&quot;", "").replace("&apos;", "").replace("&#39;", "");
    assert!(!markup.contains('&'), "{svg}");
    let opened = markup.matches('<').count();
    assert_eq!(opened, markup.matches('>').count(), "{svg}");
}

fn mmv_file(directory: &Path) -> PathBuf {
    let registry =
        Registry::builder("app").sealed().directory(directory).cluster(9).build().unwrap();
    registry.label(Label::new("owner", HOSTILE)).unwrap();
    let indom = registry.indom("many").instance(1, HOSTILE).instance(2, FORMULA);
    let indom = indom.help(HOSTILE).long_help(HOSTILE).build().unwrap();
    let numbers = registry.counter("abcdefghijkl").help(HOSTILE).long_help(HOSTILE);
    let numbers = numbers.build_instances(&indom).unwrap();
    let text = registry.text("text").help(HOSTILE).build().unwrap();
    registry.publish().unwrap();
    numbers.iter().for_each(|number| number.add(3));
    text.set(HOSTILE);
    let bytes = fs::read(registry.path()).unwrap();
    registry.withdraw();
    let path = directory.join(file_name());
    fs::write(&path, bytes).unwrap();
    replace(&path, b"abcdefghijkl", &HOSTILE_NAME[8..]);
    path
}

#[test]
fn nothing_unprintable_is_printed_by_the_agent() {
    let scratch = Scratch::new();
    let file = mmv_file(&scratch.mmv_dir());
    let agent = binaries::mmv_agent();
    let text = run(&agent, &["inspect".as_ref(), file.as_os_str()], "\n").stdout;
    let text = String::from_utf8(text).unwrap();
    for part in [r"a\x1b[2J\x0ab\xc2\x9b\xe2\x80\xae", r"x\x1b[2J\x07", r"=1"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let json = run(&agent, &["inspect".as_ref(), "--json".as_ref(), file.as_os_str()], "\n").stdout;
    let json: JsonValue = serde_json::from_slice(&json).unwrap();
    assert!(has_text(&json, HOSTILE), "{json}");
    let missing = file.with_extension("none\u{1b}[2J");
    run(&agent, &["inspect".as_ref(), missing.as_os_str()], "\n");
    let wrong = with_suffix(&file, "toml");
    fs::write(&wrong, "interval = \"\u{202e}\"\n\"\u{9b}\" = 1").unwrap();
    run(&agent, &["check-config".as_ref(), wrong.as_os_str()], "\n");
    run(&agent, &["check-config".as_ref(), "--config".as_ref(), wrong.as_os_str()], "\n");
    fs::remove_file(wrong).unwrap();

    let mut running = Agent::start(&scratch);
    let directory = scratch.archives();
    let status = |options: &[&str]| {
        let mut arguments =
            vec!["status".as_ref(), "--archive-dir".as_ref(), directory.as_os_str()];
        arguments.extend(options.iter().map(OsStr::new));
        run(&agent, &arguments, "\n")
    };
    wait::until_true("the file in the status", || {
        String::from_utf8_lossy(&status(&[]).stdout).contains(r"file a\x1b[2J\x0ab")
    });
    let json: JsonValue = serde_json::from_slice(&status(&["--json"]).stdout).unwrap();
    assert!(has_text(&json, &String::from_utf8_lossy(file_name().as_bytes())), "{json}");
    fs::write(&file, b"junk").unwrap();
    wait::until_true("a line about the file", || running.log().contains("harvested"));
    assert!(running.terminate().success());
    let log = running.log();
    assert!(log.chars().all(|c| is_printable(c) || c == '\n'), "{}", log.escape_debug());
    for base in running.archives() {
        mmv_archive(&base, "metrics", &[]);
        mmv_archive(&base, "dump", &["-a", "-e", "-H"]);
    }
}
