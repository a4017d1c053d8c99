//! Measures Lodesman against servers that it can be compared with; see [`lodesman_e2e::bench`].
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program")]

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use lodesman_e2e::bench::{Options, run};

/// Measures what Lodesman costs and prints a table. Exits with 1 if a request failed or a byte differed.
#[derive(Debug, Parser)]
#[command(name = "bench")]
struct Cli {
    #[command(flatten)]
    options: Options,
    /// Where all figures are written
    #[arg(long, value_name = "FILE", default_value = "target/bench.json")]
    json: PathBuf,
    /// Print the table as Markdown
    #[arg(long)]
    markdown: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match measure(&Cli::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn measure(cli: &Cli) -> Result<()> {
    let report = run(&cli.options, |what| eprintln!("measuring {what}")).await?;
    if cli.markdown {
        print!("{}", report.markdown());
    } else {
        print!("{report}");
    }
    let written = fs::write(&cli.json, format!("{:#}\n", report.json()));
    written.with_context(|| format!("{} cannot be written", cli.json.display()))?;
    ensure!(report.failed() == 0, "{} requests failed", report.failed());
    Ok(())
}
