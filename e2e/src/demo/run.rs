//! One run of the traffic, with a live table.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::Options;
use super::answer::{Answer, ask};
use super::gauges::{Gauges, Watch};
use super::screen::Screen;
use super::traffic::Arrival;
use crate::client::Client;
use crate::wait::now;

/// Pause between two drawings of the table.
const DRAW: Duration = Duration::from_secs(1);
/// Longest time that a request may take.
const PATIENCE: Duration = Duration::from_mins(1);
/// Failures whose reason is kept; the others are only counted.
const REASONS: usize = 5;

/// Where the traffic goes.
#[derive(Debug)]
pub(super) struct Scene<'a> {
    pub(super) title: &'static str,
    pub(super) client: Client,
    pub(super) servers: &'a [SocketAddr],
    pub(super) options: &'a Options,
}

/// What the clients saw.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) title: &'static str,
    /// Requests sent.
    pub(super) sent: usize,
    /// Requests without a complete answer.
    pub(super) failed: usize,
    /// Reasons of the first failures.
    pub(super) failures: Vec<String>,
    /// Answers of each server, in the order of the servers.
    pub(super) answered: Vec<usize>,
    /// Times to the first token, as the clock saw them.
    pub(super) first_tokens: Vec<Duration>,
    /// Tokens of all prompts that were answered.
    pub(super) prompt_tokens: u64,
    /// Those of them that were in a cache.
    pub(super) cached_tokens: u64,
}

impl Scene<'_> {
    /// Sends all requests at their times and waits for all answers. A request that takes longer
    /// than a minute has failed.
    pub(super) async fn play(&self, arrivals: &[Arrival], screen: &mut Screen) -> Result<Outcome> {
        let watch = Watch::start(self.servers);
        let mut outcome = Outcome::new(self.title, self.servers.len());
        let mut requests = JoinSet::new();
        let mut ticks = tokio::time::interval(DRAW);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let started = now();
        let mut rest = arrivals.iter();
        let mut next = rest.next();
        while next.is_some() || !requests.is_empty() {
            tokio::select! {
                () = self.due(started, next), if next.is_some() => {
                    if let Some(arrival) = next.cloned() {
                        requests.spawn(request(self.client, arrival));
                        outcome.sent += 1;
                    }
                    next = rest.next();
                }
                Some(answer) = requests.join_next() => outcome.count(answer?, self.servers),
                _ = ticks.tick() => self.draw(screen, &outcome, arrivals.len(), &watch)?,
            }
        }
        self.draw(screen, &outcome, arrivals.len(), &watch)?;
        outcome.first_tokens.sort_unstable();
        Ok(outcome)
    }

    async fn due(&self, started: Instant, next: Option<&Arrival>) {
        let at = next.map_or(Duration::ZERO, |arrival| arrival.at);
        tokio::time::sleep_until((started + at.div_f64(self.options.time_scale)).into()).await;
    }

    fn draw(
        &self,
        screen: &mut Screen,
        outcome: &Outcome,
        all: usize,
        watch: &Watch,
    ) -> Result<()> {
        let gauges = watch.latest();
        let answered: usize = outcome.answered.iter().sum();
        let progress = format!(
            "{:<12} sent {:>5} of {all}   answered {answered:>5}   failed {}",
            self.title, outcome.sent, outcome.failed
        );
        let header = format!(
            "  {:<16}{:>9}{:>9}{:>9}{:>7}",
            "server", "requests", "running", "waiting", "KV"
        );
        let rows = self.servers.iter().zip(&outcome.answered).zip(&gauges);
        let rows = rows.map(|((server, requests), gauges)| row(*server, *requests, gauges));
        let table: Vec<String> = [progress.clone(), header].into_iter().chain(rows).collect();
        Ok(screen.draw(&table, &format!("{progress}   waiting {}", waiting(&gauges)))?)
    }
}

impl Outcome {
    fn new(title: &'static str, servers: usize) -> Self {
        Self {
            title,
            sent: 0,
            failed: 0,
            failures: Vec::new(),
            answered: vec![0; servers],
            first_tokens: Vec::new(),
            prompt_tokens: 0,
            cached_tokens: 0,
        }
    }

    fn count(&mut self, answer: Result<Answer>, servers: &[SocketAddr]) {
        match answer.and_then(|answer| Ok((place(&answer, servers)?, answer))) {
            Ok((place, answer)) => {
                self.answered.iter_mut().skip(place).take(1).for_each(|count| *count += 1);
                self.first_tokens.push(answer.first_token);
                self.prompt_tokens += answer.prompt_tokens;
                self.cached_tokens += answer.cached_tokens;
            }
            Err(error) => {
                self.failed += 1;
                if self.failures.len() < REASONS {
                    self.failures.push(format!("{error:#}"));
                }
            }
        }
    }
}

async fn request(client: Client, arrival: Arrival) -> Result<Answer> {
    let answer = tokio::time::timeout(PATIENCE, ask(client, &arrival)).await;
    answer.with_context(|| format!("no complete answer within {PATIENCE:?}"))?
}

fn place(answer: &Answer, servers: &[SocketAddr]) -> Result<usize> {
    let place = servers.iter().position(|server| server.to_string() == answer.server);
    place.with_context(|| format!("answered by {}, which is none of ours", answer.server))
}

fn row(server: SocketAddr, requests: usize, gauges: &Gauges) -> String {
    let Gauges { running, waiting, kv_usage } = gauges;
    let kv = kv_usage * 100.0;
    format!("  {:<16}{requests:>9}{running:>9}{waiting:>9}{kv:>6.0}%", server.ip().to_string())
}

fn waiting(gauges: &[Gauges]) -> String {
    gauges.iter().map(|gauges| gauges.waiting.to_string()).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
#[cfg(feature = "load")]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::stub::Server;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        options: Options,
    }

    fn answer(server: &str) -> Answer {
        let first_token = Duration::from_millis(7);
        Answer { server: server.to_owned(), first_token, prompt_tokens: 10, cached_tokens: 4 }
    }

    #[tokio::test]
    async fn every_request_is_sent_and_failures_keep_their_reason() {
        let server = Server::start().await;
        let options = Cli::parse_from(["demo", "--time-scale", "1000"]).options;
        let arrivals =
            (0..20).map(|second| Arrival { at: Duration::from_secs(second), body: "{}".into() });
        let arrivals: Vec<_> = arrivals.collect();
        let client = Client::http1(server.address);
        let scene = Scene { title: "x", client, servers: &[server.address], options: &options };
        let outcome = scene.play(&arrivals, &mut Screen::new()).await.unwrap();
        assert_eq!((outcome.sent, outcome.failed, outcome.failures.len()), (20, 20, REASONS));
        assert_eq!(outcome.failures[0], "x-sim-server is missing");
    }

    #[test]
    fn answers_are_counted_for_their_server_and_strangers_as_failures() {
        let servers = ["127.0.1.1:80".parse().unwrap(), "127.0.1.2:80".parse().unwrap()];
        let mut outcome = Outcome::new("x", 2);
        outcome.count(Ok(answer("127.0.1.2:80")), &servers);
        outcome.count(Ok(answer("127.0.1.3:80")), &servers);
        assert_eq!((outcome.answered, outcome.failed), (vec![0, 1], 1));
        assert_eq!((outcome.prompt_tokens, outcome.cached_tokens), (10, 4));
    }
}
