//! Token usage and timing marks from an answer as it passes. Nothing of the answer is held back or kept.

use std::{fmt, ops::Range, sync::LazyLock};

use memchr::memmem::Finder;
use smallvec::SmallVec;

use super::{
    Api,
    grpc::{Frame, Frames},
    json::{Kind, Lexer, Sink, integer},
    sse::{EventSink, Events},
    vllm_grpc,
};

/// Longest number given as a string; of a longer one the rest is cut.
const MAX_DIGITS: usize = 24;

static USAGE: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("usage"));
static META_INFO: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("meta_info"));

/// Tokens that the server says a request took.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Usage {
    /// Of the prompt.
    pub prompt: u64,
    /// Of the answer.
    pub completion: u64,
    /// The server's total when it gave both halves with it, else their sum.
    pub total: u64,
    /// Of the prompt, found in the prefix cache; absent if the server does not say.
    pub cached: Option<u64>,
}

impl Usage {
    /// Takes a newer report: what is not zero replaces what was known.
    fn merge(&mut self, newer: Self) {
        if newer.prompt > 0 {
            self.prompt = newer.prompt;
        }
        if newer.completion > 0 {
            self.completion = newer.completion;
        }
        self.cached = newer.cached.or(self.cached);
        let whole = (newer.prompt > 0) == (newer.completion > 0) && newer.total > 0;
        let sum = self.prompt.saturating_add(self.completion);
        self.total = if whole { newer.total } else { sum };
    }
}

/// What was in one piece of an answer.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Seen {
    /// Events with data, or gRPC messages, that ended in this piece; the terminator `[DONE]` does not count.
    pub events: u32,
    /// Whether one of them had content. Events that only open the stream (a role, an empty delta) do not count; once
    /// there was content, all do.
    pub token: bool,
}

/// Reads an answer as it passes.
pub struct AnswerReader {
    api: Api,
    body: Body,
    fields: Fields,
}

impl AnswerReader {
    /// An answer of this API with this `content-type`. Without a type JSON is tried; types that are neither JSON nor
    /// an event stream nor (for vLLM's gRPC API) gRPC are not read.
    pub fn new(api: Api, content_type: &[u8]) -> Self {
        let body = match Format::of(content_type) {
            _ if api.skips_response() || api == Api::Passthrough => Body::Unread,
            Format::Grpc if matches!(api, Api::VertexChat | Api::VertexRaw) => {
                Body::Wrapped(Frames::default(), None)
            }
            Format::Grpc if api.framed() => Body::Frames(Frames::default()),
            format @ (Format::Json | Format::Events) => Body::Text(Text::new(format)),
            Format::Grpc | Format::Other => Body::Unread,
        };
        Self { api, body, fields: Fields::new(api) }
    }

    /// Whether the answer comes as events whose times mean something.
    pub fn streaming(&self) -> bool {
        match &self.body {
            Body::Text(Text::Events(..)) | Body::Wrapped(_, Some(Text::Events(..))) => true,
            Body::Frames(_) => self.api == Api::VllmGrpcGenerate,
            Body::Text(_) | Body::Wrapped(..) | Body::Unread => false,
        }
    }

    /// Reads the next piece.
    pub fn feed(&mut self, piece: &[u8]) -> Seen {
        let fields = &mut self.fields;
        fields.seen = Seen::default();
        match &mut self.body {
            Body::Unread => {}
            Body::Text(text) => text.feed(piece, fields),
            Body::Frames(frames) => frames.feed(piece, &mut |frame| fields.frame(self.api, frame)),
            Body::Wrapped(frames, text) => frames.feed(piece, &mut |frame| {
                let Frame::Message(message) = frame else { return };
                let Some(body) = vllm_grpc::http_body(message) else { return };
                let format = Format::of(body.content_type.as_bytes());
                let text = text.get_or_insert_with(|| Text::new(format));
                text.feed(&body.data, fields);
            }),
        }
        fields.seen
    }

    /// All that was reported so far, as one; absent if nothing was.
    pub fn usage(&self) -> Option<Usage> {
        self.fields.usage
    }
}

impl fmt::Debug for AnswerReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerReader")
            .field("api", &self.api)
            .field("usage", &self.usage())
            .finish_non_exhaustive()
    }
}

