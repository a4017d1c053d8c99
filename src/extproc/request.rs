//! The half of an exchange up to the decision: headers, body and trailers of the request.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use crate::director::{Decision, Director};
use crate::extproc::account::Who;
use crate::extproc::headers::{Line, RequestHeaders};
use crate::extproc::refusal::Refusal;
use crate::extproc::reply::{self, Change, Side};
use crate::extproc::{BodyMode, Exchange, budget};
use crate::prefix::{Chain, Hashing};
use crate::recording::Blocks;
use crate::request::{Api, Parsed, Parsers, Reading, Scan, rewrite};
use crate::wire::{HttpBody, HttpHeaders};

/// Pieces of at most this many bytes are copied when they are held: the longest frame of HTTP/2 that we take, which is all
/// that can be a slice of a larger buffer.
const SMALL: usize = 16 * 1024;

/// Bytes of a body that are read at a time: 0.2 ms for text full of escapes. Gateways mostly send fewer at once, but a
/// buffered body comes as one.
const SLICE: usize = 128 * 1024;

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
    /// What is not read yet of the last piece.
    unread: Bytes,
    /// How the body ends with the last piece; none while more will come.
    ended: Option<Ended>,
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
    /// Whether there is something to read that has come.
    pub(in crate::extproc) fn lags(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Takes a piece, and reads its beginning.
    fn take(&mut self, piece: Bytes, keep: bool) {
        let (now, later) = piece.split_at_checked(SLICE).unwrap_or((&piece, &[]));
        self.read(now);
        self.unread = piece.slice_ref(later);
        if keep && !piece.is_empty() {
            self.pieces.push(unpinned(piece));
        }
    }

    /// Reads on in the last piece.
    fn read_on(&mut self) {
        let slice = self.unread.split_to(self.unread.len().min(SLICE));
        self.read(&slice);
    }

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

impl Asked {
    /// Whether more of the body may come.
    pub(in crate::extproc) fn open(&self) -> bool {
        self.ended == Ended::Open
    }

    /// Keeps a further piece of a body that is not read; the length of all.
    pub(in crate::extproc) fn keep(&mut self, piece: Bytes, end_of_stream: bool) -> usize {
        self.len += piece.len();
        if !piece.is_empty() {
            self.pieces.push(unpinned(piece));
        }
        if end_of_stream {
            self.ended = Ended::Body;
        }
        self.len
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
        let (line, head) =
            RequestHeaders::read(&headers, self.settings.header_limit, &self.director.headers());
        self.head = head;
        self.join_trace(&headers);
        self.api = api_of(line, self.settings.parsers);
        self.priority = self.director.routes().priority(self.head.objective.text(), None);
        if !self.head.removed.is_empty() {
            self.warn_of_headers();
        }
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

    /// Counts what the client may believe of its control headers and is not so.
    fn warn_of_headers(&self) {
        let warn = |kind: &str| {
            self.director.metrics().header_warnings.with_label_values(&[kind]).inc();
        };
        if self.head.old_names() {
            warn("deprecated_name");
        }
        let objective = self.head.objective.text();
        if objective.is_some() && self.director.routes().objective(objective).is_none() {
            warn("unknown_objective");
        }
    }

    pub(in crate::extproc) fn request_body(&mut self, message: HttpBody) {
        let HttpBody { body, end_of_stream } = message;
        match &self.phase {
            Phase::Body(_) => self.read(body, end_of_stream),
            Phase::Relaying => self.relay(body, end_of_stream),
            Phase::Headers => self.anomaly("body_before_headers"),
            Phase::Deciding { .. } if self.waits() => self.keep(body, end_of_stream),
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
            Phase::Deciding { mut asked, target } if self.waits() && asked.open() => {
                asked.ended = Ended::Trailers;
                self.phase = Phase::Deciding { asked, target };
            }
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
        Held { scan, hashing, pieces: Vec::new(), len: 0, unread: Bytes::new(), ended: None }
    }

    fn read(&mut self, piece: Bytes, end_of_stream: bool) {
        let buffered = self.modes().request.holds_headers();
        let Phase::Body(reading) = &mut self.phase else { return };
        reading.len += piece.len();
        if !self.observed && reading.len > self.settings.body_limit {
            return self.refuse(&Refusal::TooLarge(self.settings.body_limit));
        }
        if !self.observed && !self.share.grow(budget::cost(piece.len())) {
            return self.refuse(&Refusal::BudgetSpent);
        }
        reading.take(piece, !self.observed);
        if end_of_stream || buffered {
            reading.ended = Some(if end_of_stream { Ended::Body } else { Ended::Open });
        }
        self.finish_read();
    }

    /// Reads on in a long piece.
    pub(in crate::extproc) fn read_on(&mut self) {
        if let Phase::Body(held) = &mut self.phase {
            held.read_on();
            self.finish_read();
        }
    }

    /// Goes on to the decision if all of the body is read.
    fn finish_read(&mut self) {
        let Phase::Body(held) = &self.phase else { return };
        if let (false, Some(ended)) = (held.lags(), held.ended)
            && let Phase::Body(held) = std::mem::replace(&mut self.phase, Phase::Done)
        {
            self.finish(*held, ended);
        }
    }

    /// The body is read as far as it will be.
    fn finish(&mut self, held: Held, ended: Ended) {
        let truncated = ended == Ended::Open && self.modes().request == BodyMode::BufferedPartial;
        let Held { scan, hashing, pieces, len, unread: _, ended: _ } = held;
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
            let Held { scan, pieces, len, .. } = *reading;
            let (parsed, chain, ended) = (scan.finish_truncated(), Chain::default(), Ended::Open);
            self.route(&parsed);
            self.observe(&Asked { parsed, chain, bodyless: false, pieces, len, ended });
        }
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
        let routes = self.director.routes();
        let who = Who {
            model,
            target: target.as_deref().or(model),
            objective: routes.objective(self.head.objective.text()),
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
            Ended::Open => {
                self.send(Side::Request, pieces, false);
                self.phase = Phase::Relaying;
            }
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
}

/// Whose request it is: what the header of the fairness id says, else whose session an agent names.
pub(in crate::extproc) fn fairness_id<'a>(
    head: &'a RequestHeaders,
    director: &Director,
) -> Option<&'a str> {
    head.fairness_id.text().or_else(|| director.agent(&head.asked))
}

/// A piece that may be held: a small one is copied, as it would keep the whole message in memory that it came in.
fn unpinned(piece: Bytes) -> Bytes {
    if piece.len() <= SMALL { Bytes::copy_from_slice(&piece) } else { piece }
}

fn set_length(change: &mut Change, len: usize) {
    if let Some(headers) = &mut change.headers {
        headers.set_headers.push(reply::set("content-length", len.to_string()));
    }
}

/// The API that the path names; without a path none, which leaves it to the body, unless no parser could read that. What
/// comes through a tunnel is no body.
fn api_of(line: Line<'_>, parsers: Parsers) -> Option<Api> {
    let method = String::from_utf8_lossy(line.method.unwrap_or(b"POST"));
    match line.path.map(String::from_utf8_lossy) {
        _ if method == "CONNECT" => Some(Api::Passthrough),
        Some(path) => Some(Api::of(&path, &method, parsers)),
        None => (!parsers.contains(Parsers::GUESSED)).then_some(Api::Passthrough),
    }
}
