//! The half of an exchange up to the decision: headers, body and trailers of the request.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use crate::director::{Decision, Director};
use crate::extproc::account::Who;
use crate::extproc::headers::RequestHeaders;
use crate::extproc::refusal::Refusal;
use crate::extproc::reply::{self, Change, Side};
use crate::extproc::{BodyMode, Exchange, metadata};
use crate::pool::Endpoint;
use crate::prefix::{Chain, Hashing};
use crate::recording::Blocks;
use crate::request::{Api, Parsed, Parsers, Reading, Scan, rewrite};
use crate::schedule::Relay;
use crate::wire::{HeaderMutation, HttpBody, HttpHeaders};

/// What a held piece costs beside its bytes: its slice, and the reply that will carry it.
const PIECE: usize = 256;

/// Pieces below this many bytes are copied when they are held.
const SMALL: usize = 4096;

/// How far the request is.
#[derive(Debug)]
pub(in crate::extproc) enum Phase {
    /// Its headers have not come.
    Headers,
    /// Its body is read and held.
    Body(Box<Held>),
    /// All that is to be known is known.
    Deciding { asked: Box<Asked>, target: Target },
    /// It is decided, the body passes.
    Relaying,
    /// Its body has ended; trailers may follow.
    Trailers,
    /// It has ended.
    Done,
}

/// A body that is coming in.
#[derive(Debug)]
pub(in crate::extproc) struct Held {
    scan: Scan,
    /// None when nobody asks for the prompt's hashes.
    hashing: Option<Hashing>,
    pieces: Vec<Bytes>,
    len: usize,
}

/// A request that waits for its decision.
#[derive(Debug)]
pub(in crate::extproc) struct Asked {
    pub(in crate::extproc) parsed: Parsed,
    /// Of the prompt; empty when there is none.
    pub(in crate::extproc) chain: Chain,
    pub(in crate::extproc) bodyless: bool,
    pieces: Vec<Bytes>,
    len: usize,
    ended: Ended,
}

/// Which model is asked for.
#[derive(Debug, Default)]
pub(in crate::extproc) struct Target {
    /// None when it is the one that the client named, if any.
    pub(in crate::extproc) model: Option<String>,
    /// The object by whose rule it was chosen; none when no rule was followed.
    object: Option<Arc<str>>,
}

/// How the part of a request that a decision can see has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// With the headers: there is no body.
    Headers,
    /// It has not: the body follows, and need not or cannot be seen.
    Open,
    /// With the last message of the body.
    Body,
    /// With trailers.
    Trailers,
}

impl Phase {
    /// Whether a body is held for the decision.
    pub(in crate::extproc) fn holds_body(&self) -> bool {
        matches!(self, Self::Body(_) | Self::Deciding { .. })
    }
}

impl Held {
    /// Reads a piece; a fault of the reader's costs what the body says, not the request.
    fn read(&mut self, piece: &[u8]) {
        let read = AssertUnwindSafe(|| match &mut self.hashing {
            Some(hashing) => self.scan.feed(piece, &mut |part| hashing.feed(part)),
            None => self.scan.feed(piece, &mut |_| {}),
        });
        if catch_unwind(read).is_err() {
            (self.scan, self.hashing) = (Scan::opaque(), None);
        }
    }
}

impl Exchange {
    pub(in crate::extproc) fn request_headers(&mut self, message: HttpHeaders, now: Instant) {
        if !matches!(self.phase, Phase::Headers) {
            return self.anomaly("duplicate_request_headers");
        }
        if message.headers.is_none() {
            self.anomaly("no_header_map");
        }
        let headers = message.headers.unwrap_or_default();
        self.head =
            RequestHeaders::read(headers, self.settings.header_limit, &self.director.headers());
        self.api = api_of(&self.head, self.settings.parsers);
        self.priority = self.director.routes().priority(self.head.objective.text(), None);
        let mode = self.modes().request;
        self.account.received(self.api.map_or("unknown", Api::name), mode.name(), now);
        if message.end_of_stream {
            return self.unread(Ended::Headers);
        }
        if self.observed && mode != BodyMode::None {
            self.phase = Phase::Body(Box::new(self.reading()));
            return;
        }
        if self.api == Some(Api::Passthrough)
            && !self.settings.parsers.contains(Parsers::PASSTHROUGH)
        {
            return self.refuse(&Refusal::NoParser);
        }
        let opaque = self.head.encoded || self.api == Some(Api::Passthrough);
        match mode {
            BodyMode::None | BodyMode::Streamed => self.unread(Ended::Open),
            BodyMode::FullDuplex if opaque => self.unread(Ended::Open),
            BodyMode::FullDuplex => self.phase = Phase::Body(Box::new(self.reading())),
            BodyMode::Buffered | BodyMode::BufferedPartial => {
                self.phase = Phase::Body(Box::new(self.reading()));
                self.push(reply::headers(Side::Request, Change::default()));
            }
        }
    }

