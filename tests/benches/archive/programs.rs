//! Paths of the programs under measurement.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Our command, PCP's programs and the C programs against PCP's libraries.
#[derive(Debug)]
pub(crate) struct Programs {
    ours: PathBuf,
    /// The environment in which PCP's programs run from where they were unpacked.
    environment: BTreeMap<String, String>,
    built: PathBuf,
}

impl Programs {
    /// Finds them; C programs are built in `scratch`.
    pub(crate) fn find(scratch: &Path) -> Result<Self, String> {
        let ours = built("mmv-archive")?;
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/oracle/env");
        let text = std::fs::read_to_string(&file)
            .map_err(|error| format!("{}: {error}; run ci/oracle", file.display()))?;
        let environment = text.lines().filter_map(assignment).collect();
        Ok(Self { ours, environment, built: scratch.to_owned() })
    }

    /// Prepares `mmv-archive COMMAND ARGUMENTS`.
    pub(crate) fn ours<S: AsRef<std::ffi::OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = Command::new(&self.ours);
        command.args(arguments);
        command
    }

    pub(crate) fn has(&self, command: &str) -> bool {
        let output = self.ours(&[command, "--help"]).output();
        output.is_ok_and(|output| output.status.success())
    }

    pub(crate) fn pcp<S: AsRef<std::ffi::OsStr>>(&self, name: &str, arguments: &[S]) -> Command {
        let path = self.environment.get("PATH").map_or("", String::as_str);
        let found = std::env::split_paths(path).map(|directory| directory.join(name));
        let program = found.into_iter().find(|file| file.is_file());
        self.in_pcp(program.unwrap_or_else(|| name.into()), arguments)
    }

    /// Prepares a C program of `peers/`, which is built at the first call.
    pub(crate) fn c<S: AsRef<std::ffi::OsStr>>(
        &self,
        name: &str,
        arguments: &[S],
    ) -> Result<Command, String> {
        let program = self.built.join(name);
        if !program.exists() {
            let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/archive/peers");
            let mut compiler = self.in_pcp("cc", &["-O2", "-Wall", "-o"]);
            compiler.arg(&program).arg(directory.join(name).with_extension("c"));
            compiler.args(["-lpcp_import", "-lpcp"]);
            let status = compiler.status().map_err(|error| format!("cc: {error}"))?;
            if !status.success() {
                return Err(format!("cc {name}.c: {status}"));
            }
        }
        Ok(self.in_pcp(program, arguments))
    }

    /// Prepares a program in the oracle's environment. Times are in UTC, text is bytes.
    fn in_pcp<S: AsRef<std::ffi::OsStr>>(
        &self,
        program: impl AsRef<std::ffi::OsStr>,
        arguments: &[S],
    ) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).envs(&self.environment).env("TZ", "UTC").env("LC_ALL", "C");
        command.env_remove("PCP_DERIVED_CONFIG");
        command
    }
}

pub(crate) fn built(name: &str) -> Result<PathBuf, String> {
    let exe = std::env::current_exe().map_err(|error| error.to_string())?;
    let program = exe.ancestors().nth(2).unwrap_or(&exe).join(name);
    if program.exists() {
        Ok(program)
    } else {
        let program = program.display();
        Err(format!("{program} is missing: cargo build --profile dist -p {name}"))
    }
}

/// Parses a line `export NAME='value'` or `export NAME="value:$NAME"` of the file.
fn assignment(line: &str) -> Option<(String, String)> {
    let (name, value) = line.strip_prefix("export ")?.split_once('=')?;
    let value = value.trim_matches(['\'', '"']);
    let value = match value.strip_suffix(&format!("${name}")) {
        Some(prefix) => format!("{prefix}{}", std::env::var(name).unwrap_or_default()),
        None => value.to_owned(),
    };
    Some((name.to_owned(), value))
}
