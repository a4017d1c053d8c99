//! Sequences of messages against one exchange and a pool of three; the golden transcripts over gRPC are in `tests/`.

use std::collections::BTreeMap;

use arc_swap::ArcSwap;
use proptest::prelude::*;

use super::*;
use crate::director;
use crate::metrics::Metrics;
use crate::pool::{EndpointSpec, Event, Snapshot, State};
use crate::schedule::profile::{PickerStep, Profile};
use crate::schedule::registry::{Build, Parameters, find};
use crate::wire::body_mutation::Mutation;
use crate::wire::processing_response::Response;
use crate::wire::{
    HeaderMap, HeaderValue, HttpBody, HttpHeaders, HttpTrailers, ImmediateResponse,
    ProtocolConfiguration,
};

const CHAT: &str = r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#;

/// An exchange, and all that it has answered.
struct Rig {
    exchange: Exchange,
    director: Arc<Director>,
    settings: Arc<Settings>,
    pool: Arc<ArcSwap<Snapshot>>,
    replies: Vec<Response>,
    /// What the first message says of body modes.
    modes: Option<(i32, i32)>,
    observed: bool,
}

impl Rig {
    fn new(request_mode: i32, response_mode: i32) -> Self {
        Self::with(3, |_| {}).modes(request_mode, response_mode)
    }

    fn with(endpoints: u8, change: impl FnOnce(&mut Settings)) -> Self {
        let mut state = State::new(Duration::from_secs(2));
        let spec = |n| EndpointSpec {
            name: format!("pod-{n}"),
            namespace: "default".to_owned(),
            address: ([10, 0, 0, n], 8000).into(),
            labels: BTreeMap::new(),
        };
        if endpoints > 0 {
            state.apply(Event::Endpoints((1..=endpoints).map(spec).collect()), Instant::now());
        }
        let pool = Arc::new(ArcSwap::from_pointee(state.snapshot()));
        let Build::Picker(picker) =
            find(&[crate::schedule::registry::PLUGINS], "max-score-picker").unwrap().build
        else {
            panic!("a picker")
        };
        let picker =
            PickerStep { name: "picker".into(), picker: picker(Parameters::Null).unwrap() };
        let profile = Profile { filters: Vec::new(), scorers: Vec::new(), picker };
        let metrics = Metrics::new("ns", "pool", false).unwrap();
        let how = director::Settings {
            failure_mode: FailureMode::FailClose,
            deadline: director::DECISION_DEADLINE,
            scores: false,
            clock: Instant::now,
        };
        let director = Arc::new(Director::new(Arc::clone(&pool), profile, metrics, how));
        let mut settings = Settings {
            parsers: Parsers::default(),
            body_limit: 1000,
            budget: Budget::new(10_000),
            chunk_limit: 100,
            header_limit: 10_000,
            body_read_timeout: Duration::from_secs(60),
            idle_timeout: Some(Duration::from_secs(600)),
            destination_list: false,
            ignore_subset: false,
        };
        change(&mut settings);
        let settings = Arc::new(settings);
        let exchange = Exchange::new(Arc::clone(&director), Arc::clone(&settings), 5);
        Self {
            exchange,
            director,
            settings,
            pool,
            replies: Vec::new(),
            modes: Some((4, 4)),
            observed: false,
        }
    }

    fn modes(mut self, request: i32, response: i32) -> Self {
        self.modes = Some((request, response));
        self
    }

    fn tell(&mut self, message: Message) -> &mut Self {
        let protocol_config = self.modes.take().map(|(request_body_mode, response_body_mode)| {
            ProtocolConfiguration { request_body_mode, response_body_mode }
        });
        let request = ProcessingRequest {
            request: Some(message),
            metadata_context: None,
            observability_mode: self.observed,
            protocol_config,
        };
        self.receive(request)
    }

    fn receive(&mut self, message: ProcessingRequest) -> &mut Self {
        let now = Instant::now();
        if self.exchange.receive(message, now) == Next::Decide {
            let outcome = self.director.decide(self.exchange.ask().expect("asks"), 7);
            self.exchange.decided(outcome, now);
        }
        while let Some(reply) = self.exchange.pop() {
            self.replies.push(reply.response.expect("a reply says something"));
        }
        self
    }

