//! Memory of many open streams.

use std::time::Duration;

use anyhow::Result;

use super::figure::{Figure, Unit};
use super::idle::mib;
use super::lab::{Lab, Setup};
use crate::wait::now;

/// Streams that are open at a time.
const STREAMS: usize = 10_000;
/// How long the memory has to come back.
const RETURN: Duration = Duration::from_secs(25);
/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(100);

/// Opens streams that answer slowly, ends them, and looks at the memory before, meanwhile and after.
pub(super) async fn open(lab: &Lab) -> Result<Vec<Figure>> {
    let (mut before, mut open, mut ratio) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..lab.rounds.min(3) {
        let server = lab.real(Setup::real(16)).await?;
        lab.load(&server, "--requests 2000 --events 5").await?;
        let idle = server.usage()?.resident_bytes;
        let held =
            lab.load(&server, &format!("--requests 0 --hold {}", lab.scaled(STREAMS))).await?;
        open.extend(held.usage().map(|usage| mib(usage.resident_bytes)));
        before.push(mib(idle));
        let until = now() + RETURN;
        let mut after = server.usage()?.resident_bytes;
        while after as f64 > 1.1 * idle as f64 && now() < until {
            tokio::time::sleep(LOOK).await;
            after = server.usage()?.resident_bytes;
        }
        ratio.push(after as f64 / idle as f64);
    }
    Ok(vec![
        Figure::new("resident memory with all open", Unit::MiB, open),
        Figure::new("resident memory before", Unit::MiB, before),
        Figure::new("after / before", Unit::Ratio, ratio),
    ])
}
