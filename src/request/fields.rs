//! What the keys of a request body mean, and what was found under them so far.

use std::ops::Range;

use smallvec::SmallVec;

use super::{
    Api, BodyError, PromptPart, Spans,
    json::{Kind, Sink},
    media::{Medium, Reference},
};

/// Longest model name and cache salt that are kept.
const MAX_NAME: usize = 4096;
/// Most top-level `model` keys of a body that is read.
const MAX_MODELS: usize = 16;

/// What a value stands for, by the keys that lead to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Role {
    /// The document.
    #[default]
    Top,
    /// Of no interest, with all that is in it.
    Skip,
    Model,
    Stream,
    /// A limit of output tokens; the lower number wins.
    Cap(usize),
    Salt,
    /// `sampling_params`.
    Sampling,
    /// Stands in for the prompt but is not read.
    Unread,
    /// A list of messages.
    Messages,
    /// One of them.
    Message,
    /// One prompt or a list of them, each text or token ids.
    Batch,
    /// One prompt of a batch, or one token of the only prompt.
    Item,
    /// A token of one prompt of a batch.
    Inner,
    /// One prompt: text or a list of items.
    Input,
    /// Prompt text at any depth, without the names of its keys.
    Prose,
    /// JSON that goes into the prompt as it stands.
    Raw,
    Media(Medium),
    /// `features`, or what is in it: hashes of media.
    Features,
}

impl Role {
    /// Whether a value here satisfies the need for a prompt.
    fn satisfies(self) -> bool {
        matches!(self, Self::Unread | Self::Messages | Self::Batch | Self::Input)
    }

    /// The role of a list's elements.
    fn element(self) -> Self {
        match self {
            Self::Messages => Self::Message,
            Self::Batch => Self::Item,
            Self::Item => Self::Inner,
            Self::Input | Self::Prose => Self::Prose,
            Self::Features => Self::Media(Medium::Hash),
            Self::Media(medium) => Self::Media(medium),
            _ => Self::Skip,
        }
    }

    /// The role of an object's member below the top.
    fn member(self, key: &[u8]) -> Self {
        match (self, key) {
            (Self::Sampling, b"max_tokens" | b"max_new_tokens") => Self::Cap(0),
            (Self::Media(medium), b"url" | b"data" | b"file_id") => Self::Media(medium),
            (Self::Features, b"mm_hashes") => Self::Features,
            (Self::Features, b"mm_placeholders" | b"kwargs_data") => Self::Skip,
            (Self::Features, _) => Self::Features,
            (Self::Message | Self::Prose | Self::Item | Self::Batch | Self::Input, _) => prose(key),
            _ => Self::Skip,
        }
    }
}

/// The member of a message or content block.
fn prose(key: &[u8]) -> Role {
    match key {
        b"image_url" | b"image" | b"source" | b"file_data" => Role::Media(Medium::Image),
        b"video_url" | b"video" => Role::Media(Medium::Video),
        b"input_audio" | b"audio_url" | b"audio" => Role::Media(Medium::Audio),
        b"input" => Role::Raw,
        b"type" | b"id" | b"call_id" | b"tool_call_id" | b"tool_use_id" | b"status" | b"detail"
        | b"format" | b"media_type" | b"cache_control" | b"signature" => Role::Skip,
        _ => Role::Prose,
    }
}

/// The field that holds the prompt, where one is required.
fn required(api: Api) -> Option<&'static str> {
    match api {
        Api::ChatCompletions | Api::Messages | Api::VertexChat => Some("messages"),
        Api::Completions | Api::ImagesGenerations => Some("prompt"),
        Api::Embeddings | Api::Responses | Api::VertexRaw => Some("input"),
        Api::VllmGenerate => Some("token_ids"),
        Api::SglangGenerate => Some("input_ids"),
        _ => None,
    }
}

