//! Someone who has nothing but a copy of the sources and follows a page.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, DirBuilder, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::likeness;
use super::page::{self, INTERRUPT, Input, Step};
use super::terminal::{Outcome, Terminal};
use crate::harness::binaries;

/// The directory with the copy of the sources, in the home.
const COPY: &str = "mmv";

/// The directory of the script in cargo's place, in the home.
const PRESENT: &str = "present";

/// Limit on the time until a command that keeps running has printed the page's text.
const PATIENCE: Duration = Duration::from_secs(60);

/// Profile of programs that the pages build, which are not optimized except in the long form of
/// the tests: that takes half of the time.
const UNOPTIMIZED: &str = r#"
[profile.release]
opt-level = 0
[profile.release.package]
"*" = { opt-level = 0 }
mmv-archive = { opt-level = 0 }
"#;

/// Prefixes of variables in which cargo finds its toolchain and its sources, where a machine has
/// them in the environment.
const PASSED_ON: [&str; 4] = ["CARGO_", "RUSTUP_", "http_proxy", "https_proxy"];

/// Source of a newcomer's programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Builds {
    /// Cargo compiles everything, as it would for a newcomer.
    Real,
    /// A script in cargo's place answers with what the tests were built with, and compiles only
    /// the newcomer's own programs.
    Present,
}

/// Script in place of cargo: answers `cargo build` and `cargo run` with programs that are already
/// built. Everything else, as `cargo new`, is left to cargo.
const PRESENT_CARGO: &str = r#"#!/bin/sh
set -e
case "$*" in
"build --release -p "*)
    mkdir -p target
    ln -sfn "$MMV_BUILT" target/release
    ;;
"build --release")
    mkdir -p target/release
    library=$(ls -t "$MMV_BUILT"/deps/libmmv_writer-*.rlib | head -n 1)
    rustc --edition 2024 -o "target/release/$(basename "$PWD")" src/main.rs \
        --extern "mmv_writer=$library" -L "dependency=$MMV_BUILT/deps"
    ;;
"run --release -p "*)
    program=$4
    shift 5
    exec "$MMV_BUILT/$program" "$@"
    ;;
*) exec "$MMV_CARGO" "$@" ;;
esac
echo '    Finished `release` profile [optimized] target(s) in 0.01s' >&2
"#;

/// A user with a copy of the sources in an otherwise empty home.
#[derive(Debug)]
pub(crate) struct Newcomer {
    builds: Builds,
    home: PathBuf,
    terminals: BTreeMap<u32, Terminal>,
}

impl Newcomer {
    /// Creates a newcomer. Its copy of the workspace is that of the last run with the changes
    /// since then, so that only these are compiled.
    pub(crate) fn new(builds: Builds) -> Self {
        // Outside of the workspace, which would claim the newcomer's own packages.
        let inode = fs::metadata(binaries::workspace()).expect("the workspace").ino();
        let home = std::env::temp_dir().join(format!("mmv-newcomer-{builds:?}-{inode}"));
        match DirBuilder::new().mode(0o700).create(&home) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => panic!("a home: {error}"),
            _ => {}
        }
        let owner = fs::symlink_metadata(&home).expect("the home").uid();
        assert_eq!(owner, nix::unistd::geteuid().as_raw(), "the owner of {}", home.display());
        for entry in fs::read_dir(&home).expect("the home").flatten() {
            match entry.file_name().to_str() {
                Some(COPY) => {}
                _ if entry.path().is_dir() => {
                    fs::remove_dir_all(entry.path()).expect("remove what the last run left");
                }
                _ => fs::remove_file(entry.path()).expect("remove what the last run left"),
            }
        }
        let copy = home.join(COPY);
        copy_workspace(&copy);
        if builds == Builds::Present {
            place_present_cargo(&home);
            return Self { builds, home, terminals: BTreeMap::new() };
        }
        link_compiled(&copy);
        if std::env::var_os("MMV_LONG").is_none() {
            fs::create_dir(home.join(".cargo")).expect("a directory for cargo's settings");
            fs::write(home.join(".cargo/config.toml"), UNOPTIMIZED).expect("cargo's settings");
        }
        Self { builds, home, terminals: BTreeMap::new() }
    }

    pub(crate) fn follow(&mut self, page: &str) {
        self.terminals.clear();
        let path = binaries::workspace().join(page);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{page}: {error}"));
        let steps = page::steps(&text);
        assert!(!steps.is_empty(), "{page} has nothing to do");
        for step in steps {
            match step {
                Step::Write { name, text } => {
                    let file = self.directory().join(name);
                    fs::write(&file, text)
                        .unwrap_or_else(|error| panic!("{page}: {}: {error}", file.display()));
                }
                Step::Type(input) => self.enter(page, &input),
            }
        }
    }

    fn enter(&mut self, page: &str, input: &Input) {
        let Input { command, shown, .. } = input;
        let terminal = self.terminal(input.terminal);
        let outcome = if command == INTERRUPT {
            Outcome { status: 0, ..terminal.interrupt() }
        } else if input.running {
            terminal.send(command);
            let output = terminal.watch(PATIENCE, |output| likeness::begins_like(shown, output));
            let alike = likeness::begins_like(shown, &output);
            assert!(alike, "{page}: `{command}` printed\n{output}\nnot\n{}", shown.join("\n"));
            return;
        } else {
            terminal.run(command)
        };
        let Outcome { output, status } = outcome;
        assert_eq!(status, 0, "{page}: the exit status of `{command}`, which printed\n{output}");
        let alike = shown.is_empty() || likeness::is_like(shown, &output);
        assert!(alike, "{page}: `{command}` printed\n{output}\nnot\n{}", shown.join("\n"));
    }

    fn terminal(&mut self, number: u32) -> &mut Terminal {
        let (home, builds) = (&self.home, self.builds);
        self.terminals.entry(number).or_insert_with(|| {
            let mut terminal = Terminal::start(ordinary_user(home, builds));
            terminal.run(&format!("cd ~/{COPY}"));
            terminal
        })
    }

    fn directory(&mut self) -> PathBuf {
        PathBuf::from(self.terminal(1).run("pwd").output.trim_end())
    }
}

