//! A request as if it had come, for the sake of its explanation: read as any other, then placed nowhere.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use prost::Message as _;
use serde::{Deserialize, Serialize};

use crate::director::{Director, Explanation};
use crate::extproc::{Budget, Exchange, Next, Settings};
use crate::pool::{Allowed, Subset};
use crate::wire::processing_request::Request as Message;
use crate::wire::processing_response::Response;
use crate::wire::{
    HeaderMap, HeaderValue, HttpBody, HttpHeaders, ImmediateResponse, ProcessingRequest,
    ProcessingResponse,
};

/// A request that nobody sent.
#[derive(Clone, Default)]
pub struct Rehearsal {
    /// Names in lower case, `:path` and `:method` among them, and values.
    pub headers: Vec<(Bytes, Bytes)>,
    /// Empty when it has none.
    pub body: Bytes,
    /// The endpoints that a gateway would allow, with commas; none when it allows all.
    pub subset: Option<String>,
}

/// Lengths alone.
impl fmt::Debug for Rehearsal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rehearsal")
            .field("headers", &self.headers.len())
            .field("body", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// A request that is refused before its place is looked for.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// The HTTP status of the answer.
    pub status: u16,
    /// Why, in a word.
    pub reason: String,
    /// Why, as its client would read it.
    pub message: String,
}

impl Rehearsal {
    /// Reads it and explains where it would go. `director` is one whose counts nobody sees
    /// ([`Director::aside`]); `dice` is random.
    ///
    /// # Errors
    /// When it would be refused without a look at the pool.
    pub fn explain(
        self,
        director: &Arc<Director>,
        settings: &Arc<Settings>,
        dice: u64,
        now: Instant,
    ) -> Result<Explanation, Refused> {
        // No request is refused for the bytes of this one, nor this one for theirs; its length has a limit of its own.
        let budget = Budget::new(usize::MAX);
        let settings = Arc::new(Settings { budget, ..Settings::clone(settings) });
        let ignore_subset = settings.ignore_subset;
        let mut exchange = Exchange::new(Arc::clone(director), settings, u128::from(dice) << 64);
        if let Some(subset) = self.subset.as_deref().filter(|_| !ignore_subset) {
            exchange.subset = Subset::Only(subset.split(',').filter_map(Allowed::parse).collect());
        }
        for message in self.messages() {
            let mut next = exchange.receive(message, now);
            while next == Next::Proceed {
                next = exchange.proceed();
            }
            if next == Next::Decide {
                break;
            }
        }
        match exchange.ask() {
            Some(ask) => Ok(director.explain(ask, dice)),
            None => Err(exchange.pop().and_then(Refused::told).unwrap_or_default()),
        }
    }

    /// As a gateway would send it.
    fn messages(self) -> impl Iterator<Item = ProcessingRequest> {
        let Self { headers, body, subset: _ } = self;
        let header = |(key, raw_value)| HeaderValue { key, raw_value, ..HeaderValue::default() };
        let headers = HeaderMap { headers: headers.into_iter().map(header).collect() };
        let headers = Some(headers.encode_to_vec().into());
        let head = HttpHeaders { headers, end_of_stream: body.is_empty() };
        let body = (!body.is_empty()).then_some(HttpBody { body, end_of_stream: true });
        let message =
            |request| ProcessingRequest { request: Some(request), ..ProcessingRequest::default() };
        let messages = [Some(Message::RequestHeaders(head)), body.map(Message::RequestBody)];
        messages.into_iter().flatten().map(message)
    }
}

impl Refused {
    fn told(reply: ProcessingResponse) -> Option<Self> {
        let Some(Response::ImmediateResponse(immediate)) = reply.response else { return None };
        let ImmediateResponse { status, body, details, .. } = immediate;
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
        let message = body.pointer("/error/message").and_then(serde_json::Value::as_str);
        Some(Self {
            status: u16::try_from(status.map_or(0, |status| status.code)).unwrap_or_default(),
            reason: details.trim_start_matches("lodesman_").to_owned(),
            message: message.unwrap_or_default().to_owned(),
        })
    }
}
