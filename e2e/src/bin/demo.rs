//! Compares round robin with Lodesman on simulated model servers; see [`lodesman_e2e::demo`].
#![expect(clippy::print_stderr, reason = "a command-line program")]

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Parser;
use lodesman_e2e::demo::{Options, run};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

/// Ctrl-C reaches the parts as well: the end of one of them may be seen this long before the signal.
const GRACE: Duration = Duration::from_millis(200);

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
    options.once |= std::env::var("ONCE").is_ok_and(|once| !matches!(once.as_str(), "" | "0"));
    match until_stopped(&options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the demonstration until it is done or a signal stops it.
async fn until_stopped(options: &Options) -> Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let stopped = async {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    tokio::pin!(stopped);
    let result = tokio::select! {
        () = &mut stopped => return interrupted(options),
        result = run(options) => result,
    };
    if result.is_err() && timeout(GRACE, stopped).await.is_ok() {
        return interrupted(options);
    }
    result
}

/// A stop is the usual end, unless the demonstration was to end by itself.
fn interrupted(options: &Options) -> Result<()> {
    ensure!(!options.once, "interrupted");
    Ok(())
}
