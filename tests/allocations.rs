//! What a decision allocates: nothing, once its buffers are warm; and what headers cost that no plugin reads: nothing.
#![expect(clippy::unwrap_used, clippy::tests_outside_test_module, reason = "an integration test")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use allocation_counter::measure;
use arc_swap::ArcSwap;
use lodesman::director::{Ask, Clock, DECISION_DEADLINE, Director, Policy, Settings};
use lodesman::extproc::{self, Budget, Exchange, Next};
use lodesman::metrics::Metrics;
use lodesman::pool::{EndpointSpec, Event, FailureMode, Sample, State, Subset};
use lodesman::prefix::{Chain, Index};
use lodesman::request::{Parsed, Parsers, PromptPart};
use lodesman::schedule::Headers;
use lodesman::schedule::registry::PLUGINS;
use lodesman::wire::processing_request::Request;
use lodesman::wire::{HeaderMap, HeaderValue, HttpHeaders, ProcessingRequest};
use lodesman_e2e::wait::now;
use prost::Message as _;

/// A director by the default policy over so many endpoints with fresh samples, and a prompt of 2,000 tokens.
fn director(endpoints: u16) -> (Director, Chain) {
    by(None, endpoints)
}

/// The same by a configuration.
fn by(configuration: Option<&str>, endpoints: u16) -> (Director, Chain) {
    let spec = |n: u16| EndpointSpec {
        name: format!("pod-{n}"),
        namespace: "default".to_owned(),
        address: ([10, 0, n.to_be_bytes()[0], n.to_be_bytes()[1]], 8000).into(),
        labels: BTreeMap::new(),
        uid: String::new(),
        other_ips: Vec::new(),
    };
    let mut state = State::new(Duration::from_hours(1));
    state.apply(Event::Endpoints((0..endpoints).map(spec).collect()), now());
    let ids: Vec<_> = state.snapshot().endpoints().map(|endpoint| endpoint.id).collect();
    for (n, id) in ids.into_iter().enumerate() {
        let sample =
            Sample { waiting: Some((n % 3) as f32), kv_usage: Some(0.5), ..Sample::default() };
        state.apply(
            Event::Scraped { id, sample, at: now(), interval: Duration::from_secs(1) },
            now(),
        );
    }
    let pool = Arc::new(ArcSwap::from_pointee(state.snapshot()));
    let policy = lodesman::config::load(configuration, &[PLUGINS]).unwrap();
    let settings = Settings {
        forced_failure_mode: None,
        failure_mode: FailureMode::FailClose,
        deadline: DECISION_DEADLINE,
        scores: false,
        clock: Clock::new(now),
    };
    let metrics = Metrics::new("ns", "pool", false).unwrap();
    let index = Arc::new(Index::new(policy.prefix.unwrap_or_default(), 1));
    let mut hashing = index.hashing();
    hashing.feed(PromptPart::Text(&vec![b'x'; 32_000]));
    let director =
        Director::new(pool, Policy::new(policy.profiles, Some(policy.detector)), metrics, settings)
            .with_prefix(index);
    (director, hashing.end(Some("m"), None))
}

// FR-151
#[test]
fn a_decision_with_warm_buffers_allocates_nothing() {
    for endpoints in [1, 8, 1000] {
        let (director, chain) = director(endpoints);
        let (mut request, subset) = (Parsed::default(), Subset::All);
        request.prompt_tokens = 8_000;
        let ask = Ask {
            request: &request,
            chain: &chain,
            headers: &Headers::default(),
            bodyless: false,
            model: Some("m"),
            priority: -1,
            subset: &subset,
        };
        let placed = director.decide(ask, 0).unwrap().endpoints[0].id;
        let mut again = None;
        let allocated = measure(|| again = Some(director.decide(ask, 1)));
        assert_eq!(again.unwrap().unwrap().endpoints[0].id, placed, "the prompt is known there");
        assert_eq!(allocated.count_total, 0, "{endpoints} endpoints: {allocated:?}");
    }
}

/// What it allocates to take in the headers of a request whose body follows.
fn headers_cost(configuration: Option<&str>, sent: &[(&'static str, &'static str)]) -> u64 {
    let settings = extproc::Settings {
        parsers: Parsers::default(),
        body_limit: 1000,
        budget: Budget::new(2000),
        flow: Arc::default(),
        hold: None,
        chunk_limit: 1000,
        header_limit: 1000,
        body_read_timeout: Duration::from_mins(1),
        idle_timeout: None,
        destinations: 1,
        ignore_subset: false,
        report_served: false,
        report_decision: None,
        summary_namespace: Some("lodesman".to_owned()),
    };
    let (director, _) = by(configuration, 1);
    let mut exchange = Exchange::new(Arc::new(director), Arc::new(settings), 7);
    let header = |&(key, value): &(&'static str, &'static str)| HeaderValue {
        key: key.into(),
        value: value.into(),
        ..HeaderValue::default()
    };
    let headers = HeaderMap { headers: sent.iter().map(header).collect() };
    let headers = Some(headers.encode_to_vec().into());
    let request = Request::RequestHeaders(HttpHeaders { headers, end_of_stream: false });
    let message = ProcessingRequest { request: Some(request), ..ProcessingRequest::default() };
    measure(|| assert_eq!(exchange.receive(message, now()), Next::Read)).count_total
}

#[test]
fn a_header_costs_only_where_a_plugin_reads_it() {
    let plain = [(":path", "/v1/chat/completions"), (":method", "POST")];
    let named = [plain[0], plain[1], ("test-epp-endpoint-selection", "10.0.0.0:8000")];
    headers_cost(None, &plain);
    let usual = headers_cost(None, &plain);
    assert_eq!(headers_cost(None, &named), usual);
    let reading = "{apiVersion: llm-d.ai/v1alpha1, kind: EndpointPickerConfig, plugins: [{type: header-based-testing-filter}, {type: prefix-cache-scorer}]}";
    assert_eq!(headers_cost(Some(reading), &plain), usual);
    let (list, value) = (1, 1);
    assert_eq!(headers_cost(Some(reading), &named), usual + list + value);
}
