//! Any sequence of messages gets a legal sequence of replies.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use lodesman::config;
use lodesman::director::{Clock, Director, Policy, Settings as How};
use lodesman::extproc::{Budget, Exchange, Next, Settings};
use lodesman::metrics::Metrics;
use lodesman::pool::{EndpointSpec, Event, FailureMode, Routes, Sample, Snapshot, State, Targets};
use lodesman::request::Parsers;
use lodesman::schedule::registry::PLUGINS;
use lodesman::server::clock;
use lodesman::wire::processing_request::Request;
use lodesman::wire::{
    HeaderMap, HeaderValue, HttpBody, HttpHeaders, HttpTrailers, Metadata, ProcessingRequest,
    ProtocolConfiguration,
};
use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prost::Message;

use super::Dice;
use super::ledger::Ledger;

/// Most messages of one stream.
const LONGEST: usize = 40;

/// Longest piece that is sent in one reply.
const CHUNK: usize = 100;

const PATHS: [&str; 6] = [
    "/v1/chat/completions",
    "/v1/messages",
    "/v1/completions",
    "/any",
    "/v1/messages/count_tokens",
    "",
];

const TYPES: [&str; 4] = ["application/json", "text/event-stream", "application/grpc", "image/png"];

const CHAT: &str = r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#;
const ANSWER: &str = r#"{"id":"1","model":"T","usage":{"prompt_tokens":1,"completion_tokens":2}}"#;
const EVENT: &str = "data: {\"model\":\"T\",\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";

const POOL: [&str; 3] = ["10.0.0.1:80", "10.0.0.2:80", "[fd00::1]:80"];

/// Directors over a pool of three, the same with rules and without room, an empty one, and one that is not known yet.
static DIRECTORS: LazyLock<[Arc<Director>; 4]> = LazyLock::new(|| {
    [
        director(snapshot(&POOL), FailureMode::FailClose),
        director(ruled(), FailureMode::FailClose),
        director(snapshot(&[]), FailureMode::FailClose),
        director(Snapshot::default(), FailureMode::FailOpen),
    ]
});

static SETTINGS: LazyLock<Arc<Settings>> = LazyLock::new(|| {
    Arc::new(Settings {
        parsers: Parsers::default(),
        body_limit: 1000,
        budget: Budget::new(2000),
        flow: Arc::default(),
        hold: None,
        chunk_limit: CHUNK,
        header_limit: 1000,
        body_read_timeout: Duration::from_mins(1),
        idle_timeout: None,
        destinations: 1,
        ignore_subset: false,
        report_served: false,
        report_decision: None,
        summary_namespace: Some("lodesman".to_owned()),
    })
});

/// A pool of endpoints at these addresses.
pub(super) fn snapshot(addresses: &[&str]) -> Snapshot {
    state(addresses).snapshot()
}

/// A pool of full servers, where requests of an objective may be shed and models are renamed.
fn ruled() -> Snapshot {
    let (mut state, now) = (state(&POOL), clock::now());
    let ids: Vec<_> = state.snapshot().endpoints().map(|endpoint| endpoint.id).collect();
    for id in ids {
        let sample = Sample { waiting: Some(9.0), ..Sample::default() };
        state.apply(Event::Scraped { id, sample, at: now, interval: Duration::from_secs(1) }, now);
    }
    let targets = Targets::new("canary", [("T", 1), ("m", 1)]).expect("targets");
    let routes = Routes {
        objectives: [("batch".into(), -1)].into(),
        exact: [("m".into(), targets)].into(),
        any: Targets::new("rest", [("T", 1)]),
        ..Routes::default()
    };
    state.apply(Event::Routes(routes), now);
    state.snapshot()
}

fn state(addresses: &[&str]) -> State {
    let endpoint = |address: &&str| EndpointSpec {
        name: (*address).to_owned(),
        namespace: "default".to_owned(),
        address: address.parse().expect("an address"),
        labels: BTreeMap::new(),
        uid: String::new(),
        other_ips: Vec::new(),
    };
    let mut state = State::new(Duration::from_hours(1000));
    state.apply(Event::Endpoints(addresses.iter().map(endpoint).collect()), clock::now());
    state
}

