//! Shows Lodesman at work in Kubernetes, on one machine; see [`lodesman_e2e::kube_demo`].
#![expect(clippy::print_stderr, reason = "a command-line program")]

use std::process::ExitCode;

use clap::Parser;
use lodesman_e2e::kube_demo::{Options, run};
use lodesman_e2e::stop::{once, until_stopped};

/// Applies the manifests to a real Kubernetes API server, plays kubelet and gateway, and sends requests.
#[derive(Debug, Parser)]
#[command(name = "demo-k8s")]
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
            eprintln!("demo-k8s: {error:#}");
            ExitCode::FAILURE
        }
    }
}
