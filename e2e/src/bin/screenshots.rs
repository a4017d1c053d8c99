//! Makes the pictures of the documentation; see [`lodesman_e2e::screenshots`].
#![expect(clippy::print_stderr, reason = "a command-line program")]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use lodesman_e2e::lodesman::binary;
use lodesman_e2e::screenshots::take;

/// Makes pictures of `lodesman top` and of the web page, at a picker with traffic.
#[derive(Debug, Parser)]
struct Cli {
    /// The folder for them.
    folder: PathBuf,
}

#[tokio::main]
async fn main() -> ExitCode {
    let made = async { take(&binary()?, &Cli::parse().folder).await };
    match Box::pin(made).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("screenshots: {error:#}");
            ExitCode::FAILURE
        }
    }
}
