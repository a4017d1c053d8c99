//! The real gateways in front of Lodesman: what users apply, applied to Envoy Gateway and to istiod, with a stock Envoy
//! that does as they say.
//!
//! Everything runs as plain processes in a network namespace of its own, which `e2e/gateways/run.sh` makes: pods have
//! addresses of their own, and the fixed ports of the control planes collide with nothing.

mod asking;
mod cases;
mod cluster;
mod envoy_gateway;
mod gateway;
mod istio;
mod manifests;
mod parts;
mod picker;
mod pods;
mod site;
mod subset;
mod table;
mod versions;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;

use cases::Case;
pub use gateway::Gateway;
use gateway::Mode;
use parts::Parts;
use site::Site;
use table::Table;

use crate::envoy;
use crate::kube::assets;
use crate::lodesman::binary;

/// What is tried, and with what.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Folder of the control planes, as e2e/gateways/build.sh prints it
    #[arg(long, value_name = "DIR")]
    pub planes: PathBuf,
    /// Folder of the manifests
    #[arg(long, value_name = "DIR", default_value = "manifests")]
    pub manifests: PathBuf,
    /// Page whose table of results is compared, or written with `UPDATE_EXPECT=1`; none if a gateway is named
    #[arg(long, value_name = "FILE", default_value = "docs/gateways.md")]
    pub page: PathBuf,
    /// Try these gateways alone
    #[arg(long, value_enum, value_name = "GATEWAY")]
    pub only: Vec<Gateway>,
    /// Lodesman's binary, if not the one beside this program
    #[arg(long, value_name = "FILE")]
    pub lodesman: Option<PathBuf>,
}

/// Tries every case at every gateway in both failure modes, and says each result as it is seen.
///
/// # Errors
/// When a gateway does not start, or anything else is seen than is expected or written on the page.
pub async fn run(options: &Options, say: impl Fn(&str)) -> Result<()> {
    let parts = Parts {
        planes: options.planes.clone(),
        lodesman: options.lodesman.clone().map_or_else(binary, Ok)?,
        envoy: envoy::binary().await?,
        kubectl: assets::folder().await?.join("kubectl"),
        manifests: options.manifests.clone(),
    };
    let mut table = Table::default();
    for gateway in Gateway::ALL {
        if !options.only.is_empty() && !options.only.contains(&gateway) {
            continue;
        }
        for mode in [Mode::FailClose, Mode::FailOpen] {
            say(&format!("{}, {}", gateway.title(), mode.name()));
            let site = Box::pin(gateway.start(&parts, mode)).await;
            let site = site.with_context(|| format!("{}, {}", gateway.title(), mode.name()))?;
            try_all(site, &mut table, &say).await;
        }
    }
    say(&table.to_string());
    let deviations = table.deviations();
    ensure!(deviations.is_empty(), "not as expected:\n{}", deviations.join("\n"));
    if options.only.is_empty() {
        let update = std::env::var("UPDATE_EXPECT").is_ok_and(|update| update == "1");
        table.settle(&options.page, &versions::all(&parts).await?, update)?;
    }
    Ok(())
}

/// Tries all cases that apply to a site.
async fn try_all(mut site: Site, table: &mut Table, say: &impl Fn(&str)) {
    for case in Case::ALL {
        let Some(expected) = case.expected(site.gateway, site.mode) else { continue };
        let seen = match case.run(&mut site).await {
            Ok(seen) => seen,
            Err(error) => format!("{error:#}"),
        };
        say(&format!("  {}: {seen}", case.title()));
        table.add((site.gateway, site.mode), case, expected, seen);
    }
}