/// The member of the document.
fn top(api: Api, key: &[u8]) -> Role {
    match (api, key) {
        (Api::SglangGenerate, b"model") => Role::Skip,
        (_, b"model") => Role::Model,
        (Api::ModelOnly, _) => Role::Skip,
        (_, b"stream") => Role::Stream,
        (Api::SglangGenerate, b"extra_key") | (_, b"cache_salt") => Role::Salt,
        (Api::VllmGenerate | Api::SglangGenerate, b"sampling_params") => Role::Sampling,
        (Api::ChatCompletions | Api::VertexChat, b"max_completion_tokens") => Role::Cap(0),
        (Api::ChatCompletions | Api::VertexChat, b"max_tokens") => Role::Cap(1),
        (Api::Completions | Api::Messages, b"max_tokens") => Role::Cap(0),
        (Api::Responses | Api::VertexRaw, b"max_output_tokens") => Role::Cap(0),
        (Api::Responses | Api::VertexRaw, b"input") | (Api::Conversations, b"items") => Role::Input,
        (Api::Responses | Api::VertexRaw, b"prompt") => Role::Unread,
        (Api::ImagesGenerations, b"prompt") | (_, b"prompt_embeds" | b"input_embeds") => {
            Role::Unread
        }
        (Api::Completions, b"prompt")
        | (Api::Embeddings, b"input")
        | (Api::VllmGenerate, b"token_ids")
        | (Api::SglangGenerate, b"input_ids" | b"text") => Role::Batch,
        (Api::VllmGenerate, b"features") => Role::Features,
        (_, b"messages") => Role::Messages,
        (_, b"system" | b"instructions") => Role::Prose,
        (_, b"tools" | b"functions" | b"documents") => Role::Raw,
        _ => Role::Skip,
    }
}

/// The API of a body without a path, by a key at its top.
fn guess(known: Option<Api>, key: &[u8]) -> Option<Api> {
    match (known, key) {
        (None, b"messages") => Some(Api::ChatCompletions),
        (None, b"prompt") => Some(Api::Completions),
        (None, b"input") => Some(Api::Embeddings),
        (_, b"instructions" | b"max_output_tokens" | b"previous_response_id") => {
            Some(Api::Responses)
        }
        _ => known,
    }
}

/// Whether there is a prompt.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
enum Presence {
    #[default]
    Absent,
    Empty,
    Given,
}

/// The kind of a value that begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Value {
    Text,
    Scalar,
    Container(Kind),
}

/// What was found in a body so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields {
    pub(super) api: Option<Api>,
    guessed: bool,
    /// Roles of the open containers; at most as many as the lexer's depth.
    stack: SmallVec<[Role; 12]>,
    /// Role of the next value.
    role: Role,
    /// 0 under the required field, 1 under one that can replace it.
    slot: usize,
    presence: [Presence; 2],
    /// Elements of the prompt list that began.
    items: usize,
    item: Option<Value>,
    pub(super) fault: Option<BodyError>,
    pub(super) insert_at: Option<usize>,
    pub(super) spans: Spans,
    /// The last `model`, if it is a string.
    pub(super) model: Option<Box<str>>,
    pub(super) too_many_models: bool,
    pub(super) salt: Option<Box<str>>,
    pub(super) stream: bool,
    pub(super) caps: [Option<u64>; 2],
    /// Where the present model value, or the part of raw JSON not yet given, begins.
    from: usize,
    raw: bool,
    /// The model or salt as it arrives, one byte more than kept at most.
    name: Vec<u8>,
    reference: Reference,
    /// Bytes of the present prompt that are not yet counted in tokens.
    text_bytes: u64,
    tokens: u64,
}

impl Fields {
    pub(super) fn new(api: Option<Api>) -> Self {
        Self { api, guessed: api.is_none(), ..Self::default() }
    }

    /// Estimated tokens so far.
    pub(super) fn tokens(&self) -> u64 {
        self.tokens + self.text_bytes.div_ceil(4)
    }

    /// What the prompt lacks, once the document has ended.
    pub(super) fn lack(&self) -> Option<BodyError> {
        let field = required(self.api?)?;
        let [main, other] = self.presence;
        match main.max(other) {
            Presence::Absent => Some(BodyError::Missing { field }),
            Presence::Empty => Some(BodyError::Empty { field }),
            Presence::Given => self.fault.clone(),
        }
    }

