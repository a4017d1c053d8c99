//! The flags of `lodesman replay`.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use clap::builder::RangedU64ValueParser;

use crate::replay::{Kind, MOST_TOKENS, Outage, Shape};
use crate::units::GoDuration;

/// Shares of the prefill rate; a replay beyond has no end or no meaning.
const LOADS: RangeInclusive<f64> = 0.001..=100.0;

/// Speeds of a pod, as shares of the others'.
const SPEEDS: RangeInclusive<f64> = 0.01..=100.0;

/// A whole number in a range: beyond, numbers exhaust memory or have no meaning.
type Whole = RangedU64ValueParser<usize>;

/// Pods of a fleet.
const MOST_PODS: u64 = 10_000;

/// Requests that are made up.
const MOST_REQUESTS: u64 = 1_000_000;

/// Adapters that are made up: one is drawn by a walk over all.
const MOST_ADAPTERS: i64 = 10_000;

/// Tokens of a pod's cache: a thousand accelerators together have no more.
const MOST_KV_TOKENS: u64 = 1_000_000_000;

/// Longest time to load an adapter, or between two reads of a page: a replay passes all of it.
const LONGEST: Duration = Duration::from_hours(1);

const AFTER_HELP: &str = "\
Examples:
  lodesman replay --trace conversation.jsonl --load 0.7 --policy default --policy mine.yaml
  lodesman replay --shareable 0.7 --pods 4,8,16 --policy default --policy random

A figure is the mean over the seeds; ± is half the way from the least to the greatest.
Exit codes: 0 replayed, 64 wrong usage or a file that cannot be read, 70 our fault, 78 a bad trace \
or configuration, or a trace without a request that is replayed.";

/// Replays a trace, or made-up requests, on simulated servers in virtual time, through one policy or several, and says
/// what users would have seen.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(in crate::cli) struct ReplayArgs {
    #[command(flatten)]
    pub what: What,
    /// Pods of the fleet; several numbers give rows for each [default: 16, 8 for made-up requests other than a burst].
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = Whole::new().range(1..=MOST_PODS))]
    pub pods: Vec<usize>,
    /// default, round-robin, random, least-request, reference, reference-ideal, oracle, or a configuration file; may be
    /// repeated.
    #[arg(long, value_name = "POLICY", default_value = "default")]
    pub policy: Vec<String>,
    /// Scale time so that all prompt tokens, before any hit, come at this share of the fleet's nominal prefill rate; may be
    /// repeated [default: as recorded].
    #[arg(long, value_name = "SHARE", value_delimiter = ',', value_parser = load, conflicts_with = "burst")]
    pub load: Vec<f64>,
    /// Move each arrival of the trace by 0 to 3 s: time stamps of public traces are rounded down.
    #[arg(long, requires = "trace")]
    pub jitter: bool,
    /// Replay only what arrives in the first part of the trace, this long as recorded.
    #[arg(long, value_name = "DURATION", requires = "trace")]
    pub limit: Option<GoDuration>,
    /// Runs of each policy, with the seeds 1 to N.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub seeds: u64,
    /// Time between two reads of a pod's metrics page.
    #[arg(long, value_name = "DURATION", default_value = "50ms", value_parser = an_hour_at_most)]
    pub scrape_age: GoDuration,
    /// A pod, counted from 0, that runs at this share of the speed of the others: 0:0.5; may be repeated.
    #[arg(long, value_name = "POD:FACTOR")]
    pub slow: Vec<Slow>,
    /// A pod, counted from 0, that is gone for a while: 2:60s:90s, since the first arrival; may be repeated.
    #[arg(long, value_name = "POD:FROM:TO")]
    pub fail: Vec<Fail>,
    /// Size of each pod's key-value cache in tokens [default: 400000].
    #[arg(long, value_name = "N", value_parser = Whole::new().range(1..=MOST_KV_TOKENS))]
    pub kv_tokens: Option<usize>,
    /// Time to load an adapter [default: 150ms, 500ms with --adapters].
    #[arg(long, value_name = "DURATION", value_parser = an_hour_at_most)]
    pub adapter_load: Option<GoDuration>,
    /// Draw the figures over the load, or over the number of pods, into an SVG file.
    #[arg(long, value_name = "FILE", value_parser = svg)]
    pub plot: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub shape: ShapeArgs,
}

