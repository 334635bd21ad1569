//! Answers to a command line that has errors, asks for help, or for the completions of a shell.

use std::borrow::Cow;
use std::io::{self, ErrorKind, Write as _};

use clap::Command;
use clap_complete::Shell;
use pcp_archive::internal::ExitStatus;
use pcp_types::printable;

/// Prints the error of a command line, or the help or version that it asks for, and returns the
/// exit status.
///
/// # Errors
///
/// Those of the output, unless its reader has closed it.
pub fn explain(error: &clap::Error) -> io::Result<ExitStatus> {
    // Help and version go to standard output and are not errors.
    let status = if error.use_stderr() { ExitStatus::Usage } else { ExitStatus::Success };
    // It repeats words of the command line, which a pattern of the shell may have made.
    let text = error.to_string();
    if let Cow::Owned(shown) = printable::lines(text.as_bytes()) {
        let _ = io::stderr().write_all(&shown);
        return Ok(status);
    }
    match error.print() {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
        _ => Ok(status),
    }
}

/// Returns the script with which a shell completes the command line of a program.
pub fn completion_script(shell: Shell, mut command: Command) -> String {
    let mut generated = Vec::new();
    let program = command.get_name().to_owned();
    clap_complete::generate(shell, &mut command, program, &mut generated);
    String::from_utf8_lossy(&generated).into_owned()
}
