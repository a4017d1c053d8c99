//! Families of the gRPC streams.

use std::time::Duration;

use prometheus::{Histogram, IntCounterVec, IntGauge};

use super::{Families, buckets};

/// What happens before a stream is opened.
#[derive(Debug)]
pub struct Connections {
    /// Read-outs of certificates, by result.
    pub tls_reloads: IntCounterVec,
    /// Connections that were not let in, by reason.
    pub refused: IntCounterVec,
}

/// Open and ended streams; the reference's families only when asked for.
#[derive(Debug)]
pub struct StreamMetrics {
    open: IntGauge,
    reference: Option<Reference>,
}

/// The families that the reference shows with `--enable-grpc-stream-metrics`.
#[derive(Debug)]
struct Reference {
    open: IntGauge,
    duration: Histogram,
    total: IntCounterVec,
}

impl Connections {
    pub(super) fn new(new: &Families<'_>) -> prometheus::Result<Self> {
        let counters = |name: &str, help: &str, label| new.counters(name, help, &[label]);
        Ok(Self {
            tls_reloads: counters(
                "lodesman_tls_reload_total",
                "Read-outs of certificates.",
                "result",
            )?,
            refused: counters(
                "lodesman_refused_connections_total",
                "Connections not let in.",
                "reason",
            )?,
        })
    }
}

impl StreamMetrics {
    pub(super) fn new(new: &Families<'_>, reference: bool) -> prometheus::Result<Self> {
        let open = new.gauge("lodesman_streams_inflight", "Open ext_proc streams.")?;
        Ok(Self { open, reference: reference.then(|| Reference::new(new)).transpose()? })
    }

    /// Streams that are open now.
    pub fn open(&self) -> i64 {
        self.open.get()
    }

    /// A stream was opened.
    pub fn began(&self) {
        self.open.inc();
        if let Some(reference) = &self.reference {
            reference.open.inc();
        }
    }

    /// A stream is gone, with a gRPC status by its name.
    pub fn ended(&self, code: &str, duration: Duration) {
        self.open.dec();
        if let Some(reference) = &self.reference {
            reference.open.dec();
            reference.duration.observe(duration.as_secs_f64());
            reference.total.with_label_values(&[code]).inc();
        }
    }
}

impl Reference {
    fn new(new: &Families<'_>) -> prometheus::Result<Self> {
        Ok(Self {
            open: new
                .reference_gauge("llm_d_epp_extproc_streams_inflight", "Open ext_proc streams.")?,
            duration: new.histogram(
                "llm_d_epp_extproc_stream_duration_seconds",
                "How long ext_proc streams were open.",
                buckets::STREAM,
            )?,
            total: new.reference_counters(
                "llm_d_epp_extproc_streams_total",
                "Ended ext_proc streams by gRPC status.",
                &["code"],
            )?,
        })
    }
}
