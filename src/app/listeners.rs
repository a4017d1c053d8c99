//! The ports, bound before anything is served.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use hyper_util::service::TowerToHyperService;
use serde::Serialize;
use tokio::net::TcpListener;
use tonic::service::Routes;

use crate::app::metrics_port::MetricsPort;
use crate::app::supervisor::{Plane, Supervisor};
use crate::app::{Parts, StartError};
use crate::config::document::Document;
use crate::config::{Flags, TlsVersion};
use crate::pool::Dump;
use crate::server::admin::{self, Decisions};
use crate::server::drain::Drains;
use crate::server::guard::Guard;
use crate::server::health::Health;
use crate::server::http::{self, Setting};
use crate::server::listener::{Security, bind, bind_to};
use crate::server::overview;
use crate::server::picker::Logs;
use crate::server::tls::{CipherSuites, MinVersion, Tls, TlsSettings};
use crate::server::{clock, listener, web};
use crate::telemetry;

/// Where each port is bound.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    /// ext_proc and gRPC health.
    pub grpc: SocketAddr,
    /// gRPC health alone.
    pub health: SocketAddr,
    /// Metrics and HTTP probes.
    pub metrics: SocketAddr,
    /// Insight, for operators.
    pub admin: SocketAddr,
    /// The external scaler of KEDA; none where nobody asked for one.
    pub keda: Option<SocketAddr>,
}

/// Ports that are bound and not yet served.
pub(super) struct Listeners {
    pub(super) grpc: TcpListener,
    pub(super) security: Security,
    /// Follows the certificate; none when only plaintext is served.
    pub(super) tls: Option<Tls>,
    pub(super) plain: Plain,
    /// For the external scaler of KEDA.
    pub(super) keda: Option<TcpListener>,
}

/// The ports beside that of streams; without TLS, but for metrics where it is asked for.
pub(super) struct Plain {
    health: TcpListener,
    metrics: MetricsPort,
    admin: TcpListener,
}

impl Listeners {
    /// Binds all ports; `guard` says who may read metrics. Must be called inside a runtime.
    pub(super) fn bind(flags: &Flags, guard: Option<Guard>) -> Result<Self, StartError> {
        let (security, tls) = security(flags)?;
        let listen = &flags.listen;
        let metrics = taken("metrics-port", listen.metrics_port, bind(listen.metrics_port))?;
        let plain = Plain {
            health: taken(
                "grpc-health-port",
                listen.grpc_health_port,
                bind(listen.grpc_health_port),
            )?,
            metrics: MetricsPort::new(flags, metrics, guard)?,
            admin: taken(
                "admin-port",
                listen.admin_port,
                bind_to((listen.admin_address, listen.admin_port).into()),
            )?,
        };
        let grpc = taken("grpc-port", listen.grpc_port, bind(listen.grpc_port))?;
        let keda = listen.keda_port.map(|port| taken("keda-port", port, bind(port))).transpose()?;
        Ok(Self { grpc, security, tls, plain, keda })
    }

    /// Where they are bound.
    pub(super) fn addresses(&self) -> io::Result<Addresses> {
        Ok(Addresses {
            grpc: self.grpc.local_addr()?,
            health: self.plain.health.local_addr()?,
            metrics: self.plain.metrics.address()?,
            admin: self.plain.admin.local_addr()?,
            keda: self.keda.as_ref().map(TcpListener::local_addr).transpose()?,
        })
    }
}

