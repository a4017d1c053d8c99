//! How long a start takes, and how large the binary is.

use std::fs;

use anyhow::Result;

use super::figure::{Figure, Unit};
use super::lab::{Lab, Setup, ready};
use crate::wait::now;

/// From the start of the process until `/readyz` says so, which is looked at every 10 ms.
pub(super) async fn start(lab: &Lab) -> Result<Vec<Figure>> {
    let fleet = lab.fleet(100).await?;
    let mut times = Vec::new();
    for _ in 0..lab.few_rounds() {
        let began = now();
        let started = lab.start(Setup::real(100), &fleet).await?;
        ready(started.metrics).await?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    let size = fs::metadata(&lab.dist).ok().map(|file| file.len() as f64 / 1e6);
    let note = size.is_none().then(|| format!("{} is not built", lab.dist.display()));
    Ok(vec![
        Figure::new("start to ready", Unit::Ms, times),
        Figure::new("binary", Unit::Mb, size).with_note(note.unwrap_or_default()),
    ])
}
