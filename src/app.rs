//! Builds everything, in order; the only place that knows all parts.
//!
//! [`App::start`] binds all ports, so that what can fail at the start fails before anything is served; [`Running::stop_on`]
//! serves until it is told to stop and then stops in order: not ready, wait for the gateway to notice, no new streams,
//! open streams end, all else ends.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;

use crate::config::{Destinations, Flags, Limits, Problem, Resolved};
use crate::director::{self, Clock, DecisionLog, Director, Policy};
use crate::extproc::{self, Budget};
use crate::metrics::Metrics;
use crate::pool::readiness::Readiness;
use crate::pool::{Event, Snapshot, State};
use crate::prefix::Index;
use crate::schedule::registry::{PLUGINS, Plugin};
use crate::scrape::{Counters, Scraper};
use crate::server;
use crate::server::admin::Decisions;
use crate::server::grpc::Service;
use crate::server::health::{Health, Pulse};
use crate::server::listener::Incoming;
use crate::server::null::Null;
use crate::server::picker::Picker;
use crate::telemetry;

use self::listeners::Listeners;
use self::pool_metrics::PoolMetrics;
use self::publisher::{Published, publish};
use self::sources::Source;
use self::supervisor::{Plane, Supervisor};

pub use self::listeners::Addresses;

mod leader;
mod listeners;
mod pool_metrics;
mod publisher;
mod sources;
mod stop;
mod supervisor;

/// Bytes of a configuration file.
const LONGEST_DOCUMENT: u64 = 1 << 20;

/// A picker to be started.
#[derive(Debug)]
pub struct App {
    flags: Flags,
    tables: Vec<&'static [Plugin]>,
    source: Option<mpsc::Receiver<Event>>,
    log_level: Option<telemetry::LogLevel>,
}

/// Why nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration of this name is bad: all its problems.
    #[error("{0} has problems")]
    Configuration(String, Vec<Problem>),
    /// Anything else that the user can mend.
    #[error("{0}")]
    Setup(String),
    /// The machine does not let us.
    #[error(transparent)]
    System(#[from] anyhow::Error),
}

/// A picker that serves.
#[derive(Debug)]
pub struct Running {
    /// Where it listens.
    pub addresses: Addresses,
    supervisor: Supervisor,
    /// Ends the taking of new streams.
    close: CancellationToken,
    readiness: watch::Sender<Readiness>,
    metrics: Arc<Metrics>,
    drain_timeout: Duration,
}

/// The parts that tasks share.
struct Parts {
    metrics: Arc<Metrics>,
    pool: Arc<ArcSwap<Snapshot>>,
    budget: Arc<Budget>,
    scrapes: Arc<Counters>,
    /// None when the policy asks for none.
    prefix: Option<Arc<Index>>,
    /// None when decisions are not kept.
    decisions: Option<Arc<DecisionLog>>,
    readiness: watch::Sender<Readiness>,
    /// Ends the taking of new streams.
    close: CancellationToken,
    /// The life signs of the data and the control runtime.
    pulses: [Arc<Pulse>; 2],
}

impl App {
    /// A picker as the flags say, with the plugins of this crate.
    pub fn new(flags: Flags) -> Self {
        Self { flags, tables: vec![PLUGINS], source: None, log_level: None }
    }

    /// Adds plugins that are not of this crate.
    #[must_use]
    pub fn with_plugins(mut self, table: &'static [Plugin]) -> Self {
        self.tables.push(table);
        self
    }

    /// Has the pool from the embedding program, not from what flags and configuration name: its endpoints, what is said of
    /// requests, its failure mode. It is ready after the first list of endpoints; when the sender is gone, what was told
    /// last holds on.
    #[must_use]
    pub fn with_source(mut self, events: mpsc::Receiver<Event>) -> Self {
        self.source = Some(events);
        self
    }

    /// Lets the admin port change what is logged.
    #[must_use]
    pub fn with_log_level(mut self, level: telemetry::LogLevel) -> Self {
        self.log_level = Some(level);
        self
    }

