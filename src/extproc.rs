//! The ext_proc protocol as a state machine without I/O.
//!
//! An [`Exchange`] is one stream: one HTTP request and its answer. Messages go in by [`Exchange::receive`]; when it says
//! so the caller gets a decision from the director for [`Exchange::ask`] and gives it to [`Exchange::decided`]; replies
//! come out by [`Exchange::pop`], in the order that the gateway needs: headers, body, trailers.
//!
//! What holds for every sequence of messages:
//! - every byte of a body is sent on once, in order, or the request is refused, which happens at most once;
//! - the body is never changed but for the value of `model`, and never copied but for that;
//! - in modes other than full duplex every message has exactly one reply;
//! - a stream is not ended by us after a body message, except after a refusal: the gateway would take an early end for
//!   an empty body;
//! - what the protocol does not foresee is counted and ignored.
//!
//! `request` is the half up to the decision, `response` the half after it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::director::{Ask, Decision, Director, Prediction, Rejection, Tag};
use crate::flow::{self, Flow};
use crate::pool::{FailureMode, Subset};
use crate::prefix::Chain;
use crate::recording::Blocks;
use crate::request::{Api, Dialect, Parsers};
use crate::schedule::Fault;
use crate::wire::processing_request::Request as Message;
use crate::wire::{ProcessingRequest, ProcessingResponse};

use self::account::{Account, Sight, Who};
use self::budget::Share;
use self::headers::RequestHeaders;
use self::hold::Waiting;
use self::modes::Modes;
use self::refusal::Refusal;
use self::reply::Side;
use self::request::Phase;
use self::response::Answer;
use self::traced::Tracked;

pub use self::account::Ending;
pub use self::budget::Budget;
pub use self::metadata::DESTINATION;
pub use self::modes::BodyMode;
pub use self::rehearsal::{Refused, Rehearsal};
pub use self::reply::set;
pub use self::summary::Summary;
pub use self::traced::Traced;

mod account;
mod budget;
mod change;
mod gateway;
mod headers;
mod hold;
mod metadata;
mod modes;
mod observed;
mod passed;
mod refusal;
mod rehearsal;
mod reply;
mod request;
mod response;
mod summary;
mod told;
mod traced;

/// The usual name of the header by which the decision behind an answer is found.
pub const DECISION: &str = "x-lodesman-decision";

/// How exchanges behave; the same for all.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which APIs are read.
    pub parsers: Parsers,
    /// Longest request body in bytes that is held for a decision; longer ones are answered with 413.
    pub body_limit: usize,
    /// Bytes of request bodies that all exchanges may hold; beyond it requests are answered with 429.
    pub budget: Arc<Budget>,
    /// What becomes of requests while there is no endpoint.
    pub flow: Arc<Flow>,
    /// How many may wait for the first; none may where it is none.
    pub hold: Option<flow::Limits>,
    /// Longest piece of a body in one reply, in bytes.
    pub chunk_limit: usize,
    /// Bytes of a header map that are looked at.
    pub header_limit: usize,
    /// Longest wait for the next piece of a request body; then 408.
    pub body_read_timeout: Duration,
    /// Longest silence of a stream after its decision, then it is taken for lost and ended; none when it may last.
    pub idle_timeout: Option<Duration>,
    /// How many of the chosen endpoints are named at most; 1 for gateways that take no list.
    pub destinations: usize,
    /// Whether the gateway's subset hint is ignored.
    pub ignore_subset: bool,
    /// Whether clients are told which endpoint served them; for conformance tests.
    pub report_served: bool,
    /// The header of an answer that tells clients the id of the decision on their request; none when they are not told.
    pub report_decision: Option<&'static str>,
    /// The namespace of dynamic metadata in which the gateway is told what became of a request; none when it is not told.
    pub summary_namespace: Option<String>,
}

/// What the caller does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Read another message.
    Read,
    /// Call [`Exchange::proceed`] before another message, once others had their turn.
    Proceed,
    /// Get a decision for [`Exchange::ask`], unless it [queues](Exchange::queues).
    Decide,
}

/// How a stream ends by our will.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// In good order.
    Ok,
    /// With the gRPC status UNAVAILABLE, so that a gateway that fails open goes on by itself.
    Unavailable,
    /// With the gRPC status INTERNAL: a fault of ours after the decision, when no answer of our own can help.
    Internal,
}

