//! Lodesman, the endpoint picker for Kubernetes inference gateways.
//!
//! # Bird's-eye view
//!
//! A gateway (Envoy) opens one gRPC stream to us for every HTTP request: the ext_proc protocol. We read the request's
//! headers and body as they pass, choose the model server that will answer it soonest, and name it in a header and in
//! dynamic metadata; then we watch the answer pass. What we know of the servers comes from their metrics pages, and from
//! what we ourselves have in flight on them.
//!
//! ```text
//!              metrics pages               ext_proc streams
//!                    │                            │
//!  k8s, discovery ▶ scrape                  server::grpc           shell: I/O, clock, dice
//!        └────┬──────┘                            │
//!  ───────────│───────────────────────────────────│──────────────────────────────────────
//!         pool::State ──▶ Snapshot ──▶ director ◀─▶ extproc        core: pure, synchronous
//!                                         │           │
//!                                 schedule, prefix  request
//! ```
//!
//! # The ladder
//!
//! A module uses only modules below it; `tests/architecture.rs` holds the table and fails on an upward import.
//!
//! | module | core | what it is |
//! |---|---|---|
//! | [`cli`] | | the command line: which command, with what exit code |
//! | [`app`] | | builds everything, in order; starts and stops it; follows the configuration file |
//! | [`server`] | | listeners: ext_proc, health, metrics, admin |
//! | [`scrape`], [`k8s`], [`discovery`] | | metrics pages, objects of Kubernetes, endpoint lists |
//! | [`telemetry`] | | logs, the file of a recording, and what sends traces |
//! | [`replay`] | | traces on simulated servers, in virtual time |
//! | [`sim`] | its engine | simulated model servers |
//! | [`config`] | | command line and file, resolved into parts |
//! | [`extproc`] | yes | the protocol as a state machine |
//! | [`flow`] | yes | requests that wait for the first endpoint |
//! | [`director`] | yes | the path of one request to its decision |
//! | [`schedule`] | yes | profiles, filters, scorers, pickers, and the table of them |
//! | [`recording`] | yes | what is recorded of requests |
//! | [`spans`] | yes | what traces tell of requests |
//! | [`scale`] | yes | how many replicas a pool needs |
//! | [`prefix`] | yes | who has which part of a prompt in its cache |
//! | [`pool`] | yes | what is known of the endpoints |
//! | [`request`] | yes | what bodies say |
//! | [`metrics`] | yes | every family as a typed field |
//! | [`units`] | yes | durations and sizes as Go programs spell them |
//! | [`wire`] | yes | the generated messages |
//!
//! Core modules do no I/O, read no clock and roll no dice: the time and a random number are arguments. So the same code
//! runs in production, in tests and in virtual time.
//!
//! # Life of a request
//!
//! 1. [`server::grpc`] polls the stream; a message goes to the exchange ([`extproc::Exchange::receive`]).
//! 2. Headers are read once; the body is held as slices of the receive buffer, and scanned and hashed as it arrives
//!    ([`request::Scan`], [`prefix::Hashing`]).
//! 3. At the end of the body the exchange finds out how urgent the request is and which model is asked for
//!    ([`pool::Routes`]), and asks ([`director::Ask`]); the director loads one [`pool::Snapshot`] and the
//!    [`director::Policy`] in force, screens the pool by the gateway's subset and by who answers at all, and lets the
//!    [`schedule::Handler`] choose the profile. It sheds a request of low priority if nobody has room
//!    ([`schedule::Detector`], [`schedule::Admitter`]), finds who has how much of the prompt ([`prefix::Index`]) and runs
//!    the [`schedule::Profile`]: filters, weighted scorers, picker. What each of them said is kept where somebody wants
//!    to know ([`schedule::Trace`], [`director::DecisionLog`]).
//!    While the pool has no endpoint the request may wait for the first ([`flow::Flow`]).
//! 4. The chosen endpoint is charged ([`pool::InFlight`]) and counts as having the prompt, and the exchange replies:
//!    headers as a difference, the body as it came.
//! 5. The answer is sent on at once, piece by piece; usage is read from it as it passes ([`request::AnswerReader`])
//!    and corrects what is believed of the endpoint's cache, and of the length of prompts ([`director::Report`]).
//! 6. When the stream is gone, however it went, the charge is released and the request counted under one outcome. Where
//!    that is asked for it has a line in the log ([`server::request_log`]), spans are made of it ([`spans::Tracer`]), and
//!    it is handed to the writer of the recording ([`recording::Recorder`]).
//!
//! # Invariants
//!
//! - A decision reads one immutable snapshot; one task writes it.
//! - Every byte of a body is sent on once, in order, or the request is refused, once.
//! - A request is charged to one endpoint from its decision to the end of its stream.
//! - A fault of ours ends in a pick; only a failed *filter* under fail-close refuses.
//! - No prompt text is in a log, a metric, a trace or a debug output.
//! - Every queue, map and buffer has a bound, and its doc comment says what happens there.
//!
//! # A newcomer's path
//!
//! `schedule/scorer/queue.rs` (a whole plugin), `schedule/scorer/expected_ttft.rs` (the default policy),
//! [`schedule::profile`], [`director`], [`extproc`], `pool/state.rs`,
//! [`app`]: about a thousand lines, and the rest are leaves.

pub mod app;
pub mod cli;
pub mod config;
pub mod director;
pub mod discovery;
pub mod extproc;
pub mod flow;
pub mod k8s;
pub mod metrics;
pub mod pool;
pub mod prefix;
pub mod recording;
pub mod replay;
pub mod request;
pub mod scale;
pub mod schedule;
pub mod scrape;
pub mod server;
pub mod sim;
pub mod spans;
pub mod telemetry;
pub mod units;
pub mod wire;
