//! Traces that the server recorded: the format of [`crate::recording`].
//!
//! The director of a replay gets the hashed blocks as they were recorded, for it would see these again. Those blocks are
//! cut by bytes, but an engine's by tokens: how many tokens a recorded block truly has is the mean over the file, and an
//! engine's block counts as shared when the recorded block that its last token is in is.

use std::sync::Arc;
use std::time::Duration;

use crate::prefix::{BLOCK_TOKENS, Chain};
use crate::recording::{Header, Line, VERSION};
use crate::replay::Arrival;
use crate::replay::prompt::link;
use crate::replay::trace::length;
use crate::sim::engine::{AdapterId, EngineSpec};

/// What was read so far.
#[derive(Debug)]
pub(super) struct Recorded {
    header: Header,
    lines: Vec<Line>,
}

impl Recorded {
    /// Of a file with this first line; none when it is of another format.
    ///
    /// # Errors
    /// When it is of a version that is not known.
    pub(super) fn begun_by(line: &str) -> Result<Option<Self>, String> {
        let Ok(header) = serde_json::from_str::<Header>(line) else { return Ok(None) };
        if !(1..=VERSION).contains(&header.lodesman_trace) {
            let version = header.lodesman_trace;
            return Err(format!(
                "version {version} of the format is not known, but 1 to {VERSION}"
            ));
        }
        Ok(Some(Self { header, lines: Vec::new() }))
    }

    /// Takes the next line; when its request came, in seconds since the file was begun.
    ///
    /// # Errors
    /// When it is no request; says why.
    pub(super) fn add(&mut self, line: &str) -> Result<f64, String> {
        let line: Line = serde_json::from_str(line).map_err(|error| error.to_string())?;
        length("prompt_tokens", line.prompt_tokens)?;
        length("output_tokens", line.output_tokens)?;
        let at = line.at_ms / 1_000.0;
        self.lines.push(line);
        Ok(at)
    }

    /// All requests; the first of them arrives at 0.
    pub(super) fn arrivals(self) -> Vec<Arrival> {
        let first = self.lines.iter().map(|line| line.at_ms).fold(f64::INFINITY, f64::min);
        let block_tokens = self.block_tokens();
        let mut adapters: Vec<Option<Box<str>>> = Vec::new();
        let mut adapter = |line: &Line| {
            let at = adapters.iter().position(|known| *known == line.model).unwrap_or_else(|| {
                adapters.push(line.model.clone());
                adapters.len() - 1
            });
            u32::try_from(at).ok().map(AdapterId)
        };
        let arrival = |line: &Line| {
            let after = Duration::try_from_secs_f64((line.at_ms - first) / 1_000.0);
            let prompt_tokens = size(line.prompt_tokens).max(1);
            let count = |tokens: usize| prompt_tokens / tokens;
            let engine_tokens = EngineSpec::default().block_tokens;
            let director = (BLOCK_TOKENS as usize, f64::from(self.header.block_tokens.max(1)));
            Arrival {
                at: after.unwrap_or_default(),
                prompt_tokens,
                output_tokens: size(line.output_tokens).max(1),
                adapter: line.adapter.then(|| adapter(line)).flatten(),
                chain: Arc::new(Chain::from(cut(&line.blocks, director.1, director.0, usize::MAX))),
                blocks: cut(&line.blocks, block_tokens, engine_tokens, count(engine_tokens)).into(),
                shared_tokens: 0,
                counts: true,
            }
        };
        self.lines.iter().map(arrival).collect()
    }

    /// Tokens that a recorded block truly has, in the mean: prompts end in the midst of a block, and those that were not
    /// hashed to their end say nothing.
    fn block_tokens(&self) -> f64 {
        let whole = self.lines.iter().filter(|line| {
            (1..self.header.block_limit).contains(&line.blocks.len()) && line.prompt_tokens > 0
        });
        let (tokens, blocks) = whole.fold((0.0, 0.0), |(tokens, blocks), line| {
            (tokens + line.prompt_tokens as f64, blocks + line.blocks.len() as f64 + 0.5)
        });
        if blocks > 0.0 { (tokens / blocks).max(1.0) } else { f64::from(BLOCK_TOKENS) }
    }
}