/// One ext_proc stream.
#[derive(Debug)]
pub struct Exchange {
    director: Arc<Director>,
    settings: Arc<Settings>,
    /// Known from the first message on.
    modes: Option<Modes>,
    /// The gateway takes no replies.
    observed: bool,
    /// The gateway has told who answers.
    served: bool,
    identity: u128,
    /// How urgent the request is, by what was read of it so far.
    priority: i32,
    head: RequestHeaders,
    api: Option<Api>,
    subset: Subset,
    phase: Phase,
    answer: Answer,
    /// Of the prompt that was placed.
    chain: Chain,
    /// How the prompt is cut for it.
    blocks: Blocks,
    /// Of the request that was placed.
    prediction: Prediction,
    /// Of the request, as far as a decision was asked for; 0 before that.
    prompt_tokens: u64,
    /// Bounded by what one message can cause: a body at most, cut into pieces.
    replies: VecDeque<ProcessingResponse>,
    /// What the held body and the replies made of it take of the budget.
    share: Share,
    account: Account,
    /// Where requests are traced.
    tracked: Option<Box<Tracked>>,
    /// While it waits for an endpoint.
    waiting: Option<Box<Waiting>>,
    end: Option<End>,
}

impl Exchange {
    /// An exchange that has received nothing; `identity` is random: the id of a request that has none, and what a rule
    /// with several targets draws by.
    pub fn new(director: Arc<Director>, settings: Arc<Settings>, identity: u128) -> Self {
        let account = Account::new(Arc::clone(director.metrics()));
        let share = settings.budget.share();
        Self {
            director,
            settings,
            modes: None,
            observed: false,
            served: false,
            identity,
            priority: 0,
            head: RequestHeaders::default(),
            api: None,
            subset: Subset::All,
            phase: Phase::Headers,
            answer: Answer::default(),
            chain: Chain::default(),
            blocks: Blocks::default(),
            prediction: Prediction::default(),
            prompt_tokens: 0,
            replies: VecDeque::new(),
            share,
            account,
            tracked: None,
            waiting: None,
            end: None,
        }
    }

    /// Takes a message of the gateway in.
    pub fn receive(&mut self, message: ProcessingRequest, now: Instant) -> Next {
        if self.end.is_some() {
            return Next::Read;
        }
        if self.modes.is_none() {
            self.modes = Some(message.protocol_config.map(Modes::told).unwrap_or_default());
        }
        self.observed |= message.observability_mode;
        let metadata = self.metadata(&message.metadata_context);
        match message.request {
            Some(Message::RequestHeaders(headers)) => self.request_headers(headers, now),
            Some(Message::RequestBody(body)) => self.request_body(body),
            Some(Message::RequestTrailers(_)) => self.request_trailers(),
            Some(Message::ResponseHeaders(headers)) => {
                self.response_headers(headers, metadata.as_ref(), now);
            }
            Some(Message::ResponseBody(body)) => self.response_body(body, now),
            Some(Message::ResponseTrailers(_)) => self.response_trailers(now),
            None => self.anomaly("unknown_message"),
        }
        self.heard(now);
        self.next()
    }

    /// Goes on with the last message.
    pub fn proceed(&mut self) -> Next {
        self.read_on();
        self.next()
    }

    fn next(&self) -> Next {
        match self.phase {
            Phase::Deciding { .. } if !self.waits() => Next::Decide,
            Phase::Body(ref held) if held.lags() => Next::Proceed,
            Phase::Deciding { .. }
            | Phase::Body(_)
            | Phase::Headers
            | Phase::Relaying
            | Phase::Trailers
            | Phase::Done => Next::Read,
        }
    }

