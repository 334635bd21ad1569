//! Another user's file has the name of a registry, in a directory for all users: the program
//! publishes the same metrics in a file of another name.
//!
//! The program is this test again, in a child process that gives up root.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown, lchown, symlink};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use mmv_format::layout::Flags;
use mmv_format::view::{Contents, Limits};
use mmv_writer::Registry;
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::{Uid, geteuid, setuid};

use crate::child;

/// Users that need no names.
const PROGRAM: u32 = 61_001;
const SQUATTER: u32 = 61_002;

fn directory() -> String {
    std::env::var("SQUATTED_DIRECTORY").unwrap()
}

#[test]
#[ignore = "run by the test below"]
fn program() {
    setuid(Uid::from_raw(PROGRAM)).unwrap();
    let builder = || Registry::builder("app").directory(directory());
    let sealed = builder().sealed().build().unwrap();
    let counter = sealed.counter("c").build().unwrap();
    sealed.publish().unwrap();
    counter.inc();
    assert_publishes(sealed.path());
    sealed.withdraw();
    let live = builder().build().unwrap();
    let counter = live.counter("c").build().unwrap();
    counter.add(2);
    live.announce();
    assert_publishes(live.path());
}

/// Another user takes the name, and the next ones, after the registry is built.
#[test]
#[ignore = "run by the test below"]
fn late_program() {
    let squat = |name: &str| {
        let path = Path::new(&directory()).join(name);
        fs::write(&path, "junk").unwrap();
        chown(&path, Some(SQUATTER), Some(SQUATTER)).unwrap();
    };
    let builder = || Registry::builder("app").directory(directory());
    let as_program = || nix::unistd::seteuid(Uid::from_raw(PROGRAM)).unwrap();
    let as_root = || nix::unistd::seteuid(Uid::from_raw(0)).unwrap();
    as_program();
    let sealed = builder().sealed().build().unwrap();
    let counter = sealed.counter("c").build().unwrap();
    let text = sealed.text("t").build().unwrap();
    // A value on a line of its own, as this name is in version 1 alone without the prefix.
    let long = "n".repeat(62);
    let other = sealed.counter(&long).build().unwrap();
    counter.inc();
    text.set("before");
    as_root();
    squat("app");
    squat("app.61001");
    as_program();
    sealed.publish().unwrap();
    counter.inc();
    text.set("after");
    other.add(7);
    let name = sealed.path().file_name().unwrap().to_str().unwrap();
    assert_eq!(name, "app.61001.2");
    let file = File::open(sealed.path()).unwrap();
    let contents = Contents::read(&file, &Limits::default()).unwrap();
    assert!(contents.header.flags.contains(Flags::NO_PREFIX));
    let names: Vec<_> = contents.metrics.iter().map(|metric| &*metric.name).collect();
    assert_eq!(names, ["app.c".to_owned(), "app.t".to_owned(), format!("app.{long}")]);
    let bytes = fs::read(sealed.path()).unwrap();
    let values = [2_u64, 7].map(u64::to_ne_bytes);
    for value in values {
        assert!(bytes.chunks_exact(32).any(|entry| entry.starts_with(&value)), "{value:?}");
    }
    let has = |text: &[u8]| bytes.windows(text.len()).any(|part| part == text);
    assert!(has(b"after\0") && !has(b"before"));
    sealed.withdraw();
    assert!(!Path::new(&directory()).join("app.61001.2").exists(), "withdrawn");
}

