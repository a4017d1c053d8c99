//! Engines of all kinds in one pool.

use anyhow::ensure;
use lodesman_e2e::{Envoy, Lodesman, eventually};

use super::stage::{SOON, at_rest, chat, duplex, fleet, page, picker, series, value};
use super::traffic::{send_all, tally};

/// One server each; the last is slow.
const ENGINES: [&str; 6] = [
    "--dialect vllm",
    "--dialect sglang",
    "--dialect trtllm-serve",
    "--dialect triton-tensorrt-llm",
    "--dialect llm-d-sim",
    "--dialect vllm --slow 0=6",
];

/// Waits until the page of every server was read lately and told its queue.
async fn all_are_read(picker: &Lodesman) {
    let read = eventually(SOON, async || {
        let page = page(picker).await?;
        let ages = series(&page, "lodesman_metrics_staleness_seconds").map(value);
        let ages = ages.map(str::parse).collect::<Result<Vec<f64>, _>>()?;
        let fresh = ages.iter().filter(|age| **age < 2.0).count();
        let queues = series(&page, "llm_d_epp_per_endpoint_queue_size").count();
        let all = ENGINES.len();
        ensure!((fresh, queues) == (all, all), "of {all} {ages:?} old, {queues} queues");
        Ok(())
    });
    read.await.unwrap();
}

#[tokio::test]
async fn all_engines_are_read_and_used_and_a_slow_one_less() {
    let mut fleets = Vec::new();
    for args in ENGINES {
        // slow enough that a busy machine adds little to what each server takes
        fleets.push(fleet(1, &format!("--time-scale 4 {args}")).await);
    }
    let servers: Vec<_> = fleets.iter().map(|fleet| fleet.servers[0]).collect();
    let picker = picker(&servers, "").await;
    all_are_read(&picker).await;
    let envoy = Envoy::start(&duplex(&picker, &fleets[0])).await.unwrap();
    let bodies = vec![chat(20, false); 360];
    let tally = tally(&send_all(envoy.client(), 18, bodies).await);
    let counts: Vec<_> =
        servers.iter().map(|server| tally.get(server).copied().unwrap_or(0)).collect();
    let (slow, others) = counts.split_last().unwrap();
    assert!(others.iter().all(|count| *count > 40 && 2 * *count > 3 * *slow), "{counts:?}");
    assert!(*slow > 0, "{counts:?}");
    all_are_read(&picker).await;
    at_rest(&picker).await;
}
