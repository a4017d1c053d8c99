//! Chat traffic: conversations of several turns that share system prompts and use adapters.
//!
//! An open loop: conversations begin as a Poisson process, and the later turns of each come after
//! exponential pauses, whatever the servers do. The assistant's earlier answers in a prompt are made
//! up in advance. So a seed gives the same requests, byte for byte and at the same times, to every
//! way of placing them.

use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use serde_json::{Value, json};

use super::Options;

/// System prompts in use; conversations choose among them with weights 1, 1/2, 1/3, …
const SYSTEM_PROMPTS: usize = 12;
/// Their lengths in tokens.
const SYSTEM_TOKENS: std::ops::Range<usize> = 1_500..4_000;
/// Turns of a conversation.
const TURNS: std::ops::Range<usize> = 1..10;
/// Length of a user's message in tokens.
const QUESTION_TOKENS: std::ops::Range<usize> = 50..400;
/// Length of an answer in tokens.
const ANSWER_TOKENS: std::ops::Range<usize> = 16..64;
/// Mean pause between two turns in simulated seconds.
const PAUSE_SECONDS: f64 = 12.0;
/// Share of the conversations that use an adapter.
const ADAPTER_SHARE: f64 = 0.4;
/// Bytes that the simulated servers take for a token.
const TOKEN_BYTES: usize = 4;

const WORDS: [&str; 16] = [
    "harbor", "chart", "pilot", "tide", "sail", "north", "wind", "anchor", "keel", "star", "light",
    "fog", "reef", "mast", "rope", "deck",
];

/// A request and when it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Arrival {
    /// In simulated time, from the start of the run.
    pub(super) at: Duration,
    /// The body of a streamed chat completion request.
    pub(super) body: Bytes,
}

/// All requests of the run, in the order of their arrival.
pub(super) fn plan(options: &Options) -> Vec<Arrival> {
    let mut random = Rng::with_seed(options.seed);
    let systems: Vec<String> =
        (0..SYSTEM_PROMPTS).map(|_| text(&mut random, SYSTEM_TOKENS)).collect();
    let mut arrivals = Vec::new();
    let mut start = exponential(&mut random, 1.0 / options.rate);
    while start < options.seconds {
        let system = systems.get(zipf(&mut random, SYSTEM_PROMPTS)).map_or("", String::as_str);
        let model = model(&mut random, options);
        conversation(&mut random, (start, options.seconds), model, system, &mut arrivals);
        start += exponential(&mut random, 1.0 / options.rate);
    }
    arrivals.sort_by_key(|arrival| arrival.at);
    arrivals
}

/// Adds the turns of a conversation that lie in the `span`, which starts with the first of them.
fn conversation(
    random: &mut Rng,
    span: (f64, f64),
    model: &str,
    system: &str,
    arrivals: &mut Vec<Arrival>,
) {
    let (mut at, end) = span;
    let mut messages = vec![message("system", system)];
    for _ in 0..random.usize(TURNS) {
        messages.push(message("user", &text(random, QUESTION_TOKENS)));
        let answer_tokens = random.usize(ANSWER_TOKENS);
        if at < end {
            let body = json!({
                "model": model,
                "stream": true,
                "stream_options": {"include_usage": true},
                "max_tokens": answer_tokens,
                "messages": messages,
            });
            let at = Duration::from_secs_f64(at);
            arrivals.push(Arrival { at, body: body.to_string().into() });
        }
        messages.push(message("assistant", &text(random, answer_tokens..answer_tokens + 1)));
        at += exponential(random, PAUSE_SECONDS);
    }
}

fn model<'a>(random: &mut Rng, options: &'a Options) -> &'a str {
    let adapter = random.f64() < ADAPTER_SHARE;
    let chosen = random.choice(&options.lora).filter(|_| adapter);
    chosen.unwrap_or(&options.model)
}

fn message(role: &str, content: &str) -> Value {
    json!({"role": role, "content": content})
}

/// Random words of a random number of tokens.
fn text(random: &mut Rng, tokens: std::ops::Range<usize>) -> String {
    let length = random.usize(tokens) * TOKEN_BYTES;
    let mut text = String::with_capacity(length + 8);
    while text.len() < length {
        text.push_str(random.choice(WORDS).unwrap_or_default());
        text.push(' ');
    }
    text.truncate(length);
    text
}

fn exponential(random: &mut Rng, mean: f64) -> f64 {
    -mean * (1.0 - random.f64()).ln()
}

/// A number below `count`, with weights 1, 1/2, 1/3, …
fn zipf(random: &mut Rng, count: usize) -> usize {
    let weights = (1..=count).map(|rank| 1.0 / rank as f64);
    let mut left = random.f64() * weights.clone().sum::<f64>();
    weights
        .take_while(|weight| {
            left -= weight;
            left > 0.0
        })
        .count()
        .min(count - 1)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        options: Options,
    }

    fn traffic(args: &[&str]) -> Vec<Arrival> {
        let args = ["demo"].into_iter().chain(args.iter().copied());
        plan(&Cli::parse_from(args).options)
    }

    #[test]
    fn seed_fixes_every_byte_and_time() {
        assert_eq!(traffic(&[]), traffic(&[]));
        assert_ne!(traffic(&[]), traffic(&["--seed", "2"]));
    }

    #[test]
    fn arrivals_are_sorted_within_the_run_and_as_many_as_asked() {
        let arrivals = traffic(&["--seconds", "2000", "--rate", "1"]);
        assert!(arrivals.is_sorted_by_key(|arrival| arrival.at));
        assert!(arrivals.last().unwrap().at < Duration::from_secs(2000));
        // five turns on average
        assert!((8_000..12_000).contains(&arrivals.len()), "{}", arrivals.len());
    }

    #[test]
    fn turns_extend_their_conversation_and_share_a_system_prompt() {
        let bodies: Vec<Value> = traffic(&["--seconds", "60"])
            .iter()
            .map(|arrival| serde_json::from_slice(&arrival.body).unwrap())
            .collect();
        let messages = |body: &Value| body["messages"].as_array().unwrap().clone();
        let long = messages(bodies.iter().find(|body| messages(body).len() == 4).unwrap());
        let earlier = bodies.iter().filter(|body| long.starts_with(&messages(body))).count();
        assert_eq!(earlier, 2, "the second turn's prompt begins with the first turn's");
        let shared = bodies.iter().filter(|body| messages(body)[0] == long[0]).count();
        assert!(shared > 2, "{shared}");
        assert!(bodies.iter().any(|body| body["model"] == "sql"));
    }

    #[test]
    fn zipf_prefers_low_ranks_and_stays_in_range() {
        let mut random = Rng::with_seed(7);
        let mut counts = [0; 4];
        (0..10_000).for_each(|_| counts[zipf(&mut random, 4)] += 1);
        assert!(counts.is_sorted_by(|a, b| a > b), "{counts:?}");
    }
}
