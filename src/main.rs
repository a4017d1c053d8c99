//! The `lodesman` binary: command line in, exit code out.

use std::process::ExitCode;

fn main() -> ExitCode {
    lodesman::cli::run(std::env::args_os())
}
