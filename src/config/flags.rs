//! The command line of a serving `lodesman`: the reference's flags with its defaults, and ours.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};

pub use self::kubernetes::{Kubernetes, PoolGroup};
pub use self::later::Later;
pub use self::life::Life;
pub use self::metrics::Metrics;
pub use self::scrape::{MetricNames, Scrape};

use crate::config::address::Address;
use crate::config::limits::LimitSettings;
use crate::config::target::TargetPorts;
use crate::pool::FailureMode;
use crate::units::{GoDuration, Quantity, Sampling};

mod kubernetes;
mod later;
mod life;
mod metrics;
mod scrape;

/// The default of the largest gRPC message: a body of 64 MiB in one message, and its envelope.
const MESSAGE_BYTES: u64 = 65 << 20;

/// The least gRPC message: the longest piece of a body and its envelope.
const LEAST_MESSAGE_BYTES: u64 = 128 << 10;

/// The least recording: a few of the longest lines.
const LEAST_TRACE_BYTES: u64 = 1 << 20;

/// Flags of a serving process; the last of a repeated one counts.
#[derive(Args, Clone, Debug)]
#[command(args_override_self = true)]
pub struct Flags {
    /// Where to listen.
    #[command(flatten, next_help_heading = "Listeners")]
    pub listen: Listen,
    /// What is on the metrics page.
    #[command(flatten, next_help_heading = "Metrics")]
    pub metrics: Metrics,
    /// How to serve TLS.
    #[command(flatten, next_help_heading = "TLS")]
    pub tls: Tls,
    /// What to serve, and how it is configured.
    #[command(flatten, next_help_heading = "Pool and policy")]
    pub pool: Pool,
    /// What is told of decisions.
    #[command(flatten, next_help_heading = "Decisions")]
    pub decisions: Decisions,
    /// What to serve in Kubernetes.
    #[command(flatten, next_help_heading = "Kubernetes")]
    pub kubernetes: Kubernetes,
    /// How model servers are watched.
    #[command(flatten, next_help_heading = "Scraping")]
    pub scrape: Scrape,
    /// How endpoints live.
    #[command(flatten, next_help_heading = "Endpoints")]
    pub life: Life,
    /// What a request may cost.
    #[command(flatten, next_help_heading = "Limits")]
    pub limits: LimitSettings,
    /// What is logged.
    #[command(flatten, next_help_heading = "Logs")]
    pub log: Log,
    /// What is traced.
    #[command(flatten, next_help_heading = "Traces")]
    pub traces: Tracing,
    /// What is recorded.
    #[command(flatten, next_help_heading = "Recording")]
    pub recording: Recording,
    /// What has no effect.
    #[command(flatten)]
    pub later: Later,
}

/// Listeners.
#[derive(Args, Clone, Debug)]
pub struct Listen {
    /// Port of the gateway's gRPC streams, on all addresses.
    #[arg(long, value_name = "PORT", default_value_t = 9002)]
    pub grpc_port: u16,
    /// Port of gRPC health, on all addresses.
    #[arg(long, value_name = "PORT", default_value_t = 9003)]
    pub grpc_health_port: u16,
    /// Port of metrics and HTTP probes, on all addresses.
    #[arg(long, value_name = "PORT", default_value_t = 9090)]
    pub metrics_port: u16,
    /// Port of the admin pages.
    #[arg(long, value_name = "PORT", default_value_t = 9091)]
    pub admin_port: u16,
    /// Port of the external scaler of KEDA, on all addresses, in plaintext; 9004 in the manifests [default: none].
    #[arg(long, value_name = "PORT")]
    pub keda_port: Option<u16>,
    /// Address of the admin pages; they have no authentication.
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub admin_address: IpAddr,
    /// How long at most requests are still served after SIGTERM, so that gateways go elsewhere first; shorter when
    /// none comes for 5 s.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub drain_timeout: Duration,
    /// Largest gRPC message to receive [default: 65MiB].
    #[arg(long, value_name = "SIZE", default_value = "", hide_default_value = true, value_parser = message_bytes)]
    pub grpc_max_recv_msg_size: usize,
    /// Largest gRPC message to send [default: 65MiB].
    #[arg(long, value_name = "SIZE", default_value = "", hide_default_value = true, value_parser = message_bytes)]
    pub grpc_max_send_msg_size: usize,
    /// Streams of one connection at a time, which are requests of one gateway worker.
    #[arg(long, value_name = "N", default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_concurrent_streams: u32,
    /// Show the reference's metrics of ext_proc streams.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false,
          hide_default_value = true, default_missing_value = "true", action = ArgAction::Set, value_parser = boolean)]
    pub enable_grpc_stream_metrics: bool,
    /// Accepted and without effect: health is always served on the port of the streams too.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_parser = boolean)]
    pub health_checking: Option<bool>,
    /// Decides nothing: answers every message at once, with one destination for all. The floor of a measurement.
    #[arg(long, hide = true)]
    pub null: bool,
}

