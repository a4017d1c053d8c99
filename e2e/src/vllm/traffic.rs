//! The requests, the same for each way of placing them.

use bytes::Bytes;
use fastrand::Rng;
use serde_json::json;

use crate::chat::PATH;

/// Name of the base model.
pub(super) const MODEL: &str = "tiny";
/// Names of its adapters.
pub(super) const ADAPTERS: [&str; 4] = ["sql", "chat", "legal", "code"];

/// System prompts that are shared.
const SYSTEM_PROMPTS: usize = 12;
/// Words of each, about 2.4 tokens to the word.
const SYSTEM_WORDS: usize = 1_600;
/// Requests that share one.
const QUESTIONS: usize = 8;
/// Requests for each adapter.
const ADAPTER_QUESTIONS: usize = 12;
/// Words of a question: less than a block, so that questions share nothing.
const QUESTION_WORDS: usize = 8;
/// Tokens of an answer.
const ANSWER_TOKENS: usize = 4;

const WORDS: [&str; 16] = [
    "harbor", "chart", "pilot", "tide", "sail", "north", "wind", "anchor", "keel", "star", "light",
    "fog", "reef", "mast", "rope", "deck",
];

/// A request for a streamed answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ask {
    /// The model or adapter.
    pub(super) model: &'static str,
    /// The path with a query that tells it from the others.
    pub(super) path: String,
    /// The body.
    pub(super) body: Bytes,
}

/// Writes requests; a seed gives the same ones.
#[derive(Debug)]
pub(super) struct Writer {
    random: Rng,
    /// Separates the cache of one run from that of another.
    salt: &'static str,
    written: usize,
}

impl Writer {
    /// A writer whose prompts are in no cache at first, whatever others of another salt have sent.
    pub(super) fn new(seed: u64, salt: &'static str) -> Self {
        Self { random: Rng::with_seed(seed), salt, written: 0 }
    }

    /// Requests that share long system prompts, in random order.
    pub(super) fn prefixes(mut self) -> Vec<Ask> {
        let mut asks = Vec::new();
        for _ in 0..SYSTEM_PROMPTS {
            let system = self.text(SYSTEM_WORDS);
            for _ in 0..QUESTIONS {
                asks.push(self.ask(MODEL, &system, ANSWER_TOKENS));
            }
        }
        self.random.shuffle(&mut asks);
        asks
    }

    /// Short requests for each adapter, in random order.
    pub(super) fn adapters(mut self) -> Vec<Ask> {
        let mut asks = Vec::new();
        for _ in 0..ADAPTER_QUESTIONS {
            asks.extend(ADAPTERS.map(|adapter| self.ask(adapter, "", ANSWER_TOKENS)));
        }
        self.random.shuffle(&mut asks);
        asks
    }

    /// A request with a prompt of its own, of so many words, for so many tokens.
    pub(super) fn unlike(&mut self, words: usize, tokens: usize) -> Ask {
        let system = self.text(words);
        self.ask(MODEL, &system, tokens)
    }

    fn ask(&mut self, model: &'static str, system: &str, tokens: usize) -> Ask {
        let question = self.text(QUESTION_WORDS);
        let body = json!({
            "model": model,
            "stream": true,
            "stream_options": {"include_usage": true},
            "max_tokens": tokens,
            "ignore_eos": true,
            "cache_salt": self.salt,
            "messages": [
                {"role": "system", "content": system},
                {"role": "user", "content": question},
            ],
        });
        self.written += 1;
        let path = format!("{PATH}?{}={}", self.salt, self.written);
        Ask { model, path, body: body.to_string().into() }
    }

    fn text(&mut self, words: usize) -> String {
        let words = (0..words).map(|_| self.random.choice(WORDS).unwrap_or_default());
        words.collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use serde_json::Value;

    use super::*;

    fn bodies(asks: &[Ask]) -> Vec<Value> {
        asks.iter().map(|ask| serde_json::from_slice(&ask.body).unwrap()).collect()
    }

    #[test]
    fn runs_differ_by_their_salt_alone() {
        let of = |salt| bodies(&Writer::new(1, salt).prefixes());
        let (mut one, other) = (of("one"), of("other"));
        assert_ne!(one, other);
        for body in &mut one {
            body["cache_salt"] = json!("other");
        }
        assert_eq!(one, other);
        assert_ne!(other, bodies(&Writer::new(2, "other").prefixes()));
    }

    #[test]
    fn each_system_prompt_and_each_adapter_has_its_requests() {
        let counts = |asks: &[Ask], key: fn(&Value) -> &Value| {
            let mut counts: HashMap<String, usize> = HashMap::new();
            for body in bodies(asks) {
                *counts.entry(key(&body).to_string()).or_default() += 1;
            }
            counts
        };
        let systems =
            counts(&Writer::new(1, "x").prefixes(), |body| &body["messages"][0]["content"]);
        assert_eq!(systems.len(), SYSTEM_PROMPTS);
        assert!(systems.values().all(|count| *count == QUESTIONS));
        let adapters = counts(&Writer::new(1, "x").adapters(), |body| &body["model"]);
        assert_eq!(adapters.len(), ADAPTERS.len());
        assert!(adapters.values().all(|count| *count == ADAPTER_QUESTIONS));
    }
}
