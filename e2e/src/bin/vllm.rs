//! Compares round robin with Lodesman on real vLLM servers; see [`lodesman_e2e::vllm`].
#![expect(clippy::print_stderr, clippy::print_stdout, reason = "a command-line program")]

use std::process::ExitCode;

use clap::Parser;
use lodesman_e2e::stop::until_stopped;
use lodesman_e2e::vllm::{Options, run};

/// Sends the same requests to two real vLLM servers by round robin and by Lodesman, each through a real Envoy, and shows
/// what the engines' own figures say.
#[derive(Debug, Parser)]
#[command(name = "vllm")]
struct Cli {
    #[command(flatten)]
    options: Options,
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = Cli::parse().options;
    match until_stopped(true, Box::pin(run(&options, |line| println!("{line}")))).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("vllm: {error:#}");
            ExitCode::FAILURE
        }
    }
}