impl Plain {
    /// Serves them.
    pub(super) fn serve(
        self,
        health: &Health,
        parts: &Parts,
        (log_level, decisions): (Option<telemetry::LogLevel>, Option<Decisions>),
        tasks: &mut Supervisor,
    ) {
        let mut routes = Routes::builder();
        routes.add_service(health.service());
        let routes = routes.routes();
        let incoming = listener::Incoming::new(
            self.health,
            Security::PlainOnly,
            parts.metrics.connections.refused.clone(),
        );
        let serving = crate::server::serve_grpc(
            incoming,
            TowerToHyperService::new(routes),
            crate::server::Limits::default(),
            std::future::pending(),
        );
        tasks.run(Plane::Control, "health port", serving);
        let drains = Drains::new(Arc::clone(&parts.pool), parts.events.clone());
        self.metrics.serve((health, parts), drains.wait_router(), tasks);
        let pool = Arc::clone(&parts.pool);
        let in_force = Arc::clone(&parts.in_force);
        let shown = move || Shown {
            pool: pool.load().dump(clock::now()),
            configuration: in_force.load().document().clone(),
            without: ["caches of endpoints", "adapters in flight", "sessions"],
        };
        let insight = http::json_page("/debug/snapshot", shown)
            .merge(http::setting_page("/debug/log-level", changeable(log_level)))
            .merge(http::setting_page("/debug/request-log", logged(&parts.logs)))
            .merge(drains.order_router());
        let in_force = Arc::clone(&parts.in_force);
        let insight =
            insight.merge(http::json_page("/debug/config", move || in_force.load().shown()));
        let insight = insight.merge(overview::router(overview::Sources {
            pool: Arc::clone(&parts.pool),
            name: parts.name.clone(),
            metrics: Arc::clone(&parts.metrics),
            readiness: parts.readiness.subscribe(),
            log: decisions.as_ref().and_then(|decisions| decisions.log.clone()),
            since: clock::now(),
        }));
        let insight = match decisions {
            Some(decisions) => insight.merge(admin::decisions_router(decisions)),
            None => insight,
        };
        let insight = insight.merge(web::router());
        let local = self.admin.local_addr().is_ok_and(|address| address.ip().is_loopback());
        let insight = if local { admin::local_only(insight) } else { insight };
        tasks.run(
            Plane::Control,
            "admin port",
            http::serve_http(self.admin, insight, std::future::pending()),
        );
    }
}

/// What `/debug/snapshot` shows: what is known of the pool, and the configuration in force. Enough to explain decisions by
/// elsewhere, but for what endpoints have in their caches.
#[derive(Debug, Serialize)]
struct Shown {
    #[serde(flatten)]
    pool: Dump,
    configuration: Document,
    /// What decisions know besides, and is not here.
    without: [&'static str; 3],
}

/// Of which requests the log tells.
fn logged(logs: &Arc<Logs>) -> Setting {
    let (read, write) = (Arc::clone(logs), Arc::clone(logs));
    Setting {
        read: Arc::new(move || read.requests.sampling().to_string()),
        write: Arc::new(move |text| {
            write.requests.tell_of(text).map_err(|error| error.to_string())
        }),
    }
}

fn changeable(level: Option<telemetry::LogLevel>) -> Setting {
    let (read, write) = (level.clone(), level);
    Setting {
        read: Arc::new(move || read.as_ref().map(telemetry::LogLevel::get).unwrap_or_default()),
        write: Arc::new(move |text| match &write {
            Some(level) => level.set(text).map_err(|error| error.to_string()),
            None => Err("there is no log".to_owned()),
        }),
    }
}

fn security(flags: &Flags) -> Result<(Security, Option<Tls>), StartError> {
    if flags.tls.secure_serving == Some(false) {
        return Ok((Security::PlainOnly, None));
    }
    let directory = flags.tls.cert_path.clone();
    let tls = tls(&TlsSettings { directory, ..tls_settings(flags)? })?;
    let security = match flags.tls.secure_serving {
        Some(_) => Security::TlsOnly(tls.config()),
        None => Security::Both(tls.config()),
    };
    Ok((security, Some(tls)))
}

/// What the flags say of TLS on any port.
pub(super) fn tls_settings(flags: &Flags) -> Result<TlsSettings, StartError> {
    let suites = flags.tls.tls_cipher_suites.join(",").parse::<CipherSuites>();
    let suites =
        suites.map_err(|error| StartError::Setup(format!("--tls-cipher-suites: {error}")))?;
    Ok(TlsSettings {
        min_version: match flags.tls.tls_min_version {
            TlsVersion::Tls12 => MinVersion::Tls12,
            TlsVersion::Tls13 => MinVersion::Tls13,
        },
        cipher_suites: suites,
        ..TlsSettings::default()
    })
}

/// The TLS side of a port.
pub(super) fn tls(settings: &TlsSettings) -> Result<Tls, StartError> {
    Tls::new(settings).map_err(|error| {
        let source =
            std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        StartError::Setup(format!("{error}{source}"))
    })
}

/// Names the flag of a port that cannot be bound.
fn taken(flag: &str, port: u16, bound: io::Result<TcpListener>) -> Result<TcpListener, StartError> {
    bound.map_err(|error| StartError::Setup(format!("--{flag} {port}: {error}")))
}