    /// Starts to serve: streams on `data`, the rest on `control`.
    ///
    /// # Errors
    /// When the configuration is bad or a port is taken; nothing runs then.
    pub async fn start(mut self, data: Handle, control: Handle) -> Result<Running, StartError> {
        let resolved = resolved(&self.flags, &self.tables)?;
        let source = Source::of(&self.flags, &resolved, self.source.take()).await?;
        let Source { namespace, pool, .. } = &source;
        let limits = limits(&self.flags, &resolved);
        let metrics = Metrics::new(namespace, pool, self.flags.listen.enable_grpc_stream_metrics);
        let parts = Parts {
            metrics: metrics.map_err(anyhow::Error::new)?,
            pool: Arc::default(),
            budget: Budget::new(usize::try_from(limits.body_budget).unwrap_or(usize::MAX)),
            scrapes: Arc::default(),
            prefix: resolved.prefix.clone().map(prefix_index),
            decisions: decision_log(&self.flags),
            readiness: watch::Sender::default(),
            close: CancellationToken::new(),
            pulses: [Arc::default(), Arc::default()],
        };
        let read = pool_metrics::Sources {
            pool: Arc::clone(&parts.pool),
            budget: Arc::clone(&parts.budget),
            scrapes: Arc::clone(&parts.scrapes),
            prefix: parts.prefix.clone(),
        };
        let pool_metrics = PoolMetrics::new(read, namespace, pool).map_err(anyhow::Error::new)?;
        parts.metrics.register(Box::new(pool_metrics)).map_err(anyhow::Error::new)?;
        source.register(&parts.metrics)?;
        let listeners = {
            let _on_control = control.enter();
            Listeners::bind(&self.flags)?
        };
        let addresses = listeners.addresses().map_err(anyhow::Error::new)?;
        let mut supervisor = Supervisor::new(data, control);
        self.watch_pool(source, &resolved, &parts, &mut supervisor)?;
        self.serve(resolved, limits, listeners, (&parts, &mut supervisor)).await?;
        let Parts { metrics, readiness, close, .. } = parts;
        let drain_timeout = self.flags.listen.drain_timeout;
        Ok(Running { addresses, supervisor, close, readiness, metrics, drain_timeout })
    }

    /// Starts what keeps the pool current: its source, its writer, the scraper.
    fn watch_pool(
        &self,
        source: Source,
        resolved: &Resolved,
        parts: &Parts,
        tasks: &mut Supervisor,
    ) -> Result<(), StartError> {
        let (events, queue) = mpsc::channel(publisher::QUEUE);
        let members = watch::Sender::new(Arc::default());
        let mut sources = resolved.sources.clone();
        sources.engines.rename(&self.flags.scrape.names);
        let interval = self.flags.scrape.refresh_metrics_interval;
        let scraper = Scraper::new(&sources, interval, events.clone(), Arc::clone(&parts.scrapes));
        if let Some(scraper) = scraper.map_err(|error| StartError::Setup(error.to_string()))? {
            tasks.run(Plane::Control, "scraper", scraper.run(members.subscribe()));
        }
        let published = Published {
            snapshot: Arc::clone(&parts.pool),
            members,
            readiness: parts.readiness.clone(),
            prefix: parts.prefix.clone(),
        };
        let state = State::new(self.flags.scrape.metrics_staleness_threshold);
        tasks.run(Plane::Control, "pool", publish(state, queue, published));
        source.follow(events, parts.readiness.clone(), &parts.metrics, tasks);
        Ok(())
    }

    /// Starts the servers.
    async fn serve(
        &self,
        resolved: Resolved,
        limits: Limits,
        listeners: Listeners,
        (parts, tasks): (&Parts, &mut Supervisor),
    ) -> Result<(), StartError> {
        let health = Health::new(parts.readiness.subscribe(), &parts.pulses).await;
        let mut routes = Routes::builder();
        let streams = Arc::clone(&parts.metrics.streams);
        let message =
            (self.flags.listen.grpc_max_recv_msg_size, self.flags.listen.grpc_max_send_msg_size);
        let decisions = if self.flags.listen.null {
            routes.add_service(Service::over(Null, streams, message));
            None
        } else {
            let picker = self.picker(resolved, &limits, parts);
            let (director, settings) = (Arc::clone(&picker.director), Arc::clone(&picker.settings));
            routes.add_service(Service::over(picker, streams, message));
            Some(Decisions { director, settings, log: parts.decisions.clone() })
        };
        routes.add_service(health.service());
        let refused = parts.metrics.connections.refused.clone();
        let incoming = Incoming::new(listeners.grpc, listeners.security, refused);
        let limits = server::Limits {
            streams: self.flags.listen.max_concurrent_streams,
            ..server::Limits::default()
        };
        let (close, routes) = (parts.close.clone(), routes.routes());
        tasks.spawn(Plane::Data, stop::STREAMS, async move {
            Ok(server::serve_grpc(incoming, routes, limits, close.cancelled_owned()).await?)
        });
        let reloads = parts.metrics.connections.tls_reloads.clone();
        if let Some(tls) = listeners.tls {
            tasks.run(Plane::Control, "certificates", async move {
                tls.follow(reloads).await;
                std::future::pending::<()>().await;
            });
        }
        for (plane, pulse) in [Plane::Data, Plane::Control].into_iter().zip(parts.pulses.clone()) {
            tasks.run(plane, "pulse", async move { pulse.beat().await });
        }
        listeners.plain.serve(&health, parts, (self.log_level.clone(), decisions), tasks);
        tasks.run(Plane::Control, "health", health.follow());
        Ok(())
    }