/// The hashes of blocks of `into` tokens of a prompt whose blocks of `of` tokens have these hashes, `count` at most.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positions of blocks")]
fn cut(hashes: &[u64], of: f64, into: usize, count: usize) -> Vec<u64> {
    let hash = |at: usize| {
        let last_token = ((at + 1) * into - 1) as f64;
        let hash = hashes.get((last_token / of) as usize)?;
        Some(link(*hash, [at as u64, into as u64, 0]))
    };
    (0..count).map_while(hash).collect()
}

fn size(tokens: u64) -> usize {
    usize::try_from(tokens).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = r#"{"lodesman_trace":1,"block_tokens":64,"block_limit":2048,"started":"2026-01-01T00:00:00Z"}"#;

    fn line(at_ms: f64, prompt_tokens: u64, blocks: &[u64]) -> Line {
        Line {
            at_ms,
            prompt_tokens,
            output_tokens: 5,
            cached_tokens: Some(0),
            model: Some("a".into()),
            adapter: false,
            outcome: "ok".into(),
            blocks: blocks.to_vec(),
        }
    }

    fn arrivals(lines: &[Line]) -> Vec<Arrival> {
        let mut recorded = Recorded::begun_by(HEADER).unwrap().unwrap();
        for line in lines {
            recorded.add(&serde_json::to_string(line).unwrap()).unwrap();
        }
        recorded.arrivals()
    }

    fn alike(a: &[u64], b: &[u64]) -> usize {
        a.iter().zip(b).take_while(|(a, b)| a == b).count()
    }

    #[test]
    fn requests_come_with_their_lengths_and_shared_beginnings() {
        let lines = [line(20.5, 224, &[1, 2, 3]), line(10.0, 224, &[1, 2, 4])];
        let [a, b] = arrivals(&lines).try_into().unwrap();
        assert_eq!((a.at, b.at), (Duration::from_micros(10_500), Duration::ZERO));
        assert_eq!((a.prompt_tokens, a.output_tokens), (224, 5));
        assert_eq!((a.chain.hashes().len(), alike(a.chain.hashes(), b.chain.hashes())), (3, 2));
        assert_eq!((a.blocks.len(), alike(&a.blocks, &b.blocks)), (12, 8), "64 tokens a block");
    }

    #[test]
    fn engine_blocks_are_of_the_tokens_that_were_reported() {
        let lines = [line(0.0, 112, &[1, 2, 3]), line(1.0, 112, &[1, 2, 4])];
        let [a, b] = arrivals(&lines).try_into().unwrap();
        assert_eq!((a.blocks.len(), alike(&a.blocks, &b.blocks)), (6, 4), "32 tokens a block");
        assert_eq!(alike(a.chain.hashes(), b.chain.hashes()), 2, "as the director saw it");
    }

    #[test]
    fn prompts_of_other_lengths_share_as_much() {
        let lines = [line(0.0, 230, &[1, 2, 3]), line(1.0, 1_000, &[1, 2, 3, 4, 5, 6, 7, 8, 9])];
        let [a, b] = arrivals(&lines).try_into().unwrap();
        assert_eq!(alike(&a.blocks, &b.blocks), a.blocks.len());
    }

    #[test]
    fn adapters_are_told_apart_by_name() {
        let of = |name: &str| Line { model: Some(name.into()), adapter: true, ..line(0.0, 1, &[]) };
        let lines = [of("a"), of("b"), of("a"), line(0.0, 1, &[])];
        let adapters: Vec<_> = arrivals(&lines).iter().map(|arrival| arrival.adapter).collect();
        assert_eq!(adapters, [Some(AdapterId(0)), Some(AdapterId(1)), Some(AdapterId(0)), None]);
    }

    #[test]
    fn lengths_that_no_model_has_are_refused() {
        let mut recorded = Recorded::begun_by(HEADER).unwrap().unwrap();
        let endless = serde_json::to_string(&line(0.0, 10_000_001, &[])).unwrap();
        assert!(recorded.add(&endless).unwrap_err().starts_with("prompt_tokens: 10000001 tokens"));
    }

    #[test]
    fn another_format_is_left_to_others_and_another_version_refused() {
        assert!(Recorded::begun_by("{}").unwrap().is_none());
        let newer = HEADER.replace("\"lodesman_trace\":1", "\"lodesman_trace\":9");
        assert!(Recorded::begun_by(&newer).unwrap_err().starts_with("version 9"));
    }
}
