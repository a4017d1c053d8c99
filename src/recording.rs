//! What is recorded of requests as they pass, so that they can be replayed.
//!
//! A recording is a file of JSON objects, one a line: first a [`Header`], then a [`Line`] for each request in the order
//! in which they ended. It holds no text. Where two prompts begin alike is told by hashes of their blocks, made under a
//! key that nobody keeps: they mean nothing outside their file.

use serde::{Deserialize, Serialize};

use crate::prefix::BLOCK_TOKENS;

pub use self::recorder::{Key, Passed, Recorder};

mod recorder;

/// Blocks of a prompt that are recorded at most, whatever the index looks at.
const MOST_BLOCKS: usize = 2_048;

/// The version of the format that is written, and the highest that is read.
pub const VERSION: u32 = 1;

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// [`VERSION`]; by this field a recording is known.
    pub lodesman_trace: u32,
    /// Tokens of a block of [`Line::blocks`], 4 bytes of text to the token, at least 1.
    pub block_tokens: u32,
    /// Blocks of a prompt that are hashed; what is beyond is not. 2,048 at most.
    pub block_limit: usize,
    /// The time of day at which the file was begun, as RFC 3339.
    pub started: String,
}

/// How prompts are cut while they are hashed; nothing is hashed by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// As [`Header::block_tokens`].
    pub tokens: u32,
    /// As [`Header::block_limit`].
    pub limit: usize,
}

impl Blocks {
    /// Blocks of so many tokens, `limit` of a prompt but never more than 2,048.
    pub fn new(tokens: u32, limit: usize) -> Self {
        Self { tokens, limit: limit.min(MOST_BLOCKS) }
    }
}

impl Default for Blocks {
    fn default() -> Self {
        Self { tokens: BLOCK_TOKENS, limit: 0 }
    }
}

/// One request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// When its headers came, in milliseconds since the file was begun; below 0 for what came before.
    pub at_ms: f64,
    /// Length of its prompt: as the server says, else 4 bytes of text to the token.
    pub prompt_tokens: u64,
    /// Tokens that were generated: as the server says, else the events of the answer's stream.
    pub output_tokens: u64,
    /// Prompt tokens that were hits, where the server says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_tokens: Option<u64>,
    /// The model that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Box<str>>,
    /// Whether that is an adapter.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub adapter: bool,
    /// How it ended, as the metric `lodesman_request_outcomes_total` names it.
    pub outcome: Box<str>,
    /// Hashes of the whole blocks of the prompt, first block first, each of its block and all before it: 16 hexadecimal
    /// digits for each.
    #[serde(with = "hexadecimal")]
    pub blocks: Vec<u64>,
}

/// Hashes as one word.
mod hexadecimal {
    use std::fmt::Write;

    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;

    const DIGITS: usize = 16;

    pub(super) fn serialize<S: Serializer>(hashes: &[u64], to: S) -> Result<S::Ok, S::Error> {
        let mut word = String::with_capacity(hashes.len() * DIGITS);
        for hash in hashes {
            write!(word, "{hash:016x}").map_err(serde::ser::Error::custom)?;
        }
        to.serialize_str(&word)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u64>, D::Error> {
        let word = std::borrow::Cow::<'_, str>::deserialize(from)?;
        let hash = |digits: &[u8]| {
            let digits = std::str::from_utf8(digits).ok().filter(|it| it.len() == DIGITS);
            digits.and_then(|digits| u64::from_str_radix(digits, 16).ok())
        };
        let hashes: Option<Vec<u64>> = word.as_bytes().chunks(DIGITS).map(hash).collect();
        hashes.ok_or_else(|| D::Error::custom("blocks are 16 hexadecimal digits each"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> Line {
        Line {
            at_ms: 1.5,
            prompt_tokens: 200,
            output_tokens: 7,
            cached_tokens: None,
            model: Some("m".into()),
            adapter: false,
            outcome: "ok".into(),
            blocks: vec![1, u64::MAX],
        }
    }

    #[test]
    fn a_line_is_short_and_reads_back() {
        let json = serde_json::to_string(&line()).unwrap();
        assert_eq!(
            json,
            concat!(
                r#"{"at_ms":1.5,"prompt_tokens":200,"output_tokens":7,"model":"m","outcome":"ok","#,
                r#""blocks":"0000000000000001ffffffffffffffff"}"#
            )
        );
        assert_eq!(serde_json::from_str::<Line>(&json).unwrap(), line());
    }

    #[test]
    fn hashes_that_are_cut_or_no_numbers_are_refused() {
        let json = serde_json::to_string(&line()).unwrap();
        for bad in [json.replace("ffff\"", "fff\""), json.replace("ffff\"", "ffxy\"")] {
            let error = serde_json::from_str::<Line>(&bad).unwrap_err();
            assert!(error.to_string().contains("16 hexadecimal digits"), "{error}");
        }
    }
}
