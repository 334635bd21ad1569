//! PCP's own programs, fetched by `ci/oracle`, or those of the file that `PCP_ENV` names.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::binaries::workspace;
use super::skip;

/// The environment in which PCP's programs run from where they were unpacked.
#[derive(Debug, Clone)]
pub(crate) struct Oracle {
    environment: BTreeMap<String, String>,
}

impl Oracle {
    /// Finds the oracle; `None`, with a message, where there is none.
    pub(crate) fn find() -> Option<Self> {
        let other = std::env::var_os("PCP_ENV").map(PathBuf::from);
        let file = other.unwrap_or_else(|| workspace().join("target/oracle/env"));
        let Ok(text) = fs::read_to_string(&file) else {
            skip::skip("PCP's programs are not there; ci/oracle fetches them");
            return None;
        };
        Some(Self { environment: text.lines().filter_map(assignment).collect() })
    }

    /// Returns the root of the tree that PCP was unpacked into.
    pub(crate) fn root(&self) -> &Path {
        Path::new(&self.environment["PCP_DIR"])
    }

    pub(crate) fn major(&self) -> u32 {
        let output = self.output("pminfo", &["--version"]);
        let printed = String::from_utf8([output.stdout, output.stderr].concat()).expect("text");
        let version = printed.split_whitespace().next_back().expect("a version");
        let major = version.split('.').next().and_then(|number| number.parse().ok());
        major.unwrap_or_else(|| panic!("{printed} has no version"))
    }

    /// Returns the Python interpreter that can load PCP's modules.
    pub(crate) fn python(&self) -> &str {
        &self.environment["PCP_PYTHON"]
    }

    /// Prepares a command in the oracle's environment. Times are printed in UTC, text is bytes,
    /// and there are no derived metrics.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(self.locate(program.as_ref()));
        command.envs(&self.environment).env("TZ", "UTC").env("LC_ALL", "C");
        // Empty, not absent: an installed PCP loads its own definitions if it is absent.
        command.env("PCP_DERIVED_CONFIG", "");
        command
    }

    /// Runs a program and returns its output, whatever its status.
    pub(crate) fn output<S: AsRef<OsStr>>(&self, program: &str, arguments: &[S]) -> Output {
        let mut command = self.command(program);
        command.args(arguments);
        command.output().unwrap_or_else(|error| panic!("start {program}: {error}"))
    }

    /// Runs a program and returns its output; panics if it fails or complains.
    #[track_caller]
    pub(crate) fn run<S: AsRef<OsStr>>(&self, program: &str, arguments: &[S]) -> String {
        let output = self.output(program, arguments);
        let complaints = String::from_utf8_lossy(&output.stderr);
        let stdout = String::from_utf8_lossy(&output.stdout);
        let arguments: Vec<_> = arguments.iter().map(AsRef::as_ref).collect();
        assert!(
            output.status.success() && complaints.is_empty(),
            "{program} {arguments:?}: {}\n{complaints}\n{stdout}",
            output.status
        );
        stdout.into_owned()
    }

    /// Finds a program on the child's path, since Rust searches the parent's.
    fn locate(&self, program: &OsStr) -> PathBuf {
        let path = &self.environment["PATH"];
        let found = std::env::split_paths(path).map(|directory| directory.join(program));
        found.into_iter().find(|file| file.is_file()).unwrap_or_else(|| program.into())
    }
}

/// Parses a line `export NAME='value'` or `export NAME="value:$NAME"` of the file.
fn assignment(line: &str) -> Option<(String, String)> {
    let (name, value) = line.strip_prefix("export ")?.split_once('=')?;
    let value = value.trim_matches(['\'', '"']);
    let inherited = std::env::var(name).unwrap_or_default();
    Some((name.to_owned(), value.replace(&format!("${name}"), &inherited)))
}
