//! The servers under test.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::Options;
use crate::lodesman::{Fleet, Lodesman, beside};
use crate::process::Process;
use crate::wait::eventually;
use crate::{Client, load};

/// From the start of a server until it takes requests.
const START: Duration = Duration::from_secs(20);
/// Requests before those that count, so that code, connections and buffers are warm.
const WARM_UP: usize = 200;

/// What all rows share: the programs, how much to measure, and what went wrong.
#[derive(Debug)]
pub(super) struct Lab {
    pub(super) lodesman: PathBuf,
    /// Absent where only Lodesman is built: then it is left out.
    plain: Option<PathBuf>,
    page: PathBuf,
    pub(super) dist: PathBuf,
    pub(super) micro: Option<PathBuf>,
    pub(super) rounds: usize,
    pub(super) quick: bool,
    failures: RefCell<BTreeMap<String, usize>>,
}

/// A server under test.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) name: &'static str,
    pub(super) address: SocketAddr,
    process: Process,
    _fleet: Option<Fleet>,
}

/// How Lodesman is run.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Setup {
    /// Name in figures.
    pub(super) name: &'static str,
    /// Model servers.
    pub(super) endpoints: usize,
    /// Further arguments, separated by blanks.
    pub(super) args: &'static str,
    /// Threads that serve; as many as cores if absent.
    pub(super) workers: Option<&'static str>,
}

impl Setup {
    /// The default policy and settings over so many model servers.
    pub(super) const fn real(endpoints: usize) -> Self {
        Self { name: "real", endpoints, args: "", workers: None }
    }

    /// The same with further arguments.
    pub(super) const fn with(self, args: &'static str) -> Self {
        Self { args, ..self }
    }

    /// The same under another name.
    pub(super) const fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }
}

impl Lab {
    pub(super) fn new(options: &Options) -> Result<Self> {
        open_many_files()?;
        ensure!(options.page.is_file(), "{} is missing", options.page.display());
        Ok(Self {
            lodesman: options.lodesman.clone().map_or_else(|| beside("lodesman"), Ok)?,
            plain: options.plain.clone().or_else(|| beside("plain").ok()),
            page: options.page.clone(),
            dist: options.dist.clone(),
            micro: options.micro.clone(),
            rounds: if options.quick { 1 } else { options.rounds.max(1) },
            quick: options.quick,
            failures: RefCell::default(),
        })
    }

    /// So much, or what is left of it when all is to be quick.
    pub(super) fn scaled(&self, amount: usize) -> usize {
        if self.quick { amount.div_ceil(10) } else { amount }
    }

    /// Rounds of a row that takes long.
    pub(super) fn few_rounds(&self) -> usize {
        self.rounds.min(5)
    }

    /// Failed requests, by reason.
    pub(super) fn failures(&self) -> BTreeMap<String, usize> {
        self.failures.borrow().clone()
    }

    /// The servers that a row compares.
    pub(super) async fn all(&self, real: Setup) -> Result<Vec<Server>> {
        let mut servers = vec![self.null().await?, self.real(real).await?];
        servers.extend(self.plain().await?);
        Ok(servers)
    }

    pub(super) async fn null(&self) -> Result<Server> {
        let started = Lodesman::start(&self.lodesman, ["--null"]).await?;
        Ok(Server::new("null", started, None))
    }

    pub(super) async fn plain(&self) -> Result<Option<Server>> {
        let Some(plain) = &self.plain else { return Ok(None) };
        let mut process = Process::spawn(Command::new(plain))?;
        let ready = |lines: &[&str]| lines.first()?.strip_prefix("ready ")?.parse().ok();
        let address = process.find(START, ready).await?;
        Ok(Some(Server { name: "plain", address, process, _fleet: None }))
    }

    /// Lodesman in front of a fleet, ready and warm.
    pub(super) async fn real(&self, setup: Setup) -> Result<Server> {
        let fleet = self.fleet(setup.endpoints).await?;
        let started = self.start(setup, &fleet).await?;
        ready(started.metrics).await?;
        let server = Server::new(setup.name, started, Some(fleet));
        self.load(&server, &format!("--requests {WARM_UP} --events 2")).await?;
        Ok(server)
    }

    pub(super) async fn fleet(&self, endpoints: usize) -> Result<Fleet> {
        let page = self.page.display().to_string();
        Fleet::start(&self.lodesman, endpoints, ["--model", "llama", "--page", &page]).await
    }

    /// Lodesman in front of `fleet`, once it listens.
    pub(super) async fn start(&self, setup: Setup, fleet: &Fleet) -> Result<Lodesman> {
        let endpoints: Vec<String> = fleet.servers.iter().map(ToString::to_string).collect();
        let endpoints = endpoints.join(",");
        let mut command = Command::new(&self.lodesman);
        command.envs(setup.workers.map(|workers| ("TOKIO_WORKER_THREADS", workers)));
        let args = ["--endpoints", &endpoints].into_iter().chain(setup.args.split_whitespace());
        Lodesman::launch(command, args).await
    }

    /// Puts load on a server and keeps in mind what failed.
    pub(super) async fn load(&self, server: &Server, args: &str) -> Result<load::Report> {
        let mut options = load::Options::parse(server.address, args)?;
        options.pid = Some(server.id());
        self.put(&options).await.with_context(|| format!("{}: {args}", server.name))
    }

    pub(super) async fn put(&self, options: &load::Options) -> Result<load::Report> {
        let report = load::run(options).await?;
        let mut failures = self.failures.borrow_mut();
        for (reason, count) in report.failures() {
            *failures.entry(reason.clone()).or_default() += count;
        }
        let unnamed = report.failed() - report.failures().values().sum::<usize>();
        if unnamed > 0 {
            *failures.entry("other reasons".to_owned()).or_default() += unnamed;
        }
        drop(failures);
        Ok(report)
    }
}

impl Server {
    pub(super) fn new(name: &'static str, started: Lodesman, fleet: Option<Fleet>) -> Self {
        Self { name, address: started.ext_proc, process: started.process, _fleet: fleet }
    }

    /// The process id.
    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    /// What the server has used so far.
    pub(super) fn usage(&self) -> Result<load::Usage> {
        load::Usage::read(self.id())
    }
}

/// Waits until a Lodesman is ready.
pub(super) async fn ready(metrics: SocketAddr) -> Result<()> {
    eventually(START, async || {
        let answer = Client::http1(metrics).get("/readyz").await?;
        ensure!(answer.status.is_success(), "/readyz: {}", answer.status);
        Ok(())
    })
    .await
}

/// A thousand model servers in a process need more files than some shells allow.
fn open_many_files() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    setrlimit(Resource::Nofile, raised).context("the limit of open files cannot be raised")
}
