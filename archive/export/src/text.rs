//! Output of the commands. Names in archives may have any content, so all output is made printable
//! here.

use std::io::Write as _;

use pcp_types::printable;

use crate::Failure;

/// Prints a line on standard error, ignoring errors.
pub(crate) fn warn(message: &dyn std::fmt::Display) {
    let message = message.to_string();
    let _ = writeln!(std::io::stderr(), "mmv-export: {}", printable::line(&message));
}

/// Writes text to standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(&printable::lines(text.as_bytes()))?;
    Ok(stdout.flush()?)
}

/// Formats a value as one line of JSON, with unprintable characters as `\uHHHH`.
pub(crate) fn json_line(value: &impl serde::Serialize) -> Result<String, Failure> {
    let line = serde_json::to_string(value).map_err(std::io::Error::from)?;
    Ok(format!("{}\n", printable::json(&line)))
}
