//! What a request asks for and what its answer says, read from the bytes as they pass.
//!
//! Bodies come in pieces that are cut anywhere. Nothing is copied, built into a tree or encoded again: a resumable
//! lexer walks the bytes once, and what is found is a value or a byte range. [`Scan`] reads a request body,
//! [`rewrite()`] replaces the model name in it, [`AnswerReader`] takes token usage and timing marks from the answer,
//! and [`ModelRestorer`] gives the client its own model name back.
//!
//! Reading is lenient: only what no model server could answer is an error. Strings are not checked for control
//! characters or UTF-8; that is left to the server, which sees the same bytes.

mod api;
mod fields;
mod grpc;
mod json;
mod media;
mod restore;
mod rewrite;
mod roles;
mod scan;
mod size;
mod sse;
mod usage;
mod vllm_grpc;

use std::{fmt, ops::Range};

use smallvec::SmallVec;

pub use self::{
    api::{Api, Dialect, Parsers},
    restore::ModelRestorer,
    rewrite::rewrite,
    scan::Scan,
    size::BytesPerToken,
    usage::{AnswerReader, Seen, Usage},
};

/// Byte ranges of values in a body.
pub(crate) type Spans = SmallVec<[Range<usize>; 1]>;

/// What one request body says.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Parsed {
    /// The API, guessed from the body when no path was seen.
    pub api: Api,
    /// The top-level `model` if its last occurrence is a string of at most 4 KiB.
    pub model: Option<ModelField>,
    /// Offset after the opening brace, where a missing `model` is inserted; absent for bodies that are not read.
    pub insert_at: Option<usize>,
    /// Whether the client asked for a streamed answer: only the literal `true` counts.
    pub stream: bool,
    /// The most output tokens that the client allows; 0 is a legal value.
    pub output_cap: Option<u64>,
    /// Estimated prompt length in tokens over all prompts of a batch: text bytes / 4 rounded up per prompt, given
    /// token ids as they are, media by [`PromptPart::Media`].
    pub prompt_tokens: u64,
    /// Bytes of text that [`prompt_tokens`](Self::prompt_tokens) counts 4 to the token; 0 where its count is exact.
    pub text_bytes: u64,
    /// Images, audio clips and videos of the prompt, whose tokens are a guess.
    pub media: u32,
    /// `cache_salt` (SGLang: `extra_key`), of a long one the first 4 KiB: requests with different salts share no cached
    /// prefix.
    pub cache_salt: Option<Box<str>>,
    /// Whether the JSON document or the frame ended. False for truncated bodies and those that are not read.
    pub complete: bool,
    /// Whether the fields above mean anything.
    pub reading: Reading,
    /// Values of `model` that are no model name but stand where a server looks for one.
    stray: Spans,
}

impl Parsed {
    /// The model that the client named.
    pub fn model_name(&self) -> Option<&str> {
        self.model.as_ref().map(|model| &*model.name)
    }
}

impl fmt::Debug for Parsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parsed")
            .field("api", &self.api)
            .field("model", &self.model)
            .field("stream", &self.stream)
            .field("output_cap", &self.output_cap)
            .field("prompt_tokens", &self.prompt_tokens)
            .field("text_bytes", &self.text_bytes)
            .field("media", &self.media)
            .field("complete", &self.complete)
            .field("reading", &self.reading)
            .finish_non_exhaustive()
    }
}

/// Whether a body was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reading {
    /// It was.
    Read,
    /// It could or should not be (encoded, too deeply nested, an API that we do not read): forward it and use nothing
    /// of it, not even its lack of a model.
    #[default]
    Opaque,
}

/// The model that a body names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModelField {
    /// The name, unescaped, of the last top-level `model`.
    pub name: Box<str>,
    /// Where the values of every top-level `model` stand, quotes included: absolute offsets in the body, ascending.
    pub spans: SmallVec<[Range<usize>; 1]>,
}

/// A piece of the prompt, in document order but for [`Lead`](Self::Lead); where one part ends and the next begins means nothing.
///
/// The same prompt sent the same way gives the same bytes however its body is cut. Of a duplicated key every value is
/// given. `Debug` prints lengths only.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum PromptPart<'a> {
    /// Text, unescaped; tool definitions and other embedded JSON as they stand in the body.
    Text(&'a [u8]),
    /// The same of tools, a system text or instructions that have a field of their own: servers put them before all
    /// else, wherever they stand in the body.
    Lead(&'a [u8]),
    /// Stand-in for an image, audio clip or video, to be hashed as if it were text: a digest of its reference,
    /// repeated for 4 bytes per token that the medium is taken to cost.
    Media(&'a [u8]),
    /// A token id.
    Token(u32),
    /// What follows is the next prompt of a batch.
    Next,
}

impl fmt::Debug for PromptPart<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "Text({} bytes)", text.len()),
            Self::Lead(text) => write!(f, "Lead({} bytes)", text.len()),
            Self::Media(media) => write!(f, "Media({} bytes)", media.len()),
            Self::Token(_) => f.write_str("Token"),
            Self::Next => f.write_str("Next"),
        }
    }
}

/// Why a body cannot be what its path says: the client's fault, answered with 400. Carries no text of the body.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BodyError {
    /// The text is no JSON from this byte on.
    #[error("request body is not valid JSON at byte {at}")]
    Syntax {
        /// Offset in the body.
        at: usize,
    },
    /// The body ended inside the JSON document.
    #[error("request body is not valid JSON: it ends at byte {at}, inside the document")]
    Truncated {
        /// Length of the body.
        at: usize,
    },
    /// The document is a list, a string or another lone value.
    #[error("request body must be a JSON object")]
    NotObject,
    /// The field that holds the prompt is absent, null or of a kind that cannot be one.
    #[error("`{field}` is missing or has the wrong type")]
    Missing {
        /// Its name.
        field: &'static str,
    },
    /// The field that holds the prompt is an empty string or list.
    #[error("`{field}` must not be empty")]
    Empty {
        /// Its name.
        field: &'static str,
    },
    /// An item of the prompt is of a kind that cannot stand there.
    #[error("`{field}[{index}]` has the wrong type")]
    Item {
        /// The list's name.
        field: &'static str,
        /// Position in the list, from 0.
        index: usize,
    },
    /// The body has no whole gRPC frame, or it cannot be decoded.
    #[error("request body is not a valid gRPC message")]
    Frame,
}

#[cfg(test)]
mod tests;
