//! The `mmv-agent` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    mmv_agent::cli::main(std::env::args_os())
}
