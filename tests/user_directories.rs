//! Without privileges and without PCP: a program, the agent and its commands find the same
//! directories, whichever starts first.
//!
//! As root the tests run their programs as another user, who owns the scratch directory.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::{Pid, geteuid};
use serde_json::Value;

use crate::harness::binaries;
use crate::harness::capi;
use crate::harness::scratch::Scratch;
use crate::harness::skip;
use crate::harness::wait;

/// The user whose programs run if the tests run as root.
const USER: u32 = 4711;
/// Directory by PCP's rule without an environment and without PCP.
const SYSTEM: &str = "/var/lib/pcp/tmp/mmv";

/// The environment of an ordinary user: nothing but some variables with directories.
struct Home {
    scratch: Scratch,
    variables: Vec<(&'static str, PathBuf)>,
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Home {
    fn new(variables: &[(&'static str, &str)]) -> Self {
        let scratch = Scratch::new();
        let home = Self { variables: Vec::new(), scratch };
        for program in [
            binaries::mmv_agent(),
            binaries::mmv_archive(),
            binaries::example("acme"),
            binaries::example("web"),
        ] {
            let name = program.file_name().expect("a name");
            binaries::copy(&program, &home.path(name.to_str().expect("UTF-8")));
        }
        let directories = variables.iter().map(|(_, name)| home.path(name));
        let directories: Vec<_> = directories.chain([home.scratch.path().to_owned()]).collect();
        for directory in &directories {
            fs::create_dir_all(directory).expect("a directory");
            if geteuid().is_root() {
                chown(directory, Some(USER), Some(USER)).expect("give a directory away");
            }
        }
        let variables = variables.iter().map(|(variable, name)| (*variable, home.path(name)));
        Self { variables: variables.collect(), ..home }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let program = self.path(program);
        let mut command = if geteuid().is_root() {
            let mut command = Command::new("setpriv");
            let user = USER.to_string();
            command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        let path = std::env::var_os("PATH").unwrap_or_default();
        command.env_clear().env("PATH", path).envs(self.variables.iter().cloned());
        command.args(arguments).current_dir(self.scratch.path());
        command
    }

    fn start(&self, program: &str, arguments: &[&str]) -> Running {
        let log = fs::File::create(self.path(&format!("{program}.log"))).expect("a log");
        let mut command = self.command(program, arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        Running(command.spawn().expect("start a program"))
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Output {
        self.command(program, arguments).output().expect("run a program")
    }

    fn agent(&self) -> Running {
        let config = self.path("agent.toml");
        fs::write(&config, "interval = \"50ms\"\n[hindsight]\n").expect("write a configuration");
        self.start("mmv-agent", &["run", "--config", config.to_str().expect("UTF-8")])
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("mmv-agent.log")).unwrap_or_default()
    }

    /// Returns the status that the agent reports, once it harvests `acme` and has an archive.
    fn status(&self) -> Value {
        wait::until("the agent to harvest the program", || {
            let output = self.run("mmv-agent", &["status", "--json"]);
            let status: Value = serde_json::from_slice(&output.stdout).ok()?;
            let sources = status["sources"].as_array()?;
            let found =
                sources.iter().find(|source| source["file"] == "acme")?["state"] == "harvested";
            (found && status["archive"]["base"].is_string()).then_some(status)
        })
    }
}

/// Returns whether the system's directory is open for the user of the tests; then it is used.
fn uses_the_systems() -> bool {
    let Ok(found) = Path::new(SYSTEM).metadata() else { return false };
    let open = found.mode() & 0o002 != 0 || found.uid() == geteuid().as_raw();
    if open {
        skip::report("any user may write into the system's directory of MMV files");
    }
    open
}

#[test]
fn program_agent_and_commands_find_the_same_in_any_order() {
    if uses_the_systems() {
        return;
    }
    let home = ("HOME", "home");
    for (variables, mmv, archives, socket) in [
        (
            vec![home, ("XDG_RUNTIME_DIR", "run/me")],
            "run/me/mmv",
            "home/.local/state/mmv-agent/archives",
            Some("run/me/mmv-agent/status.sock"),
        ),
        (vec![home], "home/.local/state/mmv", "home/.local/state/mmv-agent/archives", None),
        (
            vec![home, ("XDG_STATE_HOME", "home/state")],
            "home/state/mmv",
            "home/state/mmv-agent/archives",
            None,
        ),
    ] {
        for agent_first in [true, false] {
            let home = Home::new(&variables);
            let case = format!("{variables:?}, the agent first: {agent_first}");
            let agent = agent_first.then(|| {
                let agent = home.agent();
                wait::until_true("the agent", || home.log().contains("MMV files: "));
                agent
            });
            let program = home.start("acme", &[]);
            wait::until_true("the program's file", || home.path(mmv).join("acme").exists());
            let agent = agent.unwrap_or_else(|| home.agent());
            let status = home.status();
            let archive = status["archive"]["base"].as_str().unwrap_or_default().to_owned();
            assert!(
                archive.starts_with(home.path(archives).to_str().expect("UTF-8")),
                "{case}: {status}"
            );
            let mode = home.path(mmv).metadata().expect("the directory").mode() & 0o7777;
            assert_eq!(mode, 0o700, "{case}");
            if let Some(socket) = socket {
                assert!(home.path(socket).exists(), "{case}");
            }
            let log = home.log();
            let first = log.lines().next().unwrap_or_default();
            for directory in [mmv, archives] {
                let directory = home.path(directory).display().to_string();
                assert!(first.contains(&format!(": {directory} (of this user")), "{case}: {log}");
            }
            // On a busy machine ticks are late.
            let is_late = |line: &str| line.contains("too late") || line.contains("is late");
            let mut warnings = log.lines().filter(|line| line.contains("warning"));
            assert!(warnings.all(is_late), "{case}: {log}");

            let inspect = home.run("mmv-agent", &["inspect", "acme"]);
            assert!(inspect.status.success(), "{case}: {inspect:?}");
            let missing = home.run("mmv-agent", &["inspect", "acmee"]);
            let stderr = String::from_utf8_lossy(&missing.stderr).into_owned();
            let there = format!(
                "acmee: no such file here or in {}; files there: acme",
                home.path(mmv).display()
            );
            assert!(stderr.contains(&there), "{case}: {stderr}");
            let capture = home.run("mmv-agent", &["capture", "--output", "captured"]);
            assert!(
                capture.status.success() && home.path("captured.0").exists(),
                "{case}: {capture:?}"
            );
            if socket.is_some() {
                // A rate needs a second of samples.
                wait::until_true("rates in the flight recorder", || {
                    home.run("mmv-archive", &["report", "@recorder", "mmv.acme"]).status.success()
                });
            }
            // The directory is the default one, however it is written.
            for directory in [home.path(archives), archives.into()] {
                let directory = directory.to_str().expect("UTF-8");
                let status = home.run("mmv-agent", &["status", "--archive-dir", directory]);
                assert!(status.status.success(), "{case}, {directory}: {status:?}");
            }
            drop((program, agent));
        }
    }
}

#[test]
fn a_program_in_c_finds_the_directory_of_its_user() {
    if uses_the_systems() {
        return;
    }
    let include = format!("-I{}", capi::library().join("include").display());
    let lib = format!("-L{}", capi::library().join("lib").display());
    let source = binaries::workspace().join("mmv-writer/capi/examples/acme.c");
    let options = [include.as_str(), lib.as_str(), "-lpcp_mmv"];
    let program = capi::compile(Command::new("gcc"), &source, &options);
    let home = Home::new(&[("HOME", "home"), ("XDG_RUNTIME_DIR", "run/me")]);
    binaries::copy(&program, &home.path("acme-c"));
    let object = capi::library().join("lib/libpcp_mmv.so.1");
    binaries::copy(&object, &home.path("libpcp_mmv.so.1"));
    let mut command = home.command("acme-c", &["acme-c", "100"]);
    let output = command.env("LD_LIBRARY_PATH", home.scratch.path()).output().expect("run it");
    assert!(output.status.success(), "{output:?}");
    let mode = home.path("run/me/mmv").metadata().expect("the directory").mode() & 0o7777;
    assert_eq!(mode, 0o700);
}

#[test]
fn program_without_a_directory_says_what_to_set() {
    if uses_the_systems() || !geteuid().is_root() {
        // Other users have a home in the system's list of users.
        return;
    }
    let home = Home::new(&[]);
    let failed = home.run("acme", &[]);
    let text = String::from_utf8_lossy(&failed.stderr);
    assert!(!failed.status.success(), "{text}");
    assert!(text.contains(&format!("{SYSTEM}: ")) && text.contains("set PCP_TMP_DIR"), "{text}");
    let mut lenient = home.start("web", &[]);
    let log = home.path("web.log");
    let line = wait::until("its line", || {
        fs::read_to_string(&log).ok().filter(|text| text.contains("set PCP_TMP_DIR\n"))
    });
    assert!(line.starts_with("metrics are not published: ") && line.lines().count() == 1, "{line}");
    let pid = Pid::from_raw(lenient.0.id().cast_signed());
    kill(pid, Signal::SIGTERM).expect("it runs");
    lenient.0.wait().expect("its status");
}

#[test]
fn program_with_more_rights_than_its_caller_trusts_nothing() {
    let home = Home::new(&[("HOME", "home"), ("XDG_RUNTIME_DIR", "run/me")]);
    let flags = statvfs(home.scratch.path()).expect("statvfs").flags();
    if uses_the_systems() || !geteuid().is_root() || flags.contains(FsFlags::ST_NOSUID) {
        return;
    }
    let program = home.path("acme");
    chown(&program, Some(USER + 1), None).expect("give the program away");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).expect("setuid");
    for directory in ["tmp/mmv", "run/me", "home"] {
        fs::set_permissions(home.path(directory), fs::Permissions::from_mode(0o777))
            .expect("open it");
    }
    fs::set_permissions(home.scratch.path(), fs::Permissions::from_mode(0o755)).expect("open it");
    let mut command = home.command("acme", &[]);
    let output = command.env("PCP_TMP_DIR", home.path("tmp")).output().expect("run it");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains(&format!("{SYSTEM}: ")), "{text}");
    for directory in ["tmp/mmv", "run/me/mmv", "home/.local"] {
        let entries = fs::read_dir(home.path(directory)).map_or(0, Iterator::count);
        assert_eq!(entries, 0, "{directory}");
    }
}

#[test]
fn root_makes_the_systems_directory_for_all() {
    // In a mount namespace, so that the machine stays as it is.
    let script = "mount -t tmpfs none /var/lib && env -i \"$0\" && stat -c %a /var/lib/pcp/tmp/mmv";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]).arg(binaries::example("minimal"));
    if Path::new("/etc/pcp.conf").exists() || !geteuid().is_root() {
        return;
    }
    let output = command.output().expect("start unshare");
    let stderr = String::from_utf8_lossy(&output.stderr);
    if stderr.contains("unshare failed") || stderr.contains("mount: ") {
        return skip::report("no mount namespace");
    }
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1777\n", "{stderr}");
}
