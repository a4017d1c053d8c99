//! Servers that take turns under the same load.

use anyhow::{Context, Result};

use super::figure::{Figure, Unit};
use super::lab::{Lab, Server, Setup};
use crate::load::Report;
use crate::percentile::percentile;

/// What one server did, round by round.
#[derive(Debug)]
pub(super) struct Rounds {
    pub(super) name: &'static str,
    reports: Vec<Report>,
}

/// Puts a closed loop of `load` on null, real and plain; and on a real one that scrapes seldom, since what scraping costs
/// depends on time, not on requests.
pub(super) async fn all(
    lab: &Lab,
    real: Setup,
    load: &str,
    requests: usize,
) -> Result<Vec<Figure>> {
    let mut servers = lab.all(real).await?;
    let seldom = real.with("--refresh-metrics-interval 1s").named("real, scraped once a second");
    servers.push(lab.real(seldom).await?);
    costs(lab, &servers, load, requests).await
}

/// Our transport against what anyone would write.
pub(super) async fn transports(lab: &Lab, load: &str, requests: usize) -> Result<Vec<Figure>> {
    let plain = lab.plain().await?.context("the plain server is not built")?;
    let servers = [plain, lab.null().await?];
    costs(lab, &servers, load, requests).await
}

/// Lodesman with two threads that serve, against one.
pub(super) async fn workers(lab: &Lab, load: &str, requests: usize) -> Result<Vec<Figure>> {
    let setup = |name, workers| Setup { name, workers: Some(workers), ..Setup::real(16) };
    let one = lab.real(setup("one worker", "1")).await?;
    let two = lab.real(setup("two workers", "2")).await?;
    costs(lab, &[one, two], load, requests).await
}

/// CPU of each server, and of all others as multiples of the first one's.
async fn costs(lab: &Lab, servers: &[Server], load: &str, requests: usize) -> Result<Vec<Figure>> {
    let load = format!("{load} --requests {}", lab.scaled(requests));
    let rounds = alternate(lab, servers, &load, lab.rounds).await?;
    let mut figures = Vec::new();
    if let Some((base, others)) = rounds.split_first() {
        figures.extend(others.iter().map(|other| other.against(base, Rounds::cpu_us)));
    }
    figures.extend(rounds.iter().map(Rounds::cpu));
    Ok(figures)
}

/// Runs `load` on each server in turn, `rounds` times.
pub(super) async fn alternate(
    lab: &Lab,
    servers: &[Server],
    load: &str,
    rounds: usize,
) -> Result<Vec<Rounds>> {
    let new = |server: &Server| Rounds { name: server.name, reports: Vec::new() };
    let mut all: Vec<Rounds> = servers.iter().map(new).collect();
    for _ in 0..rounds {
        for (server, rounds) in servers.iter().zip(&mut all) {
            rounds.reports.push(lab.load(server, load).await?);
        }
    }
    Ok(all)
}

impl Rounds {
    /// CPU per request in each round.
    pub(super) fn cpu_us(&self) -> Vec<f64> {
        let cost = |report: &Report| Some(report.usage()?.cpu_us(report.requests()));
        self.reports.iter().filter_map(cost).collect()
    }

    /// The time to the header reply in each round, at a percentile.
    pub(super) fn reply_us(&self, percent: u8) -> Vec<f64> {
        self.reports.iter().filter_map(|report| report.decision_us(percent)).collect()
    }

    /// Something of these rounds as a multiple of that of others, round by round.
    pub(super) fn against(&self, base: &Self, of: impl Fn(&Self) -> Vec<f64>) -> Figure {
        let name = format!("{} / {}", self.name, base.name);
        Figure::new(name, Unit::Ratio, of(self).iter().zip(of(base)).map(|(own, base)| own / base))
    }

    fn cpu(&self) -> Figure {
        let median = |of: fn(&Report) -> Option<f64>| {
            let mut values: Vec<f64> = self.reports.iter().filter_map(of).collect();
            values.sort_by(f64::total_cmp);
            percentile(&values, 50).unwrap_or_default()
        };
        let system = median(|report| Some(report.usage()?.system_share() * 100.0));
        let switches =
            median(|report| Some(report.usage()?.switches as f64 / report.requests() as f64));
        Figure::new(format!("CPU {}", self.name), Unit::Us, self.cpu_us())
            .with_note(format!("{system:.0} % in the kernel, {switches:.1} context switches"))
    }
}