    pub(in crate::extproc) fn request_body(&mut self, message: HttpBody) {
        let HttpBody { body, end_of_stream } = message;
        match &self.phase {
            Phase::Body(_) => self.read(body, end_of_stream),
            Phase::Relaying => self.relay(body, end_of_stream),
            Phase::Headers => self.anomaly("body_before_headers"),
            Phase::Deciding { .. } | Phase::Trailers | Phase::Done if body.is_empty() => {
                self.anomaly("duplicate_eos");
            }
            Phase::Deciding { .. } | Phase::Trailers | Phase::Done => {
                self.anomaly("body_after_eos");
            }
        }
    }

    pub(in crate::extproc) fn request_trailers(&mut self) {
        match std::mem::replace(&mut self.phase, Phase::Done) {
            Phase::Body(reading) => self.finish(*reading, Ended::Trailers),
            Phase::Relaying | Phase::Trailers => self.push(reply::trailers(Side::Request)),
            Phase::Done => self.anomaly("duplicate_request_trailers"),
            before @ (Phase::Headers | Phase::Deciding { .. }) => {
                self.anomaly("unexpected_request_trailers");
                self.phase = before;
            }
        }
    }

    /// Asks for a decision by the headers alone.
    fn unread(&mut self, ended: Ended) {
        let asked = Asked {
            parsed: Parsed::default(),
            chain: Chain::default(),
            bodyless: ended == Ended::Headers,
            pieces: Vec::new(),
            len: 0,
            ended,
        };
        if self.observed {
            return self.observe(&asked);
        }
        self.phase = Phase::Deciding { asked: Box::new(asked), target: Target::default() };
    }

    fn reading(&self) -> Held {
        let scan = if self.head.encoded { Scan::opaque() } else { Scan::new(self.api) };
        let hashing = self.director.hashing().filter(|_| !self.observed);
        Held { scan, hashing, pieces: Vec::new(), len: 0 }
    }

    fn read(&mut self, piece: Bytes, end_of_stream: bool) {
        let buffered = self.modes().request.holds_headers();
        let Phase::Body(reading) = &mut self.phase else { return };
        reading.len += piece.len();
        if !self.observed && reading.len > self.settings.body_limit {
            return self.refuse(&Refusal::TooLarge(self.settings.body_limit));
        }
        if !self.observed && !self.share.grow(piece.len() + PIECE) {
            return self.refuse(&Refusal::BudgetSpent);
        }
        reading.read(&piece);
        if !self.observed && !piece.is_empty() {
            reading.pieces.push(unpinned(piece));
        }
        if (end_of_stream || buffered)
            && let Phase::Body(reading) = std::mem::replace(&mut self.phase, Phase::Done)
        {
            let ended = if end_of_stream || !buffered { Ended::Body } else { Ended::Open };
            self.finish(*reading, ended);
        }
    }

    /// The body is read as far as it will be.
    fn finish(&mut self, held: Held, ended: Ended) {
        let truncated = ended == Ended::Open && self.modes().request == BodyMode::BufferedPartial;
        let Held { scan, hashing, pieces, len } = held;
        let lenient = truncated || self.observed;
        let parsed = if lenient { Ok(scan.finish_truncated()) } else { scan.finish() };
        let parsed = match parsed {
            Ok(parsed) => parsed,
            Err(error) => return self.refuse(&Refusal::Malformed(error)),
        };
        self.api = Some(parsed.api);
        let target = self.route(&parsed);
        let model = target.model.as_deref().or_else(|| parsed.model_name());
        let unnamed = model.is_none();
        if let Some(hashing) = &hashing {
            let (tokens, limit) = hashing.cut();
            self.blocks = Blocks::new(tokens, limit);
        }
        let chain = hashing
            .filter(|_| parsed.reading == Reading::Read)
            .map(|hashing| hashing.end(model, parsed.cache_salt.as_deref()));
        let chain = chain.unwrap_or_default();
        let asked = Box::new(Asked { parsed, chain, bodyless: false, pieces, len, ended });
        if self.observed {
            return self.observe(&asked);
        }
        if unnamed
            && asked.parsed.api.requires_model()
            && asked.parsed.reading == Reading::Read
            && !truncated
        {
            return self.refuse(&Refusal::NoModel);
        }
        self.phase = Phase::Deciding { asked, target };
    }