enum Body {
    Unread,
    Text(Text),
    Frames(Frames),
    /// Frames that carry the pieces of a text.
    Wrapped(Frames, Option<Text>),
}

/// What is made of JSON.
enum Text {
    Json(Box<Lexer>),
    Events(Box<Events>),
    /// Neither, or no longer.
    Dead,
}

impl Text {
    fn new(format: Format) -> Self {
        match format {
            Format::Json => Self::Json(Box::default()),
            Format::Events => Self::Events(Box::default()),
            Format::Grpc | Format::Other => Self::Dead,
        }
    }

    /// Reads the next piece. Where it stands is of no interest.
    fn feed(&mut self, piece: &[u8], fields: &mut Fields) {
        match self {
            Self::Json(lexer) => {
                if lexer.feed(0, piece, fields).is_err() {
                    *self = Self::Dead;
                }
            }
            Self::Events(events) => events.feed(0, piece, fields),
            Self::Dead => {}
        }
    }
}

/// The format of a body by its content type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Format {
    Json,
    Events,
    Grpc,
    Other,
}

impl Format {
    pub(super) fn of(content_type: &[u8]) -> Self {
        let essence = content_type.split(|byte| *byte == b';').next().unwrap_or_default();
        let essence = essence.trim_ascii().to_ascii_lowercase();
        match essence.as_slice() {
            b"text/event-stream" => Self::Events,
            b"" | b"application/json" => Self::Json,
            essence if essence.ends_with(b"+json") => Self::Json,
            essence if essence.starts_with(b"application/grpc") => Self::Grpc,
            _ => Self::Other,
        }
    }
}

/// What a value stands for, by the keys that lead to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Role {
    #[default]
    Top,
    Skip,
    /// The `response` or `message` of an event.
    Envelope,
    Usage,
    /// Holds `cached_tokens`, counted in this place.
    Details(Count),
    /// SGLang's `meta_info`.
    Meta,
    Finish,
    Count(Count),
    Choices,
    Choice,
    Delta,
    /// Generated text or tokens, at any depth.
    Content,
}

/// A reported number, by the key that it has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Count {
    Prompt,
    Input,
    Completion,
    Output,
    Total,
    PromptCached,
    InputCached,
    Cached,
}

impl Role {
    fn member(self, key: &[u8]) -> Self {
        match (self, key) {
            (Self::Top, b"response" | b"message") => Self::Envelope,
            (Self::Top | Self::Envelope, b"usage") => Self::Usage,
            (Self::Top, b"meta_info") => Self::Meta,
            (Self::Top, b"choices") => Self::Choices,
            (Self::Top | Self::Choice, b"delta") => Self::Delta,
            (Self::Top | Self::Choice, b"text" | b"output_ids" | b"token_ids")
            | (
                Self::Delta,
                b"content" | b"reasoning_content" | b"reasoning" | b"text" | b"thinking"
                | b"partial_json" | b"refusal" | b"tool_calls" | b"function_call" | b"audio",
            )
            | (Self::Content, _) => Self::Content,
            (Self::Meta, b"finish_reason") => Self::Finish,
            (Self::Details(count), b"cached_tokens") => Self::Count(count),
            (Self::Usage, b"prompt_tokens_details") => Self::Details(Count::PromptCached),
            (Self::Usage, b"input_tokens_details") => Self::Details(Count::InputCached),
            (Self::Usage | Self::Meta, _) => Self::count(key),
            _ => Self::Skip,
        }
    }

    fn count(key: &[u8]) -> Self {
        Self::Count(match key {
            b"prompt_tokens" => Count::Prompt,
            b"input_tokens" => Count::Input,
            b"completion_tokens" => Count::Completion,
            b"output_tokens" => Count::Output,
            b"total_tokens" => Count::Total,
            b"cache_read_input_tokens" | b"cached_tokens" => Count::Cached,
            _ => return Self::Skip,
        })
    }

    fn element(self) -> Self {
        match self {
            Self::Choices => Self::Choice,
            // SGLang answers a batch with a list of answers.
            Self::Top | Self::Content => self,
            Self::Skip
            | Self::Envelope
            | Self::Usage
            | Self::Details(_)
            | Self::Meta
            | Self::Finish
            | Self::Count(_)
            | Self::Choice
            | Self::Delta => Self::Skip,
        }
    }
}

