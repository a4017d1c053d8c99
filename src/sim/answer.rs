//! One request to the API from its body to its answer.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header::CONTENT_TYPE};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_stream::Stream;

use super::{
    anthropic,
    driver::{Driver, SubmitError},
    engine::{AdapterId, Event, Job, JobId},
    openai,
    prompt::Prompt,
};

/// Output tokens of a request that does not say how many.
const DEFAULT_OUTPUT_TOKENS: usize = 16;

/// Words that answers are made of, one a token.
const WORDS: [&str; 16] = [
    " the", " harbor", " lights", " a", " course", " north", " of", " where", " tide", " and",
    " wind", " carry", " each", " ship", " to", " berth",
];

/// A path of the API that takes a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Api {
    Chat,
    Completions,
    Messages,
    Embeddings,
}

impl Api {
    pub(super) fn of(path: &str) -> Option<Self> {
        match path {
            "/v1/chat/completions" => Some(Self::Chat),
            "/v1/completions" => Some(Self::Completions),
            "/v1/messages" => Some(Self::Messages),
            "/v1/embeddings" => Some(Self::Embeddings),
            _ => None,
        }
    }
}

/// What a server serves, the same for all of a fleet.
#[derive(Clone, Debug)]
pub(super) struct Catalog {
    pub(super) models: Vec<String>,
    /// Adapters of the first model; the position is the id.
    pub(super) loras: Vec<String>,
    pub(super) seed: u64,
}

impl Catalog {
    /// The adapter that a model name stands for, none for a base model; an error for an unknown
    /// name.
    fn adapter(&self, model: &str) -> Result<Option<AdapterId>, Denial> {
        if self.models.iter().any(|known| known == model) {
            return Ok(None);
        }
        let at = self.loras.iter().position(|known| known == model);
        let id = at.and_then(|at| u32::try_from(at).ok());
        id.map(|id| Some(AdapterId(id))).ok_or_else(|| Denial::UnknownModel(model.to_owned()))
    }

    /// The name of an adapter; empty for one that there is not.
    pub(super) fn name(&self, adapter: AdapterId) -> &str {
        self.loras.get(adapter.0 as usize).map_or("", String::as_str)
    }
}

/// The fields that matter of a request body, over all paths.
#[derive(Deserialize)]
struct Ask {
    model: Option<String>,
    #[serde(default)]
    tools: Value,
    #[serde(default)]
    system: Value,
    #[serde(default)]
    messages: Value,
    #[serde(default)]
    prompt: Value,
    #[serde(default)]
    input: Value,
    max_tokens: Option<usize>,
    max_completion_tokens: Option<usize>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    cache_salt: Option<String>,
}

/// When a stream tells its usage.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StreamOptions {
    /// In a chunk of its own at the end.
    pub(super) include_usage: bool,
    /// In each chunk; has an effect only with `include_usage`.
    pub(super) continuous_usage_stats: bool,
}

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
    let (answer, events) = submit(driver, catalog, api, ask, created)?;
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
    ask: Ask,
    created: u64,
) -> Result<(Answer, mpsc::Receiver<Event>), Denial> {
    let base = catalog.models.first().cloned().unwrap_or_default();
    let model = ask.model.unwrap_or(base);
    let adapter = catalog.adapter(&model)?;
    let text = match api {
        Api::Chat | Api::Messages => &ask.messages,
        Api::Completions => &ask.prompt,
        Api::Embeddings => &ask.input,
    };
    if text.is_null() {
        return Err(Denial::BadRequest("the request has no prompt".to_owned()));
    }
    let mut prompt = Prompt::default();
    for part in [&ask.tools, &ask.system, text] {
        prompt.add(part);
    }
    let wanted = ask.max_completion_tokens.or(ask.max_tokens).unwrap_or(DEFAULT_OUTPUT_TOKENS);
    let output_tokens = if api == Api::Embeddings { 1 } else { wanted.max(1) };
    let seed = [model.as_str(), ask.cache_salt.as_deref().unwrap_or_default()];
    let blocks = prompt.blocks(seed, driver.spec().block_tokens);
    let prompt_tokens = prompt.tokens();
    // The driver gives the job its id.
    let job = Job { id: JobId(0), prompt_tokens, blocks, output_tokens, adapter };
    let events = driver.submit(job)?;
    let digest = prompt.digest() ^ catalog.seed;
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
        digest,
        inputs: inputs(&ask.input),
    };
    Ok((answer, events))
}

/// A list of token ids is one input, any other list one for each element.
fn inputs(input: &Value) -> usize {
    let list = input.as_array().filter(|values| !values.iter().all(Value::is_number));
    list.map_or(1, Vec::len)
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

/// Why the API gives no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Denial {
    #[error("{0}")]
    BadRequest(String),
    #[error("The model `{0}` does not exist.")]
    UnknownModel(String),
    #[error(transparent)]
    NotTaken(#[from] SubmitError),
    #[error("the job was dropped")]
    Dropped,
    #[error("Internal server error")]
    Ordered,
}

impl Denial {
    /// Names the place and the class of the error; its message might quote the body.
    fn malformed(error: &serde_json::Error) -> Self {
        let (line, column) = (error.line(), error.column());
        Self::BadRequest(format!("malformed body at line {line}, column {column}"))
    }

    /// The answer in vLLM's shape.
    pub(super) fn response(&self) -> Response<Body> {
        let (status, kind, param) = match self {
            Self::BadRequest(_) | Self::NotTaken(SubmitError::Refused(_)) => {
                (StatusCode::BAD_REQUEST, "BadRequestError", None)
            }
            Self::UnknownModel(_) => (StatusCode::NOT_FOUND, "NotFoundError", Some("model")),
            Self::NotTaken(SubmitError::Full) => {
                (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailableError", None)
            }
            Self::Dropped | Self::Ordered => {
                (StatusCode::INTERNAL_SERVER_ERROR, "InternalServerError", None)
            }
        };
        let message = self.to_string();
        let code = status.as_u16();
        let error =
            serde_json::json!({"message": message, "type": kind, "param": param, "code": code});
        json(status, &serde_json::json!({ "error": error }))
    }
}

/// A response with a JSON body.
pub(super) fn json(status: StatusCode, body: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