/// What arrives.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(in crate::cli) struct What {
    /// A trace: Mooncake's JSON lines, Azure's CSV, or what the server recorded with --record-trace.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Make up requests of which this share begins with one of many prefixes, which fill 80 % of the fleet's caches.
    #[arg(long, value_name = "SHARE", value_parser = share)]
    shareable: Option<f64>,
    /// Make up requests of which this share begins with one and the same prefix.
    #[arg(long, value_name = "SHARE", value_parser = share)]
    hot_prefix: Option<f64>,
    /// Make up so many requests that arrive at one instant.
    #[arg(long, value_name = "N", value_parser = Whole::new().range(1..=MOST_REQUESTS))]
    burst: Option<usize>,
    /// Make up requests that need one of so many adapters.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MOST_ADAPTERS))]
    adapters: Option<u32>,
}

/// How much is made up.
#[derive(Args, Debug)]
#[command(next_help_heading = "Made-up requests")]
pub(in crate::cli) struct ShapeArgs {
    /// Requests that count [default: 10000, 20000 with --shareable].
    #[arg(long, value_name = "N", conflicts_with_all = ["trace", "burst"], value_parser = Whole::new().range(1..=MOST_REQUESTS))]
    requests: Option<usize>,
    /// Requests before them that only warm the caches [default: 0, 4000 with --shareable].
    #[arg(long, value_name = "N", conflicts_with_all = ["trace", "burst"], value_parser = Whole::new().range(..=MOST_REQUESTS))]
    warm_up: Option<usize>,
    /// Length of a shared prefix in tokens [default: 2000].
    #[arg(long, value_name = "N", conflicts_with_all = ["trace", "burst", "adapters"], value_parser = Whole::new().range(..=MOST_TOKENS))]
    prefix_tokens: Option<usize>,
    /// Length of what is a prompt's own in tokens [default: 200, 1000 without prefixes].
    #[arg(long, value_name = "N", conflicts_with = "trace", value_parser = Whole::new().range(..=MOST_TOKENS))]
    own_tokens: Option<usize>,
    /// Tokens that each request generates [default: 50].
    #[arg(long, value_name = "N", conflicts_with = "trace", value_parser = Whole::new().range(1..=MOST_TOKENS))]
    output_tokens: Option<usize>,
}

/// A pod and its speed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::cli) struct Slow {
    /// Counted from 0.
    pub pod: usize,
    /// Share of the nominal speed, 0.01 ..= 100.
    pub speed: f64,
}

/// A pod and when it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Fail(pub Outage);

impl What {
    /// What is to be made up; none for a trace.
    pub(super) fn kind(&self) -> Option<Kind> {
        let shareable = self.shareable.map(Kind::Shareable);
        let hot_prefix = self.hot_prefix.map(Kind::HotPrefix);
        let burst = self.burst.map(Kind::Burst);
        let adapters = self.adapters.map(Kind::Adapters);
        shareable.or(hot_prefix).or(burst).or(adapters)
    }
}

impl ShapeArgs {
    /// `usual`, but for what is given.
    pub(super) fn over(&self, usual: Shape) -> Shape {
        Shape {
            requests: self.requests.unwrap_or(usual.requests),
            warm_up: self.warm_up.unwrap_or(usual.warm_up),
            prefix_tokens: self.prefix_tokens.unwrap_or(usual.prefix_tokens),
            own_tokens: self.own_tokens.unwrap_or(usual.own_tokens),
            output_tokens: self.output_tokens.unwrap_or(usual.output_tokens),
        }
    }
}

