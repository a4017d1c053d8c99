//! Spans as OTLP has them.

use std::time::{Duration, Instant};

use crate::spans;
use crate::wire::otlp::any_value::Value;
use crate::wire::otlp::{
    AnyValue, ArrayValue, Event, InstrumentationScope, KeyValue, ScopeSpans, Span, SpanKind,
    Status, StatusCode,
};

/// Tells the calendar's time of an instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    now: Instant,
    calendar: Duration,
}

impl Times {
    /// It is `now`, and `calendar` since 1970.
    pub(super) fn at(now: Instant, calendar: Duration) -> Self {
        Self { now, calendar }
    }

    /// The spans of a request.
    pub(super) fn encode(self, tree: spans::Tree) -> Vec<Span> {
        let spans::Tree { trace_id, state, spans } = tree;
        spans.into_iter().map(|span| self.span(span, trace_id, &state)).collect()
    }

    fn span(self, span: spans::Span, trace_id: u128, state: &str) -> Span {
        let spans::Span { name, kind, id, parent, time, attributes, events, error } = span;
        let kind = match kind {
            spans::Kind::Internal => SpanKind::Internal,
            spans::Kind::Server => SpanKind::Server,
        };
        let event = |spans::Event { name, at, attributes }| Event {
            time_unix_nano: self.nanos(at),
            name: String::from(name),
            attributes: pairs(attributes),
        };
        Span {
            trace_id: trace_id.to_be_bytes().to_vec(),
            span_id: id.to_be_bytes().to_vec(),
            trace_state: state.to_owned(),
            parent_span_id: if parent == 0 { Vec::new() } else { parent.to_be_bytes().to_vec() },
            name: name.into_owned(),
            kind: kind.into(),
            start_time_unix_nano: self.nanos(time.0),
            end_time_unix_nano: self.nanos(time.1),
            attributes: pairs(attributes),
            events: events.into_iter().map(event).collect(),
            status: error.map(|message| Status { message, code: StatusCode::Error.into() }),
        }
    }

    fn nanos(self, at: Instant) -> u64 {
        let later = self.calendar + at.saturating_duration_since(self.now);
        let since = later.saturating_sub(self.now.saturating_duration_since(at));
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// An attribute.
pub(super) fn attribute(name: &str, value: impl Into<spans::Value>) -> KeyValue {
    KeyValue { key: name.to_owned(), value: Some(any(value.into())) }
}

/// Spans, with what has made them.
pub(super) fn scope(spans: Vec<Span>) -> ScopeSpans {
    let scope = InstrumentationScope {
        name: env!("CARGO_CRATE_NAME").to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        attributes: vec![attribute("commit-sha", env!("LODESMAN_COMMIT"))],
    };
    ScopeSpans { scope: Some(scope), spans }
}

fn pairs(attributes: Vec<(&'static str, spans::Value)>) -> Vec<KeyValue> {
    attributes.into_iter().map(|(name, value)| attribute(name, value)).collect()
}

fn any(value: spans::Value) -> AnyValue {
    let value = match value {
        spans::Value::Text(text) => Value::StringValue(text),
        spans::Value::Int(number) => Value::IntValue(number),
        spans::Value::Float(number) => Value::DoubleValue(number),
        spans::Value::List(values) => {
            Value::ArrayValue(ArrayValue { values: values.into_iter().map(any).collect() })
        }
    };
    AnyValue { value: Some(value) }
}