    /// Finds out how urgent the request is, and which model is asked for: by the rule that matches the one that the
    /// client named, else by the headers, if another name can be put into the body.
    fn route(&mut self, parsed: &Parsed) -> Target {
        let (routes, client) = (self.director.routes(), parsed.model_name());
        self.priority = routes.priority(self.head.objective.text(), client);
        let dice = u64::try_from(self.identity >> 64).unwrap_or_default();
        let targets = routes.targets(client);
        let ruled = targets.and_then(|targets| targets.draw(dice));
        let wanted = ruled.or_else(|| self.head.model_rewrite.text());
        let Some(model) = wanted.filter(|_| !self.observed) else { return Target::default() };
        if !parsed.api.rewritable() || parsed.reading == Reading::Opaque || !parsed.complete {
            self.anomaly("model_not_rewritable");
            return Target::default();
        }
        Target {
            model: (client != Some(model)).then(|| model.to_owned()),
            object: targets.map(|targets| Arc::clone(targets.object())),
        }
    }

    /// The answer begins. Envoy tells an observer no body modes, so a body that has not ended by now may never come.
    pub(in crate::extproc) fn observe_late(&mut self) {
        if self.observed
            && matches!(self.phase, Phase::Body(_))
            && let Phase::Body(reading) = std::mem::replace(&mut self.phase, Phase::Done)
        {
            let Held { scan, hashing: _, pieces, len } = *reading;
            let (parsed, chain, ended) = (scan.finish_truncated(), Chain::default(), Ended::Open);
            self.route(&parsed);
            self.observe(&Asked { parsed, chain, bodyless: false, pieces, len, ended });
        }
    }

    /// Charges what another stream has decided: an observer takes part in accounting alone.
    fn observe(&mut self, asked: &Asked) {
        self.phase = Phase::Trailers;
        self.answer.expect(self.api, None);
        let destination = self
            .head
            .destination
            .as_ref()
            .and_then(|at| std::str::from_utf8(at).ok()?.parse().ok());
        let Some(endpoint) = destination.and_then(|address| self.director.endpoint_at(address))
        else {
            return;
        };
        let model = asked.parsed.model_name();
        let who = Who {
            model,
            target: model,
            fairness_id: fairness_id(&self.head, &self.director),
            priority: self.priority,
        };
        let prompt = (asked.parsed.prompt_tokens, asked.parsed.stream);
        self.account.observed(who, endpoint, prompt);
    }

    /// Sends the request on to where it was placed.
    pub(in crate::extproc) fn place(&mut self, decision: Decision) {
        let Phase::Deciding { asked, target } = std::mem::replace(&mut self.phase, Phase::Done)
        else {
            return;
        };
        let Asked { parsed, chain, bodyless: _, pieces, len, ended } = *asked;
        let Target { model: target, object } = target;
        self.chain = chain;
        self.prediction = decision.prediction;
        self.prompt_tokens = parsed.prompt_tokens;
        let model = parsed.model_name();
        self.answer.expect(self.api, model.zip(target.as_deref()));
        if ended != Ended::Trailers {
            self.phase = Phase::Trailers;
        }
        let mut change = self.change(&decision);
        let (pieces, new_len) = match &target {
            Some(target) => rewrite(&pieces, &parsed, target),
            None => (pieces, len),
        };
        if target.is_some() && self.head.content_length {
            set_length(&mut change, new_len);
        }
        let held = self.modes().request.holds_headers();
        if held && ended == Ended::Trailers {
            self.anomaly("trailers_without_body");
        } else if held && ended != Ended::Headers {
            change.body = target.is_some().then(|| Bytes::from(pieces.concat()));
            self.push(reply::body(Side::Request, change));
        } else {
            self.push(reply::headers(Side::Request, change));
            self.send_held(pieces, ended);
        }
        if ended == Ended::Trailers {
            self.push(reply::trailers(Side::Request));
        }
        let who = Who {
            model,
            target: target.as_deref().or(model),
            fairness_id: fairness_id(&self.head, &self.director),
            priority: self.priority,
        };
        // The side car answers, whichever rank has served.
        self.served |= decision.relay.is_some();
        if let Some(endpoint) = decision.endpoints.into_iter().next() {
            self.account.placed(who, endpoint, decision.in_flight, len);
        }
        if let Some(object) = object {
            self.account.rewritten(&object);
        }
    }

