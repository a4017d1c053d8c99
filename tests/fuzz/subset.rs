//! A request never leaves the subset that its gateway allows.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use lodesman::director::Director;
use lodesman::extproc::{Budget, Exchange, Next, Settings};
use lodesman::pool::FailureMode;
use lodesman::request::Parsers;
use lodesman::server::clock;
use lodesman::wire::processing_request::Request;
use lodesman::wire::{HttpHeaders, Metadata, ProcessingRequest};
use prost::Message as _;
use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};

use super::{Dice, exchange};

const POOL: [&str; 4] = ["10.0.0.1:80", "10.0.0.1:81", "10.0.0.12:80", "[fd00::1]:80"];

static DIRECTOR: LazyLock<Arc<Director>> =
    LazyLock::new(|| exchange::director(exchange::snapshot(&POOL), FailureMode::FailClose));

static SETTINGS: LazyLock<Arc<Settings>> = LazyLock::new(|| {
    Arc::new(Settings {
        parsers: Parsers::default(),
        body_limit: 0,
        budget: Budget::new(0),
        flow: Arc::default(),
        hold: None,
        chunk_limit: 100,
        header_limit: 0,
        body_read_timeout: Duration::from_mins(1),
        idle_timeout: None,
        destinations: 1,
        ignore_subset: false,
        report_served: false,
        report_decision: None,
        summary_namespace: None,
    })
});

/// A hint of lines of the bytes, as a list or one text: what is chosen stands in it, and what stands in it is chosen.
pub(crate) fn subset(data: &[u8]) {
    let mut dice = Dice(data);
    let (list, turn) = (dice.byte() % 2 == 0, dice.byte());
    let text = String::from_utf8_lossy(dice.0);
    let lines: Vec<&str> = text.split('\n').collect();
    let kind = if list {
        let value = |line: &&str| Value { kind: Some(Kind::StringValue((*line).to_owned())) };
        Kind::ListValue(ListValue { values: lines.iter().map(value).collect() })
    } else {
        Kind::StringValue(lines.join(","))
    };
    let may = |address: SocketAddr| text.split(['\n', ',']).any(|entry| names(entry, address));
    let exchange = asking(kind);
    match DIRECTOR.decide(exchange.ask().expect("it asks"), u64::from(turn)) {
        Ok(decision) => {
            let address = decision.endpoints[0].spec.address;
            assert!(may(address), "{address} is not allowed");
        }
        Err(_) => assert!(!POOL.iter().any(|at| may(at.parse().expect("an address")))),
    }
}

/// A request without a body, under a hint, that asks for a place.
fn asking(kind: Kind) -> Exchange {
    let hint = ("x-gateway-destination-endpoint-subset".to_owned(), Value { kind: Some(kind) });
    let fields = Struct { fields: [hint].into() };
    let filter_metadata = HashMap::from([("envoy.lb.subset_hint".to_owned(), fields)]);
    let message = ProcessingRequest {
        request: Some(Request::RequestHeaders(HttpHeaders { headers: None, end_of_stream: true })),
        metadata_context: Metadata { filter_metadata }.encode_to_vec().into(),
        ..ProcessingRequest::default()
    };
    let mut exchange = Exchange::new(Arc::clone(&DIRECTOR), Arc::clone(&SETTINGS), 7);
    assert_eq!(exchange.receive(message, clock::now()), Next::Decide);
    exchange
}

/// Whether an entry names an address, read in the simplest way.
fn names(entry: &str, address: SocketAddr) -> bool {
    let entry = entry.trim();
    let bare = entry.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(entry);
    entry.parse().is_ok_and(|at: SocketAddr| at == address)
        || bare.parse().is_ok_and(|ip: IpAddr| ip == address.ip())
}
