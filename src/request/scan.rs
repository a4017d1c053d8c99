//! Reads one request body as it arrives.

use std::fmt;

use super::{
    Api, BodyError, Parsed, PromptPart, Reading,
    fields::{Fields, Walk},
    grpc::{Frame, Frames},
    json::{Fault, Lexer},
    vllm_grpc,
};

/// One request body as it arrives. Holds no piece of it, except a gRPC message that is cut.
///
/// Feed every piece in order, then [`finish`](Self::finish).
pub struct Scan {
    api: Option<Api>,
    length: usize,
    body: Body,
}

impl Scan {
    /// A body of this API; without one (no path was seen) the API is guessed from the first key that tells:
    /// `messages` is a chat, `prompt` a completion, `input` an embedding or, next to `instructions` and the like, a
    /// response.
    pub fn new(api: Option<Api>) -> Self {
        let body = match api {
            Some(Api::CountTokens | Api::VllmGrpcOther | Api::Passthrough) => Body::Unread,
            Some(api) if api.framed() => Body::Framed(Box::new(Framed::new(api))),
            _ => Body::Json(Box::new(Document::new(api))),
        };
        Self { api, length: 0, body }
    }

    /// A body that is not read, as one with a content encoding.
    pub fn opaque() -> Self {
        Self { api: None, length: 0, body: Body::Unread }
    }

    /// Reads the next piece and hands what belongs to the prompt to `prompt`.
    pub fn feed(&mut self, piece: &[u8], prompt: &mut impl FnMut(PromptPart<'_>)) {
        match &mut self.body {
            Body::Unread => {}
            Body::Json(document) => document.feed(self.length, piece, prompt),
            Body::Framed(framed) => framed.feed(piece, prompt),
        }
        self.length += piece.len();
    }

    /// What the whole body says.
    ///
    /// # Errors
    ///
    /// When no model server could answer it: it is no JSON object, no gRPC message, or has no prompt. Never for APIs
    /// of which only the model is read.
    pub fn finish(self) -> Result<Parsed, BodyError> {
        let (api, length) = (self.api, self.length);
        match self.body {
            Body::Unread => Ok(unread(api)),
            Body::Json(document) => document.finish(length),
            Body::Framed(framed) => framed.finish(),
        }
    }

    /// What the beginning of a body says, of which the rest will not be seen. Never fails.
    pub fn finish_truncated(self) -> Parsed {
        match self.body {
            Body::Json(document) if document.begun() => document.parsed(),
            Body::Framed(framed) => framed.finish().unwrap_or_else(|_| unread(self.api)),
            Body::Json(_) | Body::Unread => unread(self.api),
        }
    }
}

impl fmt::Debug for Scan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { api, length, body: _ } = self;
        f.debug_struct("Scan").field("api", api).field("length", length).finish_non_exhaustive()
    }
}

enum Body {
    Unread,
    Json(Box<Document>),
    Framed(Box<Framed>),
}

/// A JSON body.
struct Document {
    lexer: Lexer,
    fields: Fields,
    fault: Option<Fault>,
}

impl Document {
    fn new(api: Option<Api>) -> Self {
        Self { lexer: Lexer::default(), fields: Fields::new(api), fault: None }
    }

    fn feed(&mut self, base: usize, piece: &[u8], prompt: &mut impl FnMut(PromptPart<'_>)) {
        if self.fault.is_some() {
            return;
        }
        let mut walk = Walk { fields: &mut self.fields, base, piece, prompt };
        self.fault = self.lexer.feed(base, piece, &mut walk).err();
        walk.end_piece();
        if self.fields.too_many_models() {
            self.fault = Some(Fault::TooDeep);
        }
    }

    fn finish(self, length: usize) -> Result<Parsed, BodyError> {
        let api = self.fields.api;
        let error = match self.fault {
            Some(Fault::TooDeep) => return Ok(unread(api)),
            Some(Fault::Syntax(at)) => Some(BodyError::Syntax { at }),
            None if self.fields.insert_at.is_none() && !self.lexer.untouched() => {
                Some(BodyError::NotObject)
            }
            None if !self.lexer.done() => Some(BodyError::Truncated { at: length }),
            None => self.fields.lack(),
        };
        match error {
            Some(_) if api == Some(Api::ModelOnly) => Ok(unread(api)),
            Some(error) => Err(error),
            None => Ok(self.parsed()),
        }
    }

    /// Whether a JSON object has begun, and is one so far.
    fn begun(&self) -> bool {
        self.fault.is_none() && self.fields.insert_at.is_some()
    }

    fn parsed(self) -> Parsed {
        let complete = self.lexer.done();
        let prompt_tokens = self.fields.tokens();
        let fields = self.fields;
        let [first, second] = fields.caps;
        let mut parsed = Parsed {
            api: fields.api.unwrap_or(Api::ModelOnly),
            insert_at: fields.insert_at,
            stream: fields.stream,
            output_cap: first.or(second),
            prompt_tokens,
            text_bytes: fields.all_text,
            media: fields.media,
            cache_salt: fields.salt,
            complete,
            reading: Reading::Read,
            ..Parsed::default()
        };
        parsed.name_model(fields.model, fields.spans);
        parsed
    }
}

/// A body of gRPC frames. Only the first is read.
struct Framed {
    api: Api,
    frames: Frames,
    /// What the first frame said.
    first: Option<Result<Parsed, BodyError>>,
}

impl Framed {
    fn new(api: Api) -> Self {
        Self { api, frames: Frames::default(), first: None }
    }

    fn feed(&mut self, piece: &[u8], prompt: &mut impl FnMut(PromptPart<'_>)) {
        let Self { api, frames, first } = self;
        if first.is_none() {
            frames.feed(piece, &mut |frame| {
                first.get_or_insert_with(|| match frame {
                    Frame::Message(message) => read(*api, message, prompt),
                    Frame::TooLong => Ok(unread(Some(*api))),
                    Frame::Malformed => Err(BodyError::Frame),
                });
            });
        }
    }

    fn finish(self) -> Result<Parsed, BodyError> {
        self.first.unwrap_or(Err(BodyError::Frame))
    }
}

fn read(
    api: Api,
    message: &[u8],
    prompt: &mut impl FnMut(PromptPart<'_>),
) -> Result<Parsed, BodyError> {
    if !matches!(api, Api::VertexChat | Api::VertexRaw) {
        return vllm_grpc::request(api, message, prompt).ok_or(BodyError::Frame)?;
    }
    let body = vllm_grpc::http_body(message).ok_or(BodyError::Frame)?;
    let mut document = Document::new(Some(api));
    document.feed(0, &body.data, prompt);
    Ok(document.finish(body.data.len())?.without_offsets())
}

fn unread(api: Option<Api>) -> Parsed {
    Parsed { api: api.unwrap_or_default(), ..Parsed::default() }
}
