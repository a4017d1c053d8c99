//! Compares round robin with Lodesman on simulated model servers; see [`lodesman_e2e::demo`].

use anyhow::{Result, bail};
use clap::Parser;
use lodesman_e2e::demo::{Options, run};
use tokio::signal::unix::{SignalKind, signal};

/// Sends the same chat traffic through a real Envoy twice, spread by round robin and placed by
/// Lodesman, and compares what the clients saw.
#[derive(Debug, Parser)]
#[command(name = "demo")]
struct Cli {
    #[command(flatten)]
    options: Options,
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut options = Cli::parse().options;
    options.once |= std::env::var("ONCE").is_ok_and(|once| !matches!(once.as_str(), "" | "0"));
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        biased;
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        result = run(&options) => return result,
    }
    if options.once {
        bail!("interrupted");
    }
    Ok(())
}
