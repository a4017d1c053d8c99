//! Tries the real gateways in front of Lodesman; see [`lodesman_e2e::gateways`].
#![expect(clippy::print_stderr, reason = "a command-line program")]

use std::process::ExitCode;

use clap::Parser;
use lodesman_e2e::gateways::{Options, run};
use lodesman_e2e::stop::until_stopped;

/// Puts Envoy Gateway and istiod, with the manifests that users apply, in front of Lodesman, and tries what must work
/// and what must fail.
///
/// It needs a network namespace of its own: run it by `make e2e-gateways`.
#[derive(Debug, Parser)]
#[command(name = "gateways")]
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
            eprintln!("gateways: {error:#}");
            ExitCode::FAILURE
        }
    }
}
