//! Files of the archive that another program takes away under the agent, and files that the
//! system allows no further byte.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::Signal;
use pcp_archive::Archive;
use pcp_archive::check::{Severity, check};
use serde_json::Value;

use super::{samples_so_far, wait_for_samples};
use crate::harness::agent::Agent;
use crate::harness::mmv_file::image;
use crate::harness::scratch::Scratch;
use crate::harness::wait;
use crate::status_command::status_json;

fn member(base: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}.{suffix}", base.display()))
}

fn start(scratch: &Scratch, options: &[&str]) -> (Agent, PathBuf) {
    scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
    let agent = Agent::start_with(scratch, &[&["--interval", "50ms"], options].concat());
    wait_for_samples(&agent, 3);
    let base = agent.archive();
    (agent, base)
}

#[track_caller]
fn wait_for_another(agent: &Agent, old: &Path) -> PathBuf {
    wait::until("another archive", || {
        let other = agent.archives().into_iter().find(|base| base != old);
        other.filter(|base| samples_so_far(base) > 2)
    })
}

#[track_caller]
fn assert_sound(base: &Path) {
    let report = check(base).expect("an archive");
    let wrong = report.findings().iter().find(|found| found.defect.severity() > Severity::Note);
    assert!(wrong.is_none(), "{}: {wrong:?}", base.display());
}

#[test]
fn removed_replaced_or_cut_file_ends_the_archive() {
    type Change = fn(&Path);
    let changes: [(&str, Change, &str, bool); 6] = [
        ("0", |file| fs::remove_file(file).expect("remove it"), "removed", true),
        ("meta", |file| fs::remove_file(file).expect("remove it"), "removed", true),
        ("index", |file| fs::remove_file(file).expect("remove it"), "removed", false),
        (
            "0",
            |file| {
                fs::rename(file, file.with_extension("moved")).expect("move it");
                File::create(file).expect("another file");
            },
            "replaced",
            true,
        ),
        ("0", |file| truncate(file, 900), "truncated", true),
        ("meta", |file| truncate(file, 900), "truncated", true),
    ];
    for (suffix, change, word, loses) in changes {
        let scratch = Scratch::new();
        let (mut agent, base) = start(&scratch, &[]);
        let file = member(&base, suffix);
        change(&file);
        let begun = Instant::now();
        let other = wait_for_another(&agent, &base);
        println!("{suffix} {word}: another archive after {:.1?}", begun.elapsed());
        let status = status_json(&scratch).expect("an answer");
        let what = status["last-error"]["what"].as_str().unwrap_or_default();
        assert_eq!(
            what,
            format!("{}: {word} by another program while it was written", file.display()),
            "{status}"
        );
        assert!(status["last-error"]["at"].as_i64() > Some(0));
        assert_eq!(status["archive"]["error"], Value::Null, "it writes again");
        assert!(agent.terminate().success(), "{}", agent.log());
        let lost = agent.counted("lost");
        assert_eq!(lost >= 3, loses, "{lost} lost with {suffix} {word}\n{}", agent.log());
        assert_sound(&other);
        if suffix == "index" {
            wait::until_true("a new index", || file.exists());
            assert_sound(&base);
        }
    }
}

fn truncate(file: &Path, len: u64) {
    File::options().write(true).open(file).expect("open it").set_len(len).expect("cut it");
}

#[test]
fn removed_directory_is_made_again_with_lock_and_archive() {
    let scratch = Scratch::new();
    let (mut agent, base) = start(&scratch, &[]);
    let host = base.parent().expect("a directory");
    // Not all at once: the agent may make files meanwhile.
    fs::rename(host, scratch.path().join("gone")).expect("move the directory");
    wait::until_true("samples in the directory", || {
        agent.archives().last().is_some_and(|base| samples_so_far(base) > 2)
    });
    wait::until_true("its lock", || host.join(".mmv-agent.pid").exists());
    let mut second = Agent::start(&scratch);
    assert_eq!(second.gone().code(), Some(75), "{}", second.log());
    agent.assert_alive();
    assert!(agent.terminate().success());
}

