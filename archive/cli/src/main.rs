//! The `mmv-archive` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    mmv_archive::run(std::env::args_os())
}
