//! Builds everything, in order; the only place that knows all parts.
//!
//! [`App::start`] binds all ports, so that what can fail at the start fails before anything is served; [`Running::stop_on`]
//! serves until it is told to stop and then stops in order: not ready, wait for the gateway to notice, no new streams,
//! open streams end, all else ends.

use std::sync::Arc;
use std::thread::JoinHandle;

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;

use crate::config::{Flags, Limits, Problem, Resolved, Traces};
use crate::director::{DecisionLog, Director};
use crate::discovery::Watched;
use crate::extproc::{self, Budget};
use crate::flow::Flow;
use crate::metrics::Metrics;
use crate::pool::readiness::Readiness;
use crate::pool::{Event, Judging, Snapshot, State};
use crate::prefix::Index;
use crate::recording::Recorder;
use crate::scale::Board;
use crate::schedule::registry::{PLUGINS, Plugin};
use crate::scrape::Counters;
use crate::server;
use crate::server::admin::Decisions;
use crate::server::clock;
use crate::server::grpc::{Service, Sizes};
use crate::server::health::{Health, Pulse};
use crate::server::listener::Incoming;
use crate::server::null::Null;
use crate::server::picker::{Logs, Picker};
use crate::server::request_log::RequestLog;
use crate::server::said::Said;
use crate::spans::Tracer;
use crate::telemetry;

use self::in_force::InForce;
use self::listeners::Listeners;
use self::pool_metrics::{PoolMetrics, Saturation};
use self::publisher::{Published, publish};
use self::reload::Reload;
use self::scraping::Scraping;
use self::sources::Source;
use self::stop::Stopping;
use self::supervisor::{Plane, Supervisor};

pub use self::listeners::Addresses;

mod configuration;
mod in_force;
mod leader;
mod listeners;
mod metrics_port;
pub mod offline;
mod pool_metrics;
mod publisher;
mod recording;
mod reload;
mod scaling;
mod scraping;
mod sources;
mod stop;
mod supervisor;
mod traces;

/// A picker to be started.
#[derive(Debug)]
pub struct App {
    flags: Flags,
    tables: Vec<&'static [Plugin]>,
    source: Option<mpsc::Receiver<Event>>,
    log_level: Option<telemetry::LogLevel>,
    recorder: Option<Recorder>,
    traces: Option<Traces>,
    tracer: Option<Arc<Tracer>>,
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
    stopping: Stopping,
    /// Writes what is recorded; ends when no stream is open any more.
    recording: Option<JoinHandle<()>>,
    /// Sends traces; ends as that does.
    tracing: Option<task::JoinHandle<()>>,
}

/// What decides, and how streams are served.
type Deciding = (Arc<Director>, Arc<ArcSwap<extproc::Settings>>);

/// The parts that tasks share.
#[derive(Debug)]
struct Parts {
    metrics: Arc<Metrics>,
    pool: Arc<ArcSwap<Snapshot>>,
    /// What changes the pool; full when its writer does not follow.
    events: mpsc::Sender<Event>,
    budget: Arc<Budget>,
    /// What becomes of requests without an endpoint.
    flow: Arc<Flow>,
    /// What autoscalers are told.
    board: Arc<Board>,
    scrapes: Arc<Counters>,
    /// None when the policy asks for none.
    prefix: Arc<ArcSwapOption<Index>>,
    in_force: Arc<ArcSwap<InForce>>,
    decisions: Arc<DecisionLog>,
    /// What is logged of requests.
    logs: Arc<Logs>,
    /// The namespace and the name of the pool.
    name: [String; 2],
    readiness: watch::Sender<Readiness>,
    /// Ends the taking of new streams.
    close: CancellationToken,
    /// The life signs of the data and the control runtime.
    pulses: [Arc<Pulse>; 2],
}

