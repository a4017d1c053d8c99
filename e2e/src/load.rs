//! A load generator that plays Envoy towards an `ext_proc` server, without an Envoy in between.
//!
//! Each exchange is one HTTP request in full duplex: headers, the body in chunks, an empty end
//! message, then a streamed response. Every echoed byte is compared, and the stream ends with
//! `RST_STREAM(CANCEL)` as Envoy ends it. The messages are those of `envoy-types`, the published
//! ones, so that the server's own are tried against them.

#[cfg(test)]
mod tests;

mod exchange;
mod message;
mod plan;
mod reply;
mod report;
mod stream;
mod usage;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Parser};
use tokio::task::JoinSet;

pub use report::Report;
pub use usage::{Usage, forget_peak};

use crate::wait::now;
use exchange::{End, Plan};
use report::Record;
use stream::Connection;

/// What load to put on which server.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Address of the `ext_proc` server (plaintext)
    pub target: SocketAddr,
    /// HTTP/2 connections; Envoy has one for each worker
    #[arg(long, default_value_t = 4)]
    pub connections: usize,
    /// Streams at a time on each connection
    #[arg(long, default_value_t = 16)]
    pub streams: usize,
    /// Requests in all
    #[arg(long, default_value_t = 10_000)]
    pub requests: usize,
    /// Requests per second over all connections; a closed loop if absent
    #[arg(long)]
    pub rate: Option<f64>,
    /// Size of the request body, about; 0 is a GET without one
    #[arg(long, default_value_t = 1024)]
    pub body_bytes: usize,
    /// Largest body message
    #[arg(long, default_value_t = 64 * 1024)]
    pub chunk_bytes: usize,
    /// Number of different prompts
    #[arg(long, default_value_t = 64)]
    pub prompts: usize,
    /// Value of `model` in the body
    #[arg(long, default_value = "llama")]
    pub model: String,
    /// Response events of each request; with 0 it ends with the request
    #[arg(long, default_value_t = 0)]
    pub events: usize,
    /// Milliseconds between two response events; 0 is a burst
    #[arg(long, default_value_t = 0)]
    pub gap_ms: u64,
    /// Share of the requests (0 to 1) that are reset at a random message
    #[arg(long, default_value_t = 0.0)]
    pub aborts: f64,
    /// Streams to open first and hold, in the response phase, until the end
    #[arg(long, default_value_t = 0)]
    pub hold: usize,
    /// Process id of the server, to read its CPU time and memory
    #[arg(long)]
    pub pid: Option<u32>,
    /// Seed of the random aborts
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Options {
    /// The load that `args`, as on the command line and separated by blanks, put on `target`.
    ///
    /// # Errors
    /// When there is no such argument.
    pub fn parse(target: SocketAddr, args: &str) -> Result<Self> {
        let target = target.to_string();
        let args = ["load", &target].into_iter().chain(args.split_whitespace());
        Ok(Cli::try_parse_from(args)?.options)
    }
}

#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    options: Options,
}

/// Puts the load on the server and measures it.
///
/// # Errors
/// When the server cannot be reached, a held stream fails, or the process cannot be read. A failed
/// request is no error but counted.
pub async fn run(options: &Options) -> Result<Report> {
    let mut connections = Vec::new();
    for _ in 0..options.connections.max(1) {
        connections.push(Connection::open(options.target).await?);
    }
    let plan = Arc::new(Plan::new(options)?);
    let held = hold(&connections, &plan, options.hold).await?;
    let before = options.pid.map(Usage::read).transpose()?;
    let started = now();
    let records = drive(&connections, &plan, options).await;
    let elapsed = started.elapsed();
    let after = options.pid.map(Usage::read).transpose()?;
    drop(held);
    let usage = after.zip(before).map(|(after, before)| after.since(&before));
    Ok(Report::new(records, elapsed, options.hold, usage))
}

/// Opens `count` streams and leaves them after the request phase.
async fn hold(
    connections: &[Connection],
    plan: &Plan,
    count: usize,
) -> Result<Vec<stream::Stream>> {
    let mut held = Vec::with_capacity(count);
    for (number, connection) in (0..count).zip(connections.iter().cycle()) {
        let opened = plan.open(connection, number).await;
        held.push(opened.with_context(|| format!("held stream {number}"))?);
    }
    Ok(held)
}

/// Runs all requests.
async fn drive(connections: &[Connection], plan: &Arc<Plan>, options: &Options) -> Vec<Record> {
    match options.rate {
        Some(rate) => open_loop(connections, plan, options.requests, rate).await,
        None => closed_loop(connections, plan, options).await,
    }
}

/// Starts each request when it is due, however many are under way: a slow answer delays no other request.
async fn open_loop(
    connections: &[Connection],
    plan: &Arc<Plan>,
    requests: usize,
    rate: f64,
) -> Vec<Record> {
    let started = now();
    let mut running = JoinSet::new();
    for (number, connection) in (0..requests).zip(connections.iter().cycle()) {
        let due = started + Duration::from_secs_f64(number as f64 / rate);
        if now() < due {
            tokio::time::sleep_until(due.into()).await;
        }
        let (connection, plan) = (connection.clone(), Arc::clone(plan));
        running.spawn(async move { one(&connection, &plan, number).await });
    }
    running.join_all().await
}

/// Keeps a fixed number of requests under way.
async fn closed_loop(
    connections: &[Connection],
    plan: &Arc<Plan>,
    options: &Options,
) -> Vec<Record> {
    let (next, requests) = (Arc::new(AtomicUsize::new(0)), options.requests);
    let mut workers = JoinSet::new();
    for connection in connections.iter().cycle().take(connections.len() * options.streams.max(1)) {
        let (connection, plan, next) = (connection.clone(), Arc::clone(plan), Arc::clone(&next));
        workers.spawn(async move {
            let mut records = Vec::new();
            let turn = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|n| *n < requests);
            while let Some(number) = turn() {
                records.push(one(&connection, &plan, number).await);
            }
            records
        });
    }
    workers.join_all().await.into_iter().flatten().collect()
}

async fn one(connection: &Connection, plan: &Plan, number: usize) -> Record {
    match plan.run(connection, number).await {
        Ok(decided) => Record::Served(decided),
        Err(End::Rejected(status)) => Record::Rejected(status),
        Err(End::Aborted) => Record::Aborted,
        Err(End::Failed(error)) => Record::Failed(format!("{error:#}")),
    }
}
