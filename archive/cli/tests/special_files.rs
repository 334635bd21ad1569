//! A FIFO, a directory or a device in place of a file of an archive: each command says so
//! at once, and none waits for a process that writes to it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use test_archives::Builder;

const COMMANDS: [&[&str]; 19] = [
    &["info"],
    &["metrics"],
    &["metrics", "--names"],
    &["dump", "-a"],
    &["dump", "-v"],
    &["events"],
    &["check"],
    &["report", "a"],
    &["summary", "a"],
    &["plot", "a"],
    &["explain"],
    &["compare", "--before", "0s..30s", "--after", "30s..60s"],
    &["follow", "-s", "1"],
    &["extract", "-o", "new"],
    &["reduce", "-o", "new"],
    &["convert", "-o", "new"],
    &["repair", "-o", "new"],
    &["repair", "--in-place"],
    &["repair", "--index"],
];

/// Limit on the time of a command; a waiting one takes for ever.
const PATIENCE: Duration = Duration::from_secs(20);

#[track_caller]
fn run(directory: &Path, arguments: &[&str]) -> Output {
    let (command, options) = arguments.split_first().unwrap();
    let mut process = Command::new(env!("CARGO_BIN_EXE_mmv-archive"));
    process.arg(command).arg("a").args(options).current_dir(directory);
    process.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = process.spawn().unwrap();
    let end = Instant::now() + PATIENCE;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > end {
            child.kill().unwrap();
            panic!("{arguments:?} waits");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    child.wait_with_output().unwrap()
}

type Make = fn(&Path);

#[test]
fn no_command_waits_for_what_is_no_regular_file() {
    let kinds: [Make; 3] = [
        |path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
        |path| fs::create_dir(path).unwrap(),
        |path| symlink("/dev/zero", path).unwrap(),
    ];
    for member in ["0", "meta", "index"] {
        for suffix in ["", ".xz", ".zst"] {
            for make in kinds {
                let builder = Builder::new().metric("a.b", "i64 instant");
                let (directory, base) = builder.row(1, [("a.b", 1)]).finish().into_parts();
                fs::remove_file(base.with_extension(member)).unwrap();
                make(&base.with_extension(format!("{member}{suffix}")));
                for arguments in COMMANDS {
                    let output = run(directory.path(), arguments);
                    let errors = String::from_utf8(output.stderr).unwrap();
                    let text = String::from_utf8(output.stdout).unwrap() + &errors;
                    let is_rebuilt = arguments[0] == "repair";
                    let succeeds = output.status.success();
                    assert!(!succeeds || (is_rebuilt && member == "index"), "{arguments:?}");
                    let says = text.contains(&format!("a.{member}{suffix}: not a regular file"));
                    // No records are left without the only volume.
                    assert!(says || is_rebuilt, "{arguments:?}: {text}");
                }
            }
        }
    }
}

#[test]
fn a_new_archive_replaces_no_link() {
    for member in ["0", "meta", "index"] {
        let builder = Builder::new().metric("a.b", "i64 instant");
        let (directory, _) = builder.row(1, [("a.b", 1)]).finish().into_parts();
        let victim = directory.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, directory.path().join(format!("new.{member}"))).unwrap();
        for command in ["extract", "reduce", "convert", "repair"] {
            let output = run(directory.path(), &[command, "-o", "new"]);
            let errors = String::from_utf8(output.stderr).unwrap();
            assert!(!output.status.success() && errors.contains("already exists"), "{errors}");
            assert_eq!(fs::read_to_string(&victim).unwrap(), "precious", "{command}");
            let files = fs::read_dir(directory.path()).unwrap().count();
            assert_eq!(files, 5, "{command}: nothing else is left");
        }
    }
}
