//! Sends spans to a receiver by OTLP over gRPC.
//!
//! A task of the control runtime makes spans of the requests that wait for it and sends them in batches. A batch that is
//! not taken is counted and gone: nothing waits for a receiver but the next batch.

use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::metadata::{AsciiMetadataKey, MetadataMap};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Request, Status};

use crate::config::Traces;
use crate::metrics::TraceMetrics;
use crate::spans::Making;
use crate::wire::otlp::trace_service_client::TraceServiceClient;
use crate::wire::otlp::{ExportTraceServiceRequest, Resource, ResourceSpans, Span};

use self::encode::Times;

mod encode;
#[cfg(test)]
mod tests;

/// Spans of one call, about.
const BATCH: usize = 512;

/// How long the first request of a batch waits for others.
const GATHER: Duration = Duration::from_secs(1);

/// Time to connect.
const CONNECT: Duration = Duration::from_secs(5);

/// Between two pings to a receiver that is to be known to live, and for the answer to one.
const PINGS: Duration = Duration::from_secs(20);

/// Reads the clocks.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// The time that requests are told by.
    pub now: fn() -> Instant,
    /// The time of the calendar: since 1970.
    pub calendar: fn() -> Duration,
}

/// Sends spans.
#[derive(Debug)]
pub struct Exporter {
    client: TraceServiceClient<Channel>,
    headers: MetadataMap,
    resource: Resource,
    timeout: Duration,
    clocks: Clocks,
    metrics: TraceMetrics,
    /// Whether the receiver took the last batch.
    taken: bool,
}

/// Why nothing can be sent.
#[derive(Debug, thiserror::Error)]
pub enum ExporterError {
    /// The file of authorities cannot be read.
    #[error("{0}: {1}")]
    Certificate(String, std::io::Error),
    /// A header that is none.
    #[error("the header {0} cannot be sent")]
    Header(String),
    /// A URL or certificates that no connection can be made with.
    #[error("no connection can be made by {0}: {1}")]
    Endpoint(String, tonic::transport::Error),
}

impl Exporter {
    /// An exporter that connects when it has something to send. To be called within a runtime.
    ///
    /// # Errors
    /// When it never could.
    pub fn new(
        traces: &Traces,
        clocks: Clocks,
        metrics: TraceMetrics,
    ) -> Result<Self, ExporterError> {
        let client = TraceServiceClient::new(endpoint(traces)?.connect_lazy());
        let version = encode::attribute("service.version", env!("CARGO_PKG_VERSION"));
        let told = traces.resource.iter();
        let told = told.map(|(name, value)| encode::attribute(name, value.as_str()));
        Ok(Self {
            client,
            headers: headers(traces)?,
            resource: Resource { attributes: told.chain([version]).collect() },
            timeout: traces.timeout,
            clocks,
            metrics,
            taken: true,
        })
    }

    /// Sends until nobody traces any more and all is sent.
    pub async fn run(mut self, mut requests: mpsc::Receiver<Making>) {
        while let Some(first) = requests.recv().await {
            let times = Times::at((self.clocks.now)(), (self.clocks.calendar)());
            let mut batch = (times.encode(first.make()), 1);
            timeout(GATHER, gather(&mut requests, &times, &mut batch)).await.ok();
            let (spans, count) = batch;
            self.send(spans, count).await;
        }
    }

    async fn send(&mut self, spans: Vec<Span>, count: u64) {
        let call = self.client.export(self.request(spans));
        let answer = timeout(self.timeout, call).await;
        match answer.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer in time"))) {
            Ok(answer) => {
                if let Some(refused) = answer.into_inner().partial_success
                    && refused.rejected_spans > 0
                {
                    let (spans, reason) = (refused.rejected_spans, refused.error_message);
                    tracing::warn!(spans, reason, "the receiver of traces refused spans");
                }
                self.metrics.exported.inc_by(count);
                self.heard(None);
            }
            Err(status) => {
                self.metrics.failed.inc_by(count);
                self.heard(Some(&status));
            }
        }
    }

    /// Says so when the receiver stops or begins to take spans.
    fn heard(&mut self, error: Option<&Status>) {
        match error {
            Some(error) if self.taken => {
                tracing::warn!(%error, "the receiver of traces takes none");
            }
            None if !self.taken => tracing::info!("the receiver of traces takes them again"),
            _ => {}
        }
        self.taken = error.is_none();
    }

    fn request(&self, spans: Vec<Span>) -> Request<ExportTraceServiceRequest> {
        let resource_spans = ResourceSpans {
            resource: Some(self.resource.clone()),
            scope_spans: vec![encode::scope(spans)],
        };
        let mut request =
            Request::new(ExportTraceServiceRequest { resource_spans: vec![resource_spans] });
        *request.metadata_mut() = self.headers.clone();
        request
    }
}

/// Adds the requests that come, until there are enough spans for a batch.
async fn gather(
    requests: &mut mpsc::Receiver<Making>,
    times: &Times,
    (spans, count): &mut (Vec<Span>, u64),
) {
    while spans.len() < BATCH
        && let Some(next) = requests.recv().await
    {
        spans.extend(times.encode(next.make()));
        *count += 1;
    }
}

fn endpoint(traces: &Traces) -> Result<Endpoint, ExporterError> {
    let failed = |error| ExporterError::Endpoint(traces.endpoint.clone(), error);
    let endpoint = Endpoint::from_shared(traces.endpoint.clone()).map_err(failed)?;
    let endpoint = endpoint.connect_timeout(CONNECT);
    // A connection that died in silence would be held on to for a quarter of an hour.
    let endpoint = endpoint.http2_keep_alive_interval(PINGS).keep_alive_timeout(PINGS);
    if !traces.endpoint.starts_with("https:") {
        return Ok(endpoint);
    }
    let tls = match &traces.certificate {
        Some(path) => {
            let pem = std::fs::read(path)
                .map_err(|error| ExporterError::Certificate(path.display().to_string(), error))?;
            ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem))
        }
        None => ClientTlsConfig::new().with_native_roots(),
    };
    endpoint.tls_config(tls).map_err(failed)
}

fn headers(traces: &Traces) -> Result<MetadataMap, ExporterError> {
    let mut headers = MetadataMap::new();
    for (name, value) in &traces.headers {
        let failed = || ExporterError::Header(name.clone());
        let key: AsciiMetadataKey = name.to_ascii_lowercase().parse().map_err(|_error| failed())?;
        headers.insert(key, value.parse().map_err(|_error| failed())?);
    }
    Ok(headers)
}
