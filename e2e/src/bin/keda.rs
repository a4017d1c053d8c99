//! Lets the real KEDA scale simulated model servers; see [`lodesman_e2e::keda`].
#![expect(clippy::print_stderr, reason = "a command-line program")]

use std::process::ExitCode;

use clap::Parser;
use lodesman_e2e::keda::{Options, run};
use lodesman_e2e::stop::until_stopped;

/// Lets KEDA and the autoscaler of Kubernetes scale model servers by what Lodesman tells, from zero and back.
///
/// It needs a network namespace of its own: run it by `make e2e-keda`.
#[derive(Debug, Parser)]
#[command(name = "keda")]
struct Cli {
    #[command(flatten)]
    options: Options,
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = Cli::parse().options;
    let run = run(&options, |line| eprintln!("{line}"));
    match until_stopped(true, Box::pin(run)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("keda: {error:#}");
            ExitCode::FAILURE
        }
    }
}
