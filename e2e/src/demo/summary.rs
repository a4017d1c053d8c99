//! Both runs side by side.

use std::time::Duration;

use super::Options;
use super::run::Outcome;
use crate::percentile::percentile;

/// The comparison, as lines of text.
pub(super) fn table(options: &Options, baseline: &Outcome, picked: &Outcome) -> String {
    let scale = options.time_scale;
    let row = |name: &str, figure: &dyn Fn(&Outcome) -> String| {
        format!("{name:<34}{:>14}{:>14}", figure(baseline), figure(picked))
    };
    let mut lines = vec![
        String::new(),
        row("", &|outcome| outcome.title.to_owned()),
        row("requests", &|outcome| outcome.sent.to_string()),
        row("failed", &|outcome| outcome.failed.to_string()),
        row("time to first token, p50", &|outcome| first_token(outcome, 50, scale)),
        row("time to first token, p99", &|outcome| first_token(outcome, 99, scale)),
        row("prompt tokens found in a cache", &cached),
    ];
    for server in 0..options.servers {
        let name = format!("requests to server {server}{}", slowness(options, server));
        lines.push(row(&name, &|outcome| {
            outcome.answered.get(server).copied().unwrap_or(0).to_string()
        }));
    }
    lines.push(format!(
        "\nTimes are measured at the client, Envoy included, and given in simulated time: what the \
         clock\nshowed, times {scale}, so that the proxy's own time weighs {scale} times as much as \
         it would.\nBoth runs had the same requests at the same times, and empty caches at first."
    ));
    lines.join("\n")
}

fn first_token(outcome: &Outcome, percent: u8, scale: f64) -> String {
    percentile(&outcome.first_tokens, percent).map_or_else(
        || "-".to_owned(),
        |time: Duration| format!("{:.0} ms", time.as_secs_f64() * scale * 1e3),
    )
}

fn cached(outcome: &Outcome) -> String {
    if outcome.prompt_tokens == 0 {
        return "-".to_owned();
    }
    format!("{:.1} %", outcome.cached_tokens as f64 / outcome.prompt_tokens as f64 * 100.0)
}

fn slowness(options: &Options, server: usize) -> String {
    let mut slow = options.slow.iter().filter_map(|slow| slow.split_once('='));
    let factor = slow.find(|(number, _)| *number == server.to_string());
    factor.map(|(_, factor)| format!(" ({factor} times slower)")).unwrap_or_default()
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

    fn outcome(title: &'static str, milliseconds: &[u64], cached_tokens: u64) -> Outcome {
        Outcome {
            title,
            sent: milliseconds.len() + 1,
            failed: 1,
            failures: vec!["x".to_owned()],
            answered: vec![milliseconds.len(), 0],
            first_tokens: milliseconds.iter().copied().map(Duration::from_millis).collect(),
            prompt_tokens: 200,
            cached_tokens,
        }
    }

    #[test]
    fn figures_stand_side_by_side_in_simulated_time() {
        let options = Cli::parse_from(["demo", "--servers", "2", "--slow", "1=3"]).options;
        let text = table(&options, &outcome("a", &[1, 2, 3], 50), &outcome("b", &[], 0));
        let rows: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        let has = |row: &str| rows.iter().any(|words| words.join(" ") == row);
        for row in [
            "a b",
            "requests 4 1",
            "failed 1 1",
            "time to first token, p50 20 ms -",
            "time to first token, p99 30 ms -",
            "prompt tokens found in a cache 25.0 % 0.0 %",
            "requests to server 0 3 0",
            "requests to server 1 (3 times slower) 0 0",
        ] {
            assert!(has(row), "{row} is missing in {text}");
        }
    }
}