    fn headers(&mut self, pairs: &[(&str, &str)], end_of_stream: bool) -> &mut Self {
        let mut headers = map(pairs);
        headers.headers.extend(map(&[("x-request-id", "id-1")]).headers);
        self.tell(Message::RequestHeaders(HttpHeaders { headers: Some(headers), end_of_stream }))
    }

    fn chat(&mut self) -> &mut Self {
        self.headers(&[(":path", "/v1/chat/completions"), (":method", "POST")], false)
    }

    fn body(&mut self, body: &str, end_of_stream: bool) -> &mut Self {
        self.tell(Message::RequestBody(piece(body, end_of_stream)))
    }

    fn trailers(&mut self) -> &mut Self {
        self.tell(Message::RequestTrailers(HttpTrailers::default()))
    }

    fn answer(&mut self, pairs: &[(&str, &str)], end_of_stream: bool) -> &mut Self {
        self.tell(Message::ResponseHeaders(HttpHeaders {
            headers: Some(map(pairs)),
            end_of_stream,
        }))
    }

    fn answer_body(&mut self, body: &str, end_of_stream: bool) -> &mut Self {
        self.tell(Message::ResponseBody(piece(body, end_of_stream)))
    }

    fn answer_trailers(&mut self) -> &mut Self {
        self.tell(Message::ResponseTrailers(HttpTrailers::default()))
    }

    /// The replies so far, one word each, and forgets them.
    fn said(&mut self) -> Vec<String> {
        self.replies.drain(..).map(|reply| word(&reply)).collect()
    }

    fn immediate(&self) -> &ImmediateResponse {
        match self.replies.last() {
            Some(Response::ImmediateResponse(immediate)) => immediate,
            other => panic!("no refusal but {other:?}"),
        }
    }

    fn in_flight(&self) -> u32 {
        self.pool.load().endpoints().map(|endpoint| endpoint.live.requests()).sum()
    }

    fn metric(&self, line: &str) -> bool {
        self.director.metrics().page().unwrap().lines().any(|have| have.replace(OURS, "}") == line)
    }

    fn closed(&mut self) -> &mut Self {
        self.exchange.closed(Instant::now());
        self.exchange = Exchange::new(Arc::clone(&self.director), Arc::clone(&self.settings), 6);
        self
    }