    fn key(&mut self, key: &[u8]) {
        let parent = self.stack.last().copied().unwrap_or_default();
        if parent != Role::Top {
            self.role = parent.member(key);
            return;
        }
        if self.guessed {
            self.api = guess(self.api, key);
        }
        let api = self.api.unwrap_or(Api::Completions);
        self.slot = usize::from(required(api).is_none_or(|field| field.as_bytes() != key));
        self.role = top(api, key);
    }

    /// Sees a value begin at `at`.
    fn begin(&mut self, value: Value, at: usize) {
        if self.role.satisfies() {
            self.items = 0;
            self.item = None;
            self.fault = None;
            self.set_presence(match (self.role, value) {
                (_, Value::Container(Kind::Array)) => Presence::Empty,
                (Role::Messages, _) | (_, Value::Scalar) => Presence::Absent,
                (_, Value::Text) => Presence::Empty,
                (_, Value::Container(Kind::Object)) => Presence::Given,
            });
        } else if self.stack.last().is_some_and(|parent| parent.satisfies()) {
            self.items += 1;
            self.set_presence(Presence::Given);
        }
        match (self.role, value) {
            (Role::Model, _) => self.from = at,
            (Role::Stream, _) => self.stream = false,
            (Role::Salt, _) => self.salt = None,
            (Role::Raw, Value::Text | Value::Container(_)) => {
                self.from = at;
                self.raw = true;
            }
            (Role::Message, Value::Text | Value::Scalar | Value::Container(Kind::Array)) => {
                self.reject_item();
            }
            (Role::Item, _) if self.item.replace(value).is_some_and(|first| first != value) => {
                self.reject_item();
            }
            _ => {}
        }
        self.name.clear();
    }

    fn set_presence(&mut self, presence: Presence) {
        if let Some(slot) = self.presence.get_mut(self.slot) {
            *slot = presence;
        }
    }

    fn reject_item(&mut self) {
        let field = self.api.and_then(required).unwrap_or("prompt");
        let index = self.items.saturating_sub(1);
        self.fault.get_or_insert(BodyError::Item { field, index });
    }

    fn end_model(&mut self, at: usize, name: Option<Box<str>>) {
        self.model = name;
        if self.spans.len() < MAX_MODELS {
            self.spans.push(self.from..at);
        } else {
            self.too_many_models = true;
        }
    }

    fn take_name(&mut self) -> Option<Box<str>> {
        let name = String::from_utf8_lossy(&self.name);
        (1..=MAX_NAME).contains(&name.len()).then(|| name.into())
    }

    fn keep_name(&mut self, part: &[u8]) {
        let room = (MAX_NAME + 1).saturating_sub(self.name.len());
        self.name.extend_from_slice(part.get(..room).unwrap_or(part));
    }

    fn close_prompt(&mut self) {
        self.tokens = self.tokens();
        self.text_bytes = 0;
    }

    /// The role of the value after the one that ended.
    fn next_role(&mut self) {
        // In an object the next key sets it.
        self.role = self.stack.last().map_or(Role::Skip, |role| role.element());
    }
}

/// The fields, fed by the lexer with one piece.
pub(super) struct Walk<'a, F> {
    pub(super) fields: &'a mut Fields,
    pub(super) base: usize,
    pub(super) piece: &'a [u8],
    pub(super) prompt: &'a mut F,
}