/// Runs a command where the system's agent has no archives: root's namespace maps its owner to the
/// newcomer, whose agent would write among them and whose `@` would show them.
const WITHOUT_SYSTEM_AGENT: &str = r#"mount -t tmpfs none /var/log && exec "$@""#;

/// Prepares a command that runs the rest of its line as a user without privileges, with a home
/// and nothing else in the environment.
fn ordinary_user(home: &Path, builds: Builds) -> Command {
    let mut command = Command::new("env");
    command.env_clear().env("HOME", home).env("TERM", "xterm").env("LANG", "C.UTF-8");
    let real_home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    command.env("CARGO_HOME", real_home.join(".cargo"));
    command.env("RUSTUP_HOME", real_home.join(".rustup"));
    let passed_on = |name: &OsString| {
        let name = name.to_string_lossy();
        PASSED_ON.iter().any(|prefix| name.starts_with(prefix))
            // Set by `cargo test` for its tests.
            && !["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_TARGET_", "CARGO_PROFILE_"]
                .iter()
                .any(|prefix| name.starts_with(prefix))
    };
    command.envs(std::env::vars_os().filter(|(name, _)| passed_on(name)));
    let cargo = Path::new(env!("CARGO")).parent().expect("the directory of cargo");
    let mut path = format!("{}:/usr/local/bin:/usr/bin:/bin", cargo.display());
    if builds == Builds::Present {
        path = format!("{}:{path}", home.join(PRESENT).display());
        command.env("MMV_CARGO", env!("CARGO"));
        command.env("MMV_BUILT", binaries::directory());
    }
    command.env("PATH", path);
    if nix::unistd::geteuid().is_root() {
        command.args(["unshare", "--user", "--map-root-user", "--mount"]);
        command.args(["sh", "-c", WITHOUT_SYSTEM_AGENT, "sh"]);
        command.args(["unshare", "--user", "--map-user=1000", "--map-group=1000"]);
    }
    command
}

fn place_present_cargo(home: &Path) {
    let directory = home.join(PRESENT);
    fs::create_dir(&directory).expect("a directory for a script");
    let script = directory.join("cargo");
    fs::write(&script, PRESENT_CARGO).expect("write a script");
    fs::set_permissions(&script, Permissions::from_mode(0o755)).expect("make it executable");
}

fn link_compiled(copy: &Path) {
    let compiled = binaries::workspace().join("target/newcomer");
    fs::create_dir_all(&compiled).expect("a directory for what is compiled");
    if !copy.join("target").exists() {
        symlink(compiled, copy.join("target")).expect("a link to it");
    }
}

fn copy_workspace(copy: &Path) {
    let workspace = binaries::workspace();
    let list = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(workspace)
        .output()
        .expect("start git");
    assert!(list.status.success(), "git ls-files: {list:?}");
    let names = list.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let names = names.map(|name| std::str::from_utf8(name).expect("a UTF-8 file name"));
    let files: BTreeSet<PathBuf> = names.map(PathBuf::from).collect();
    for file in &files {
        let (from, to) = (workspace.join(file), copy.join(file));
        let Ok(content) = fs::read(&from) else { continue };
        if fs::read(&to).is_ok_and(|present| present == content) {
            continue;
        }
        fs::create_dir_all(to.parent().expect("a directory")).expect("a directory of the copy");
        fs::copy(&from, &to).expect("a file of the copy");
    }
    remove_others(copy, copy, &files);
}

fn remove_others(copy: &Path, directory: &Path, files: &BTreeSet<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory of the copy").flatten() {
        let (path, kind) = (entry.path(), entry.file_type().expect("the type of a file"));
        let name = path.strip_prefix(copy).expect("within the copy");
        if kind.is_dir() {
            remove_others(copy, &path, files);
        } else if kind.is_file() && !files.contains(name) {
            fs::remove_file(&path).expect("remove a file of the copy");
        }
    }
}
