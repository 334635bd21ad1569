//! The `mmv-archive` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    mmv_archive::cli::main(std::env::args_os())
}