#[test]
fn name_taken_before_publication_leads_to_another_file() {
    if !geteuid().is_root() {
        eprintln!("skipped: only root makes files of two users");
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    fs::set_permissions(scratch.path(), Permissions::from_mode(0o1777)).unwrap();
    let mut command = child::running("squatted_name::late_program");
    let output = command.env("SQUATTED_DIRECTORY", scratch.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Takes and leaves the name all the time, until it is killed.
#[test]
#[ignore = "run by the test below"]
fn restless_squatter() {
    setuid(Uid::from_raw(SQUATTER)).unwrap();
    let path = Path::new(&directory()).join("app");
    loop {
        // The program has the name now and then.
        if File::create_new(&path).is_ok() {
            fs::remove_file(&path).unwrap();
        }
    }
}

/// Publishes growing registries, while another user takes the name between the creation of a
/// file and its publication, or before.
#[test]
#[ignore = "run by the test below"]
fn restless_program() {
    setuid(Uid::from_raw(PROGRAM)).unwrap();
    let mut names = BTreeSet::new();
    let end = Instant::now() + Duration::from_secs(20);
    let mut rounds = 0;
    while (rounds < 300 || names.len() < 2) && Instant::now() < end {
        rounds += 1;
        let registry = Registry::builder("app").directory(directory()).build().unwrap();
        registry.counter("c").build().unwrap().inc();
        registry.announce();
        let contents = Contents::read(&File::open(registry.path()).unwrap(), &Limits::default());
        let contents = contents.unwrap();
        let name = registry.path().file_name().unwrap().to_str().unwrap().to_owned();
        let is_renamed = contents.header.flags.contains(Flags::NO_PREFIX);
        assert_eq!(is_renamed, name != "app");
        let metrics: Vec<_> = contents.metrics.iter().map(|metric| &*metric.name).collect();
        assert_eq!(metrics, [if is_renamed { "app.c" } else { "c" }], "{name}");
        names.insert(is_renamed);
        registry.withdraw();
    }
    assert_eq!(names.len(), 2, "the name was taken in some rounds and free in others");
}

#[test]
fn growing_registry_publishes_while_its_name_is_taken_and_left() {
    if !geteuid().is_root() {
        eprintln!("skipped: only root makes files of two users");
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    fs::set_permissions(scratch.path(), Permissions::from_mode(0o1777)).unwrap();
    let mut squatter = child::running("squatted_name::restless_squatter");
    squatter.env("SQUATTED_DIRECTORY", scratch.path()).stdout(Stdio::null());
    let mut squatter = squatter.spawn().unwrap();
    let mut command = child::running("squatted_name::restless_program");
    let output = command.env("SQUATTED_DIRECTORY", scratch.path()).output().unwrap();
    squatter.kill().unwrap();
    squatter.wait().unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn assert_publishes(path: &Path) {
    let name = path.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("app.61001"), "{name}");
    let contents = Contents::read(&File::open(path).unwrap(), &Limits::default()).unwrap();
    assert!(contents.header.flags.contains(Flags::NO_PREFIX));
    let names: Vec<_> = contents.metrics.iter().map(|metric| &*metric.name).collect();
    assert_eq!(names, ["app.c"]);
}

type Squat = fn(&Path);

#[test]
fn name_of_another_user_leads_to_another_file() {
    if !geteuid().is_root() {
        eprintln!("skipped: only root makes files of two users");
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    fs::set_permissions(scratch.path(), Permissions::from_mode(0o755)).unwrap();
    let all = scratch.path().join("mmv");
    fs::create_dir(&all).unwrap();
    fs::set_permissions(&all, Permissions::from_mode(0o1777)).unwrap();
    let path = all.join("app");
    let squats: [(&str, Squat); 6] = [
        ("a file", |path| fs::write(path, "junk").unwrap()),
        ("a secret file", |path| {
            fs::write(path, "junk").unwrap();
            fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
        }),
        ("a file of a process that runs", |path| {
            let mut header = vec![0; 40];
            header[..5].copy_from_slice(b"MMV\0\x01");
            header[28] = 2;
            header[32..36].copy_from_slice(&std::process::id().to_ne_bytes());
            fs::write(path, header).unwrap();
        }),
        ("a directory", |path| fs::create_dir(path).unwrap()),
        ("a FIFO", |path| {
            let name = CString::new(path.to_str().unwrap()).unwrap();
            nix::unistd::mkfifo(name.as_c_str(), nix::sys::stat::Mode::S_IRWXU).unwrap();
        }),
        ("a link", |path| symlink("/etc/passwd", path).unwrap()),
    ];
    for (what, squat) in squats {
        squat(&path);
        lchown(&path, Some(SQUATTER), Some(SQUATTER)).unwrap();
        run(&all, what);
        if what == "a file" {
            let lock = Flock::lock(File::open(&path).unwrap(), FlockArg::LockExclusive).unwrap();
            run(&all, "a locked file");
            drop(lock);
        }
        assert!(path.symlink_metadata().is_ok(), "{what}");
        let second = all.join("app.61001");
        fs::write(&second, "junk").unwrap();
        chown(&second, Some(SQUATTER), Some(SQUATTER)).unwrap();
        run_beside(2, &all, "both names");
        fs::remove_file(second).unwrap();
        if path.is_dir() { fs::remove_dir(&path) } else { fs::remove_file(&path) }.unwrap();
    }
    // The same program with the name to itself: the test sees the difference.
    fs::write(&path, "junk").unwrap();
    chown(&path, Some(PROGRAM), Some(PROGRAM)).unwrap();
    assert!(!run_alone(&all).success());
}

fn run_alone(directory: &Path) -> std::process::ExitStatus {
    let mut command = child::running("squatted_name::program");
    command.env("SQUATTED_DIRECTORY", directory).output().unwrap().status
}

#[track_caller]
fn run(directory: &Path, what: &str) {
    run_beside(1, directory, what);
}

#[track_caller]
fn run_beside(entries: usize, directory: &Path, what: &str) {
    let mut command = child::running("squatted_name::program");
    let output = command.env("SQUATTED_DIRECTORY", directory).output().unwrap();
    assert!(output.status.success(), "{what}: {output:?}");
    let left = fs::read_dir(directory).unwrap().count();
    assert_eq!(left, entries, "{what}: nothing is left of the attempts");
}