/// TLS of the gateway's streams.
#[derive(Args, Clone, Debug)]
pub struct Tls {
    /// TLS only, or plaintext only with =false; both on one port, told apart by the first byte, when absent.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_parser = boolean)]
    pub secure_serving: Option<bool>,
    /// Directory with tls.crt and tls.key; a certificate is made when absent.
    #[arg(long, value_name = "DIR", value_parser = path)]
    pub cert_path: Option<PathBuf>,
    /// Accepted and without effect: a changed certificate is always read again.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_parser = boolean)]
    pub enable_cert_reload: Option<bool>,
    /// Least TLS version [default: 1.2].
    #[arg(
        long,
        value_name = "VersionTLS12|VersionTLS13",
        default_value = "",
        hide_default_value = true
    )]
    pub tls_min_version: TlsVersion,
    /// Cipher suites by their names in Go or of IANA, comma separated; all good ones when empty.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub tls_cipher_suites: Vec<String>,
}

/// Pool and policy.
#[derive(Args, Clone, Debug)]
pub struct Pool {
    /// Configuration file (EndpointPickerConfig).
    #[arg(long, value_name = "FILE", value_parser = path, conflicts_with = "config_text")]
    pub config_file: Option<PathBuf>,
    /// The text of a configuration file.
    #[arg(long, value_name = "YAML")]
    pub config_text: Option<String>,
    /// Endpoints to serve, without Kubernetes: `10.0.0.1:8000`, `[fd00::1]:8000`, `host:8000` (all its addresses) or
    /// `_name._tcp.domain` (its SRV records), comma separated.
    #[arg(long, value_name = "ADDRESSES", value_delimiter = ',')]
    pub endpoints: Vec<Address>,
    /// Do not restrict the choice to the endpoints that a gateway names.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false,
          hide_default_value = true, default_missing_value = "true", action = ArgAction::Set, value_parser = boolean)]
    pub disable_endpoint_subset_filter: bool,
    /// Report the scores of the candidates in dynamic metadata.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false,
          hide_default_value = true, default_missing_value = "true", action = ArgAction::Set, value_parser = boolean)]
    pub emit_endpoint_scores: bool,
    /// What a fault of ours means, over the pool's own setting.
    #[arg(long, value_name = "FailOpen|FailClose")]
    pub failure_mode: Option<FailureMode>,
}

/// What is told of decisions.
#[derive(Args, Clone, Debug)]
pub struct Decisions {
    /// Keep what there is to say of the last N decisions, in at most 128MiB: `/debug/decisions` on the admin port shows
    /// them, and `lodesman explain --request-id` [default: the last 100 while `lodesman top` or the web page watches].
    #[arg(long, value_name = "N", value_parser = kept)]
    pub decision_log: Option<usize>,
    /// Tell clients the id of the decision on their request, in the header `x-lodesman-decision` of the answer.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false,
          hide_default_value = true, default_missing_value = "true", action = ArgAction::Set, value_parser = boolean)]
    pub decision_header: bool,
    /// Tell the gateway at the end of each answer, in this namespace of dynamic metadata, where the request went and what it
    /// took (docs/gateway-policies.md); nothing where it is `none`.
    #[arg(long, value_name = "NAMESPACE", default_value = "lodesman")]
    response_metadata_namespace: String,
}