    /// What the director must know to decide; none unless [`Next::Decide`] was said.
    pub fn ask(&self) -> Option<Ask<'_>> {
        let Phase::Deciding { asked, target, .. } = &self.phase else { return None };
        Some(Ask {
            request: &asked.parsed,
            chain: &asked.chain,
            headers: &self.head.asked,
            bodyless: asked.bodyless,
            model: target.model.as_deref().or_else(|| asked.parsed.model_name()),
            priority: self.priority,
            subset: &self.subset,
        })
    }

    /// Gets a decision for [`ask`](Self::ask); `dice` is random. None unless [`Next::Decide`] was said.
    pub fn decide(&mut self, dice: u64) -> Option<Result<Decision, Rejection>> {
        let (ask, traced) = (self.ask()?, self.sampled());
        if !traced && !self.director.keeps_log() {
            return Some(self.director.decide(ask, dice));
        }
        let (request_id, mut notes) = (self.request_id(), None);
        let tag = Tag { id: self.decision_id(), request_id: &request_id, traced };
        let outcome = self.director.decide_noted(Some(tag), ask, dice, &mut notes);
        self.noted(notes);
        Some(outcome)
    }

    /// Takes the director's decision in.
    pub fn decided(&mut self, outcome: Result<Decision, Rejection>, now: Instant) {
        if outcome.is_err() {
            self.account.unplaced(who(&self.phase, &self.head, self.priority));
        }
        match outcome {
            Ok(decision) => {
                self.waited("released", Some(now));
                self.place(decision);
            }
            Err(Rejection::NotSynced) if self.may_step_aside() => {
                let who = who(&self.phase, &self.head, self.priority);
                self.account.refused(who, "epp_error", "ServiceUnavailable");
                self.end = Some(End::Unavailable);
            }
            Err(Rejection::NoEndpoints) if self.director.vacant() => {
                self.lacks(&Refusal::Rejected(Rejection::NoEndpoints), now);
            }
            Err(rejection) => {
                if rejection == Rejection::NoneAllowed {
                    self.anomaly("none_allowed");
                }
                self.refuse(&Refusal::Rejected(rejection));
            }
        }
        if !self.waits() {
            self.account.processed(now);
        }
    }

    /// The next reply to send.
    #[expect(
        clippy::inline_always,
        reason = "else every reply is copied once more: a tenth of what we add to an event"
    )]
    #[inline(always)]
    pub fn pop(&mut self) -> Option<ProcessingResponse> {
        let reply = self.replies.pop_front();
        if reply.is_none() {
            self.all_sent();
        }
        reply
    }

    fn all_sent(&mut self) {
        if self.phase.holds_body() {
            return;
        }
        self.share.clear();
        if !self.answer.began() {
            // the answer may be long in coming: room for replies would be most of what waits for it
            self.replies = VecDeque::new();
        }
    }

    /// How the stream is to be ended once all replies are sent; none while it goes on.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// The gateway will send no more. Some gateways half-close as soon as the request is told and read to the end.
    pub fn half_closed(&mut self) {
        if !self.waits_half_closed() {
            self.end = self.end.or(Some(End::Ok));
        }
    }

    /// How long the gateway may be silent now; none when it may for ever.
    pub fn patience(&self) -> Option<Duration> {
        if let Some(rest) = self.rest() {
            return Some(rest);
        }
        let Settings { body_read_timeout, idle_timeout, .. } = &*self.settings;
        let silent = matches!(self.phase, Phase::Headers) && !self.answer.began();
        if silent || self.awaits_body() { Some(*body_read_timeout) } else { *idle_timeout }
    }

    /// The gateway was silent for longer than that.
    pub fn lost_patience(&mut self) {
        if self.waits() {
            self.waited_in_vain();
        } else if self.awaits_body() {
            self.refuse(&Refusal::Stalled);
        } else {
            self.anomaly("idle_stream");
            self.end = Some(End::Internal);
        }
    }

    /// A fault of ours, caught around a call of this exchange: refuses the request if that is still possible.
    pub fn failed(&mut self) {
        self.anomaly("panic");
        self.account.refused(who(&self.phase, &self.head, self.priority), "epp_error", "Internal");
        if matches!(self.phase, Phase::Headers | Phase::Relaying | Phase::Trailers | Phase::Done) {
            self.replies.clear();
            self.end = Some(End::Internal);
        } else {
            self.refuse(&Refusal::Rejected(Rejection::Internal(Fault::Panicked(
                "exchange".into(),
            ))));
        }
    }

    /// The stream is gone, for whatever reason. Must be called once, at the latest when the stream is dropped. How its
    /// request ended, if there was one.
    pub fn closed(&mut self, now: Instant) -> Option<Ending> {
        self.waited("left", None);
        let response = self.modes().response;
        let unseen = matches!(response, BodyMode::None | BodyMode::BufferedPartial)
            || (self.observed && !self.account.saw_body());
        let sight = match self.end {
            _ if self.api.is_some_and(Api::skips_response) => Sight::Unwanted,
            Some(End::Ok) => Sight::Partial,
            _ if unseen && self.answer.began() => Sight::Partial,
            _ => Sight::Full,
        };
        if sight != Sight::Unwanted && self.account.well_begun() {
            self.account.spent(self.spent());
        }
        self.account.closed(sight, now)
    }

    /// Whether the gateway is to send the next piece of a body; one that buffers sends when it has all.
    fn awaits_body(&self) -> bool {
        self.phase.holds_body() && !self.observed && !self.modes().request.holds_headers()
    }

    /// Whether the gateway can still go on without us: it keeps the body, or there is none.
    fn may_step_aside(&self) -> bool {
        let Phase::Deciding { asked, .. } = &self.phase else { return false };
        let keeps_body = asked.bodyless || self.modes().request != BodyMode::FullDuplex;
        keeps_body && self.director.failure_mode() == FailureMode::FailOpen
    }

    fn refuse(&mut self, refusal: &Refusal) {
        self.waited("refused", None);
        self.account.refused(
            who(&self.phase, &self.head, self.priority),
            refusal.outcome(),
            refusal.code(),
        );
        let dialect = self.api.map_or(Dialect::OpenAi, Api::dialect);
        let mut told = vec![set("x-request-id", self.request_id())];
        if matches!(refusal, Refusal::Rejected(_) | Refusal::Unheld(..) | Refusal::Stopping) {
            told.extend(self.decision_report());
        }
        let reply = refusal.reply(dialect, told);
        if let Phase::Deciding { asked, .. } = std::mem::replace(&mut self.phase, Phase::Done) {
            (self.chain, self.prompt_tokens) = (asked.chain, asked.parsed.prompt_tokens);
        }
        self.share.clear();
        self.push(reply);
        self.end = Some(End::Ok);
    }

    /// The client's id for the request, else one of ours. Nothing is found by it: two clients may use the same.
    pub fn request_id(&self) -> Bytes {
        let ours = || {
            Bytes::from(
                uuid::Builder::from_random_bytes(self.identity.to_be_bytes())
                    .into_uuid()
                    .to_string(),
            )
        };
        self.head.request_id.clone().unwrap_or_else(ours)
    }

    fn push(&mut self, reply: ProcessingResponse) {
        if !self.observed {
            self.replies.push_back(reply);
        }
    }

    /// Sends pieces of a body on in full-duplex mode; the end goes with the last, or with an empty one.
    fn send(&mut self, side: Side, pieces: Vec<Bytes>, end_of_stream: bool) {
        let mut pieces = pieces.into_iter().filter(|piece| !piece.is_empty()).peekable();
        if pieces.peek().is_none() && end_of_stream {
            return self.send_piece(side, Bytes::new(), true);
        }
        while let Some(piece) = pieces.next() {
            self.send_piece(side, piece, end_of_stream && pieces.peek().is_none());
        }
    }

    fn send_piece(&mut self, side: Side, piece: Bytes, end_of_stream: bool) {
        if piece.len() <= self.settings.chunk_limit {
            return self.push(reply::piece(side, piece, end_of_stream));
        }
        let mut parts = reply::parts(piece, self.settings.chunk_limit).peekable();
        while let Some(part) = parts.next() {
            let last = end_of_stream && parts.peek().is_none();
            self.push(reply::piece(side, part, last));
        }
    }

    fn modes(&self) -> Modes {
        self.modes.unwrap_or_default()
    }

    fn anomaly(&self, kind: &str) {
        self.director.metrics().anomalies.with_label_values(&[kind]).inc();
    }
}

fn who<'a>(phase: &'a Phase, head: &'a RequestHeaders, priority: i32) -> Who<'a> {
    let (model, target) = match phase {
        Phase::Deciding { asked, target } => {
            let model = asked.parsed.model_name();
            (model, target.model.as_deref().or(model))
        }
        Phase::Headers | Phase::Body(_) | Phase::Relaying | Phase::Trailers | Phase::Done => {
            (None, None)
        }
    };
    Who { model, target, objective: None, fairness_id: head.fairness_id.text(), priority }
}

#[cfg(test)]
mod tests;
