//! A server is killed under load and started again: requests go on, and it gets none before it can generate.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use futures_util::future::join_all;
use serde_json::Value;
use tokio::sync::watch;

use super::claim::Report;
use super::gateway::Gateways;
use super::play::ask;
use super::server::Server;
use super::site::Site;
use super::traffic::Writer;
use crate::client::Client;
use crate::envoy::Envoy;
use crate::wait::{eventually, now};

/// Clients that ask all the time.
const CLIENTS: usize = 2;
/// Their rest between two requests, which leaves the machine to the server that starts.
const REST: Duration = Duration::from_millis(200);
/// Answers in a row that show that requests go on.
const ENOUGH: usize = 20;
/// Longest time until so many answers.
const SOON: Duration = Duration::from_mins(1);
/// From the end of a server until Lodesman sends no requests there, and from its first token until it does again.
const NOTICED: Duration = Duration::from_mins(1);
/// Words and tokens of a request.
const SIZE: (usize, usize) = (20, 4);

/// Plays it.
///
/// # Errors
/// When the server does not start again, or takes no part then.
pub(super) async fn show(
    gateways: &Gateways,
    site: &Site,
    servers: &mut [Server; 2],
    report: &mut Report,
) -> Result<()> {
    let (sender, seen) = watch::channel(Seen::default());
    let client = gateways.picked.client();
    let asking = join_all((0..CLIENTS).map(|number| ask_on(client, number, &sender)));
    let [_, victim] = servers;
    let scene = Scene { envoy: &gateways.picked, sender: &sender, seen };
    let outage = tokio::select! {
        outage = scene.play(site, victim) => outage?,
        _ = asking => bail!("the clients have ended"),
    };
    outage.tell(report);
    Ok(())
}

/// Asks for ever.
async fn ask_on(client: Client, number: usize, seen: &watch::Sender<Seen>) {
    let mut writer = Writer::new(number as u64, "outage");
    loop {
        let (words, tokens) = SIZE;
        let answer = ask(client, &writer.unlike(words, tokens)).await;
        seen.send_modify(|seen| seen.count(answer.err()));
        tokio::time::sleep(REST).await;
    }
}

/// What the clients saw.
#[derive(Debug, Default)]
struct Seen {
    /// Answers since the last failure.
    in_row: usize,
    failures: Vec<String>,
}

impl Seen {
    fn count(&mut self, failure: Option<anyhow::Error>) {
        match failure {
            None => self.in_row += 1,
            Some(error) => {
                self.in_row = 0;
                self.failures.push(format!("{error:#}"));
            }
        }
    }
}

/// What came of it.
#[derive(Debug)]
struct Outage {
    /// Why requests failed at once, when the server was killed.
    cut: Vec<String>,
    /// Why requests failed later.
    failures: Vec<String>,
    /// Requests placed on the dead server, which the gateway took elsewhere.
    taken_elsewhere: usize,
    /// Requests placed on the server while it started.
    premature: usize,
    /// From the start of the server to its first token.
    start: Duration,
    /// From then to the first request there.
    noticed: Duration,
}

struct Scene<'a> {
    envoy: &'a Envoy,
    sender: &'a watch::Sender<Seen>,
    seen: watch::Receiver<Seen>,
}

