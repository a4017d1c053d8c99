//! What is counted of one request, from its headers to its end.
//!
//! Every request whose headers arrived ends in exactly one outcome. Nothing here decides anything: an [`Account`] may be
//! dropped at any time and gives back what it charged.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Instant;

use crate::metrics::{Labels, Metrics, Series};
use crate::pool::{Endpoint, InFlight, Prompt};
use crate::request::{Seen, Usage};

/// The flow of requests that name none.
const DEFAULT_FLOW: &str = "default-flow";

/// The measures of one request.
#[derive(Debug)]
pub(in crate::extproc) struct Account {
    metrics: Arc<Metrics>,
    received: Option<Instant>,
    placed: Option<Placed>,
    answer: Answer,
    ended: Option<&'static str>,
    /// What a request that was refused asked for.
    refused: Option<Box<str>>,
}

/// How a request ended.
#[derive(Debug)]
pub(in crate::extproc) struct Ending {
    /// When its headers came.
    pub(in crate::extproc) received: Instant,
    /// The label of its outcome.
    pub(in crate::extproc) outcome: &'static str,
    /// What was asked for.
    pub(in crate::extproc) model: Option<Box<str>>,
    /// Whether that is an adapter.
    pub(in crate::extproc) adapter: bool,
    /// Events of the answer's stream that passed.
    pub(in crate::extproc) events: u64,
}

/// A request that was given an endpoint.
#[derive(Debug)]
struct Placed {
    endpoint: Arc<Endpoint>,
    in_flight: InFlight,
    series: Running,
    /// The model that the server is asked for; none when the API names no model.
    target: Option<Box<str>>,
}

/// Counts one request as running until dropped.
#[derive(Debug)]
struct Running(Arc<Series>);

impl Running {
    fn begin(series: Arc<Series>) -> Self {
        series.running.inc();
        Self(series)
    }
}

impl Deref for Running {
    type Target = Series;

    fn deref(&self) -> &Series {
        &self.0
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.dec();
    }
}

/// What went by of the answer.
#[derive(Debug, Default)]
struct Answer {
    status: u16,
    bytes: u64,
    events: u64,
    streaming: bool,
    first_token: Option<Instant>,
    last_event: Option<Instant>,
}

/// How much of an answer was ours to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::extproc) enum Sight {
    /// All of it: when its end did not come, the client or the server went away.
    Full,
    /// Not its end.
    Partial,
    /// Its API is not one to be looked at.
    Unwanted,
}

/// Who a request is from and what it wants, for labels.
#[derive(Clone, Copy, Debug)]
pub(in crate::extproc) struct Who<'a> {
    pub(in crate::extproc) model: Option<&'a str>,
    pub(in crate::extproc) target: Option<&'a str>,
    pub(in crate::extproc) fairness_id: Option<&'a str>,
    pub(in crate::extproc) priority: i32,
}

impl Account {
    pub(in crate::extproc) fn new(metrics: Arc<Metrics>) -> Self {
        Self {
            metrics,
            received: None,
            placed: None,
            answer: Answer::default(),
            ended: None,
            refused: None,
        }
    }

    /// The headers of a request arrived.
    pub(in crate::extproc) fn received(&mut self, api: &str, body_mode: &str, now: Instant) {
        self.received = Some(now);
        self.metrics.received.with_label_values(&[api, body_mode]).inc();
    }

    /// The request has a place, and a body of so many bytes (0 when it is not known yet).
    pub(in crate::extproc) fn placed(
        &mut self,
        who: Who<'_>,
        endpoint: Arc<Endpoint>,
        in_flight: InFlight,
        bytes: usize,
    ) {
        let series = self.series(who);
        series.requests.inc();
        if bytes > 0 {
            series.request_size.observe(bytes as f64);
        }
        self.runs(endpoint, in_flight, series, who.target);
    }

    /// The model that the request is placed for was chosen by the rule of this object.
    pub(in crate::extproc) fn rewritten(&self, object: &str) {
        if let Some(placed) = &self.placed {
            placed.series.rewritten(object);
        }
    }

    /// The request has the place that another stream gave it, where it is counted already.
    pub(in crate::extproc) fn observed(
        &mut self,
        who: Who<'_>,
        endpoint: Arc<Endpoint>,
        (prompt_tokens, streams): (u64, bool),
    ) {
        let in_flight = InFlight::begin(&endpoint.live, prompt_tokens);
        let tokens = Prompt::uncached(prompt_tokens, 0);
        let in_flight = match self.received {
            Some(at) => in_flight.computing(Prompt { tokens, at, streams, loads: false }),
            None => in_flight,
        };
        self.runs(endpoint, in_flight, self.series(who), who.target);
    }

    fn runs(
        &mut self,
        endpoint: Arc<Endpoint>,
        in_flight: InFlight,
        series: Arc<Series>,
        target: Option<&str>,
    ) {
        let (series, target) = (Running::begin(series), target.map(Into::into));
        self.placed = Some(Placed { endpoint, in_flight, series, target });
    }

    /// Whether anything of the body of the answer passed.
    pub(in crate::extproc) fn saw_body(&self) -> bool {
        self.answer.bytes > 0
    }

    /// The answer to the request is on its way to the gateway.
    pub(in crate::extproc) fn processed(&self, now: Instant) {
        self.metrics.request_processing.observe(seconds(self.received, now));
    }

    /// The request was refused; only the first refusal counts.
    pub(in crate::extproc) fn refused(&mut self, who: Who<'_>, outcome: &'static str, code: &str) {
        if self.ended.is_none() {
            self.series(who).error(code);
            self.ended = Some(outcome);
            self.refused = who.target.map(Into::into);
        }
    }

