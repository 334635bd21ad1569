//! The start of an agent, with signals and users that try to keep it from starting.

use std::fs::{self, OpenOptions, Permissions};
use std::io::Read as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::{geteuid, mkfifo};

use super::wait_for_samples;
use crate::harness::agent::Agent;
use crate::harness::binaries;
use crate::harness::mmv_file::image;
use crate::harness::scratch::Scratch;
use crate::harness::skip::skip;
use crate::harness::wait;

/// A user without any rights.
pub(super) const NOBODY: u32 = 65_534;

/// Lets other users into a scratch directory; false, with a message, without the right to be
/// another user.
pub(super) fn let_others_in(scratch: &Scratch) -> bool {
    if !geteuid().is_root() {
        skip("not root: no process of another user");
        return false;
    }
    fs::set_permissions(scratch.path(), Permissions::from_mode(0o755)).expect("its mode");
    true
}

#[test]
fn signals_during_the_start_wait_until_the_agent_runs() {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
    let [fifo, file] = ["agent.toml", "file"].map(|name| scratch.path().join(name));
    fs::write(&file, "").expect("write a configuration");
    mkfifo(&fifo, Mode::S_IRWXU).expect("a FIFO");
    let options = ["--interval", "50ms", "--config", fifo.to_str().expect("UTF-8")];
    let mut agent = Agent::start_with(&scratch, &options);
    // An agent that reads its configuration has no handlers of signals yet.
    let configuration = wait::until("it to read the configuration", || {
        let mut options = OpenOptions::new();
        options.write(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(&fifo).ok()
    });
    for signal in [Signal::SIGHUP, Signal::SIGUSR1, Signal::SIGUSR2] {
        agent.signal(signal);
    }
    // For the HUP.
    fs::rename(&file, &fifo).expect("replace the FIFO");
    drop(configuration);
    wait_for_samples(&agent, 3);
    agent.assert_alive();
    assert!(agent.terminate().success(), "{}", agent.log());
}

#[test]
fn the_commands_of_recordings_start_without_blocked_signals() {
    let scratch = Scratch::new();
    let mut record = Command::new(binaries::mmv_agent());
    record.args(["record", "--output"]).arg(scratch.path().join("run"));
    let output = record.args(["--", "grep", "SigBlk", "/proc/self/status"]).output();
    let output = output.expect("run mmv-agent record");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "SigBlk:\t0000000000000000\n");
}

/// Starts a process of another user that locks all files and directories of a directory as soon
/// as it can, until its standard input ends.
fn lock_all(directory: &Path) -> Child {
    let script = "exec 3<&0
        find \"$0\" -type f -o -type d | while read -r file; do
            flock --wait 60 \"$file\" cat <&3 &
        done
        echo ready";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(directory).uid(NOBODY).gid(NOBODY);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().expect("start a shell")
}

#[test]
fn no_other_user_can_keep_the_agent_from_starting_by_a_lock() {
    let scratch = Scratch::new();
    if !let_others_in(&scratch) {
        return;
    }
    scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
    let mut agent = Agent::start(&scratch);
    wait_for_samples(&agent, 1);
    // As an earlier version left it.
    let host = agent.archive().parent().expect("a directory").to_owned();
    fs::write(host.join(".mmv-agent.lock"), "").expect("write a file");
    let mut other = lock_all(&scratch.archives());
    let mut ready = [0; 6];
    let stdout = other.stdout.as_mut().expect("its output");
    stdout.read_exact(&mut ready).expect("it locks");
    sleep(Duration::from_millis(200));
    assert!(agent.terminate().success(), "{}", agent.log());
    sleep(Duration::from_millis(200));
    let mut agent = Agent::start(&scratch);
    wait::until_true("samples, or the end of the agent", || {
        agent.assert_alive();
        agent.archives().len() > 1
    });
    assert!(agent.terminate().success(), "{}", agent.log());
    drop(other.stdin.take());
    other.wait().expect("its end");
}

#[test]
fn host_name_with_a_path_stays_in_its_directory() {
    if !geteuid().is_root() {
        skip("not root: no host of another name");
        return;
    }
    for name in ["..", ".", ".state"] {
        let scratch = Scratch::new();
        scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
        let mut command = Command::new("unshare");
        let script = "printf %s \"$0\" >/proc/sys/kernel/hostname && exec \"$@\"";
        command.args(["--uts", "sh", "-c", script, name]).arg(binaries::mmv_agent());
        let mut agent = Agent::spawn(command, &scratch, &["--interval", "50ms", "--samples", "3"]);
        agent.ended();
        let plain = format!("_{}", &name[1..]);
        assert_eq!(agent.archive().parent(), Some(&*scratch.archives().join(&plain)));
        assert!(scratch.archives().join(".state").join(plain + ".json").exists());
        let log = agent.log();
        assert!(log.contains("cannot be used as a file name"), "{log}");
    }
}
