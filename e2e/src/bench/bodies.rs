//! Memory of more bodies than the budget holds.

use anyhow::Result;

use super::figure::{Figure, Unit};
use super::idle::mib;
use super::lab::{Lab, Setup};
use crate::load::forget_peak;

/// The status of a request that the budget has no room for.
const REFUSED: u32 = 429;
/// Requests at a time.
const REQUESTS: usize = 200;

/// Sends prompts of 1 MB at once to a server whose budget holds a third of them.
pub(super) async fn at_once(lab: &Lab) -> Result<Vec<Figure>> {
    let (mut growth, mut idle) = (Vec::new(), Vec::new());
    let (mut served, mut refused, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    let (requests, streams) = (lab.scaled(REQUESTS), lab.scaled(REQUESTS).div_ceil(4));
    let load =
        format!("--requests {requests} --streams {streams} --body-bytes 1000000 --prompts 16");
    for _ in 0..lab.rounds.min(3) {
        let picker = lab.real(Setup::real(16).with("--body-budget 64MiB")).await?;
        let before = picker.usage()?.resident_bytes;
        forget_peak(picker.id())?;
        let report = lab.load(&picker, &load).await?;
        let peak = picker.usage()?.peak_bytes;
        growth.push(mib(peak.saturating_sub(before)));
        idle.push(mib(before));
        served.push(report.served() as f64);
        refused.push(report.rejected(REFUSED) as f64);
        failed.push((report.requests() - report.served() - report.rejected(REFUSED)) as f64);
    }
    Ok(vec![
        Figure::new("growth of resident memory", Unit::MiB, growth),
        Figure::new("resident memory before", Unit::MiB, idle),
        Figure::new("served", Unit::Count, served),
        Figure::new("refused with 429", Unit::Count, refused),
        Figure::new("other ends", Unit::Count, failed),
    ])
}
