//! Something breaks while requests run without pause: what becomes of them, and what the metrics say of it.

use std::net::SocketAddr;

use anyhow::ensure;
use lodesman_e2e::{Lodesman, eventually};

use super::stage::{SOON, Stage, at_rest, duplex, is_whole, total};
use super::traffic::Load;

mod machine;
mod overload;
mod pages;
mod pickers;
mod servers;
mod storms;

/// Clients that ask without pause.
const CLIENTS: usize = 4;

/// A pool under steady load.
struct Scene {
    stage: Stage,
    load: Load,
}

impl Scene {
    /// Servers that are 20 times faster than real ones, and a picker with these arguments.
    async fn start(servers: usize, picker_args: &str) -> Self {
        Self::on(Stage::with(servers, "--time-scale 20", picker_args, duplex).await).await
    }

    async fn on(stage: Stage) -> Self {
        let mut load = Load::start(stage.client(), CLIENTS);
        load.pass(20).await;
        Self { stage, load }
    }

    fn picker(&self) -> &Lodesman {
        &self.stage.picker
    }

    /// Every request was answered, whole, and nothing is left under way.
    async fn unharmed(self) {
        let Self { stage, load } = self;
        let answers = load.stop().await;
        let failed = answers.iter().filter(|answer| !is_whole(answer));
        let failed: Vec<_> = failed.map(|it| (it.status, it.text(), &it.broken)).collect();
        assert!(failed.is_empty(), "{} of {}: {failed:#?}", failed.len(), answers.len());
        at_rest(&stage.picker).await;
    }
}

/// Waits until a family has counted more than `before` where `label` stands.
async fn counted(picker: &Lodesman, family: &str, label: &str, before: usize) {
    let seen = eventually(SOON, async || {
        let seen = total(picker, family, label).await?;
        ensure!(seen > before, "{family} {label}: {seen}, not more than {before}");
        Ok(())
    });
    seen.await.unwrap();
}

/// Waits until a server takes no new request, for one of these reasons.
async fn quarantined(picker: &Lodesman, server: SocketAddr, reasons: &[&str]) {
    let out = eventually(2 * SOON, async || {
        let (state, why) = super::wedged::state(picker, server).await?;
        ensure!(state == "quarantined" && reasons.contains(&&*why), "{state} {why}");
        Ok(())
    });
    out.await.unwrap();
}
