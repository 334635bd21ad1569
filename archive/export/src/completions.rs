//! Completion scripts of shells.

use clap::Command;
use clap_complete::Shell;

/// The end of the help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  Install the script of bash for this user:
    mmv-export completions bash \\
        >~/.local/share/bash-completion/completions/mmv-export
  Complete in this fish only:
    mmv-export completions fish | source";

pub(crate) fn script(shell: Shell, mut command: Command) -> String {
    let mut generated = Vec::new();
    clap_complete::generate(shell, &mut command, "mmv-export", &mut generated);
    String::from_utf8_lossy(&generated).into_owned()
}