    fn outcome(&mut self) -> String {
        self.closed();
        let page = self.director.metrics().page().unwrap();
        let line = page.lines().find(|line| line.starts_with("lodesman_request_outcomes_total{"));
        let line = line.expect("an outcome");
        line.split("outcome=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap().to_owned()
    }
}

/// The end of the labels of our families.
const OURS: &str = ",namespace=\"ns\",pool=\"pool\"}";

fn map(pairs: &[(&str, &str)]) -> HeaderMap {
    let header = |(key, value): &(&str, &str)| HeaderValue {
        key: Bytes::copy_from_slice(key.as_bytes()),
        value: Bytes::new(),
        raw_value: Bytes::copy_from_slice(value.as_bytes()),
    };
    HeaderMap { headers: pairs.iter().map(header).collect() }
}

fn piece(body: &str, end_of_stream: bool) -> HttpBody {
    HttpBody { body: Bytes::copy_from_slice(body.as_bytes()), end_of_stream }
}

/// A reply in a word: what it answers, the destination it sets, the bytes it sends on, `!` for the end of stream.
fn word(reply: &Response) -> String {
    let common = |name: &str, common: &Option<crate::wire::CommonResponse>| {
        let common = common.as_ref().expect("a common response");
        let sets = common.header_mutation.iter().flat_map(|mutation| &mutation.set_headers);
        let headers: Vec<_> = sets.filter_map(|option| option.header.as_ref()).collect();
        let names: String = headers
            .iter()
            .map(|h| format!(" {}", String::from_utf8_lossy(&h.key)))
            .collect::<String>();
        match common.body_mutation.as_ref().and_then(|mutation| mutation.mutation.as_ref()) {
            None => format!("{name}{names}"),
            Some(Mutation::Body(body)) => {
                format!("{name}{names} ={}", String::from_utf8_lossy(body))
            }
            Some(Mutation::StreamedResponse(piece)) => {
                let end = if piece.end_of_stream { "!" } else { "" };
                format!("{name}{names} {}{end}", String::from_utf8_lossy(&piece.body))
            }
        }
    };
    match reply {
        Response::RequestHeaders(headers) => common("RH", &headers.response),
        Response::RequestBody(body) => common("RB", &body.response),
        Response::RequestTrailers(_) => "RT".to_owned(),
        Response::ResponseHeaders(headers) => common("SH", &headers.response),
        Response::ResponseBody(body) => common("SB", &body.response),
        Response::ResponseTrailers(_) => "ST".to_owned(),
        Response::ImmediateResponse(immediate) => {
            format!("IM {}", immediate.status.as_ref().unwrap().code)
        }
    }
}

const PICKED: &str = "RH x-gateway-destination-endpoint";

#[test]
fn full_duplex_holds_the_headers_until_the_body_is_read_and_sends_it_on_as_it_came() {
    let mut rig = Rig::new(4, 4);
    let (a, b) = CHAT.split_at(20);
    assert!(rig.chat().body(a, false).said().is_empty());
    assert_eq!(rig.body(b, true).said(), [PICKED, &format!("RB {a}"), &format!("RB {b}!")]);
    assert_eq!(rig.in_flight(), 1);
    assert_eq!(rig.answer(&[(":status", "200")], false).said(), ["SH"]);
    assert_eq!(rig.answer_body("{}", false).answer_body("", true).said(), ["SB {}", "SB !"]);
    assert_eq!(rig.outcome(), "ok");
    assert_eq!(rig.in_flight(), 0);
}

#[test]
fn an_empty_last_piece_ends_the_body_that_was_held() {
    let mut rig = Rig::new(4, 4);
    assert_eq!(
        rig.chat().body(CHAT, false).body("", true).said(),
        [PICKED, &format!("RB {CHAT}!")]
    );
}

#[test]
fn a_body_that_ends_by_trailers_has_no_end_of_its_own() {
    let mut rig = Rig::new(4, 4);
    assert_eq!(
        rig.chat().body(CHAT, false).trailers().said(),
        [PICKED, &format!("RB {CHAT}"), "RT"]
    );
}

#[test]
fn a_request_without_a_body_is_placed_by_its_headers() {
    let mut rig = Rig::new(4, 4);
    assert_eq!(rig.headers(&[(":path", "/v1/models"), (":method", "GET")], true).said(), [PICKED]);
    assert_eq!(rig.answer(&[(":status", "204")], true).said(), ["SH"]);
    assert_eq!(rig.outcome(), "ok");
}

#[test]
fn a_body_that_nothing_reads_passes_piece_by_piece() {
    let mut rig = Rig::new(4, 4);
    assert_eq!(rig.headers(&[(":path", "/upload"), (":method", "POST")], false).said(), [PICKED]);
    assert_eq!(rig.body("a", false).body("b", true).said(), ["RB a", "RB b!"]);
    let encoded = [(":path", "/v1/completions"), (":method", "POST"), ("content-encoding", "gzip")];
    assert_eq!(
        Rig::new(4, 4).headers(&encoded, false).body("\x1f", true).said(),
        [PICKED, "RB \x1f!"]
    );
}

#[test]
fn without_a_fallback_parser_an_unclaimed_path_is_refused() {
    let mut rig =
        Rig::with(3, |settings| settings.parsers = Parsers::named("openai-parser").unwrap());
    assert_eq!(rig.headers(&[(":path", "/upload"), (":method", "POST")], false).said(), ["IM 400"]);
}

#[test]
fn buffered_answers_headers_at_once_and_decides_with_the_body() {
    for mode in [2, 3] {
        let mut rig = Rig::new(mode, 2);
        assert_eq!(rig.chat().said(), ["RH"]);
        assert_eq!(rig.body(CHAT, true).said(), ["RB x-gateway-destination-endpoint"]);
        assert_eq!(
            rig.answer(&[(":status", "200")], false).answer_body("{}", true).said(),
            ["SH", "SB"]
        );
        assert_eq!(rig.outcome(), "ok");
    }
}

#[test]
fn a_buffered_body_is_whole_whatever_its_end_says_and_trailers_follow() {
    let mut rig = Rig::new(2, 0);
    assert_eq!(
        rig.chat().body(CHAT, false).trailers().said(),
        ["RH", "RB x-gateway-destination-endpoint", "RT"]
    );
}

#[test]
fn a_truncated_body_is_placed_and_never_changed() {
    let mut rig = Rig::new(3, 0);
    let rewrite = [(":path", "/v1/chat/completions"), ("x-llm-d-model-name-rewrite", "other")];
    let (half, _) = CHAT.split_at(40);
    assert_eq!(
        rig.headers(&rewrite, false).body(half, false).said(),
        ["RH", "RB x-gateway-destination-endpoint"]
    );
}

#[test]
fn streamed_decides_by_headers_and_answers_every_piece_once() {
    let mut rig = Rig::new(1, 1);
    assert_eq!(rig.chat().said(), [PICKED]);
    assert_eq!(rig.body("a", false).body("b", true).said(), ["RB", "RB"]);
    assert_eq!(
        rig.answer(&[(":status", "200")], false)
            .answer_body("x", false)
            .answer_body("", true)
            .said(),
        ["SH", "SB", "SB"]
    );
}

#[test]
fn without_bodies_the_headers_decide() {
    let mut rig = Rig::new(0, 0);
    assert_eq!(rig.chat().said(), [PICKED]);
    assert_eq!(rig.answer(&[(":status", "200")], false).said(), ["SH"]);
    assert_eq!(rig.outcome(), "unobserved");
}

#[test]
fn a_gateway_that_says_nothing_of_modes_is_full_duplex() {
    let mut rig = Rig::new(0, 0);
    rig.modes = None;
    assert_eq!(rig.chat().body(CHAT, true).said().len(), 2);
}

#[test]
fn a_rewritten_model_goes_out_and_the_clients_name_comes_back() {
    let rewrite = [
        (":path", "/v1/chat/completions"),
        ("x-llm-d-model-name-rewrite", "other"),
        ("content-length", "57"),
    ];
    let mut rig = Rig::new(4, 4);
    let body = CHAT.replace("\"m\"", "\"other\"");
    let said = rig.headers(&rewrite, false).body(CHAT, true).said();
    assert_eq!(said[0], "RH x-gateway-destination-endpoint content-length");
    let sent: String = said[1..].iter().map(|word| word.trim_start_matches("RB ")).collect();
    assert_eq!(sent, format!("{body}!"));
    rig.answer(&[(":status", "200"), ("content-type", "application/json")], false).said();
    let back = rig.answer_body(r#"{"model":"oth"#, false).answer_body(r#"er","x":1}"#, true).said();
    let back: String = back.iter().map(|word| word.trim_start_matches("SB ")).collect();
    assert_eq!(back, r#"{"model":"m","x":1}!"#);
    let mut buffered = Rig::new(2, 2);
    let said = buffered.headers(&rewrite, false).body(CHAT, true).said();
    assert_eq!(said[1], format!("RB x-gateway-destination-endpoint content-length ={body}"));
}

#[test]
fn a_body_over_the_limit_is_refused_as_soon_as_it_is_known() {
    let mut rig = Rig::new(4, 4);
    rig.chat().body(&"x".repeat(999), false);
    assert_eq!(rig.said(), Vec::<String>::new());
    assert_eq!(rig.settings.budget.used(), 999);
    rig.body("yy", false);
    assert_eq!(rig.immediate().status.as_ref().unwrap().code, 413);
    assert_eq!((rig.exchange.end(), rig.settings.budget.used()), (Some(End::Ok), 0));
    assert_eq!(rig.outcome(), "rejected");
}

#[test]
fn bodies_beyond_the_budget_are_shed() {
    let mut rig = Rig::with(3, |settings| settings.budget = Budget::new(50));
    rig.chat().body(&CHAT[..30], false).body(&CHAT[30..], true);
    assert_eq!(rig.immediate().status.as_ref().unwrap().code, 429);
    assert_eq!(rig.outcome(), "shed");
}

#[test]
fn a_body_that_stops_coming_is_answered_408() {
    let mut rig = Rig::new(4, 4);
    rig.chat().body("{", false);
    assert_eq!(rig.exchange.patience(), Some(rig.settings.body_read_timeout));
    rig.exchange.lost_patience();
    assert!(
        matches!(rig.exchange.pop().unwrap().response, Some(Response::ImmediateResponse(im)) if im.status.unwrap().code == 408)
    );
}

#[test]
fn a_pool_that_is_not_known_yet_is_unavailable_and_an_empty_one_has_no_endpoints() {
    let mut rig = Rig::with(0, |_| {});
    assert_eq!(rig.chat().body(CHAT, true).said(), ["IM 503"]);
    let mut rig = Rig::with(1, |_| {});
    rig.pool.store(Arc::new({
        let mut state = State::new(Duration::ZERO);
        state.apply(Event::Endpoints(Vec::new()), Instant::now());
        state.snapshot()
    }));
    assert_eq!(rig.chat().body(CHAT, true).said(), ["IM 503"]);
}

#[test]
fn a_second_end_of_stream_decides_nothing_again() {
    let mut rig = Rig::new(4, 4);
    assert_eq!(rig.chat().body(CHAT, true).body("", true).body("x", true).said().len(), 2);
    assert_eq!(rig.in_flight(), 1);
    assert!(rig.metric(r#"lodesman_protocol_anomalies_total{kind="duplicate_eos"} 1"#));
    assert!(rig.metric(r#"lodesman_protocol_anomalies_total{kind="body_after_eos"} 1"#));
}

#[test]
fn messages_without_content_are_survived() {
    let mut rig = Rig::new(4, 4);
    rig.receive(ProcessingRequest::default());
    rig.tell(Message::RequestHeaders(HttpHeaders { headers: None, end_of_stream: true }));
    rig.tell(Message::ResponseHeaders(HttpHeaders { headers: None, end_of_stream: false }));
    assert_eq!(
        rig.said(),
        [&format!("{PICKED} x-request-id"), "SH"],
        "an id is given where there is none"
    );
    assert!(rig.metric(r#"lodesman_protocol_anomalies_total{kind="unknown_message"} 1"#));
    assert!(rig.metric(r#"lodesman_protocol_anomalies_total{kind="no_header_map"} 2"#));
}

#[test]
fn a_stream_may_begin_with_the_answer() {
    let mut rig = Rig::new(4, 4);
    assert_eq!(
        rig.answer(&[(":status", "200")], false).answer_body("a", true).said(),
        ["SH", "SB a!"]
    );
    assert_eq!(Rig::new(4, 4).answer_body("a", false).answer_trailers().said(), ["SB a", "ST"]);
}

#[test]
fn a_client_that_goes_away_is_told_apart_from_a_gateway_that_half_closes() {
    let mut rig = Rig::new(4, 4);
    rig.chat().body(CHAT, true).answer(&[(":status", "200")], false).answer_body("x", false);
    assert_eq!(rig.outcome(), "client_disconnect");
    let mut rig = Rig::new(4, 4);
    rig.chat().body(CHAT, true);
    rig.exchange.half_closed();
    assert_eq!((rig.exchange.end(), rig.outcome().as_str()), (Some(End::Ok), "unobserved"));
    assert_eq!(rig.in_flight(), 0);
}

#[test]
fn the_error_class_of_the_answer_is_its_outcome() {
    for (status, outcome) in [("404", "upstream_4xx"), ("500", "upstream_5xx")] {
        let mut rig = Rig::new(4, 4);
        rig.chat().body(CHAT, true).answer(&[(":status", status)], true);
        assert_eq!(rig.outcome(), outcome);
    }
}

mod observed;
mod sequences;