impl Decisions {
    /// The namespace in which the gateway is told of requests; none where it is not.
    pub fn response_metadata_namespace(&self) -> Option<&str> {
        Some(&*self.response_metadata_namespace).filter(|name| !["", "none"].contains(name))
    }
}

/// Logs.
#[derive(Args, Clone, Copy, Debug)]
pub struct Log {
    /// How much to log: 0 errors, 1 warnings, 2 state changes, 3 requests, 5 everything.
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 2)]
    pub verbosity: u8,
    /// Form of the log lines [default: text on a terminal, else json].
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
    /// Requests that have a line in the log when they have ended, at level 2 and more, 100 a second at most: off, errors,
    /// or a share of those without an error such as 0.01. `/debug/request-log` on the admin port changes it.
    #[arg(long, value_name = "off|errors|SHARE", default_value = "off")]
    pub request_log: Sampling,
}

/// Traces.
#[derive(Args, Clone, Copy, Debug)]
pub struct Tracing {
    /// Send traces of requests where `OTEL_TRACES_EXPORTER` or `OTEL_EXPORTER_OTLP_ENDPOINT` asks for them; =false never
    /// does.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = true,
          default_missing_value = "true", action = ArgAction::Set, value_parser = boolean)]
    pub tracing: bool,
}

/// The recording of requests for `lodesman replay`.
#[derive(Args, Clone, Debug)]
pub struct Recording {
    /// Record requests for `lodesman replay`: when they come, lengths, hashes of their blocks under a key that is thrown
    /// away, model, outcome; no text. Ends when the file cannot be written.
    #[arg(long, value_name = "FILE", value_parser = path)]
    pub record_trace: Option<PathBuf>,
    /// Bytes that the recording may have; after half of them it becomes FILE.1 and a new one is begun.
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = trace_bytes)]
    pub record_trace_max_bytes: u64,
}

/// Form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Least version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// 1.2; also where an older one is asked for, which nothing here can serve.
    Tls12,
    /// 1.3.
    Tls13,
}

impl Flags {
    /// The long names of all flags, which [`argv::spelled`](crate::config::argv::spelled) asks for.
    pub fn names() -> Vec<String> {
        let command = Self::augment_args(clap::Command::new(""));
        command.get_arguments().filter_map(|arg| arg.get_long()).map(str::to_owned).collect()
    }

    /// A sentence for each flag that was given and has no effect, or another one, or will have none some day.
    pub fn warnings(&self) -> Vec<String> {
        let ports = self.kubernetes.endpoint_target_ports.as_ref();
        let repeated = ports.and_then(TargetPorts::repeated);
        let repeated = repeated
            .map(|port| format!("--endpoint-target-ports has port {port} twice, it counts once"));
        self.scrape.warnings().chain(repeated).chain(self.later.warnings()).collect()
    }
}

impl FromStr for TlsVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "" | "VersionTLS10" | "VersionTLS11" | "VersionTLS12" | "1.2" => Ok(Self::Tls12),
            "VersionTLS13" | "1.3" => Ok(Self::Tls13),
            _ => Err("give VersionTLS12 or VersionTLS13".to_owned()),
        }
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    text.parse().map(|GoDuration(duration)| duration).map_err(|error| format!("{error}"))
}

/// Empty, as the reference's default is, means our default.
fn message_bytes(text: &str) -> Result<usize, String> {
    let Quantity(bytes) = match text {
        "" => Quantity(MESSAGE_BYTES),
        _ => text.parse().map_err(|error| format!("{error}"))?,
    };
    if bytes < LEAST_MESSAGE_BYTES {
        return Err("give at least 128KiB: a piece of a body must fit".to_owned());
    }
    usize::try_from(bytes).map_err(|error| error.to_string())
}

fn trace_bytes(text: &str) -> Result<u64, String> {
    let Quantity(bytes) = text.parse().map_err(|error| format!("{error}"))?;
    if bytes < LEAST_TRACE_BYTES { Err("give at least 1MiB".to_owned()) } else { Ok(bytes) }
}

/// Go's spellings of a boolean.
fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("give true or false".to_owned()),
    }
}

fn kept(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_error| "give a number of decisions".to_owned())
}

fn path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() { Err("an empty path".to_owned()) } else { Ok(text.into()) }
}

#[cfg(test)]
mod tests;
