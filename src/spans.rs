//! Spans of requests as OpenTelemetry knows them: values, made after a request has ended of what was noted meanwhile.
//!
//! [`Context`] is what a request carries in `traceparent`, [`Sampler`] says of which requests there are spans, and
//! [`Tracer`] hands on what they are made of.

use std::borrow::Cow;
use std::time::Instant;

pub use self::context::Context;
pub use self::sampler::Sampler;
pub use self::tracer::{Making, Tracer};

mod context;
mod sampler;
mod tracer;

/// The spans of one request.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    /// The trace that they belong to.
    pub trace_id: u128,
    /// The `tracestate` that came with it.
    pub state: Box<str>,
    /// The first is the parent of the others, or their ancestor.
    pub spans: Vec<Span>,
}

/// Something that took time.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// What it was.
    pub name: Cow<'static, str>,
    /// Whether it served somebody else's request.
    pub kind: Kind,
    /// Its id; not 0.
    pub id: u64,
    /// That of its parent; 0 when it has none.
    pub parent: u64,
    /// When it began and ended.
    pub time: (Instant, Instant),
    /// Names and values.
    pub attributes: Vec<(&'static str, Value)>,
    /// What happened meanwhile.
    pub events: Vec<Event>,
    /// Why it failed; none when it did not.
    pub error: Option<String>,
}

/// What a span is to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A part of our own work.
    Internal,
    /// The work for a request from elsewhere.
    Server,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A text.
    Text(String),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// Values in order.
    List(Vec<Value>),
}

/// A point in the time of a span.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// What happened.
    pub name: &'static str,
    /// When.
    pub at: Instant,
    /// Names and values.
    pub attributes: Vec<(&'static str, Value)>,
}

/// Makes ids of spans that look random, from a seed that is.
#[derive(Clone, Copy, Debug)]
pub struct Ids(u64);

impl Span {
    /// A span below `parent` without attributes.
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        kind: Kind,
        (id, parent): (u64, u64),
        time: (Instant, Instant),
    ) -> Self {
        let (attributes, events) = (Vec::new(), Vec::new());
        Self { name: name.into(), kind, id, parent, time, attributes, events, error: None }
    }

    /// With this attribute.
    #[must_use]
    pub fn with(self, name: &'static str, value: impl Into<Value>) -> Self {
        self.with_known(name, Some(value))
    }

    /// With this attribute where its value is known.
    #[must_use]
    pub fn with_known(mut self, name: &'static str, value: Option<impl Into<Value>>) -> Self {
        self.attributes.extend(value.map(|value| (name, value.into())));
        self
    }
}

impl Ids {
    /// Ids from this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next one, by the generator `SplitMix64`.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).max(1)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        Self::from(number as u64)
    }
}

impl From<i32> for Value {
    fn from(number: i32) -> Self {
        Self::Int(number.into())
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Float(number)
    }
}

impl From<f32> for Value {
    fn from(number: f32) -> Self {
        Self::Float(number.into())
    }
}

impl<T: Into<Self>> FromIterator<T> for Value {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Self::List(values.into_iter().map(Into::into).collect())
    }
}
