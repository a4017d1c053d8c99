//! The real loop over simulated servers of every engine in one pool.

use clap::Parser;

use super::*;
use crate::pool::{Reading, Standing};
use crate::sim::{Fleet, SimArgs};

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    sim: SimArgs,
}

async fn fleet(arguments: &str) -> Fleet {
    let line = ["sim", "--port", "0"].into_iter().chain(arguments.split_whitespace());
    Fleet::start(&Arguments::parse_from(line).sim).await.unwrap()
}

/// Applies events until `known` is true of the pool.
async fn until(bench: &mut Bench, known: impl Fn(&Snapshot) -> bool) -> Snapshot {
    let search = async {
        loop {
            let snapshot = bench.state.snapshot();
            if known(&snapshot) {
                return snapshot;
            }
            let event = bench.events.recv().await.expect("the scraper runs");
            #[expect(clippy::disallowed_methods, reason = "real time")]
            bench.state.apply(event, std::time::Instant::now());
        }
    };
    timeout(DEADLINE, search).await.expect("known in time")
}

// FR-098
#[tokio::test]
async fn engines_mixed_in_one_pool_are_each_read_in_their_own_dialect() {
    let dialects = ["vllm", "sglang", "trtllm-serve", "triton-tensorrt-llm", "llm-d-sim"];
    let mut fleets = Vec::new();
    for (n, dialect) in dialects.into_iter().enumerate() {
        let address = format!("--address 127.0.1.{}", n + 1);
        let size = 16 << n;
        fleets.push(
            fleet(&format!("{address} --dialect {dialect} --model {dialect} --block-size {size}"))
                .await,
        );
    }
    let addresses: Vec<_> = fleets.iter().flat_map(Fleet::addresses).collect();
    let mut bench = Bench::new(&addresses, Pace::Fixed(FAST), 1024);
    let slots: Vec<_> = addresses.iter().map(|&at| bench.endpoint(at).id.slot).collect();
    let pool = until(&mut bench, |pool| {
        slots.iter().zip(dialects).all(|(&slot, model)| {
            let listed = pool.serves(slot, "other").is_some();
            pool.kv_capacity_tokens(slot).is_some()
                && pool.serves(slot, model) == Some(true)
                && listed
        })
    })
    .await;
    #[expect(clippy::disallowed_methods, reason = "real time")]
    let now = std::time::Instant::now();
    for (n, &slot) in slots.iter().enumerate() {
        let size = 16 << n;
        assert_eq!(pool.block_size(slot), Some(size), "{}", dialects[n]);
        let whole = u64::from(400_000 / size) * u64::from(size);
        assert_eq!(pool.kv_capacity_tokens(slot), Some(whole), "{}", dialects[n]);
        assert_eq!(pool.waiting(slot, now), Reading::Fresh(0.0), "{}", dialects[n]);
        assert_eq!(pool.running(slot, now), Reading::Fresh(0.0), "{}", dialects[n]);
        assert_eq!(pool.serves(slot, "other"), Some(false), "{}", dialects[n]);
    }
}

#[tokio::test]
async fn an_adapter_is_resident_where_it_ran_though_the_page_shows_it_no_more() {
    let fleet =
        fleet("--address 127.0.1.9 --model llama --lora sql --lora chat --max-loras 1").await;
    let address = fleet.addresses()[0];
    let mut bench = Bench::new(&[address], Pace::Fixed(Duration::from_millis(5)), 1024);
    let slot = bench.endpoint(address).id.slot;
    #[expect(clippy::disallowed_methods, reason = "real time")]
    let standing = |pool: &Snapshot, name| pool.standing(slot, name, std::time::Instant::now());
    let known = |pool: &Snapshot| pool.serves(slot, "sql") == Some(true);
    let pool = until(&mut bench, |pool| known(pool) && standing(pool, "sql").is_some()).await;
    assert!(pool.adapts("sql") && !pool.adapts("llama"));
    assert_eq!(standing(&pool, "sql"), Some(Standing::Room));
    let ask = |model: &str| {
        let body = format!("{{\"model\":\"{model}\",\"prompt\":\"a\",\"max_tokens\":20}}");
        let url = format!("http://{address}/v1/completions");
        client().post(url).body(body).send()
    };
    let mut asking = JoinSet::new();
    asking.spawn(ask("sql"));
    until(&mut bench, |pool| standing(pool, "sql") == Some(Standing::Resident)).await;
    let idle = |pool: &Snapshot| {
        #[expect(clippy::disallowed_methods, reason = "real time")]
        let now = std::time::Instant::now();
        pool.running(slot, now) == Reading::Fresh(0.0)
    };
    let after = until(&mut bench, idle).await;
    assert_eq!(standing(&after, "sql"), Some(Standing::Resident), "loaded, not running");
    asking.spawn(ask("chat"));
    let other = until(&mut bench, |pool| standing(pool, "chat") == Some(Standing::Resident)).await;
    assert_eq!(standing(&other, "sql"), Some(Standing::Full), "chat took its slot");
    while let Some(answer) = asking.join_next().await {
        assert_eq!(answer.unwrap().unwrap().status(), 200);
    }
}

/// A client of its own: the process has no default TLS provider.
fn client() -> reqwest::Client {
    let tls = rustls::ClientConfig::builder_with_provider(Arc::new(
        rustls::crypto::ring::default_provider(),
    ));
    let tls = tls
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    reqwest::Client::builder().tls_backend_preconfigured(tls).no_proxy().build().unwrap()
}
