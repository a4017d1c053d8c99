//! Compares round robin with Lodesman on simulated model servers; see [`lodesman_e2e::demo`].
#![expect(clippy::print_stderr, reason = "a command-line program")]

use std::process::ExitCode;

use clap::Parser;
use lodesman_e2e::demo::{Options, run};
use lodesman_e2e::stop::{once, until_stopped};

/// Sends the same chat traffic through a real Envoy twice, spread by round robin and placed by
/// Lodesman, and compares what the clients saw.
#[derive(Debug, Parser)]
#[command(name = "demo")]
struct Cli {
    #[command(flatten)]
    options: Options,
}

#[tokio::main]
async fn main() -> ExitCode {
    let mut options = Cli::parse().options;
    options.once |= once();
    match until_stopped(options.once, Box::pin(run(&options))).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}