impl Scene<'_> {
    async fn play(mut self, site: &Site, victim: &mut Server) -> Result<Outage> {
        let address = victim.address();
        self.go_on().await?;
        let killed = self.logged()?;
        victim.kill()?;
        self.go_on().await?;
        let avoided = eventually(NOTICED, async || self.avoids(address, killed)).await;
        avoided.context("the killed server is still chosen")?;
        let cut = self.seen.borrow().failures.clone();
        let started = (now(), self.logged()?);
        *victim = site.server(address)?;
        victim.generates().await?;
        let generated = (now(), self.logged()?);
        let back = eventually(NOTICED, async || {
            let served =
                self.lines(generated.1, usize::MAX, |line| upstream(line) == Some(address))?;
            ensure!(served > 0, "no request went to {address}");
            Ok(())
        });
        back.await.context("the server that was started again takes no part")?;
        let noticed = now() - generated.0;
        self.go_on().await?;
        let placed = |line: &Value| picked(line) == Some(address);
        let failures = self.seen.borrow().failures.get(cut.len()..).unwrap_or_default().to_vec();
        Ok(Outage {
            cut,
            failures,
            taken_elsewhere: self.lines(killed, started.1, placed)?,
            premature: self.lines(started.1, generated.1, placed)?,
            start: elapsed(started.0, generated.0),
            noticed,
        })
    }

    /// Waits for enough further answers in a row.
    async fn go_on(&mut self) -> Result<()> {
        self.sender.send_modify(|seen| seen.in_row = 0);
        let enough = self.seen.wait_for(|seen| seen.in_row >= ENOUGH);
        let enough = tokio::time::timeout(SOON, enough).await.map(|enough| enough.map(drop));
        enough.with_context(|| format!("requests do not go on: {:#?}", self.seen.borrow()))??;
        Ok(())
    }

    /// Whether enough requests in a row since a line of the access log were placed on another server than `dead`.
    fn avoids(&self, dead: SocketAddr, since: usize) -> Result<()> {
        let log = self.envoy.access_log()?;
        let lines = log.iter().skip(since).rev();
        let elsewhere = lines.take_while(|line| picked(line) != Some(dead)).count();
        ensure!(elsewhere >= ENOUGH, "{elsewhere} in a row were placed elsewhere");
        Ok(())
    }

    fn logged(&self) -> Result<usize> {
        Ok(self.envoy.access_log()?.len())
    }

    /// Lines of the access log in a range that `are` so.
    fn lines(&self, from: usize, to: usize, are: impl Fn(&Value) -> bool) -> Result<usize> {
        let log = self.envoy.access_log()?;
        Ok(log.iter().take(to).skip(from).filter(|line| are(line)).count())
    }
}

impl Outage {
    fn tell(&self, report: &mut Report) {
        report.claim(
            self.cut.len() <= CLIENTS && self.failures.is_empty(),
            "a killed server fails no request but those that it was answering",
            [format!(
                "{} failed at once and {} later; Envoy took {} elsewhere that were placed there",
                self.cut.len(),
                self.failures.len(),
                self.taken_elsewhere,
            )]
            .iter()
            .chain(&self.cut)
            .chain(&self.failures)
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join("\n       "),
        );
        report.claim(
            self.premature == 0,
            "a starting server gets no request before it generates, and takes part once it does",
            format!(
                "{} in the {:.0} s of its start, the first {:.1} s later",
                self.premature,
                self.start.as_secs_f64(),
                self.noticed.as_secs_f64(),
            ),
        );
    }
}

fn elapsed(from: Instant, to: Instant) -> Duration {
    to.saturating_duration_since(from)
}

/// The server that answered.
fn upstream(line: &Value) -> Option<SocketAddr> {
    line.get("upstream")?.as_str()?.parse().ok()
}

/// The server that Lodesman chose.
fn picked(line: &Value) -> Option<SocketAddr> {
    line.pointer("/lb/x-gateway-destination-endpoint")?.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outage(cut: usize, failures: usize, premature: usize) -> usize {
        let failed = |count| vec!["status 503".to_owned(); count];
        let (start, noticed) = (Duration::from_secs(30), Duration::from_secs(1));
        let (cut, failures) = (failed(cut), failed(failures));
        let mut report = Report::default();
        Outage { cut, failures, taken_elsewhere: 3, premature, start, noticed }.tell(&mut report);
        report.broken()
    }

    #[test]
    fn only_requests_under_way_may_fail_and_none_may_come_early() {
        assert_eq!(outage(CLIENTS, 0, 0), 0);
        assert_eq!(outage(CLIENTS + 1, 0, 0), 1);
        assert_eq!(outage(0, 1, 0), 1);
        assert_eq!(outage(0, 0, 1), 1);
    }

    #[test]
    fn failure_ends_the_row_and_is_kept() {
        let mut seen = Seen::default();
        seen.count(None);
        seen.count(Some(anyhow::anyhow!("status 503")));
        seen.count(None);
        assert_eq!((seen.in_row, seen.failures.as_slice()), (1, &["status 503".to_owned()][..]));
    }
}
