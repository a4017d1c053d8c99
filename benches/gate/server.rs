//! A server under callgrind, and what it counts.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use lodesman_e2e::Lodesman;
use lodesman_e2e::load::{self, Options};

/// Requests of the shorter of two runs, enough for most prompts to be known; the longer has twice as many.
const REQUESTS: u64 = 400;

/// From the request to end to the count.
const END: Duration = Duration::from_secs(30);

/// What callgrind prints before the count.
const COUNT: &str = "Collected : ";

/// What cargo says to every bench.
const FROM_CARGO: &str = "--bench";

/// One server to measure.
pub(crate) struct Served {
    binary: PathBuf,
    args: Vec<String>,
}

/// The command line of the load generator.
#[derive(Debug, Parser)]
struct Load {
    #[command(flatten)]
    options: Options,
}

impl Served {
    /// The null server.
    pub(crate) fn null(binary: &Path) -> Self {
        Self { binary: binary.to_owned(), args: vec!["--null".to_owned()] }
    }

    /// A picker over `endpoints`, which it scrapes once and never probes.
    pub(crate) fn picker(binary: &Path, endpoints: &str) -> Self {
        let args = ["--endpoints", endpoints, "--refresh-metrics-interval", "1h", "--probe=false"];
        Self { binary: binary.to_owned(), args: args.map(ToOwned::to_owned).to_vec() }
    }

    /// Instructions of a request.
    ///
    /// # Errors
    /// When a request fails or the server does.
    pub(crate) async fn request(&self, load: &str) -> Result<f64> {
        let runs = (self.counted(&[], load, REQUESTS), self.counted(&[], load, 2 * REQUESTS));
        let (once, twice) = tokio::try_join!(runs.0, runs.1)?;
        Ok((twice.saturating_sub(once)) as f64 / REQUESTS as f64)
    }

    /// Instructions within `function` a request.
    ///
    /// # Errors
    /// When a request fails, the server does, or the function is not called: it may have been renamed, or inlined.
    pub(crate) async fn within(&self, function: &str) -> Result<f64> {
        let only = [format!("--toggle-collect={function}")];
        let count = self.counted(&only, "", 2 * REQUESTS).await?;
        ensure!(count > 0, "{function} was not called: renamed or inlined?");
        Ok(count as f64 / (2 * REQUESTS) as f64)
    }

    /// Instructions of a server from its start to its end, so many requests in between.
    async fn counted(&self, callgrind: &[String], load: &str, requests: u64) -> Result<u64> {
        let mut command = Command::new("valgrind");
        command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).args(callgrind);
        command.arg(&self.binary).env("TOKIO_WORKER_THREADS", "1");
        let mut server = Lodesman::launch(command, &self.args).await?;
        let line = format!(
            "load {} --connections 1 --streams 1 --requests {requests} {load}",
            server.ext_proc
        );
        let report = load::run(&Load::try_parse_from(line.split_whitespace())?.options).await?;
        ensure!(report.served() as u64 == requests, "not all was served: {report}");
        server.process.terminate()?;
        let count = |lines: &[&str]| {
            let (_, count) = lines.iter().find_map(|line| line.split_once(COUNT))?;
            count.trim().parse().ok()
        };
        server.process.find(END, count).await
    }
}

/// The binary that the command line names, else the one that cargo built beside this program.
///
/// # Errors
/// When that is not optimized: its figures would mean nothing.
pub(crate) fn binary() -> Result<PathBuf> {
    if let Some(path) = std::env::args().skip(1).find(|arg| arg != FROM_CARGO) {
        return Ok(path.into());
    }
    ensure!(!cfg!(debug_assertions), "name an optimized binary: make gate");
    Ok(env!("CARGO_BIN_EXE_lodesman").into())
}

/// Fails where valgrind cannot be run.
pub(crate) fn installed() -> Result<()> {
    let status = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status();
    let status = status.context("there is no valgrind")?;
    ensure!(status.success(), "valgrind does not work");
    Ok(())
}

/// Prints a line; that nobody reads on is no failure.
pub(crate) fn say(line: &str) {
    let _unread = writeln!(std::io::stdout(), "gate: {line}");
}
