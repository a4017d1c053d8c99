//! Metrics pages: names of each dialect, live values, recorded pages.

use serde_json::json as object;

use super::*;

const RECORDED: &str = include_str!("../../../tests/data/engines/vllm-0.32/metrics-lora.txt");

/// Name, labels and value of each sample; fails on a line that is none.
fn samples(page: &str) -> Vec<(String, f64)> {
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (series, value) = line.rsplit_once(' ').expect(line);
            assert_eq!(series.contains('{'), series.ends_with('}'), "{line}");
            (series.to_owned(), value.parse().expect(line))
        })
        .collect()
}

#[tokio::test]
async fn each_dialect_has_the_names_that_a_scraper_looks_for() {
    let vllm = "vllm:num_requests_waiting{ vllm:num_requests_running{ vllm:kv_cache_usage_perc{ \
        block_size=\"16\" num_gpu_blocks=\"25000\" max_lora=\"4\"";
    let triton = "request_type=\"waiting\" request_type=\"scheduled\" \
        kv_cache_block_type=\"fraction\" kv_cache_block_type=\"tokens_per\" kv_cache_block_type=\"max\"";
    for (dialect, names) in [
        ("vllm", vllm),
        ("llm-d-sim", vllm),
        (
            "sglang",
            "sglang:num_queue_reqs{ sglang:num_running_reqs{ sglang:token_usage{ page_size=\"16\" num_pages=\"25000\"",
        ),
        (
            "trtllm-serve",
            "trtllm_num_requests_waiting{ trtllm_num_requests_running{ \
            trtllm_kv_cache_utilization{ trtllm_kv_cache_tokens_per_block{ trtllm_kv_cache_max_blocks{",
        ),
        ("triton-tensorrt-llm", triton),
    ] {
        let sim = Sim::start(&format!("--lora ada --dialect {dialect}")).await;
        let page = sim.get(0, "/metrics").await.text().await.unwrap();
        let samples = samples(&page);
        for name in names.split_whitespace() {
            assert!(samples.iter().any(|(series, _)| series.contains(name)), "{name} in\n{page}");
        }
    }
}

#[tokio::test]
async fn adapters_show_while_they_run_and_wait_and_the_newest_series_counts() {
    let sim = Sim::start("--lora ada --lora bob --max-loras 1 --time-scale 1").await;
    let body =
        |model| object!({"model": model, "prompt": "a", "max_tokens": 1_000, "stream": true});
    let _ada = sim.post(0, "/v1/completions", &body("ada")).send().await.unwrap();
    let _bob = sim.post(0, "/v1/completions", &body("bob")).send().await.unwrap();
    sim.until("vllm:num_requests_waiting{", 1.0).await;
    let page = sim.get(0, "/metrics").await.text().await.unwrap();
    let lora = samples(&page)
        .into_iter()
        .filter(|(series, _)| series.starts_with("vllm:lora_requests_info"));
    let lora = lora.collect::<Vec<_>>();
    assert_eq!(lora.len(), 2);
    let newest = lora.iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
    let labels = r#"{max_lora="1",running_lora_adapters="ada",waiting_lora_adapters="bob"}"#;
    assert!(newest.0.ends_with(labels), "{}", newest.0);
}

#[tokio::test]
async fn a_recorded_page_carries_the_live_values() {
    let page =
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/engines/vllm-0.32/metrics-lora.txt");
    let sim = Sim::start(&format!("--lora ada --page {page} --kv-tokens 1600")).await;
    sim.ask("/v1/completions", &object!({"prompt": "abcd".repeat(100), "max_tokens": 3})).await;
    sim.until("vllm:generation_tokens_total{", 3.0).await;
    let live = sim.get(0, "/metrics").await.text().await.unwrap();
    assert!(live.len().abs_diff(RECORDED.len()) < 1_000, "{}", live.len());
    assert_eq!(
        samples(&live).len(),
        samples(RECORDED).len() - 2,
        "one of three lora series is live"
    );
    for series in [
        r#"vllm:prompt_tokens_total{engine="0",model_name="sim"} 100.0"#,
        r#"vllm:request_success_total{engine="0",finished_reason="length",model_name="sim"} 1.0"#,
        r#"vllm:num_requests_waiting_by_reason{engine="0",model_name="sim",reason="capacity"} 0.0"#,
    ] {
        assert!(live.lines().any(|line| line == series), "{series}");
    }
    let mut lines =
        live.lines().skip_while(|line| !line.starts_with("# TYPE vllm:lora_requests_info"));
    assert!(lines.nth(1).unwrap().starts_with("vllm:lora_requests_info{"), "stays with its family");
    let info = live.lines().find(|line| line.starts_with("vllm:cache_config_info{")).unwrap();
    for label in [
        r#",block_size="16","#,
        r#"num_gpu_blocks="100","#,
        r#"effective_attention_block_size="32""#,
    ] {
        assert!(info.contains(label), "{info}");
    }
}
