//! The ports, bound before anything is served.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use serde::Serialize;
use tokio::net::TcpListener;
use tonic::service::Routes;

use crate::app::supervisor::{Plane, Supervisor};
use crate::app::{Parts, StartError};
use crate::config::document::Document;
use crate::config::{Flags, TlsVersion};
use crate::pool::Dump;
use crate::server::admin::{self, Decisions};
use crate::server::health::Health;
use crate::server::http::{self, LogLevel};
use crate::server::listener::{Security, bind, bind_to};
use crate::server::tls::{CipherSuites, MinVersion, Tls, TlsSettings};
use crate::server::{clock, listener};
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
}

/// Ports that are bound and not yet served.
pub(super) struct Listeners {
    pub(super) grpc: TcpListener,
    pub(super) security: Security,
    /// Follows the certificate; none when only plaintext is served.
    pub(super) tls: Option<Tls>,
    pub(super) plain: Plain,
}

/// The ports without TLS.
pub(super) struct Plain {
    health: TcpListener,
    metrics: TcpListener,
    admin: TcpListener,
}

impl Listeners {
    /// Binds all ports. Must be called inside a runtime.
    pub(super) fn bind(flags: &Flags) -> Result<Self, StartError> {
        let (security, tls) = security(flags)?;
        let listen = &flags.listen;
        let plain = Plain {
            health: taken(
                "grpc-health-port",
                listen.grpc_health_port,
                bind(listen.grpc_health_port),
            )?,
            metrics: taken("metrics-port", listen.metrics_port, bind(listen.metrics_port))?,
            admin: taken(
                "admin-port",
                listen.admin_port,
                bind_to((listen.admin_address, listen.admin_port).into()),
            )?,
        };
        let grpc = taken("grpc-port", listen.grpc_port, bind(listen.grpc_port))?;
        Ok(Self { grpc, security, tls, plain })
    }

    /// Where they are bound.
    pub(super) fn addresses(&self) -> io::Result<Addresses> {
        Ok(Addresses {
            grpc: self.grpc.local_addr()?,
            health: self.plain.health.local_addr()?,
            metrics: self.plain.metrics.local_addr()?,
            admin: self.plain.admin.local_addr()?,
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
        tasks.spawn(Plane::Control, "health port", async move {
            Ok(crate::server::serve_grpc(
                incoming,
                routes,
                crate::server::Limits::default(),
                std::future::pending(),
            )
            .await?)
        });
        let metrics = Arc::clone(&parts.metrics);
        let page = move || metrics.page().unwrap_or_else(|error| format!("# {error}\n"));
        let pages = http::metrics_router(page, health.clone());
        tasks.run(
            Plane::Control,
            "metrics port",
            http::serve_http(self.metrics, pages, std::future::pending()),
        );
        let pool = Arc::clone(&parts.pool);
        let in_force = Arc::clone(&parts.in_force);
        let shown = move || Shown {
            pool: pool.load().dump(clock::now()),
            configuration: in_force.load().document().clone(),
        };
        let insight = http::admin_router(shown, changeable(log_level));
        let in_force = Arc::clone(&parts.in_force);
        let insight =
            insight.merge(http::json_page("/debug/config", move || in_force.load().shown()));
        let insight = match decisions {
            Some(decisions) => insight.merge(admin::decisions_router(decisions)),
            None => insight,
        };
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
}

fn changeable(level: Option<telemetry::LogLevel>) -> LogLevel {
    let (read, write) = (level.clone(), level);
    LogLevel {
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
    let bad =
        |error: &dyn std::error::Error| StartError::Setup(format!("--tls-cipher-suites: {error}"));
    let settings = TlsSettings {
        directory: flags.tls.cert_path.clone(),
        names: Vec::new(),
        min_version: match flags.tls.tls_min_version {
            TlsVersion::Tls12 => MinVersion::Tls12,
            TlsVersion::Tls13 => MinVersion::Tls13,
        },
        cipher_suites: flags
            .tls
            .tls_cipher_suites
            .join(",")
            .parse::<CipherSuites>()
            .map_err(|error| bad(&error))?,
    };
    let tls = Tls::new(&settings).map_err(|error| {
        let source =
            std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        StartError::Setup(format!("{error}{source}"))
    })?;
    let security = match flags.tls.secure_serving {
        Some(_) => Security::TlsOnly(tls.config()),
        None => Security::Both(tls.config()),
    };
    Ok((security, Some(tls)))
}

/// Names the flag of a port that cannot be bound.
fn taken(flag: &str, port: u16, bound: io::Result<TcpListener>) -> Result<TcpListener, StartError> {
    bound.map_err(|error| StartError::Setup(format!("--{flag} {port}: {error}")))
}
