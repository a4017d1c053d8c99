//! The trace that a request belongs to: carried on to its server, and told of once the request has ended.

use std::time::{Duration, Instant};

use crate::director::Notes;
use crate::extproc::headers::for_each;
use crate::extproc::reply::set;
use crate::extproc::{Exchange, Summary};
use crate::metrics::{Source, Spent};
use crate::pool::Endpoint;
use crate::spans::{Context, Event, Ids, Kind, Sampler, Span, Tree, Value};
use crate::wire::HeaderMutation;

/// Bytes of `tracestate` that are told; of a longer one nothing is.
const LONGEST_STATE: usize = 512;

/// The place of a request in a trace, and what is noted for its spans.
#[derive(Debug)]
pub(in crate::extproc) struct Tracked {
    sampler: Sampler,
    /// None before its headers came.
    context: Option<Context>,
    /// The id of the span that the client's side has for it; 0 where it has none.
    parent: u64,
    state: Box<str>,
    notes: Option<Notes>,
    /// How long it waited for an endpoint.
    pub(in crate::extproc) waited: Option<Duration>,
    /// When its answer had ended.
    pub(in crate::extproc) completed: Option<Instant>,
}

/// A sampled request that has ended, of which spans can be made.
#[derive(Debug)]
pub struct Traced {
    tracked: Box<Tracked>,
    context: Context,
    summary: Summary,
}

impl Tracked {
    /// The context of a request that is recorded.
    fn sampled(&self) -> Option<Context> {
        self.context.filter(|context| context.sampled)
    }

    /// Reads what the headers say of a trace; `random` is.
    fn join(&mut self, headers: &[u8], limit: usize, random: u128) {
        let (mut parent, mut state) = (None, None);
        for_each(headers, limit, |name, value| match name {
            b"traceparent" => parent = Context::parse(value),
            b"tracestate" => state = std::str::from_utf8(value).ok(),
            _ => {}
        });
        self.context = Some(Context::begin(parent, self.sampler, random));
        self.parent = parent.map_or(0, |parent| parent.span_id);
        let state = state.filter(|state| parent.is_some() && state.len() <= LONGEST_STATE);
        self.state = state.unwrap_or_default().into();
    }

    /// Tells the server whose child its span is. What a client says of a trace that it does not name is void.
    pub(in crate::extproc) fn carry(&self, headers: &mut HeaderMutation) {
        let Some(context) = self.context else { return };
        headers.set_headers.push(set("traceparent", context.header()));
        if self.parent == 0 {
            headers.remove_headers.push("tracestate".to_owned());
        }
    }
}

impl Exchange {
    /// Has the request traced if it is sampled, and its context carried on in any case. To be called before its headers
    /// come.
    pub fn track(&mut self, sampler: Sampler) {
        let (state, notes) = (Box::default(), None);
        self.tracked = Some(Box::new(Tracked {
            sampler,
            context: None,
            parent: 0,
            state,
            notes,
            waited: None,
            completed: None,
        }));
    }

    /// The headers came.
    pub(in crate::extproc) fn join_trace(&mut self, headers: &[u8]) {
        match &mut self.tracked {
            // another stream tells of it
            Some(_) if self.observed => self.tracked = None,
            Some(tracked) => tracked.join(headers, self.settings.header_limit, self.identity),
            None => {}
        }
    }

    /// Whether there are to be spans of the request.
    pub fn sampled(&self) -> bool {
        self.tracked.as_ref().is_some_and(|tracked| tracked.sampled().is_some())
    }

    /// What was noted of the decision.
    pub(in crate::extproc) fn noted(&mut self, notes: Option<Notes>) {
        if let Some(tracked) = &mut self.tracked {
            tracked.notes = notes;
        }
    }

    /// The request that has ended so, if there are to be spans of it. To be asked for once.
    pub fn traced(&mut self, summary: Summary) -> Option<Traced> {
        let context = self.tracked.as_ref()?.sampled()?;
        Some(Traced { tracked: self.tracked.take()?, context, summary })
    }
}

impl Traced {
    /// About what it takes of memory.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.tracked.notes.as_ref().map_or(0, Notes::bytes)
    }

    /// Its spans.
    pub fn tree(self) -> Tree {
        let Self { tracked, context, summary } = self;
        let Tracked { parent, state, notes, waited, completed, .. } = *tracked;
        let mut ids = Ids::new(context.span_id);
        let decision = notes.map(|notes| notes.spans(context.span_id, &mut ids));
        let mut spans = vec![request(&summary, (context.span_id, parent), completed)];
        spans.extend(decision.unwrap_or_default());
        if let (Some(waited), Some(decision)) = (waited, spans.get_mut(1)) {
            let wait =
                ("llm_d.epp.decision.queue_wait_ms", Value::from(waited.as_secs_f64() * 1e3));
            decision.attributes.push(wait);
        }
        Tree { trace_id: context.trace_id, state, spans }
    }
}

/// The span of all of a request.
fn request(summary: &Summary, ids: (u64, u64), completed: Option<Instant>) -> Span {
    let endpoint = |endpoint: &Endpoint| endpoint.spec.name.clone();
    let mut span =
        Span::new("gateway.request", Kind::Server, ids, (summary.received, summary.ended))
            .with("gen_ai.request.id", summary.request_id.as_str())
            .with_known("gen_ai.request.model", summary.model.as_deref())
            .with_known("gen_ai.response.model", summary.served_model.as_deref())
            .with("lodesman.api", summary.api)
            .with("lodesman.outcome", summary.outcome)
            .with_known("lodesman.endpoint", summary.endpoint.as_deref().map(endpoint))
            .with_known("http.response.status_code", summary.status.map(i32::from));
    let usage = usage(summary.spent);
    let first = summary.first_token.map(|at| event("first_token", at, Vec::new()));
    let complete = completed.map(|at| event("complete", at, usage.clone()));
    span.attributes.extend(usage);
    span.events.extend(first.into_iter().chain(complete));
    span.error = summary.error.map(str::to_owned);
    span
}

fn event(name: &'static str, at: Instant, attributes: Vec<(&'static str, Value)>) -> Event {
    Event { name, at, attributes }
}

/// The tokens that the server has reported.
fn usage(spent: Spent) -> Vec<(&'static str, Value)> {
    let told = [
        ("gen_ai.usage.input_tokens", spent.prompt),
        ("gen_ai.usage.cache_read.input_tokens", spent.cached),
        ("gen_ai.usage.output_tokens", spent.generated),
    ];
    let reported = told.into_iter().filter(|(_, (_, source))| *source == Source::Reported);
    reported.map(|(name, (tokens, _))| (name, tokens.into())).collect()
}
