//! How the cost grows: with the prompt, with the rate, with the endpoints.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::compare::{Rounds, alternate};
use super::lab::{Lab, Setup};
use super::plot::{Plot, Point};
use crate::percentile::percentile;

/// Rounds of each point.
const ROUNDS: usize = 3;
/// Bytes of a prompt.
const SIZES: [usize; 7] = [1_000, 4_000, 16_000, 64_000, 256_000, 512_000, 1_000_000];
/// Requests a second.
const RATES: [usize; 6] = [50, 100, 200, 500, 1_000, 2_000];
/// How long a rate is kept up, in seconds.
const KEPT: usize = 2;
/// Endpoints.
const ENDPOINTS: [usize; 6] = [1, 4, 16, 64, 256, 1_000];

/// Measures all curves and draws them in `folder`.
pub(super) async fn draw(lab: &Lab, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
    for (name, plot) in [
        ("prompt", sizes(lab).await?),
        ("rate", rates(lab).await?),
        ("endpoints", fleets(lab).await?),
    ] {
        let path = folder.join(format!("{name}.svg"));
        fs::write(&path, plot.svg()?).with_context(|| format!("{}", path.display()))?;
    }
    Ok(())
}

async fn sizes(lab: &Lab) -> Result<Plot> {
    let servers = lab.all(Setup::real(16)).await?;
    let mut points = Vec::new();
    for bytes in SIZES {
        let requests = lab.scaled((100_000_000 / bytes).clamp(300, 4_000));
        let load = format!("--requests {requests} --body-bytes {bytes}");
        points.extend(taken(bytes, &alternate(lab, &servers, &load, ROUNDS).await?));
    }
    Ok(Plot { title: "CPU of a request (us)", axis: "bytes of the prompt", points })
}

async fn rates(lab: &Lab) -> Result<Plot> {
    let servers = lab.all(Setup::real(16)).await?;
    let mut points = Vec::new();
    for rate in RATES {
        let requests = lab.scaled(rate * KEPT);
        let load = format!("--requests {requests} --rate {rate} --events 20");
        points.extend(taken(rate, &alternate(lab, &servers, &load, ROUNDS).await?));
    }
    Ok(Plot { title: "CPU of a request with 20 events (us)", axis: "requests a second", points })
}

async fn fleets(lab: &Lab) -> Result<Plot> {
    let mut points = Vec::new();
    for endpoints in ENDPOINTS {
        let slow = Setup::real(endpoints).with("--refresh-metrics-interval 1s");
        let server = [lab.real(slow).await?];
        let load = format!("--requests {}", lab.scaled(3_000));
        points.extend(taken(endpoints, &alternate(lab, &server, &load, ROUNDS).await?));
    }
    Ok(Plot { title: "CPU of a request (us)", axis: "endpoints, scraped every second", points })
}

/// The middle of the rounds of each server, at `x`.
fn taken(x: usize, rounds: &[Rounds]) -> Vec<Point> {
    let point = |rounds: &Rounds| {
        let mut costs = rounds.cpu_us();
        costs.sort_by(f64::total_cmp);
        Some(Point { line: rounds.name, x: x as f64, y: percentile(&costs, 50)? })
    };
    rounds.iter().filter_map(point).collect()
}
