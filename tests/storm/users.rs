//! Processes of other users: this test program again, which gives up root.

use std::process::{Child, Command, Stdio};

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::{Gid, Uid, geteuid, setgid, setgroups, setuid};

pub(super) const AGENT: u32 = 61_000;
pub(super) const HONEST: u32 = 61_001;
pub(crate) const ATTACKERS: [u32; 2] = [61_002, 61_003];

/// The variable with the user that a process becomes.
const USER: &str = "MMV_STORM_USER";

pub(crate) fn are_possible() -> bool {
    geteuid().is_root()
}

#[derive(Debug)]
pub(super) struct Process(Child);

impl Process {
    /// Starts an ignored test of this program, which [becomes](become_user) another user.
    pub(super) fn start(test: &str, user: u32, niceness: i32, variables: &[(&str, &str)]) -> Self {
        let mut command = Command::new("nice");
        command.arg(format!("-n{niceness}"));
        command.arg(std::env::current_exe().expect("this program"));
        command.args(["--ignored", "--exact", test]).env(USER, user.to_string());
        command.envs(variables.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().expect("start a process"))
    }

    pub(super) fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    #[track_caller]
    pub(super) fn assert_alive(&mut self) {
        let status = self.0.try_wait().expect("its status");
        assert!(status.is_none(), "an honest program ended: {status:?}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// Gives up root for good, in the process of another user.
pub(super) fn become_user() {
    let user: u32 = std::env::var(USER).expect("a user").parse().expect("a number");
    setgroups(&[]).expect("no groups");
    setgid(Gid::from_raw(user)).expect("another group");
    setuid(Uid::from_raw(user)).expect("another user");
    // A change of user clears it.
    set_pdeathsig(Signal::SIGKILL).expect("end with the test");
}