/// A director over a pool that stays as it is.
pub(super) fn director(pool: Snapshot, failure_mode: FailureMode) -> Arc<Director> {
    let resolved = config::load(None, &[PLUGINS]).expect("the default is good");
    let metrics = Metrics::new("ns", "pool", false).expect("families of different names");
    let how = How {
        forced_failure_mode: None,
        failure_mode,
        deadline: Duration::from_mins(1),
        scores: true,
        clock: Clock::new(clock::now),
    };
    let pool = Arc::new(arc_swap::ArcSwap::from_pointee(pool));
    let director =
        Director::new(pool, Policy::new(resolved.profiles, Some(resolved.detector)), metrics, how);
    Arc::new(director)
}

/// Messages decoded from the bytes: replies are legal, bodies are sent on once, one outcome, nothing stays counted.
pub(crate) fn exchange(data: &[u8]) {
    let mut dice = Dice(data);
    let first = dice.byte();
    let director = &DIRECTORS[usize::from(first % 8).saturating_sub(4)];
    let modes = [dice.byte() % 6, dice.byte() % 6].map(i32::from);
    let observed = dice.byte() % 16 == 1;
    let identity = u128::from(first) << 120;
    let mut exchange = Exchange::new(Arc::clone(director), Arc::clone(&SETTINGS), identity);
    let mut ledger = Ledger::new(modes, observed, CHUNK);
    if director.routes().any.is_some() {
        ledger.renames();
    }
    for at in 0..LONGEST {
        if dice.0.is_empty() || exchange.end().is_some() {
            break;
        }
        match dice.byte() % 32 {
            30 => exchange.half_closed(),
            31 => exchange.lost_patience(),
            kind => {
                let mut message = message(kind, &mut dice);
                message.observability_mode = observed;
                message.protocol_config = (at == 0).then_some(ProtocolConfiguration {
                    request_body_mode: modes[0],
                    response_body_mode: modes[1],
                });
                ledger.tell(&message);
                tell(&mut exchange, director, message);
            }
        }
        while let Some(reply) = exchange.pop() {
            ledger.hear(&reply);
        }
    }
    ledger.end(exchange.end().is_some());
    exchange.closed(clock::now());
    drop(exchange);
    let Counted { open, in_flight, held } = counted(director);
    assert!(open.abs() < 0.5, "one outcome for each request");
    assert_eq!((in_flight, held), (0, 0), "nothing in flight, nothing held");
}

fn tell(exchange: &mut Exchange, director: &Director, message: ProcessingRequest) {
    let mut next = exchange.receive(message, clock::now());
    while next == Next::Proceed {
        next = exchange.proceed();
    }
    if next == Next::Decide {
        let outcome = director.decide(exchange.ask().expect("it asks"), 7);
        exchange.decided(outcome, clock::now());
    }
}

#[derive(Debug)]
struct Counted {
    /// Requests received without an outcome.
    open: f64,
    in_flight: u32,
    held: usize,
}

fn counted(director: &Director) -> Counted {
    let sum = |family: &dyn Collector| -> f64 {
        let families = family.collect();
        let cells = families.iter().flat_map(MetricFamily::get_metric);
        cells.map(|cell| cell.get_counter().get_value()).sum()
    };
    let metrics = director.metrics();
    let endpoint = |at: &&str| director.endpoint_at(at.parse().expect("an address"));
    let endpoints = POOL.iter().filter_map(endpoint);
    Counted {
        open: sum(&metrics.received) - sum(&metrics.outcomes),
        in_flight: endpoints.map(|endpoint| endpoint.live.requests()).sum(),
        held: SETTINGS.budget.used(),
    }
}

