//! Command line of `lodesman sim`.

use std::{net::IpAddr, path::PathBuf, str::FromStr, time::Duration};

use anyhow::{Context, ensure};
use clap::builder::RangedU64ValueParser;

use super::{engine::EngineSpec, page::Dialect};

/// A whole number in a range: beyond, numbers exhaust memory or have no meaning.
type Whole = RangedU64ValueParser<usize>;

/// Servers in a process: a file descriptor each at least.
const MOST_SERVERS: u64 = 65_536;

/// Tokens of a step.
const MOST_TOKENS: u64 = 10_000_000;

/// Tokens of a cache: a thousand accelerators together have no more.
const MOST_KV_TOKENS: u64 = 1_000_000_000;

/// Sequences, adapters and tokens of a block.
const MOST: u64 = 65_536;

/// Run simulated model servers: real HTTP, true scheduling, cache and metrics, no model.
///
/// Each server has an address of its own and the port of all, as pods have. Besides the API of its
/// engine it answers `GET /sim/requests` (what reached it lately) and `POST /sim/fault`, and echoes
/// the facts of any request to another path.
///
/// A fault is `{"kind": K}` with K one of slow (with "factor"), wedged, metrics-frozen,
/// metrics-hanging, metrics-error-500, metrics-garbage, metrics-endless, error-500, down, none;
/// `"server": N` means another server and `"all": true` every one.
#[derive(Clone, Debug, clap::Args)]
pub struct SimArgs {
    /// Number of servers.
    #[arg(long, default_value_t = 1, value_parser = Whole::new().range(1..=MOST_SERVERS))]
    pub servers: usize,
    /// Address of the first server; each further one has the next address.
    #[arg(long, default_value = "127.0.0.1")]
    pub address: IpAddr,
    /// Port of all servers; 0 takes one that is free at every address.
    #[arg(long, default_value_t = 8000)]
    pub port: u16,
    /// Port on 127.0.0.1 for `/sim/fault` and `/sim/requests?server=N` of all servers, so that
    /// they can be reached when all are down; 0 takes a free one. Not served if not given.
    #[arg(long)]
    pub admin_port: Option<u16>,
    /// Name of a base model that is served; may be repeated.
    #[arg(long = "model", value_name = "NAME", default_value = "sim")]
    pub models: Vec<String>,
    /// Name of a LoRA adapter of the first model that is served; may be repeated.
    #[arg(long = "lora", value_name = "NAME")]
    pub loras: Vec<String>,
    /// Engine whose metric names are published.
    #[arg(long, value_enum, default_value_t = Dialect::Vllm)]
    pub dialect: Dialect,
    /// Recorded metrics page to publish, with the live values in place of the recorded ones.
    #[arg(long, value_name = "FILE")]
    pub page: Option<PathBuf>,
    /// How many times faster than its model the engine runs.
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR")]
    pub time_scale: f64,
    /// Server (counted from 0) that takes FACTOR times as long for everything; may be repeated.
    #[arg(long, value_name = "INDEX=FACTOR")]
    pub slow: Vec<Slow>,
    /// Seed of the words that are generated.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Constants of the engines.
    #[command(flatten)]
    pub engine: EngineArgs,
}

impl SimArgs {
    /// The constants of each server's engine.
    ///
    /// # Errors
    /// When a number makes no sense, or `--slow` names a server that there is not.
    pub fn engine_specs(&self) -> anyhow::Result<Vec<EngineSpec>> {
        ensure!(positive(self.time_scale), "--time-scale must be above 0");
        ensure!(!self.models.is_empty(), "--model must be given");
        let mut specs = vec![self.engine.spec()?; self.servers];
        for slow in &self.slow {
            let spec =
                specs.get_mut(slow.index).context("--slow names a server that is not there")?;
            spec.slowdown = slow.factor;
        }
        Ok(specs)
    }
}

/// Constants of the engine, under vLLM's names where it has them.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Engine")]
pub struct EngineArgs {
    /// Tokens that one step computes at most.
    #[arg(long, default_value_t = 2_048, value_parser = Whole::new().range(1..=MOST_TOKENS))]
    pub max_num_batched_tokens: usize,
    /// Requests that run at once at most.
    #[arg(long, default_value_t = 256, value_parser = Whole::new().range(1..=MOST))]
    pub max_num_seqs: usize,
    /// Size of the key-value cache in tokens.
    #[arg(long, default_value_t = 400_000, value_parser = Whole::new().range(1..=MOST_KV_TOKENS))]
    pub kv_tokens: usize,
    /// Tokens in a cache block.
    #[arg(long, default_value_t = 16, value_parser = Whole::new().range(1..=MOST))]
    pub block_size: usize,
    /// Adapters on the accelerator at once.
    #[arg(long, default_value_t = 4, value_parser = Whole::new().range(..=MOST))]
    pub max_loras: usize,
    /// Milliseconds to load an adapter, during which the engine stands still.
    #[arg(long, default_value_t = 150.0)]
    pub lora_load_ms: f64,
    /// Prompt tokens computed in a second.
    #[arg(long, default_value_t = 8_000.0)]
    pub prefill_tokens_per_second: f64,
    /// Milliseconds of a step in which one sequence decodes.
    #[arg(long, default_value_t = 20.0)]
    pub decode_step_ms: f64,
    /// Share of that time that each further sequence adds.
    #[arg(long, default_value_t = 0.02)]
    pub decode_growth: f64,
}

impl EngineArgs {
    fn spec(&self) -> anyhow::Result<EngineSpec> {
        ensure!(self.kv_tokens >= self.block_size, "--kv-tokens must hold a block");
        let rate = self.prefill_tokens_per_second;
        ensure!(positive(rate), "--prefill-tokens-per-second must be above 0");
        let growth = self.decode_growth;
        ensure!(growth == 0.0 || positive(growth), "--decode-growth must not be negative");
        Ok(EngineSpec {
            step_tokens: self.max_num_batched_tokens,
            sequences: self.max_num_seqs,
            kv_tokens: self.kv_tokens,
            block_tokens: self.block_size,
            adapter_slots: self.max_loras,
            prefill_tokens_per_second: self.prefill_tokens_per_second,
            decode_step: milliseconds(self.decode_step_ms).context("--decode-step-ms")?,
            decode_growth: self.decode_growth,
            adapter_load: milliseconds(self.lora_load_ms).context("--lora-load-ms")?,
            slowdown: 1.0,
        })
    }
}

/// A server that is slower than the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slow {
    /// Which server, counted from 0.
    pub index: usize,
    /// Factor on every duration, above 0.
    pub factor: f64,
}

impl FromStr for Slow {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let slow = text.split_once('=').and_then(|(index, factor)| {
            Some(Self { index: index.parse().ok()?, factor: factor.parse().ok()? })
        });
        slow.filter(|slow| positive(slow.factor))
            .ok_or("expected INDEX=FACTOR with a factor above 0")
    }
}

fn positive(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

fn milliseconds(value: f64) -> anyhow::Result<Duration> {
    Ok(Duration::try_from_secs_f64(value / 1_000.0)?)
}
