//! Programs as children, and their cost by the kernel's accounting.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use wait4::Wait4 as _;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) wall: Duration,
    /// All threads, user and system.
    pub(crate) cpu: Duration,
    /// The largest resident set, in bytes. What the kernel counts begins with
    /// this program's own few megabytes, from before the child is another.
    pub(crate) peak: u64,
}

/// Runs a program to its end. Its output goes to a file; to nowhere without.
pub(crate) fn run(mut command: Command, output: Option<&Path>) -> Result<Cost, String> {
    let name = Path::new(command.get_program()).display().to_string();
    let failed = |error: std::io::Error| format!("{name}: {error}");
    let stdout = match output {
        Some(path) => {
            // Making room is not the program's work.
            let _ = fs::remove_file(path);
            Stdio::from(File::create(path).map_err(failed)?)
        }
        None => Stdio::null(),
    };
    command.stdin(Stdio::null()).stdout(stdout);
    let start = Instant::now();
    let mut child = command.spawn().map_err(failed)?;
    let used = child.wait4().map_err(failed)?;
    let wall = start.elapsed();
    if !used.status.success() {
        return Err(format!("{command:?}: {}", used.status));
    }
    let cpu = used.rusage.utime + used.rusage.stime;
    Ok(Cost { wall, cpu, peak: used.rusage.maxrss })
}