    /// This endpoint answers; true when another one was charged so far.
    pub(in crate::extproc) fn served_by(&mut self, endpoint: &Arc<Endpoint>) -> bool {
        let Some(placed) = &mut self.placed else { return false };
        let another = placed.endpoint.id != endpoint.id;
        if another {
            placed.in_flight.move_to(&endpoint.live);
            placed.endpoint = Arc::clone(endpoint);
            self.metrics.fallback_served.inc();
        }
        another
    }

    /// The endpoint that has the request; none where it has no place.
    pub(in crate::extproc) fn endpoint(&self) -> Option<&Endpoint> {
        self.placed.as_ref().map(|placed| &*placed.endpoint)
    }

    /// The headers of the answer arrived.
    pub(in crate::extproc) fn answered(&mut self, status: u16, streaming: bool, now: Instant) {
        if let Some(placed) = &self.placed {
            placed.in_flight.answered_with(status >= 500, now);
        }
        self.answer.status = status;
        self.answer.streaming = streaming;
    }

    /// A piece of the answer passed.
    pub(in crate::extproc) fn passed(&mut self, bytes: usize, seen: Seen, now: Instant) {
        self.answer.bytes += bytes as u64;
        self.answer.events += u64::from(seen.events);
        if let Some(placed) = &mut self.placed {
            let begun = if self.answer.streaming { seen.token } else { bytes > 0 };
            match self.answer.status {
                400.. => placed.in_flight.failed(),
                _ if begun => placed.in_flight.answered(now),
                _ => {}
            }
            placed.in_flight.streamed(u64::from(seen.events), now);
        }
        if seen.token && self.answer.first_token.is_none() {
            self.answer.first_token = Some(now);
        }
        if seen.events == 0 || !self.answer.streaming {
            return;
        }
        if let (Some(last), Some(placed)) = (self.answer.last_event.replace(now), &self.placed) {
            let gap = seconds(Some(last), now) / f64::from(seen.events);
            (0..seen.events).for_each(|_| placed.series.itl.observe(gap));
        }
    }

    /// The answer ended as it should. Who gave it to a request for which model, the first time, if it is a good one.
    pub(in crate::extproc) fn completed(
        &mut self,
        usage: Option<Usage>,
        now: Instant,
    ) -> Option<(&Endpoint, Option<&str>)> {
        if self.ended.is_some() {
            return None;
        }
        self.ended = Some(match self.answer.status {
            0..400 => "ok",
            400..500 => "upstream_4xx",
            _ => "upstream_5xx",
        });
        let Placed { series, endpoint, target, .. } = self.placed.as_ref()?;
        if self.answer.status >= 400 {
            series.error("ModelServerError");
        }
        series.duration.observe(seconds(self.received, now));
        series.response_size.observe(self.answer.bytes as f64);
        if let Some(usage) = usage {
            self.tokens(series, usage, now);
        }
        if let (true, Some(first)) = (self.answer.streaming, self.answer.first_token) {
            series.ttft.observe(seconds(self.received, first));
        }
        (self.answer.status < 400).then_some((&**endpoint, target.as_deref()))
    }

    /// The stream is gone. None where no headers came, or where it was said before.
    pub(in crate::extproc) fn closed(&mut self, sight: Sight, now: Instant) -> Option<Ending> {
        let received = self.received?;
        if sight == Sight::Partial && self.answer.status >= 400 {
            self.completed(None, now);
        }
        self.received = None;
        let outcome = match (self.ended, sight) {
            (Some(_), Sight::Unwanted) if self.placed.is_some() => "unobserved",
            (Some(ended), _) => ended,
            (None, Sight::Full) => "client_disconnect",
            (None, Sight::Partial | Sight::Unwanted) => "unobserved",
        };
        self.metrics.outcomes.with_label_values(&[outcome]).inc();
        if outcome == "client_disconnect" {
            let lasted = seconds(Some(received), now);
            self.metrics.aborted.with_label_values(&[outcome]).observe(lasted);
        }
        let placed = self.placed.take();
        let adapter = placed.as_ref().is_some_and(|placed| placed.in_flight.adapts());
        let model = placed.and_then(|placed| placed.target).or_else(|| self.refused.take());
        Some(Ending { received, outcome, model, adapter, events: self.answer.events })
    }

    fn tokens(&self, series: &Series, usage: Usage, now: Instant) {
        let observe = |histogram: &prometheus::Histogram, tokens: u64| {
            if tokens > 0 {
                histogram.observe(tokens as f64);
            }
        };
        observe(&series.input_tokens, usage.prompt);
        observe(&series.output_tokens, usage.completion);
        if let Some(cached) = usage.cached {
            series.cached_tokens.observe(cached as f64);
        }
        if usage.completion > 0 {
            series.ntpot.observe(seconds(self.received, now) / usage.completion as f64);
        }
        if let (true, true, Some(first)) =
            (self.answer.streaming, usage.completion > 1, self.answer.first_token)
        {
            series.tpot.observe(seconds(Some(first), now) / (usage.completion - 1) as f64);
        }
    }

    fn series(&self, who: Who<'_>) -> Arc<Series> {
        self.metrics.series(&Labels {
            model: who.model.unwrap_or_default(),
            target: who.target.unwrap_or_default(),
            fairness_id: who.fairness_id.unwrap_or(DEFAULT_FLOW),
            priority: who.priority,
        })
    }
}

/// Seconds from `start`; 0.0 when it never came.
fn seconds(start: Option<Instant>, now: Instant) -> f64 {
    start.map_or(0.0, |start| now.saturating_duration_since(start).as_secs_f64())
}