#[test]
fn no_second_agent_writes_after_a_rename_of_the_directory() {
    for is_link in [false, true] {
        let scratch = Scratch::new();
        let archives = scratch.archives();
        if is_link {
            for name in ["a", "b"] {
                fs::create_dir(scratch.path().join(name)).expect("a directory");
            }
            fs::remove_dir(&archives).expect("an empty directory");
            symlink("a", &archives).expect("a link");
        }
        let (mut agent, _) = start(&scratch, &[]);
        if is_link {
            let next = scratch.path().join("next");
            symlink("b", &next).expect("a link");
            fs::rename(&next, &archives).expect("switch the link");
        } else {
            fs::rename(&archives, scratch.path().join("gone")).expect("move the directory");
        }
        // The interval is 50 ms.
        sleep(Duration::from_millis(500));
        let mut second = Agent::start(&scratch);
        assert_eq!(second.gone().code(), Some(75), "{}", second.log());
        wait::until_true("samples in the directory", || {
            agent.archives().last().is_some_and(|base| samples_so_far(base) > 2)
        });
        assert!(agent.terminate().success());
        agent.archives().iter().for_each(|base| assert_sound(base));
    }
}

/// The agent whose directory was taken by another one at the first moment.
#[test]
fn agent_led_to_anothers_directory_waits_and_counts_losses() {
    let scratch = Scratch::new();
    let (mut agent, base) = start(&scratch, &[]);
    let host = base.parent().expect("a directory");
    agent.signal(Signal::SIGSTOP);
    fs::rename(host, scratch.path().join("gone")).expect("move the directory");
    // As an agent with another state has it.
    fs::create_dir(host).expect("a directory");
    let lock = File::create(host.join(".mmv-agent.pid")).expect("a lock");
    let lock = Flock::lock(lock, FlockArg::LockExclusiveNonblock).expect("to lock it");
    agent.signal(Signal::SIGCONT);
    wait::until_true("the error", || agent.log().contains("already writes here"));
    sleep(Duration::from_millis(300));
    assert_eq!(agent.archives(), [""; 0].map(PathBuf::from));
    drop(lock);
    wait::until_true("samples in the directory", || {
        agent.archives().last().is_some_and(|base| samples_so_far(base) > 2)
    });
    agent.assert_alive();
    assert!(agent.terminate().success());
    assert!(agent.counted("lost") > 5, "{}", agent.log());
}

#[test]
fn limit_on_the_size_of_files_begins_further_volumes() {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
    let limit = 6 << 10;
    let options = ["--interval", "1ms", "--duration", "4s"];
    let mut agent = Agent::start_limited(&scratch, limit, &options);
    agent.ended();
    assert_eq!(agent.counted("lost"), 0, "{}", agent.log());
    let mut records = 0;
    let mut volumes = 0;
    for base in agent.archives() {
        assert_sound(&base);
        let archive = Archive::open(&base).expect("an archive");
        volumes += archive.volumes().len();
        for volume in archive.volumes() {
            let path = archive.volume_path(volume).expect("a file");
            assert!(path.metadata().expect("its size").len() <= limit);
        }
        records += samples_so_far(&base) as u64;
    }
    assert!(volumes > 3 && records > 200, "{volumes} volumes, {records} records");
    assert_eq!(records, agent.counted("records"), "{}", agent.log());
}

#[test]
fn names_of_deleted_archives_are_not_given_again() {
    let scratch = Scratch::new();
    let (mut agent, first) = start(&scratch, &[]);
    let mut names = vec![first.clone()];
    for round in 0..3 {
        let old = agent.archives();
        if round == 1 {
            assert!(agent.terminate().success(), "{}", agent.log());
            remove_all(&old);
            agent = Agent::start(&scratch);
        } else {
            agent.signal(Signal::SIGUSR2);
            wait_for_another(&agent, old.last().expect("one"));
            remove_all(&old);
        }
        wait::until_true("an archive", || {
            agent.archives().last().is_some_and(|base| !names.contains(base))
        });
        names.push(agent.archives().pop().expect("an archive"));
    }
    let given = names.clone();
    names.dedup();
    assert_eq!(names, given);
    assert!(agent.terminate().success(), "{}", agent.log());
}

fn remove_all(bases: &[PathBuf]) {
    for base in bases {
        for suffix in ["meta", "index", "0"] {
            fs::remove_file(member(base, suffix)).expect("remove a member");
        }
    }
}
