//! Lodesman on the ports of its manifest: started, killed, hung, started again.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::client::Client;
use crate::process::Process;
use crate::wait::eventually;

/// Where gateways reach it: the address of its pod.
const ADDRESS: ([u8; 4], u16) = ([10, 77, 2, 1], 9002);
/// Where its metrics and probes are.
const METRICS: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9090));
/// From the start until it is ready.
const READY: Duration = Duration::from_secs(40);

/// A picker that can be ended and started again with the same arguments.
#[derive(Debug)]
pub(super) struct Picker {
    start: Start,
    process: Process,
}

/// Where gateways reach it.
pub(super) fn address() -> SocketAddr {
    SocketAddr::from(ADDRESS)
}

/// How a picker is started.
#[derive(Debug, Clone, Default)]
pub(super) struct Start {
    /// The binary.
    pub(super) binary: PathBuf,
    /// Its arguments.
    pub(super) args: Vec<String>,
    /// Its environment, besides that of this program.
    pub(super) environment: Vec<(String, String)>,
}

impl Picker {
    /// Starts a picker and waits until it is ready.
    ///
    /// # Errors
    /// When it ends or is not ready in time; the error shows its log.
    pub(super) async fn start(start: Start) -> Result<Self> {
        let process = start.spawn().await?;
        Ok(Self { start, process })
    }

    /// Ends it at once (SIGKILL), as a node that fails does.
    ///
    /// # Errors
    /// When the signal cannot be sent.
    pub(super) fn kill(&mut self) -> Result<()> {
        self.process.kill().map(drop)
    }

    /// Starts it again after [`Picker::kill`].
    ///
    /// # Errors
    /// As [`Picker::start`].
    pub(super) async fn restart(&mut self) -> Result<()> {
        self.process = self.start.spawn().await?;
        Ok(())
    }

    /// Halts it: connections stay open, and nothing is answered.
    ///
    /// # Errors
    /// When the signal cannot be sent.
    pub(super) fn hang(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets it go on after [`Picker::hang`].
    ///
    /// # Errors
    /// When the signal cannot be sent.
    pub(super) fn go_on(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// The sum of a family's series in whose labels `label` stands.
    ///
    /// # Errors
    /// When the page cannot be read.
    pub(super) async fn metric(&self, family: &str, label: &str) -> Result<f64> {
        let page = Client::http1(METRICS).get("/metrics").await?.text();
        let of_family = |line: &&str| {
            line.strip_prefix(family).is_some_and(|rest| rest.starts_with(['{', ' ']))
        };
        let series = page.lines().filter(of_family).filter(|line| line.contains(label));
        Ok(series.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum())
    }

    /// Its log so far.
    pub(super) fn log(&self) -> String {
        self.process.output()
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let id = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw);
        Ok(kill_process(id.context("no process")?, signal)?)
    }
}

impl Start {
    async fn spawn(&self) -> Result<Process> {
        let mut command = Command::new(&self.binary);
        command.args(&self.args).envs(self.environment.iter().cloned());
        let mut process = Process::spawn(command)?;
        let ready = eventually(READY, async || {
            let answer = Client::http1(METRICS).get("/readyz").await?;
            ensure!(answer.status == 200, "{} {}", answer.status, answer.text());
            Ok(())
        });
        let ready = process.while_alive(ready).await;
        ready.with_context(|| format!("Lodesman is not ready:\n{}", process.output()))?;
        Ok(process)
    }
}
