//! The port of metrics and HTTP probes: who may read the page, and whether by TLS.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use axum::Router;
use tokio::net::TcpListener;

use crate::app::listeners::{tls, tls_settings};
use crate::app::sources::Source;
use crate::app::supervisor::{Plane, Supervisor};
use crate::app::{Parts, StartError};
use crate::config::Flags;
use crate::k8s::{Judged, Reviews};
use crate::server::guard::{Denial, Guard};
use crate::server::health::Health;
use crate::server::http;
use crate::server::tls::{Alpn, Tls, TlsSettings};

/// The path that the bearer of a token must have the right to get.
const PAGE: &str = "/metrics";

/// The port, bound and not yet served.
pub(super) struct MetricsPort {
    listener: TcpListener,
    /// None where it is plaintext.
    tls: Option<Tls>,
    guard: Option<Guard>,
    /// Whether the deprecated names of metrics are shown.
    old_names: bool,
}

impl MetricsPort {
    pub(super) fn new(
        flags: &Flags,
        listener: TcpListener,
        guard: Option<Guard>,
    ) -> Result<Self, StartError> {
        let (certificate, clients) = (flags.metrics.certificate(), flags.metrics.clients());
        let tls = match (certificate, clients) {
            (None, None) => None,
            (None, Some(file)) => return Err(plaintext(file)),
            (Some(directory), clients) => Some(tls(&TlsSettings {
                directory: Some(directory.to_owned()),
                clients: clients.map(Path::to_owned),
                alpn: Alpn::Http1,
                ..tls_settings(flags)?
            })?),
        };
        Ok(Self { listener, tls, guard, old_names: flags.metrics.legacy_metrics })
    }

    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves it, with `more` pages that are open to all.
    pub(super) fn serve(
        self,
        (health, parts): (&Health, &Parts),
        more: Router,
        tasks: &mut Supervisor,
    ) {
        let Self { listener, tls, guard, old_names } = self;
        let metrics = Arc::clone(&parts.metrics);
        let page = move || {
            let page = if old_names { metrics.page_with_old_names() } else { metrics.page() };
            page.unwrap_or_else(|error| format!("# {error}\n"))
        };
        let pages = http::metrics_router(page, guard, health.clone()).merge(more);
        let Some(tls) = tls else {
            let serving = http::serve_http(listener, pages, pending());
            return tasks.run(Plane::Control, "metrics port", serving);
        };
        let serving = http::serve_https(listener, pages, tls.config(), pending());
        tasks.run(Plane::Control, "metrics port", serving);
        let reloads = parts.metrics.connections.tls_reloads.clone();
        tasks.run(Plane::Control, "metrics certificate", async move { tls.follow(reloads).await });
    }
}

/// Why clients of a port without TLS cannot show a certificate.
fn plaintext(file: &Path) -> StartError {
    let file = file.display();
    StartError::Setup(format!(
        "--metrics-client-ca-file {file} needs TLS: give --metrics-cert-dir too, with tls.crt and tls.key"
    ))
}

/// Who may read the page: as the API server says where there is one, unless it is open to all.
///
/// # Errors
/// When an API server is to be asked and there is none.
pub(super) fn guard(flags: &Flags, source: &Source) -> Result<Option<Guard>, StartError> {
    let asked = flags.metrics.endpoint_auth;
    match (asked, source.client()) {
        (Some(false), _) | (None, None) => Ok(None),
        (_, Some(client)) => Ok(Some(reviewed(Reviews::new(client, PAGE)))),
        (Some(true), None) => Err(StartError::Setup(
            "--metrics-endpoint-auth asks a Kubernetes API server, and there is none: leave it out, or give \
             --metrics-client-ca-file to let in clients by their certificates"
                .to_owned(),
        )),
    }
}

fn reviewed(reviews: Reviews) -> Guard {
    let reviews = Arc::new(reviews);
    Arc::new(move |token: String| {
        let reviews = Arc::clone(&reviews);
        Box::pin(async move {
            match reviews.judge(&token).await {
                Judged::Allowed => Ok(()),
                Judged::Nobody => Err(Denial::Unauthenticated),
                Judged::Forbidden(reason) => Err(Denial::Forbidden(reason)),
                Judged::Unknown(reason) => Err(Denial::Unknown(reason)),
            }
        })
    })
}