impl FromStr for Slow {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let slow = text.split_once(':').and_then(|(pod, speed)| {
            Some(Self { pod: pod.parse().ok()?, speed: speed.parse().ok()? })
        });
        slow.filter(|slow| SPEEDS.contains(&slow.speed)).ok_or(
            "expected POD:FACTOR with a factor from 0.01 to 100, as 0:0.5 for half the speed",
        )
    }
}

impl FromStr for Fail {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.split(':');
        let mut outage = || {
            let pod = parts.next()?.parse().ok()?;
            let mut time = || Some(parts.next()?.parse::<GoDuration>().ok()?.0);
            let (from, to) = (time()?, time()?);
            (from < to && parts.next().is_none()).then_some(Outage { pod, from, to })
        };
        outage().map(Self).ok_or("expected POD:FROM:TO with FROM before TO, as 2:60s:90s")
    }
}

fn svg(text: &str) -> Result<PathBuf, &'static str> {
    let path = PathBuf::from(text);
    let drawn = path.extension().is_some_and(|extension| extension == "svg");
    drawn.then_some(path).ok_or("expected a name that ends in .svg")
}

fn share(text: &str) -> Result<f64, &'static str> {
    let share = text.parse().ok();
    share.filter(|share| (0.0..=1.0).contains(share)).ok_or("expected a number from 0 to 1")
}

fn load(text: &str) -> Result<f64, &'static str> {
    let load: Option<f64> = text.parse().ok();
    load.filter(|load| LOADS.contains(load)).ok_or("expected a number from 0.001 to 100, as 0.7")
}

fn an_hour_at_most(text: &str) -> Result<GoDuration, String> {
    let time: GoDuration = text.parse().map_err(|error| format!("{error}"))?;
    if time.0 > LONGEST { Err("longer than 1h".to_owned()) } else { Ok(time) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        replay: ReplayArgs,
    }

    fn parsed(line: &str) -> Result<ReplayArgs, clap::Error> {
        Cli::try_parse_from(["replay"].into_iter().chain(line.split(' '))).map(|cli| cli.replay)
    }

    #[test]
    fn numbers_that_would_exhaust_memory_are_refused_with_their_range() {
        for (line, value, range) in [
            ("--burst 10 --own-tokens", "99999999999", "0..=10000000"),
            ("--burst 10 --output-tokens", "18446744073709551615", "1..=10000000"),
            ("--shareable 1 --own-tokens 1 --prefix-tokens", "10000001", "0..=10000000"),
            ("--shareable 1 --requests", "1000001", "1..=1000000"),
            ("--shareable 1 --warm-up", "18446744073709551615", "0..=1000000"),
            ("--burst", "1000001", "1..=1000000"),
            ("--adapters", "4294967295", "1..=10000"),
            ("--burst 10 --pods", "10001", "1..=10000"),
            ("--burst 10 --seeds", "1001", "1..=1000"),
            ("--burst 10 --kv-tokens", "1000000001", "1..=1000000000"),
            ("--adapters 3 --adapter-load", "61m", "longer than 1h"),
            ("--burst 10 --scrape-age", "1000000h", "longer than 1h"),
        ] {
            let error = parsed(&format!("{line} {value}")).unwrap_err().to_string();
            let flag = line.rsplit(' ').next().unwrap();
            assert!([flag, value, range].iter().all(|it| error.contains(it)), "{line}: {error}");
        }
    }

    #[test]
    fn the_greatest_numbers_can_be_given() {
        let line = "--shareable 1 --own-tokens 10000000 --prefix-tokens 0 --requests 1 --warm-up 0 \
                    --pods 10000 --kv-tokens 1000000000 --adapter-load 1h";
        let args = parsed(line).unwrap();
        let shape = args.shape.over(args.what.kind().unwrap().shape());
        assert_eq!((shape.own_tokens, shape.prefix_tokens), (10_000_000, 0));
    }
}
