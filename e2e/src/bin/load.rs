//! Puts load on an `ext_proc` server, playing Envoy; see [`lodesman_e2e::load`].
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program")]

use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Parser;
use lodesman_e2e::load::{Options, run};

/// Plays Envoy towards an `ext_proc` server and measures it. Exits with 1 if a request failed.
#[derive(Debug, Parser)]
#[command(name = "load")]
struct Cli {
    #[command(flatten)]
    options: Options,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match measure(&Cli::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("load: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn measure(cli: &Cli) -> Result<()> {
    let report = run(&cli.options).await?;
    if cli.json {
        println!("{:#}", report.json());
    } else {
        print!("{report}");
    }
    ensure!(report.failed() == 0, "{} requests failed", report.failed());
    Ok(())
}