fn message(kind: u8, dice: &mut Dice<'_>) -> ProcessingRequest {
    let request = match kind {
        0..6 => Some(Request::RequestHeaders(request_headers(dice))),
        6..14 => Some(Request::RequestBody(body(dice))),
        14..16 => Some(Request::RequestTrailers(HttpTrailers {})),
        16..20 => Some(Request::ResponseHeaders(response_headers(dice))),
        20..26 => Some(Request::ResponseBody(body(dice))),
        26..28 => Some(Request::ResponseTrailers(HttpTrailers {})),
        28 => {
            let length = usize::from(dice.byte());
            return ProcessingRequest::decode(dice.bytes(length)).unwrap_or_default();
        }
        _ => None,
    };
    let metadata_context = match dice.byte() % 32 {
        1 | 2 => metadata(dice).encode_to_vec(),
        3 => dice.bytes(9).to_vec(),
        _ => Vec::new(),
    };
    let metadata_context = metadata_context.into();
    ProcessingRequest { request, metadata_context, ..ProcessingRequest::default() }
}

fn metadata(dice: &mut Dice<'_>) -> Metadata {
    let text = |text: &str| prost_types::Value {
        kind: Some(prost_types::value::Kind::StringValue(text.to_owned())),
    };
    let address = dice.one_of(&["10.0.0.1:80", "10.0.0.9", "[fd00::1]:80,10.0.0.2", "", "x"]);
    let (namespace, key) = dice.one_of(&[
        ("envoy.lb.subset_hint", "x-gateway-destination-endpoint-subset"),
        ("envoy.lb", "x-gateway-destination-endpoint-served"),
    ]);
    let fields = [(key.to_owned(), text(address))].into();
    Metadata {
        filter_metadata: HashMap::from([(namespace.to_owned(), prost_types::Struct { fields })]),
    }
}

fn request_headers(dice: &mut Dice<'_>) -> HttpHeaders {
    let (path, flags) = (dice.one_of(&PATHS), dice.byte());
    let mut pairs = vec![(":path", path), (":method", if flags & 2 == 2 { "GET" } else { "POST" })];
    let optional = [
        (4, "x-request-id", "id-1"),
        (8, "x-llm-d-model-name-rewrite", "T"),
        (16, "content-length", "5"),
        (32, "x-gateway-destination-endpoint", "10.0.0.1:80"),
        (64, "x-llm-d-inference-objective", "batch"),
    ];
    pairs.extend(
        optional
            .iter()
            .filter(|(bit, ..)| flags & bit == *bit)
            .map(|&(_, key, value)| (key, value)),
    );
    if flags >= 224 {
        pairs.push(("content-encoding", "gzip"));
    }
    let headers = (flags != 255).then(|| map(&pairs));
    HttpHeaders { headers, end_of_stream: flags & 1 == 1 && dice.byte() % 4 == 1 }
}

fn response_headers(dice: &mut Dice<'_>) -> HttpHeaders {
    let status = dice.one_of(&["200", "404", "500", "x"]);
    let pairs =
        [(":status", status), ("content-type", dice.one_of(&TYPES)), ("content-length", "5")];
    HttpHeaders { headers: Some(map(&pairs)), end_of_stream: dice.byte() % 8 == 1 }
}

fn body(dice: &mut Dice<'_>) -> HttpBody {
    let known = dice.one_of(&[None, Some(CHAT), Some(ANSWER), Some(EVENT)]);
    let body = if let Some(text) = known {
        let cut = usize::from(dice.byte()) % (2 * text.len());
        &text.as_bytes()[..cut.min(text.len())]
    } else {
        let length = usize::from(dice.byte());
        dice.bytes(length)
    };
    let body = Bytes::copy_from_slice(body);
    HttpBody { body, end_of_stream: dice.byte() % 4 == 1 }
}

/// An encoded header map.
fn map(pairs: &[(&str, &str)]) -> Bytes {
    let header = |&(key, value): &(&str, &str)| HeaderValue {
        key: Bytes::copy_from_slice(key.as_bytes()),
        raw_value: Bytes::copy_from_slice(value.as_bytes()),
        value: Bytes::new(),
    };
    HeaderMap { headers: pairs.iter().map(header).collect() }.encode_to_vec().into()
}
