//! A canary by weight, seen in the access log of the gateway: as `docs/gateway-policies.md` shows it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::ensure;
use lodesman_e2e::{Client, Envoy, Lodesman, eventually};
use serde_json::{Value, json};

use super::site::{Site, cluster, own_network, until_sum};
use super::stage::{CHAT, SOON, chat, fleet, is_whole};

const REQUESTS: usize = 400;

/// The rewrite that the documentation shows: nine of ten requests for `chat` go to `chat-v1`, one to `chat-v2`.
fn documented() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/gateway-policies.md");
    let page = std::fs::read_to_string(path).unwrap();
    let blocks = page.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let mut rewrites = blocks.filter(|block| block.contains("kind: InferenceModelRewrite"));
    serde_saphyr::from_str(rewrites.next().unwrap()).unwrap()
}

/// Waits until decisions know what is asked for instead of `chat`.
async fn until_rewritten(picker: &Lodesman) {
    let known = eventually(SOON, async || {
        let shown = Client::http1(picker.admin).get("/debug/snapshot").await?.json()?;
        ensure!(shown["rewrites"]["chat"].is_object(), "{}", shown["rewrites"]);
        Ok(())
    });
    known.await.unwrap();
}

async fn ask(client: &Client) -> Value {
    let mut request = chat(1, false);
    request["model"] = json!("chat");
    let answer = client.post(CHAT, &request).await.unwrap();
    assert!(is_whole(&answer), "{} {}", answer.status, answer.text());
    answer.json().unwrap()
}

/// Requests by the model that was served, as the access log has it.
async fn served(envoy: &Envoy, requests: usize) -> BTreeMap<String, usize> {
    let log = envoy.access_log_of(requests).await.unwrap();
    let mut served = BTreeMap::new();
    for told in log.iter().map(|line| &line["lodesman"]) {
        assert_eq!(told["model"], "chat", "{told}");
        let model = told["served_model"].as_str().unwrap();
        let adapter = (model == "chat-v2").then_some(model);
        assert_eq!(told["adapter"].as_str(), adapter, "{told}");
        *served.entry(model.to_owned()).or_default() += 1;
    }
    served
}

#[tokio::test]
async fn the_access_log_tells_the_share_of_a_canary() {
    let Some(cluster) = cluster().await else { return };
    let models = "--model chat-v1 --lora chat-v2";
    let args = format!("--time-scale 50 --address {} {models}", own_network());
    let site = Site::over(cluster, fleet(2, &args).await).await;
    site.run_all().await;
    site.namespace.apply(&documented()).await.unwrap();
    let picker = site.synced_picker("").await;
    until_rewritten(&picker).await;
    let envoy = site.envoy(&picker).await;
    let client = envoy.client();
    for _ in 0..REQUESTS {
        assert_eq!(ask(&client).await["model"], "chat", "the client's own name comes back");
    }
    let served = served(&envoy, REQUESTS).await;
    assert_eq!(served.values().sum::<usize>(), REQUESTS, "{served:?}");
    // 40 are expected, within five times their deviation of 6
    assert!((10..=70).contains(&served["chat-v2"]), "{served:?}");
    for (model, requests) in served {
        let label = format!("target_model=\"{model}\"");
        let family = "llm_d_epp_model_rewrite_decisions_total";
        until_sum(&picker, family, &[&label], requests as f64).await;
    }
}