impl<F: FnMut(PromptPart<'_>)> Walk<'_, F> {
    /// Gives what was seen of raw JSON before the piece ended.
    pub(super) fn end_piece(&mut self) {
        if self.fields.raw {
            self.raw(self.base + self.piece.len());
        }
    }

    /// Gives raw JSON up to `to`.
    fn raw(&mut self, to: usize) {
        let from = self.fields.from.saturating_sub(self.base);
        let text = self.piece.get(from..to.saturating_sub(self.base)).unwrap_or_default();
        self.fields.from = to;
        self.text(text);
    }

    fn text(&mut self, text: &[u8]) {
        self.fields.text_bytes += text.len() as u64;
        (self.prompt)(PromptPart::Text(text));
    }

    fn begin(&mut self, value: Value, at: usize) {
        self.fields.begin(value, at);
        let fields = &mut *self.fields;
        if fields.role == Role::Item && fields.items > 1 && value != Value::Scalar {
            fields.close_prompt();
            (self.prompt)(PromptPart::Next);
        }
        if let Role::Media(_) = fields.role {
            fields.reference = Reference::default();
        }
    }

    fn token(&mut self, text: &[u8]) {
        let Some(token) = integer(text).and_then(|token| u32::try_from(token).ok()) else {
            self.fields.reject_item();
            return;
        };
        self.fields.tokens += 1;
        (self.prompt)(PromptPart::Token(token));
    }

    fn media(&mut self, medium: Medium) {
        let fields = &mut *self.fields;
        let tokens = fields.reference.tokens(medium);
        fields.reference.stand_in(tokens, |bytes| (self.prompt)(PromptPart::Media(bytes)));
        if medium != Medium::Hash {
            fields.close_prompt();
            fields.tokens += tokens;
        }
    }
}

impl<F: FnMut(PromptPart<'_>)> Sink for Walk<'_, F> {
    fn open(&mut self, kind: Kind, at: usize) {
        self.begin(Value::Container(kind), at);
        let fields = &mut *self.fields;
        if fields.stack.is_empty() {
            fields.role = if kind == Kind::Object { Role::Top } else { Role::Skip };
            fields.insert_at = (kind == Kind::Object).then_some(at + 1);
        }
        fields.stack.push(fields.role);
        fields.next_role();
    }

    fn close(&mut self, at: usize) {
        match self.fields.stack.pop() {
            Some(Role::Model) => self.fields.end_model(at, None),
            Some(Role::Raw) => {
                self.raw(at);
                self.fields.raw = false;
            }
            _ => {}
        }
        self.fields.next_role();
    }

    fn key(&mut self, key: &[u8]) {
        self.fields.key(key);
    }

    fn string_open(&mut self, at: usize) {
        self.begin(Value::Text, at);
    }

    fn string_part(&mut self, part: &[u8]) {
        let role = self.fields.role;
        match role {
            Role::Model | Role::Salt => self.fields.keep_name(part),
            Role::Media(_) => self.fields.reference.add(part),
            Role::Batch | Role::Item | Role::Inner | Role::Input | Role::Prose => self.text(part),
            _ => {}
        }
        if role.satisfies() && role != Role::Messages {
            self.fields.set_presence(Presence::Given);
        }
    }

    fn string_close(&mut self, at: usize) {
        match self.fields.role {
            Role::Model => {
                let name = self.fields.take_name();
                self.fields.end_model(at, name);
            }
            Role::Salt => self.fields.salt = self.fields.take_name(),
            Role::Media(medium) => self.media(medium),
            Role::Raw => {
                self.raw(at);
                self.fields.raw = false;
            }
            _ => {}
        }
        self.fields.next_role();
    }

    fn scalar(&mut self, text: &[u8], span: Range<usize>) {
        self.begin(Value::Scalar, span.start);
        let fields = &mut *self.fields;
        match fields.role {
            Role::Model => fields.end_model(span.end, None),
            Role::Stream => fields.stream = text == b"true",
            Role::Cap(rank) => {
                if let Some(cap) = fields.caps.get_mut(rank) {
                    *cap = integer(text);
                }
            }
            Role::Item | Role::Inner => self.token(text),
            _ => {}
        }
        self.fields.next_role();
    }
}

/// A non-negative integral number, also as `1.0` or `1e3`.
fn integer(text: &[u8]) -> Option<u64> {
    if text.iter().all(u8::is_ascii_digit) {
        return text.iter().try_fold(0_u64, |number, digit| {
            number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
        });
    }
    let number: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    // Above 2^53 a fraction cannot be told any more.
    let whole = number.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&number);
    whole.then(|| format!("{number:.0}").parse().ok())?
}
