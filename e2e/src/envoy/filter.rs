//! The `ext_proc` HTTP filter.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::cluster::Picker;
use super::config::{duration, merged, retry_policy};

/// How long Envoy waits for an answer unless told otherwise: longer than its own 200 ms, for a loaded machine and a binary
/// that is not optimized.
const PATIENCE: Duration = Duration::from_secs(5);

/// An `envoy.filters.http.ext_proc` filter.
#[derive(Debug, Clone)]
pub struct ExtProc {
    /// The external processor's cluster; filters with the same cluster name share it.
    pub picker: Picker,
    /// What of the request is sent.
    pub request: Mode,
    /// What of the response is sent.
    pub response: Mode,
    /// Whether requests go on without the processor when it fails.
    pub failure_mode_allow: bool,
    /// Whether the processor only watches: messages are copies and answers are ignored.
    pub observability_mode: bool,
    /// Longest wait for the answer to one message, 5 s unless set (Envoy's own default is 200 ms). Envoy does not apply
    /// it in full duplex.
    pub message_timeout: Option<Duration>,
    /// Times that Envoy opens the stream again on another replica, with a back-off of 5 to 20 ms; 0
    /// is never.
    pub retries: u32,
    /// Attributes sent with the request, for example `source.address`.
    pub request_attributes: Vec<String>,
    /// Attributes sent with the response, for example `response.code_details`.
    pub response_attributes: Vec<String>,
    /// Dynamic metadata namespaces that are sent.
    pub forwarding_namespaces: Vec<String>,
    /// Dynamic metadata namespaces that are accepted.
    pub receiving_namespaces: Vec<String>,
    /// Further fields of the filter in Envoy's JSON form, for example `route_cache_action`,
    /// `allow_mode_override`, `allow_content_length_header`, `status_on_error` or
    /// `deferred_close_timeout`; they win over the fields above.
    pub extra: Map<String, Value>,
}

impl ExtProc {
    /// A filter with the given modes that forwards `envoy.lb.subset_hint` and `envoy.lb`, accepts
    /// `envoy.lb` and `lodesman` and refuses requests when the processor fails.
    pub fn new(picker: Picker, request: Mode, response: Mode) -> Self {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Self {
            picker,
            request,
            response,
            failure_mode_allow: false,
            observability_mode: false,
            message_timeout: Some(PATIENCE),
            retries: 0,
            request_attributes: Vec::new(),
            response_attributes: Vec::new(),
            forwarding_namespaces: names(&["envoy.lb", "envoy.lb.subset_hint"]),
            receiving_namespaces: names(&["envoy.lb", "lodesman"]),
            extra: Map::new(),
        }
    }

    /// Full duplex in both directions over plaintext, as gateways set it up for a picker.
    pub fn full_duplex(address: SocketAddr) -> Self {
        let mode = Mode::with_body(BodyMode::FullDuplexStreamed);
        Self::new(Picker::new([address]), mode, mode)
    }

    pub(super) fn render(&self, at: usize) -> Value {
        let config = json!({
            "@type": "type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor",
            "message_timeout": self.message_timeout.map(duration),
            "grpc_service": {
                "envoy_grpc": {"cluster_name": self.picker.name},
                "retry_policy":
                    retry_policy("connect-failure,refused-stream,unavailable,reset", self.retries),
            },
            "failure_mode_allow": self.failure_mode_allow,
            "observability_mode": self.observability_mode,
            "processing_mode": {
                "request_header_mode": self.request.headers.name(),
                "request_body_mode": self.request.body.name(),
                "request_trailer_mode": self.request.trailers.name(),
                "response_header_mode": self.response.headers.name(),
                "response_body_mode": self.response.body.name(),
                "response_trailer_mode": self.response.trailers.name(),
            },
            "request_attributes": self.request_attributes,
            "response_attributes": self.response_attributes,
            "metadata_options": {
                "forwarding_namespaces": {"untyped": self.forwarding_namespaces},
                "receiving_namespaces": {"untyped": self.receiving_namespaces},
            },
        });
        let config = merged(config, &self.extra);
        json!({"name": format!("envoy.filters.http.ext_proc.{at}"), "typed_config": config})
    }
}

/// What of one direction is sent to the processor.
#[derive(Debug, Clone, Copy)]
pub struct Mode {
    /// The headers.
    pub headers: HeaderMode,
    /// The body.
    pub body: BodyMode,
    /// The trailers.
    pub trailers: HeaderMode,
}

impl Mode {
    /// Nothing.
    pub const SKIP: Self =
        Self { headers: HeaderMode::Skip, body: BodyMode::None, trailers: HeaderMode::Skip };
    /// Headers alone.
    pub const HEADERS: Self =
        Self { headers: HeaderMode::Send, body: BodyMode::None, trailers: HeaderMode::Skip };

    /// Headers and body; trailers in full duplex, where Envoy demands them.
    pub fn with_body(body: BodyMode) -> Self {
        let duplex = body == BodyMode::FullDuplexStreamed;
        let trailers = if duplex { HeaderMode::Send } else { HeaderMode::Skip };
        Self { headers: HeaderMode::Send, body, trailers }
    }
}

/// Whether headers or trailers are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderMode {
    /// They are sent.
    Send,
    /// They are not.
    Skip,
}

impl HeaderMode {
    fn name(self) -> &'static str {
        match self {
            Self::Send => "SEND",
            Self::Skip => "SKIP",
        }
    }
}

/// How a body is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyMode {
    /// Not at all.
    None,
    /// Chunk by chunk, each answered in turn.
    Streamed,
    /// In one message; a body over the buffer limit is answered with 413.
    Buffered,
    /// In one message, cut at the buffer limit.
    BufferedPartial,
    /// Chunk by chunk; the processor owns the body and answers when it likes.
    FullDuplexStreamed,
}

impl BodyMode {
    fn name(self) -> &'static str {
        match self {
            Self::None => "NONE",
            Self::Streamed => "STREAMED",
            Self::Buffered => "BUFFERED",
            Self::BufferedPartial => "BUFFERED_PARTIAL",
            Self::FullDuplexStreamed => "FULL_DUPLEX_STREAMED",
        }
    }
}
