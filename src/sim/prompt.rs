//! From the text of a request to tokens and block hashes.

use std::{
    hash::{DefaultHasher, Hasher},
    sync::Arc,
};

use serde_json::Value;

/// Bytes of text that make a token. English text has about as many per token.
const TOKEN_BYTES: usize = 4;

/// The text of a prompt, without the structure around it.
#[derive(Default)]
pub(super) struct Prompt {
    text: Vec<u8>,
}

impl Prompt {
    /// Adds every text and every token id in `value`, in order; keys count for nothing.
    pub(super) fn add(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.text.extend_from_slice(text.as_bytes()),
            Value::Number(id) => self.text.extend(token(id.as_u64().unwrap_or_default())),
            Value::Array(values) => values.iter().for_each(|value| self.add(value)),
            Value::Object(fields) => fields.values().for_each(|value| self.add(value)),
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Length in tokens, at least 1.
    pub(super) fn tokens(&self) -> usize {
        self.text.len().div_ceil(TOKEN_BYTES).max(1)
    }

    /// Chained hashes of the full blocks. `seed` separates caches: model or adapter, and salt.
    ///
    /// The same on every server and in every process.
    pub(super) fn blocks(&self, seed: [&str; 2], block_tokens: usize) -> Arc<[u64]> {
        let mut parent = 0;
        for part in seed {
            parent = chained(parent, part.as_bytes());
        }
        let blocks = self.text.chunks_exact(block_tokens * TOKEN_BYTES);
        let hashes = blocks.map(|block| {
            parent = chained(parent, block);
            parent
        });
        hashes.collect()
    }

    /// A hash of the text that says nothing about it.
    pub(super) fn digest(&self) -> u64 {
        chained(0, &self.text)
    }
}

fn chained(parent: u64, block: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write_u64(parent);
    hasher.write(block);
    hasher.finish()
}

/// A token id as text of one token; vocabularies are far below 2^32.
fn token(id: u64) -> [u8; TOKEN_BYTES] {
    let [a, b, c, d, ..] = id.to_le_bytes();
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn prompt(value: &Value) -> Prompt {
        let mut prompt = Prompt::default();
        prompt.add(value);
        prompt
    }

    #[test]
    fn four_bytes_of_text_and_one_token_id_are_a_token_each() {
        assert_eq!(prompt(&json!("")).tokens(), 1);
        assert_eq!(prompt(&json!("12345")).tokens(), 2);
        assert_eq!(prompt(&json!([7, 8, 9])).tokens(), 3);
        assert_eq!(prompt(&json!([{"role": "user", "content": [{"text": "1234"}]}])).tokens(), 2);
    }

    #[test]
    fn a_common_beginning_gives_common_blocks_and_a_seed_separates_them() {
        let (a, b) = (prompt(&json!("x".repeat(200))), prompt(&json!("x".repeat(130) + "y")));
        let (long, short) = (a.blocks(["m", ""], 16), b.blocks(["m", ""], 16));
        assert_eq!((long.len(), short.len()), (3, 2));
        assert_eq!(long[..2], short[..]);
        assert_ne!(long[0], a.blocks(["m", "salt"], 16)[0]);
        assert_ne!(long[0], long[1]);
    }
}
