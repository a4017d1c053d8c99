//! What was found in a request body so far.

use std::ops::Range;

use smallvec::SmallVec;

use super::{
    Api, BodyError, PromptPart, Spans,
    json::{Kind, Sink, integer},
    media::{Medium, Reference},
    roles::{Role, guess, required, top},
};

/// Longest model name that is kept, and how much of a cache salt is (with one more byte).
const MAX_NAME: usize = 4096;
/// Most top-level `model` keys of a body that is read.
const MAX_MODELS: usize = 16;

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
#[derive(Clone, Default)]
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
    pub(super) salt: Option<Box<str>>,
    pub(super) stream: bool,
    pub(super) caps: [Option<u64>; 2],
    /// Where the present model value begins.
    model_from: usize,
    /// Where the part of raw JSON that was not yet given begins.
    raw_from: Option<usize>,
    /// The model or salt as it arrives, one byte more than kept at most.
    name: Vec<u8>,
    reference: Reference,
    /// Bytes of the present prompt that are not yet counted in tokens.
    text_bytes: u64,
    tokens: u64,
    /// Bytes of text of all prompts.
    pub(super) all_text: u64,
    pub(super) media: u32,
    /// Role of the present key of the document.
    top: Role,
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
        self.top = self.role;
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
            (Role::Model, _) => self.model_from = at,
            (Role::Stream, _) => self.stream = false,
            (Role::Salt, _) => self.salt = None,
            (Role::Cap(rank), _) => self.set_cap(rank, None),
            (Role::Raw, Value::Text | Value::Container(_)) => self.raw_from = Some(at),
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

    fn set_cap(&mut self, rank: usize, cap: Option<u64>) {
        if let Some(slot) = self.caps.get_mut(rank) {
            *slot = cap;
        }
    }

    fn reject_item(&mut self) {
        let field = self.api.and_then(required).unwrap_or("prompt");
        let index = self.items.saturating_sub(1);
        self.fault.get_or_insert(BodyError::Item { field, index });
    }

    fn end_model(&mut self, at: usize, name: Option<Box<str>>) {
        self.model = name;
        if !self.too_many_models() {
            self.spans.push(self.model_from..at);
        }
    }

    /// Whether `model` stands in more places than are kept.
    pub(super) fn too_many_models(&self) -> bool {
        self.spans.len() > MAX_MODELS
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
        let to = self.base + self.piece.len();
        if self.fields.raw_from.is_some() {
            self.raw(to);
            self.fields.raw_from = Some(to);
        }
    }

    /// Gives raw JSON up to `to`.
    fn raw(&mut self, to: usize) {
        let Some(from) = self.fields.raw_from.take() else { return };
        let range = from.saturating_sub(self.base)..to.saturating_sub(self.base);
        self.text(self.piece.get(range).unwrap_or_default());
    }

    fn text(&mut self, text: &[u8]) {
        self.fields.text_bytes += text.len() as u64;
        self.fields.all_text += text.len() as u64;
        let lead = matches!(self.fields.top, Role::Prose | Role::Raw);
        (self.prompt)(if lead { PromptPart::Lead(text) } else { PromptPart::Text(text) });
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
        fields.media = fields.media.saturating_add(1);
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
        let closed = self.fields.stack.pop();
        if closed == Some(Role::Model) {
            self.fields.end_model(at, None);
        } else if closed == Some(Role::Raw) {
            self.raw(at);
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
        if role.is_text() {
            self.text(part);
        } else if matches!(role, Role::Model | Role::Salt) {
            self.fields.keep_name(part);
        } else if matches!(role, Role::Media(_)) {
            self.fields.reference.add(part);
        }
        if role.satisfies() && role != Role::Messages {
            self.fields.set_presence(Presence::Given);
        }
    }

    fn string_close(&mut self, at: usize) {
        let role = self.fields.role;
        if role == Role::Model {
            let name = self.fields.take_name();
            self.fields.end_model(at, name);
        } else if role == Role::Salt {
            let salt = String::from_utf8_lossy(&self.fields.name);
            self.fields.salt = (!salt.is_empty()).then(|| salt.into());
        } else if let Role::Media(medium) = role {
            self.media(medium);
        } else if role == Role::Raw {
            self.raw(at);
        }
        self.fields.next_role();
    }

    fn scalar(&mut self, text: &[u8], span: Range<usize>) {
        self.begin(Value::Scalar, span.start);
        let role = self.fields.role;
        if matches!(role, Role::Item | Role::Inner) {
            self.token(text);
        } else if role == Role::Model {
            self.fields.end_model(span.end, None);
        } else if role == Role::Stream {
            self.fields.stream = text == b"true";
        } else if let Role::Cap(rank) = role {
            self.fields.set_cap(rank, integer(text));
        }
        self.fields.next_role();
    }
}
