//! PCP's rule: MMV files are in `$PCP_TMP_DIR/mmv`.
//!
//! `PCP_TMP_DIR` comes from the environment, else from PCP's configuration file
//! (`$PCP_CONF`, else `$PCP_DIR/etc/pcp.conf`, else `/etc/pcp.conf`), else it is
//! `/var/lib/pcp/tmp`. The environment is read, never changed. Source:
//! `pcp.conf(5)`, `src/libpcp/src/config.c` of PCP.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Value of `PCP_TMP_DIR` if neither the environment nor a configuration file sets it.
pub const DEFAULT_TMP_DIR: &str = "/var/lib/pcp/tmp";

const VARIABLE: &str = "PCP_TMP_DIR";

/// The environment variables that PCP's rule depends on, by precedence.
pub(super) const VARIABLES: [&str; 3] = [VARIABLE, "PCP_CONF", "PCP_DIR"];

/// Returns the directory of this machine's MMV files by PCP's rule. It need not exist, and this
/// user may lack the permission to write into it: see
/// [`MmvDirectory::choose`](super::MmvDirectory::choose).
pub fn mmv_directory() -> PathBuf {
    locate(|name| std::env::var_os(name), |path| std::fs::read_to_string(path).ok())
}

/// Applies PCP's rule to the variables that `variable` returns and the files that `read` returns.
pub(super) fn locate(
    variable: impl Fn(&str) -> Option<OsString>,
    read: impl Fn(&Path) -> Option<String>,
) -> PathBuf {
    let set = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let tmp = set(VARIABLE).or_else(|| {
        let file = set("PCP_CONF").unwrap_or_else(|| {
            set("PCP_DIR").unwrap_or_else(|| PathBuf::from("/")).join("etc/pcp.conf")
        });
        read(&file)?.lines().rev().find_map(assignment)
    });
    tmp.unwrap_or_else(|| PathBuf::from(DEFAULT_TMP_DIR)).join("mmv")
}

/// Parses a line `PCP_TMP_DIR=value` and returns the value without quotes.
fn assignment(line: &str) -> Option<PathBuf> {
    let value = line.trim().strip_prefix(VARIABLE)?.strip_prefix('=')?.trim();
    let value = value.trim_matches(|quote| quote == '"' || quote == '\'');
    (!value.is_empty()).then(|| PathBuf::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(environment: &[(&str, &str)], files: &[(&str, &str)]) -> String {
        let located = locate(
            |name| environment.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()),
            |path| {
                let file = files.iter().find(|(name, _)| Path::new(name) == path);
                file.map(|(_, text)| (*text).into())
            },
        );
        located.to_str().unwrap().to_owned()
    }

    #[test]
    fn the_environment_comes_first() {
        let files = [("/etc/pcp.conf", "PCP_TMP_DIR=/conf\n")];
        assert_eq!(with(&[("PCP_TMP_DIR", "/env")], &files), "/env/mmv");
    }

    #[test]
    fn then_the_configuration_file_that_the_environment_names() {
        let text = "# PCP_TMP_DIR=/no\nPCP_LOG_DIR=/log\nPCP_TMP_DIR=\"/conf\"\n";
        let files = [("/a/pcp.conf", text), ("/p/etc/pcp.conf", text), ("/etc/pcp.conf", text)];
        assert_eq!(with(&[("PCP_CONF", "/a/pcp.conf")], &files[..1]), "/conf/mmv");
        assert_eq!(with(&[("PCP_DIR", "/p")], &files[1..2]), "/conf/mmv");
        assert_eq!(with(&[("PCP_TMP_DIR", "")], &files[2..]), "/conf/mmv");
    }

    #[test]
    fn then_the_default() {
        assert_eq!(with(&[], &[]), "/var/lib/pcp/tmp/mmv");
        assert_eq!(with(&[], &[("/etc/pcp.conf", "PCP_TMP_DIR=\n")]), "/var/lib/pcp/tmp/mmv");
    }
}
