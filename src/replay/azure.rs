//! Traces in the format of Azure's (2023, 2024): CSV with a heading.
//!
//! The columns are `TIMESTAMP` (date and time), `ContextTokens` and `GeneratedTokens`, in any order; others are passed
//! over. Nothing is said of the prompts, so all are different.

use std::time::Duration;

use jiff::civil::DateTime;

use crate::replay::Arrival;
use crate::replay::prompt::Segment;
use crate::replay::trace::length;

/// Where the columns are, and what was read.
#[derive(Debug)]
pub(super) struct Azure {
    timestamp: usize,
    prompt_tokens: usize,
    output_tokens: usize,
    /// Stamp of the first request; later ones must not be before it.
    first: Option<DateTime>,
    requests: u64,
}

impl Azure {
    /// Of a file with this heading; none when it is another one.
    pub(super) fn headed(heading: &str) -> Option<Self> {
        let column = |name: &str| heading.split(',').position(|column| column.trim() == name);
        Some(Self {
            timestamp: column("TIMESTAMP")?,
            prompt_tokens: column("ContextTokens")?,
            output_tokens: column("GeneratedTokens")?,
            first: None,
            requests: 0,
        })
    }

    /// The request that the next line is.
    ///
    /// # Errors
    /// When it is none; says why.
    pub(super) fn arrival(&mut self, line: &str) -> Result<Arrival, String> {
        let column = |at: usize| line.split(',').nth(at).map(str::trim).unwrap_or_default();
        let number = |at: usize, name: &str| {
            let text = column(at);
            let tokens = text.parse().map_err(|error| format!("{name}: {error}: `{text}`"))?;
            length(name, tokens)
        };
        let stamp: DateTime =
            column(self.timestamp).parse().map_err(|error| format!("TIMESTAMP: {error}"))?;
        let first = *self.first.get_or_insert(stamp);
        let at = Duration::try_from(stamp.duration_since(first))
            .map_err(|error| format!("TIMESTAMP is before that of the first request: {error}"))?;
        let prompt = Segment {
            content: self.requests,
            tokens: number(self.prompt_tokens, "ContextTokens")?,
        };
        let output_tokens = number(self.output_tokens, "GeneratedTokens")?;
        self.requests += 1;
        Ok(Arrival::new(at, &[prompt], output_tokens))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn azure() -> Azure {
        Azure::headed("TIMESTAMP,ContextTokens,GeneratedTokens").unwrap()
    }

    #[test]
    fn time_counts_from_the_first_request_to_100_ns() {
        let mut azure = azure();
        let first = azure.arrival("2023-11-16 23:59:59.9799600,4808,10").unwrap();
        let next = azure.arrival("2023-11-17 00:00:00.0319601,110,27").unwrap();
        assert_eq!((first.at, next.at), (Duration::ZERO, Duration::from_nanos(52_000_100)));
        assert_eq!((next.prompt_tokens, next.output_tokens), (110, 27));
    }

    #[test]
    fn stamps_may_have_an_offset_and_columns_another_order() {
        let mut azure = Azure::headed("ContextTokens, GeneratedTokens, TIMESTAMP, more").unwrap();
        azure.arrival("1,2,2024-05-10 00:00:00.009930+00:00,x").unwrap();
        let next = azure.arrival("3,4,2024-05-10 00:00:01.009930+00:00,x").unwrap();
        assert_eq!((next.at, next.prompt_tokens), (Duration::from_secs(1), 3));
    }

    #[test]
    fn no_two_prompts_begin_alike() {
        let mut azure = azure();
        let [a, b] = [1, 2].map(|_| azure.arrival("2023-11-16 18:17:03,4808,10").unwrap());
        assert_ne!((a.chain.hashes()[0], a.blocks[0]), (b.chain.hashes()[0], b.blocks[0]));
    }

    #[test]
    fn what_is_no_request_is_named() {
        let mut azure = azure();
        let mut error = |line| azure.arrival(line).unwrap_err();
        assert!(error("18:17,4808,10").starts_with("TIMESTAMP: "));
        assert!(error("2023-11-16 18:17:03,many,10").starts_with("ContextTokens: invalid digit"));
        let endless = error("2023-11-16 18:17:03,1,1000000000000000");
        assert_eq!(endless, "GeneratedTokens: 1000000000000000 tokens, 10000000 at most");
        assert!(error("2023-11-16 18:17:03,1").starts_with("GeneratedTokens: "));
        assert!(error("2023-11-16 18:17:02,1,1").starts_with("TIMESTAMP is before that of the"));
        assert!(Azure::headed("time,tokens").is_none());
    }
}
