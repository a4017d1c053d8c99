//! What is counted of one request, from its headers to its end.
//!
//! Every request whose headers arrived ends in exactly one outcome. Nothing here decides anything: an [`Account`] may be
//! dropped at any time and gives back what it charged.

use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use prometheus::local::LocalHistogram;

use crate::metrics::{Chosen, Labels, Metrics, Series, Spent};
use crate::pool::{Endpoint, EndpointSpec, InFlight, Prompt};
use crate::request::{Seen, Usage};

/// Events of an answer after which the times between them are told.
const GAPS: u64 = 64;

/// The code of an error that the model server answers with.
const MODEL_SERVER: &str = "ModelServerError";

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
    /// How long the request waited for an endpoint.
    queued: Duration,
    /// The code of its error, if it had one.
    error: Option<&'static str>,
    /// What a request that was refused asked for: the client's name for the model, and ours.
    refused: Option<(Box<str>, Box<str>)>,
}

/// How a request ended.
#[derive(Debug)]
pub struct Ending {
    /// When its headers came.
    pub(in crate::extproc) received: Instant,
    /// When its stream was gone.
    pub(in crate::extproc) at: Instant,
    /// The label of its outcome.
    pub(in crate::extproc) outcome: &'static str,
    /// The label of its error.
    pub(in crate::extproc) error: Option<&'static str>,
    /// The status of its answer; 0 when none was seen.
    pub(in crate::extproc) status: u16,
    /// When the first token of its answer came.
    pub(in crate::extproc) first_token: Option<Instant>,
    /// Who had it last; none where it had no place.
    pub(in crate::extproc) endpoint: Option<Arc<Endpoint>>,
    /// What was asked for.
    pub(in crate::extproc) model: Option<Box<str>>,
    /// What the client of a request that was refused named.
    pub(in crate::extproc) named: Option<Box<str>>,
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
    /// Times between events that are not in the series yet; none before there are any. Put there one by one they cost a
    /// fifth of all CPU where two threads answer requests for one model.
    gaps: Option<Box<LocalHistogram>>,
    /// The model that the server is asked for; none when the API names no model.
    target: Option<Box<str>>,
    /// The objective of the request; none where the pool knows of none.
    objective: Option<Box<str>>,
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

/// What is known of a request that has an endpoint.
#[derive(Clone, Copy, Debug)]
pub(in crate::extproc) struct Known<'a> {
    /// Who answers.
    pub(in crate::extproc) endpoint: &'a Endpoint,
    /// The model that the server is asked for.
    pub(in crate::extproc) target: Option<&'a str>,
    /// Whether that is an adapter.
    pub(in crate::extproc) adapter: bool,
    /// An objective that the pool knows.
    pub(in crate::extproc) objective: Option<&'a str>,
    /// How long the request waited for an endpoint.
    pub(in crate::extproc) queued: Duration,
    /// From the headers of the request to the first token of an answer that is streamed.
    pub(in crate::extproc) first_token: Option<Duration>,
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
    /// An objective that the pool knows.
    pub(in crate::extproc) objective: Option<&'a str>,
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
            queued: Duration::ZERO,
            error: None,
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
        series.placed(endpoint.id.epoch, || chosen(&endpoint));
        if bytes > 0 {
            series.request_size.observe(bytes as f64);
        }
        self.runs(endpoint, in_flight, series, who);
    }

    /// The request was not given a place by the decision.
    pub(in crate::extproc) fn unplaced(&self, who: Who<'_>) {
        self.series(who).unplaced();
    }

    /// The model that the request is placed for was chosen by the rule of this object.
    pub(in crate::extproc) fn rewritten(&self, object: &str) {
        if let Some(placed) = &self.placed {
            placed.series.rewritten(object);
        }
    }

    /// The request was held until there was an endpoint.
    pub(in crate::extproc) fn queued(&mut self, queued: Duration) {
        self.queued = queued;
    }

    /// What is known of the request by now; none where it has no endpoint.
    pub(in crate::extproc) fn known(&self) -> Option<Known<'_>> {
        let Placed { endpoint, in_flight, target, objective, .. } = self.placed.as_ref()?;
        let first = self.answer.first_token.filter(|_| self.answer.streaming);
        Some(Known {
            endpoint,
            target: target.as_deref(),
            adapter: in_flight.adapts(),
            objective: objective.as_deref(),
            queued: self.queued,
            first_token: first
                .zip(self.received)
                .map(|(at, from)| at.saturating_duration_since(from)),
        })
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
        self.runs(endpoint, in_flight, self.series(who), who);
    }

    fn runs(
        &mut self,
        endpoint: Arc<Endpoint>,
        in_flight: InFlight,
        series: Arc<Series>,
        who: Who<'_>,
    ) {
        let (series, target) = (Running::begin(series), who.target.map(Into::into));
        let objective = who.objective.map(Into::into);
        self.placed = Some(Placed { endpoint, in_flight, series, gaps: None, target, objective });
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
    pub(in crate::extproc) fn refused(
        &mut self,
        who: Who<'_>,
        outcome: &'static str,
        code: &'static str,
    ) {
        if self.ended.is_none() {
            self.series(who).error(code);
            (self.ended, self.error) = (Some(outcome), Some(code));
            self.refused =
                who.model.zip(who.target).map(|(model, target)| (model.into(), target.into()));
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
        if let (Some(last), Some(placed)) = (self.answer.last_event.replace(now), &mut self.placed)
        {
            let gap = seconds(Some(last), now) / f64::from(seen.events);
            let gaps = placed.gaps.get_or_insert_with(|| Box::new(placed.series.itl.local()));
            (0..seen.events).for_each(|_| gaps.observe(gap));
            if self.answer.events % GAPS < u64::from(seen.events) {
                gaps.flush();
            }
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
        if let (Some(usage), Some(placed)) = (usage, &mut self.placed) {
            placed.in_flight.told(usage.completion);
        }
        let Placed { series, endpoint, target, .. } = self.placed.as_ref()?;
        if self.answer.status >= 400 {
            series.error(MODEL_SERVER);
            self.error = Some(MODEL_SERVER);
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

    /// Whether the server began to answer as it should.
    pub(in crate::extproc) fn well_begun(&self) -> bool {
        self.answer.status < 400 && self.answer.bytes > 0
    }

    /// Events of the answer's stream that passed.
    pub(in crate::extproc) fn events(&self) -> u64 {
        self.answer.events
    }

    /// The request took so many tokens.
    pub(in crate::extproc) fn spent(&self, spent: Spent) {
        if let Some(Placed { series, objective, .. }) = &self.placed {
            series.spent(objective.as_deref().unwrap_or_default(), spent);
        }
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
        let (endpoint, target) = placed.map(|it| (it.endpoint, it.target)).unzip();
        let Answer { status, first_token, events, .. } = self.answer;
        let (named, refused) = self.refused.take().unzip();
        Some(Ending {
            received,
            at: now,
            outcome,
            error: self.error,
            status,
            first_token,
            endpoint,
            model: target.flatten().or(refused),
            named,
            adapter,
            events,
        })
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

/// The endpoint as metrics name it.
fn chosen(endpoint: &Endpoint) -> Chosen {
    let EndpointSpec { name, namespace, address, .. } = &endpoint.spec;
    Chosen {
        name: name.as_str().into(),
        namespace: namespace.as_str().into(),
        port: address.port(),
    }
}

/// Seconds from `start`; 0.0 when it never came.
fn seconds(start: Option<Instant>, now: Instant) -> f64 {
    start.map_or(0.0, |start| now.saturating_duration_since(start).as_secs_f64())
}