/// What was found so far.
struct Fields {
    finder: &'static Finder<'static>,
    /// Roles of the open containers; at most as many as the lexer's depth.
    stack: SmallVec<[Role; 8]>,
    role: Role,
    counts: [Option<u64>; 8],
    /// A number given as a string.
    digits: SmallVec<[u8; MAX_DIGITS]>,
    unfinished: bool,
    usage: Option<Usage>,
    content: bool,
    seen: Seen,
}

impl Fields {
    fn new(api: Api) -> Self {
        Self {
            finder: if api == Api::SglangGenerate { &META_INFO } else { &USAGE },
            stack: SmallVec::new(),
            role: Role::Top,
            counts: [None; 8],
            digits: SmallVec::new(),
            unfinished: false,
            usage: None,
            content: false,
            seen: Seen::default(),
        }
    }

    fn frame(&mut self, api: Api, frame: Frame<'_>) {
        let Frame::Message(message) = frame else { return };
        let Some((usage, token)) = vllm_grpc::answer(api, message) else { return };
        self.usage.get_or_insert_default().merge(usage);
        self.content |= token;
        self.passed();
    }

    fn set(&mut self, count: Count, text: &[u8]) {
        if let (Some(slot), Some(number)) = (self.counts.get_mut(count as usize), integer(text)) {
            *slot = Some(number);
        }
    }

    /// Merges the numbers of the block that ended.
    fn report(&mut self) {
        let [prompt, input, completion, output, total, prompt_cached, input_cached, cached] =
            std::mem::take(&mut self.counts);
        let none = |count: &Option<u64>| count.is_none_or(|count| count == 0);
        let either = |first: Option<u64>, second: Option<u64>| {
            if none(&first) { second.or(first) } else { first }
        };
        let prompt = either(prompt, input);
        let completion = either(completion, output);
        if prompt.or(completion).or(total).is_none() {
            return;
        }
        self.usage.get_or_insert_default().merge(Usage {
            prompt: prompt.unwrap_or_default(),
            completion: completion.unwrap_or_default(),
            total: total.unwrap_or_default(),
            cached: input_cached.or(prompt_cached).or(cached),
        });
    }

    fn next_role(&mut self) {
        self.role = self.stack.last().map_or(Role::Skip, |role| role.element());
    }
}

impl EventSink for Fields {
    fn wants(&mut self, document: &[u8]) -> bool {
        !self.content || self.finder.find(document).is_some()
    }

    fn reset(&mut self) {
        self.stack.clear();
        self.role = Role::Top;
    }

    fn passed(&mut self) {
        self.seen.events += 1;
        self.seen.token |= self.content;
    }
}

impl Sink for Fields {
    fn open(&mut self, _kind: Kind, _at: usize) {
        if matches!(self.role, Role::Usage | Role::Meta) {
            self.counts = [None; 8];
            self.unfinished = false;
        }
        self.stack.push(self.role);
        self.next_role();
    }

    fn close(&mut self, _at: usize) {
        let closed = self.stack.pop();
        if closed == Some(Role::Usage) || closed == Some(Role::Meta) && !self.unfinished {
            self.report();
        }
        self.next_role();
    }

    fn key(&mut self, key: &[u8]) {
        self.role = self.stack.last().map_or(Role::Skip, |role| role.member(key));
    }

    fn string_open(&mut self, _at: usize) {
        self.digits.clear();
    }

    fn string_part(&mut self, part: &[u8]) {
        if matches!(self.role, Role::Content | Role::Delta) {
            self.content = true;
        } else if let Role::Count(_) = self.role {
            let room = MAX_DIGITS - self.digits.len().min(MAX_DIGITS);
            self.digits.extend_from_slice(part.get(..room).unwrap_or(part));
        }
    }

    fn string_close(&mut self, _at: usize) {
        if let Role::Count(count) = self.role {
            let digits = std::mem::take(&mut self.digits);
            self.set(count, &digits);
        }
        self.next_role();
    }

    fn scalar(&mut self, text: &[u8], _span: Range<usize>) {
        if let Role::Count(count) = self.role {
            self.set(count, text);
        } else if self.role == Role::Finish {
            self.unfinished = text == b"null";
        } else if self.role == Role::Content {
            self.content |= text.first().is_some_and(u8::is_ascii_digit);
        }
        self.next_role();
    }
}

#[cfg(test)]
mod tests;