    fn picker(&self, resolved: Resolved, limits: &Limits, parts: &Parts) -> Picker {
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let how = director::Settings {
            forced_failure_mode: self.flags.pool.failure_mode,
            failure_mode: resolved.failure_mode.unwrap_or_default(),
            deadline: limits.decision_deadline,
            scores: self.flags.pool.emit_endpoint_scores,
            clock: Clock::new(server::clock::now),
        };
        let (pool, metrics) = (Arc::clone(&parts.pool), Arc::clone(&parts.metrics));
        let settings = extproc::Settings {
            parsers: resolved.parsers,
            body_limit: size(limits.max_request_body),
            budget: Arc::clone(&parts.budget),
            chunk_limit: limits.max_chunk_bytes.bytes(),
            header_limit: size(limits.max_header_bytes),
            body_read_timeout: limits.body_read_timeout,
            idle_timeout: limits.stream_idle_timeout,
            destinations: match resolved.destinations {
                Destinations::Single => 1,
                Destinations::Multi => usize::MAX,
            },
            ignore_subset: self.flags.pool.disable_endpoint_subset_filter,
            report_served: resolved.report_served,
            report_decision: self.flags.decisions.decision_header.then_some(extproc::DECISION),
        };
        let director = Director::new(
            pool,
            Policy::new(resolved.profiles, Some(resolved.detector))
                .with_admitters(resolved.admitters)
                .with_facts(resolved.facts),
            metrics,
            how,
        );
        let mut director = director;
        if let Some(prefix) = &parts.prefix {
            director = director.with_prefix(Arc::clone(prefix));
        }
        if let Some(log) = &parts.decisions {
            director = director.with_log(Arc::clone(log));
        }
        let (director, settings) = (Arc::new(director), Arc::new(settings));
        Picker { director, settings, said: Arc::default() }
    }
}

/// None when none is wanted.
fn decision_log(flags: &Flags) -> Option<Arc<DecisionLog>> {
    let entries = flags.decisions.decision_log.filter(|entries| *entries > 0)?;
    Some(Arc::new(DecisionLog::new(entries)))
}

fn prefix_index(settings: crate::prefix::Settings) -> Arc<Index> {
    Arc::new(Index::new(settings, fastrand::u64(..)))
}

/// Reads the configuration that the flags name, and logs its warnings.
fn resolved(flags: &Flags, tables: &[&'static [Plugin]]) -> Result<Resolved, StartError> {
    let text = match (&flags.pool.config_file, &flags.pool.config_text) {
        (Some(path), _) => Some(document(path).map_err(|error| {
            StartError::Setup(format!("--config-file {}: {error}", path.display()))
        })?),
        (None, text) => text.clone(),
    };
    let name = flags.pool.config_file.as_ref().map(|path| path.display().to_string());
    let name = name.unwrap_or_else(|| "--config-text".to_owned());
    let resolved = crate::config::load(text.as_deref(), tables);
    let resolved = resolved.map_err(|problems| StartError::Configuration(name, problems))?;
    for warning in flags.warnings() {
        tracing::warn!("{warning}");
    }
    for problem in &resolved.warnings {
        tracing::warn!(
            path = problem.path,
            line = problem.line,
            hint = problem.hint,
            "{}",
            problem.message
        );
    }
    Ok(resolved)
}

/// The text of a configuration file.
fn document(path: &Path) -> std::io::Result<String> {
    let metadata = std::fs::metadata(path)?;
    match metadata.len() {
        _ if !metadata.is_file() => Err(std::io::Error::other("it is no regular file")),
        LONGEST_DOCUMENT.. => Err(std::io::Error::other("it is longer than 1 MiB")),
        _ => std::fs::read_to_string(path),
    }
}

/// The flags' limits over the file's over the defaults.
fn limits(flags: &Flags, resolved: &Resolved) -> Limits {
    let groups = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let memory = groups.iter().find_map(|path| std::fs::read_to_string(path).ok());
    let memory = memory.and_then(|text| crate::config::memory_limit(&text));
    flags.limits.over(resolved.limits).limits(memory)
}
