//! Traces in the format of Mooncake (FAST '25): one JSON object a line.
//!
//! `timestamp` is in milliseconds, `input_length` and `output_length` in tokens. Each of `hash_ids` stands for 512 fixed
//! tokens, the last one cut at the length of the prompt; equal ids are equal tokens. Other fields are passed over.

use std::time::Duration;

use serde::Deserialize;

use crate::replay::Arrival;
use crate::replay::prompt::Segment;
use crate::replay::trace::length;

/// Tokens that a hash id stands for.
const HASHED_TOKENS: usize = 512;

#[derive(Deserialize)]
struct Line {
    timestamp: f64,
    input_length: u64,
    output_length: u64,
    hash_ids: Vec<u64>,
}

/// The request that a line is.
///
/// # Errors
/// When it is none; says why.
pub(super) fn arrival(line: &str) -> Result<Arrival, String> {
    let line: Line = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let at = Duration::try_from_secs_f64(line.timestamp / 1_000.0)
        .map_err(|error| format!("timestamp: {error}"))?;
    let prompt_tokens = length("input_length", line.input_length)?;
    let output_tokens = length("output_length", line.output_length)?;
    if line.hash_ids.len() != prompt_tokens.div_ceil(HASHED_TOKENS) {
        return Err(format!(
            "{} hash_ids of {HASHED_TOKENS} tokens each for an input_length of {prompt_tokens}",
            line.hash_ids.len(),
        ));
    }
    let segment = |(position, &content): (usize, &u64)| Segment {
        content,
        tokens: HASHED_TOKENS.min(prompt_tokens - position * HASHED_TOKENS),
    };
    let segments: Vec<_> = line.hash_ids.iter().enumerate().map(segment).collect();
    Ok(Arrival::new(at, &segments, output_tokens))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Arrival, String> {
        arrival(text)
    }

    #[test]
    fn a_line_is_a_request_of_the_given_lengths() {
        let arrival = of(
            r#"{"timestamp": 1500, "input_length": 600, "output_length": 7, "hash_ids": [4, 9]}"#,
        );
        let arrival = arrival.unwrap();
        assert_eq!(arrival.at, Duration::from_millis(1_500));
        assert_eq!((arrival.prompt_tokens, arrival.output_tokens), (600, 7));
        assert_eq!((arrival.chain.hashes().len(), arrival.blocks.len()), (9, 37));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let short =
            of(r#"{"timestamp": 0, "input_length": 600, "output_length": 7, "hash_ids": [4]}"#);
        assert_eq!(short.unwrap_err(), "1 hash_ids of 512 tokens each for an input_length of 600");
        let early =
            of(r#"{"timestamp": -1, "input_length": 1, "output_length": 7, "hash_ids": [4]}"#);
        assert!(early.unwrap_err().starts_with("timestamp: "));
        let endless =
            r#"{"timestamp": 0, "input_length": 1, "output_length": 10000001, "hash_ids": [4]}"#;
        assert!(of(endless).unwrap_err().starts_with("output_length: 10000001 tokens"));
        let missing = of(r#"{"timestamp": 0, "output_length": 7, "hash_ids": [4]}"#);
        assert!(missing.unwrap_err().contains("missing field `input_length`"));
    }
}
