//! One request to the API from its body to its answer.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header::CONTENT_TYPE};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_stream::Stream;

use super::{
    anthropic,
    ask::{Api, Ask, Catalog, StreamOptions},
    denial::{Denial, json},
    driver::Driver,
    engine::{Event, Job, JobId},
    openai,
};

/// Words that answers are made of, one a token.
const WORDS: [&str; 16] = [
    " the", " harbor", " lights", " a", " course", " north", " of", " where", " tide", " and",
    " wind", " carry", " each", " ship", " to", " berth",
];

/// An answer and how far it got.
pub(super) struct Answer {
    pub(super) api: Api,
    /// Without the prefix that the API gives it.
    pub(super) id: String,
    /// Seconds since 1970.
    pub(super) created: u64,
    pub(super) model: String,
    pub(super) options: StreamOptions,
    pub(super) prompt_tokens: usize,
    pub(super) cached_tokens: usize,
    pub(super) output_tokens: usize,
    pub(super) generated: usize,
    /// Of the prompt; embeddings and words are made from it.
    pub(super) digest: u64,
    /// Inputs of an embeddings request.
    pub(super) inputs: usize,
}

impl Answer {
    /// The token that was generated last; nothing before the first.
    pub(super) fn word(&self) -> &'static str {
        let at = self.digest.wrapping_add(self.generated as u64) % WORDS.len() as u64;
        WORDS.iter().zip(0..).find(|(_, index)| *index == at).map_or("", |(word, _)| word)
    }

    pub(super) fn is_last(&self) -> bool {
        self.generated >= self.output_tokens
    }

    fn note(&mut self, event: Event) {
        match event {
            Event::FirstToken { cached_tokens, .. } => {
                self.cached_tokens = cached_tokens;
                self.generated = 1;
            }
            Event::Token { .. } => self.generated += 1,
            Event::Finished { .. } | Event::Preempted { .. } => {}
        }
    }

    /// The server-sent events for what happened; often none.
    fn chunk(&mut self, event: Event) -> Vec<u8> {
        self.note(event);
        match self.api {
            Api::Chat => openai::chat_events(self, event),
            Api::Completions => openai::completion_events(self, event),
            Api::Messages => anthropic::events(self, event),
            Api::Embeddings => Vec::new(),
        }
    }

    fn whole(&self, text: &str) -> Value {
        match self.api {
            Api::Chat => openai::chat(self, text),
            Api::Completions => openai::completion(self, text),
            Api::Messages => anthropic::message(self, text),
            Api::Embeddings => openai::embeddings(self),
        }
    }
}

/// Answers a request to the API. A client that goes away withdraws its job.
pub(super) async fn respond(
    driver: &Driver,
    catalog: &Catalog,
    api: Api,
    body: &[u8],
    created: u64,
) -> Result<Response<Body>, Denial> {
    let ask = serde_json::from_slice::<Ask>(body).map_err(|error| Denial::malformed(&error))?;
    let stream = api != Api::Embeddings && ask.stream.unwrap_or(false);
    let (answer, events) = submit(driver, catalog, api, &ask, created)?;
    if stream {
        let body = Body::from_stream(Reply { events, answer, ended: false });
        let mut response = Response::new(body);
        let kind = HeaderValue::from_static("text/event-stream; charset=utf-8");
        response.headers_mut().insert(CONTENT_TYPE, kind);
        return Ok(response);
    }
    collect(answer, events).await.map(|body| json(StatusCode::OK, &body))
}

fn submit(
    driver: &Driver,
    catalog: &Catalog,
    api: Api,
    ask: &Ask,
    created: u64,
) -> Result<(Answer, mpsc::Receiver<Event>), Denial> {
    let model = ask.model.as_ref().or_else(|| catalog.models.first()).cloned().unwrap_or_default();
    let adapter = catalog.adapter(&model)?;
    let prompt = ask.text(api)?;
    let (prompt_tokens, output_tokens) = (prompt.tokens(), ask.output_tokens(api));
    let seed = [model.as_str(), ask.cache_salt.as_deref().unwrap_or_default()];
    let blocks = prompt.blocks(seed, driver.spec().block_tokens);
    // The driver gives the job its id.
    let job = Job { id: JobId(0), prompt_tokens, blocks, output_tokens, adapter };
    let events = driver.submit(job)?;
    let answer = Answer {
        api,
        id: uuid::Uuid::new_v4().simple().to_string(),
        created,
        model,
        options: ask.stream_options.unwrap_or_default(),
        prompt_tokens,
        cached_tokens: 0,
        output_tokens,
        generated: 0,
        digest: prompt.digest() ^ catalog.seed,
        inputs: ask.inputs(),
    };
    Ok((answer, events))
}

async fn collect(mut answer: Answer, mut events: mpsc::Receiver<Event>) -> Result<Value, Denial> {
    let mut text = String::new();
    while let Some(event) = events.recv().await {
        answer.note(event);
        match event {
            Event::FirstToken { .. } | Event::Token { .. } => text.push_str(answer.word()),
            Event::Finished { .. } => return Ok(answer.whole(&text)),
            Event::Preempted { .. } => {}
        }
    }
    Err(Denial::Dropped)
}

/// The body of a streamed answer.
struct Reply {
    events: mpsc::Receiver<Event>,
    answer: Answer,
    ended: bool,
}

impl Stream for Reply {
    type Item = Result<Bytes, Denial>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        while !self.ended {
            let Some(event) = ready!(self.events.poll_recv(cx)) else {
                self.ended = true;
                return Poll::Ready(Some(Err(Denial::Dropped)));
            };
            self.ended = matches!(event, Event::Finished { .. });
            let chunk = self.answer.chunk(event);
            if !chunk.is_empty() {
                return Poll::Ready(Some(Ok(chunk.into())));
            }
        }
        Poll::Ready(None)
    }
}
