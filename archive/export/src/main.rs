//! The `mmv-export` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    mmv_export::run(std::env::args_os())
}
