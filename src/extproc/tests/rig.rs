//! An exchange under test, and its answers in a word each.

use std::collections::BTreeMap;

use arc_swap::ArcSwap;
use prost::Message as _;

use crate::config::Resolved;
use crate::director::{self, Clock, Policy};
use crate::extproc::*;
use crate::metrics::Metrics;
use crate::pool::{EndpointSpec, Event, FailureMode, Sample, Snapshot, State};
use crate::schedule::profile::{PickerStep, Profile};
use crate::schedule::registry::{Build, PLUGINS, Parameters, find};
use crate::schedule::{DetectorStep, Profiles};
use crate::server::clock;
use crate::spans::Tree;
use crate::wire::body_mutation::Mutation;
use crate::wire::processing_response::Response;
use crate::wire::{
    HeaderMap, HeaderValue, HttpBody, HttpHeaders, HttpTrailers, ImmediateResponse,
    ProtocolConfiguration,
};

pub(super) const CHAT: &str = r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#;

/// An exchange, and all that it has answered.
pub(super) struct Rig {
    pub(super) exchange: Exchange,
    pub(super) director: Arc<Director>,
    pub(super) settings: Arc<Settings>,
    state: State,
    pub(super) pool: Arc<ArcSwap<Snapshot>>,
    pub(super) replies: Vec<Response>,
    /// What the last of them tells the gateway besides.
    pub(super) told: Option<Bytes>,
    /// What the first message says of body modes.
    pub(super) modes: Option<(i32, i32)>,
    pub(super) observed: bool,
}

impl Rig {
    pub(super) fn new(request_mode: i32, response_mode: i32) -> Self {
        Self::with(3, |_| {}).modes(request_mode, response_mode)
    }

    pub(super) fn with(endpoints: u8, change: impl FnOnce(&mut Settings)) -> Self {
        let mut state = State::new(Duration::from_mins(10));
        let spec = |n| EndpointSpec {
            name: format!("pod-{n}"),
            namespace: "default".to_owned(),
            address: ([10, 0, 0, n], 8000).into(),
            labels: BTreeMap::new(),
            uid: String::new(),
            other_ips: Vec::new(),
        };
        if endpoints > 0 {
            state.apply(Event::Endpoints((1..=endpoints).map(spec).collect()), clock::now());
        }
        let pool = Arc::new(ArcSwap::from_pointee(state.snapshot()));
        let Build::Picker(picker) = find(&[PLUGINS], "max-score-picker").unwrap().build else {
            panic!("a picker")
        };
        let picker = PickerStep {
            name: "picker".into(),
            type_name: "max-score-picker",
            picker: picker(Parameters::Null).unwrap(),
        };
        let profile = Profile { filters: Vec::new(), scorers: Vec::new(), picker };
        let director = Arc::new(director(Arc::clone(&pool), profile));
        let mut settings = Settings {
            parsers: Parsers::default(),
            body_limit: 1000,
            budget: Budget::new(10_000),
            flow: Arc::default(),
            hold: None,
            chunk_limit: 100,
            header_limit: 10_000,
            body_read_timeout: Duration::from_mins(1),
            idle_timeout: Some(Duration::from_mins(10)),
            destinations: 1,
            ignore_subset: false,
            report_served: false,
            report_decision: None,
            summary_namespace: None,
        };
        change(&mut settings);
        let settings = Arc::new(settings);
        let exchange = Exchange::new(Arc::clone(&director), Arc::clone(&settings), 5);
        Self {
            exchange,
            director,
            settings,
            state,
            pool,
            replies: Vec::new(),
            told: None,
            modes: Some((4, 4)),
            observed: false,
        }
    }

    /// A director with the default policy, completed by `complete`, decides from now on.
    pub(super) fn decides(&mut self, complete: impl FnOnce(Director, DetectorStep) -> Director) {
        let Resolved { profiles, detector, .. } =
            crate::config::load(None, &[PLUGINS]).expect("the default is good");
        let director = director(Arc::clone(&self.pool), profiles);
        self.director = Arc::new(complete(director, detector));
        self.closed();
    }

    /// The pool changes.
    pub(super) fn pool_hears(&mut self, event: Event) {
        self.state.apply(event, clock::now());
        self.pool.store(Arc::new(self.state.snapshot()));
    }

    /// The metrics page of every endpoint was read just now.
    pub(super) fn fresh(&mut self) {
        let (now, interval) = (clock::now(), Duration::from_secs(1));
        let ids: Vec<_> = self.pool.load().endpoints().map(|endpoint| endpoint.id).collect();
        for id in ids {
            self.pool_hears(Event::Scraped { id, sample: Sample::default(), at: now, interval });
        }
    }

    pub(super) fn modes(mut self, request: i32, response: i32) -> Self {
        self.modes = Some((request, response));
        self
    }

    pub(super) fn tell(&mut self, message: Message) -> &mut Self {
        let protocol_config = self.modes.take().map(|(request_body_mode, response_body_mode)| {
            ProtocolConfiguration { request_body_mode, response_body_mode }
        });
        let request = ProcessingRequest {
            request: Some(message),
            metadata_context: Bytes::new(),
            observability_mode: self.observed,
            protocol_config,
        };
        self.receive(request)
    }