    /// Sends held pieces on in full-duplex mode, and says what follows them.
    fn send_held(&mut self, pieces: Vec<Bytes>, ended: Ended) {
        match ended {
            Ended::Headers => {}
            Ended::Open => self.phase = Phase::Relaying,
            Ended::Body | Ended::Trailers => self.send(Side::Request, pieces, ended == Ended::Body),
        }
    }

    /// Passes a piece that came after the decision.
    fn relay(&mut self, body: Bytes, end_of_stream: bool) {
        match self.modes().request {
            BodyMode::FullDuplex => self.send_piece(Side::Request, body, end_of_stream),
            BodyMode::None => self.anomaly("body_in_mode_none"),
            BodyMode::Streamed | BodyMode::Buffered | BodyMode::BufferedPartial => {
                self.push(reply::body(Side::Request, Change::default()));
            }
        }
        if end_of_stream {
            self.phase = Phase::Trailers;
        }
    }

    /// What a decision changes of the headers, as a difference: what is set anew and what a client may not send.
    fn change(&self, decision: &Decision) -> Change {
        let shown = decision.endpoints.len().min(self.settings.destinations);
        let destination =
            listed(decision.endpoints.get(..shown).unwrap_or_default(), decision.relay);
        let metadata = metadata::chosen(&String::from_utf8_lossy(&destination), decision);
        let mut set_headers = vec![reply::set(metadata::DESTINATION, destination)];
        if self.head.request_id.is_none() {
            set_headers.push(reply::set("x-request-id", self.request_id()));
        }
        let relayed = decision.endpoints.first().filter(|_| decision.relay.is_some());
        set_headers.extend(relayed.map(|rank| reply::set(Relay::HEADER, rank.destination.clone())));
        let forged = |name: &&&str| relayed.is_none() || **name != Relay::HEADER;
        let removed = self.head.removed.iter().filter(forged);
        let remove_headers = removed.map(|&name| name.to_owned()).collect();
        Change {
            headers: Some(HeaderMutation { set_headers, remove_headers }),
            body: None,
            clear_route_cache: true,
            metadata: Some(metadata),
        }
    }
}

/// Whose request it is: what the header of the fairness id says, else whose session an agent names.
fn fairness_id<'a>(head: &'a RequestHeaders, director: &Director) -> Option<&'a str> {
    head.fairness_id.text().or_else(|| director.agent(&head.asked))
}

/// A piece that may be held: a small one is copied, as it would keep the whole message in memory that it came in.
fn unpinned(piece: Bytes) -> Bytes {
    if piece.len() < SMALL { Bytes::copy_from_slice(&piece) } else { piece }
}

/// The endpoints as the destination header has them, or what relays to them: a list with commas, of one mostly.
fn listed(endpoints: &[Arc<Endpoint>], relay: Option<Relay>) -> Bytes {
    let told = |endpoint: &Arc<Endpoint>| match relay {
        Some(relay) => Bytes::from(relay.address(endpoint).to_string()),
        None => endpoint.destination.clone(),
    };
    match endpoints {
        [one] => told(one),
        several => Bytes::from(several.iter().map(told).collect::<Vec<_>>().join(&b',')),
    }
}

fn set_length(change: &mut Change, len: usize) {
    if let Some(headers) = &mut change.headers {
        headers.set_headers.push(reply::set("content-length", len.to_string()));
    }
}

/// The API that the path names; without a path none, which leaves it to the body, unless no parser could read that.
fn api_of(head: &RequestHeaders, parsers: Parsers) -> Option<Api> {
    let text = |value: &Option<Bytes>| {
        value.as_ref().map(|value| String::from_utf8_lossy(value).into_owned())
    };
    match text(&head.path) {
        Some(path) => {
            let method = text(&head.method).unwrap_or_else(|| "POST".to_owned());
            Some(Api::of(&path, &method, parsers))
        }
        None => (!parsers.contains(Parsers::GUESSED)).then_some(Api::Passthrough),
    }
}
