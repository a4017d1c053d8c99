//! Requests that share long system prompts: how much of them is found in a cache, and what that is worth.
//!
//! All prompts fit into the caches of both servers together, and not into one: who sends each prompt everywhere makes both
//! evict what they need next.

use anyhow::Result;

use super::claim::Report;
use super::gateway::Gateways;
use super::play::{Played, counted, play, total};
use super::server::Server;
use super::traffic::Writer;
use crate::streamed::Usage;

/// Plays them both ways.
///
/// # Errors
/// When a request fails.
pub(super) async fn show(
    gateways: &Gateways,
    servers: &[Server],
    seed: u64,
    report: &mut Report,
) -> Result<()> {
    let run = |salt| Writer::new(seed, salt).prefixes();
    let plain = play(&gateways.round_robin, servers, &run("round-robin")).await?;
    let before = Usage::of_lodesman(&gateways.lodesman).await?;
    let picked = play(&gateways.picked, servers, &run("lodesman")).await?;
    let clients = total(&picked.answers);
    let read = async || Ok(Usage::of_lodesman(&gateways.lodesman).await? - before);
    let lodesman = counted(clients, read).await;
    table(&plain, &picked, report);
    let [few, many] = [&plain, &picked].map(|played| played.engines);
    report.claim(
        many.cached > few.cached,
        "the engines find more of the shared prompts in their caches",
        format!("{} tokens against {} of {}", many.cached, few.cached, few.prompt),
    );
    report.claim(
        clients == picked.engines && clients == lodesman,
        "Lodesman, the engines' pages and the clients count the same tokens",
        format!(
            "clients {}, engines {}, Lodesman {}",
            shown(clients),
            shown(picked.engines),
            shown(lodesman)
        ),
    );
    Ok(())
}

fn table(plain: &Played, picked: &Played, report: &mut Report) {
    let mut row = |name: &str, figure: &dyn Fn(&Played) -> String| {
        report.row(name, [figure(plain), figure(picked)]);
    };
    row("requests that share system prompts", &|played| played.answers.len().to_string());
    row("  prompt tokens found in a cache", &|played| format!("{:.1} %", played.engines.hits()));
    row("  prompt tokens computed", &|played| {
        (played.engines.prompt - played.engines.cached).to_string()
    });
    for percent in [50, 90] {
        let name = format!("  time to first token, p{percent}");
        row(&name, &|played| played.first_token(percent));
    }
}

fn shown(Usage { prompt, cached, completion }: Usage) -> String {
    format!("{prompt} in ({cached} cached) {completion} out")
}