    pub(super) fn receive(&mut self, message: ProcessingRequest) -> &mut Self {
        let now = clock::now();
        let mut next = self.exchange.receive(message, now);
        while next == Next::Proceed {
            next = self.exchange.proceed();
        }
        if next == Next::Decide && !self.exchange.queues(|| now) {
            let outcome = self.director.decide(self.exchange.ask().expect("asks"), 7);
            self.exchange.decided(outcome, now);
        }
        while let Some(reply) = self.exchange.pop() {
            self.told = reply.dynamic_metadata;
            self.replies.push(reply.response.expect("a reply says something"));
        }
        self
    }

    pub(super) fn headers(&mut self, pairs: &[(&str, &str)], end_of_stream: bool) -> &mut Self {
        let headers = Some(map(&[pairs, &[("x-request-id", "id-1")]].concat()));
        self.tell(Message::RequestHeaders(HttpHeaders { headers, end_of_stream }))
    }

    pub(super) fn chat(&mut self) -> &mut Self {
        self.headers(&[(":path", "/v1/chat/completions"), (":method", "POST")], false)
    }

    pub(super) fn body(&mut self, body: &str, end_of_stream: bool) -> &mut Self {
        self.tell(Message::RequestBody(piece(body, end_of_stream)))
    }

    pub(super) fn trailers(&mut self) -> &mut Self {
        self.tell(Message::RequestTrailers(HttpTrailers {}))
    }

    pub(super) fn answer(&mut self, pairs: &[(&str, &str)], end_of_stream: bool) -> &mut Self {
        self.tell(Message::ResponseHeaders(HttpHeaders {
            headers: Some(map(pairs)),
            end_of_stream,
        }))
    }

    pub(super) fn answer_body(&mut self, body: &str, end_of_stream: bool) -> &mut Self {
        self.tell(Message::ResponseBody(piece(body, end_of_stream)))
    }

    pub(super) fn answer_trailers(&mut self) -> &mut Self {
        self.tell(Message::ResponseTrailers(HttpTrailers {}))
    }

    /// The replies so far, one word each, and forgets them.
    pub(super) fn said(&mut self) -> Vec<String> {
        self.replies.drain(..).map(|reply| word(&reply)).collect()
    }

    pub(super) fn immediate(&self) -> &ImmediateResponse {
        match self.replies.last() {
            Some(Response::ImmediateResponse(immediate)) => immediate,
            other => panic!("no refusal but {other:?}"),
        }
    }

    pub(super) fn in_flight(&self) -> u32 {
        self.pool.load().endpoints().map(|endpoint| endpoint.live.requests()).sum()
    }

    pub(super) fn metric(&self, line: &str) -> bool {
        self.director.metrics().page().unwrap().lines().any(|have| have.replace(OURS, "}") == line)
    }

    pub(super) fn closed(&mut self) -> &mut Self {
        self.exchange.closed(clock::now());
        self.exchange = Exchange::new(Arc::clone(&self.director), Arc::clone(&self.settings), 6);
        self
    }

    /// The spans of the exchange, which ends now.
    pub(super) fn spans(&mut self) -> Option<Tree> {
        let ending = self.exchange.closed(clock::now())?;
        let summary = self.exchange.summary(&ending)?;
        Some(self.exchange.traced(summary)?.tree())
    }

    pub(super) fn outcome(&mut self) -> String {
        self.closed();
        let page = self.director.metrics().page().unwrap();
        let counted = |line: &&str| {
            line.starts_with("lodesman_request_outcomes_total{") && !line.ends_with(" 0")
        };
        let line = page.lines().find(counted);
        let line = line.expect("an outcome");
        line.split("outcome=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap().to_owned()
    }
}

/// The end of the labels of our families.
pub(super) const OURS: &str = ",namespace=\"ns\",pool=\"pool\"}";

fn director(pool: Arc<ArcSwap<Snapshot>>, profiles: impl Into<Profiles>) -> Director {
    let how = director::Settings {
        forced_failure_mode: None,
        failure_mode: FailureMode::FailClose,
        deadline: director::DECISION_DEADLINE,
        scores: false,
        clock: Clock::new(clock::now),
    };
    Director::new(
        pool,
        Policy::new(profiles, None),
        Metrics::new("ns", "pool", false).unwrap(),
        how,
    )
}

/// An encoded header map.
pub(super) fn map(pairs: &[(&str, &str)]) -> Bytes {
    let header = |(key, value): &(&str, &str)| HeaderValue {
        key: Bytes::copy_from_slice(key.as_bytes()),
        value: Bytes::new(),
        raw_value: Bytes::copy_from_slice(value.as_bytes()),
    };
    HeaderMap { headers: pairs.iter().map(header).collect() }.encode_to_vec().into()
}

pub(super) fn piece(body: &str, end_of_stream: bool) -> HttpBody {
    HttpBody { body: Bytes::copy_from_slice(body.as_bytes()), end_of_stream }
}

/// A reply in a word: what it answers, the destination it sets, the bytes it sends on, `!` for the end of stream.
pub(super) fn word(reply: &Response) -> String {
    let common = |name: &str, common: &Option<crate::wire::CommonResponse>| {
        let common = common.as_ref().expect("a common response");
        let sets = common.header_mutation.iter().flat_map(|mutation| &mutation.set_headers);
        let headers: Vec<_> = sets.filter_map(|option| option.header.as_ref()).collect();
        let names = headers
            .iter()
            .fold(String::new(), |names, h| names + " " + &String::from_utf8_lossy(&h.key));
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