impl App {
    /// A picker as the flags say, with the plugins of this crate.
    pub fn new(flags: Flags) -> Self {
        Self {
            flags,
            tables: vec![PLUGINS],
            source: None,
            log_level: None,
            recorder: None,
            traces: None,
            tracer: None,
        }
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

    /// Sends traces there, unless a flag forbids it; none are sent otherwise.
    #[must_use]
    pub fn with_traces(mut self, traces: Option<Traces>) -> Self {
        self.traces = traces.filter(|_| self.flags.traces.tracing);
        self
    }

    /// Starts to serve: streams on `data`, the rest on `control`.
    ///
    /// # Errors
    /// When the configuration is bad or a port is taken; nothing runs then.
    pub async fn start(mut self, data: Handle, control: Handle) -> Result<Running, StartError> {
        let (resolved, text) = configuration::read(&self.flags, &self.tables)?;
        let source = Source::of(&self.flags, &resolved, self.source.take()).await?;
        let Source { namespace, pool, .. } = &source;
        let name = pool.clone();
        let limits = configuration::limits(&self.flags, &resolved);
        let metrics = Metrics::new(namespace, pool, self.flags.listen.enable_grpc_stream_metrics)
            .map_err(anyhow::Error::new)?;
        let (events, queue) = mpsc::channel(publisher::QUEUE);
        let parts = Parts {
            logs: logs(&self.flags, &metrics),
            metrics,
            pool: Arc::default(),
            events,
            budget: Budget::new(configuration::size(limits.body_budget)),
            flow: Arc::default(),
            board: Arc::new(Board::new(resolved.autoscaling)),
            scrapes: Arc::default(),
            prefix: Arc::new(resolved.prefix.clone().map(prefix_index).into()),
            in_force: Arc::new(ArcSwap::from_pointee(InForce::first(resolved.document.clone()))),
            decisions: decision_log(&self.flags),
            name: [namespace, pool].map(String::clone),
            readiness: watch::Sender::default(),
            close: CancellationToken::new(),
            pulses: [Arc::default(), Arc::default()],
        };
        parts.show_pool()?;
        source.register(&parts.metrics)?;
        let guard = metrics_port::guard(&self.flags, &source)?;
        let (recorder, recording) = recording::begin(&self.flags, &parts)?.unzip();
        self.recorder = recorder;
        let (tracer, tracing) = traces::begin(self.traces.as_ref(), &parts, &control).unzip();
        self.tracer = tracer;
        let mut listeners = {
            let _on_control = control.enter();
            Listeners::bind(&self.flags, guard)?
        };
        let addresses = listeners.addresses().map_err(anyhow::Error::new)?;
        let mut supervisor = Supervisor::new(data, control);
        scaling::run(&parts, listeners.keda.take(), pool, &mut supervisor);
        let scraping = self.watch_pool(source, &resolved, (&parts, queue), &mut supervisor)?;
        let discovery = resolved.discovery.clone();
        let picker = self.serve(resolved, limits, listeners, (&parts, &mut supervisor)).await?;
        if let Some((director, _)) = &picker {
            watch_fullness(director, &parts.metrics, &name)?;
        }
        let parts = Arc::new(parts);
        let stopping = Stopping::of(&parts, self.flags.listen.drain_timeout);
        if let (Some(path), Some(text)) = (self.flags.pool.config_file.clone(), text)
            && let Some((director, streams)) = picker
        {
            let (file, flags, tables) = (Watched::told(path, text), self.flags, self.tables);
            let reload =
                Reload { file, flags, tables, discovery, parts, director, streams, scraping };
            supervisor.run(Plane::Control, "configuration", reload.run());
        }
        Ok(Running { addresses, supervisor, stopping, recording, tracing })
    }

    /// Starts what keeps the pool current: its source, its writer, the scraper.
    fn watch_pool(
        &self,
        source: Source,
        resolved: &Resolved,
        (parts, queue): (&Parts, mpsc::Receiver<Event>),
        tasks: &mut Supervisor,
    ) -> Result<Scraping, StartError> {
        let events = parts.events.clone();
        let members = watch::Sender::new(Arc::default());
        let (sources, counters) = (resolved.sources.clone(), Arc::clone(&parts.scrapes));
        let probes = parts.metrics.life.probes.clone();
        let scraping = Scraping::new(&self.flags, sources, events, counters, probes);
        let scraping =
            scraping.map_err(|error| StartError::Setup(format!("dataLayer.sources: {error}")))?;
        tasks.run(Plane::Control, "scraper", scraping.run(members.subscribe()));
        let published = Published {
            snapshot: Arc::clone(&parts.pool),
            members,
            readiness: parts.readiness.clone(),
            prefix: Arc::clone(&parts.prefix),
            life: parts.metrics.life.clone(),
        };
        let judging = Judging {
            quarantined: self.flags.life.max_quarantined,
            warm_up: self.flags.life.warm_up,
        };
        let state = State::new(self.flags.scrape.metrics_staleness_threshold).judging(judging);
        tasks.run(Plane::Control, "pool", publish(state, queue, published));
        source.follow(parts, tasks);
        Ok(scraping)
    }

    /// Starts the servers; returns what decides and how streams are served, where something is decided.
    async fn serve(
        &self,
        resolved: Resolved,
        limits: Limits,
        listeners: Listeners,
        (parts, tasks): (&Parts, &mut Supervisor),
    ) -> Result<Option<Deciding>, StartError> {
        let health = Health::new(parts.readiness.subscribe(), &parts.pulses).await;
        let mut routes = Routes::builder();
        let streams = Arc::clone(&parts.metrics.streams);
        let sizes = Sizes {
            received: self.flags.listen.grpc_max_recv_msg_size,
            sent: self.flags.listen.grpc_max_send_msg_size,
        };
        routes.add_service(health.service());
        let routes = routes.routes();
        let refused = parts.metrics.connections.refused.clone();
        let incoming = Incoming::new(listeners.grpc, listeners.security, refused);
        let close = parts.close.clone().cancelled_owned();
        let per_connection = server::Limits {
            streams: self.flags.listen.max_concurrent_streams,
            ..server::Limits::default()
        };
        let deciding = if self.flags.listen.null {
            let service = Service::new(Null, streams, sizes, routes);
            let serving = server::serve_grpc(incoming, service, per_connection, close);
            tasks.run(Plane::Data, stop::STREAMS, serving);
            None
        } else {
            let picker = self.picker(resolved, &limits, parts);
            let deciding = (Arc::clone(&picker.director), Arc::clone(&picker.settings));
            let service = Service::new(picker, streams, sizes, routes);
            let serving = server::serve_grpc(incoming, service, per_connection, close);
            tasks.run(Plane::Data, stop::STREAMS, serving);
            Some(deciding)
        };
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
        let decisions = deciding.clone().map(|(director, settings)| {
            let log = Some(Arc::clone(&parts.decisions));
            Decisions { director, settings, log }
        });
        listeners.plain.serve(&health, parts, (self.log_level.clone(), decisions), tasks);
        tasks.run(Plane::Control, "health", health.follow());
        Ok(deciding)
    }

    fn picker(&self, resolved: Resolved, limits: &Limits, parts: &Parts) -> Picker {
        let how = configuration::deciding(&self.flags, &resolved, limits);
        let settings =
            configuration::streaming(&self.flags, &resolved, limits, &parts.budget, &parts.flow);
        let (pool, metrics) = (Arc::clone(&parts.pool), Arc::clone(&parts.metrics));
        metrics.configuration.started(clock::unix_seconds());
        let director = Director::new(pool, configuration::policy(resolved), metrics, how);
        let director = match parts.prefix.load_full() {
            Some(prefix) => director.with_prefix(prefix),
            None => director,
        };
        let director = director.with_log(Arc::clone(&parts.decisions));
        let settings = Arc::new(ArcSwap::from_pointee(settings));
        let (recorder, tracer) = (self.recorder.clone(), self.tracer.clone());
        let logs = Arc::clone(&parts.logs);
        Picker { director: Arc::new(director), settings, logs, recorder, tracer }
    }
}

impl Parts {
    /// Shows what is known of the pool among the metrics.
    fn show_pool(&self) -> anyhow::Result<()> {
        let sources = pool_metrics::Sources {
            pool: Arc::clone(&self.pool),
            budget: Arc::clone(&self.budget),
            scrapes: Arc::clone(&self.scrapes),
            prefix: Arc::clone(&self.prefix),
            attempts: Arc::clone(&self.metrics.attempts),
        };
        let [namespace, pool] = &self.name;
        Ok(self.metrics.register(Box::new(PoolMetrics::new(sources, namespace, pool)?))?)
    }
}

/// Shows how full the pool of this name is.
fn watch_fullness(director: &Arc<Director>, metrics: &Metrics, pool: &str) -> anyhow::Result<()> {
    let saturation = Saturation::new(Arc::downgrade(director), pool)?;
    Ok(metrics.register(Box::new(saturation))?)
}

/// Keeps nothing but while somebody watches, where none is asked for.
fn decision_log(flags: &Flags) -> Arc<DecisionLog> {
    Arc::new(DecisionLog::new(flags.decisions.decision_log.unwrap_or_default()))
}

fn logs(flags: &Flags, metrics: &Metrics) -> Arc<Logs> {
    let requests = RequestLog::new(flags.log.request_log, metrics.request_log.clone());
    Arc::new(Logs { faults: Said::default(), requests })
}

fn prefix_index(settings: crate::prefix::Settings) -> Arc<Index> {
    Arc::new(Index::new(settings, fastrand::u64(..)))
}
