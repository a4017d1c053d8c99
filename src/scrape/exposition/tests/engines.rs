//! Pages of every engine by their documented names, and sequences of pages.

use super::*;
use crate::config::engines::Metric;

/// What a page tells, and of which engine, when any may be behind it.
fn recognized(text: &str) -> Option<(String, Sample)> {
    let dialects = Dialects::new(&Engines::default());
    let mut scan = Scan::new(dialects.dialect(None));
    scan.feed(text.as_bytes());
    let (engine, sample) = scan.finish()?;
    Some((dialects.name(engine).to_owned(), sample))
}

fn with_cache(waiting: f32, running: f32, kv_usage: f32, size: u32, blocks: u32) -> Sample {
    Sample { block_size: Some(size), blocks: Some(blocks), ..sample(waiting, running, kv_usage) }
}

const SGLANG: &str = r#"
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{engine_type="unified",model_name="llama",pp_rank="0",tp_rank="0"} 5.0
sglang:num_queue_reqs{engine_type="unified",model_name="llama",pp_rank="0",tp_rank="0"} 2.0
sglang:token_usage{engine_type="unified",model_name="llama",pp_rank="0",tp_rank="0"} 0.28
sglang:cache_hit_rate{model_name="llama"} 0.9
sglang:cache_config_info{num_pages="4096",page_size="64"} 1.0
"#;

const TRTLLM: &str = r#"
trtllm_num_requests_running{engine_type="undefined",model_name="llama"} 3.0
trtllm_num_requests_waiting{engine_type="undefined",model_name="llama"} 1.0
trtllm_kv_cache_utilization{engine_type="undefined",model_name="llama"} 0.5
trtllm_kv_cache_hit_rate{engine_type="undefined",model_name="llama"} 0.7
trtllm_kv_cache_tokens_per_block 32.0
trtllm_kv_cache_max_blocks 1000.0
"#;

const TRITON_TRTLLM: &str = r#"
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="context",version="1"} 1
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="scheduled",version="1"} 4
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="max",version="1"} 512
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="active",version="1"} 6
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="waiting",version="1"} 2
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction",model="tensorrt_llm",version="1"} 0.25
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="tokens_per",model="tensorrt_llm",version="1"} 64
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="used",model="tensorrt_llm",version="1"} 6
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max",model="tensorrt_llm",version="1"} 24
nv_inference_pending_request_count{model="tensorrt_llm",version="1"} 9
"#;

const TRITON: &str = r#"
nv_inference_exec_count{model="llama",version="1"} 12345
nv_inference_pending_request_count{model="llama",version="1"} 3
nv_inference_pending_request_count{model="bert",version="1"} 1
"#;

const LLM_D_SIM: &str = r#"
vllm:num_requests_running{model_name="llama"} 1
vllm:num_requests_waiting{model_name="llama"} 0
vllm:kv_cache_usage_perc{model_name="llama"} 0.125
vllm:cache_config_info{block_size="16",num_gpu_blocks="1024"} 1
vllm:lora_requests_info{max_lora="2",running_lora_adapters="sql",waiting_lora_adapters=""} 1.7e+09
"#;

/// vLLM 0.6, and a data-parallel server of two engines.
const OLD_VLLM: &str = r#"
vllm:num_requests_running{engine="0",model_name="llama"} 1.0
vllm:num_requests_running{engine="1",model_name="llama"} 2.0
vllm:num_requests_waiting{engine="0",model_name="llama"} 4.0
vllm:num_requests_waiting{engine="1",model_name="llama"} 0.0
vllm:gpu_cache_usage_perc{engine="0",model_name="llama"} 0.5
vllm:gpu_cache_usage_perc{engine="1",model_name="llama"} 0.75
vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="100"} 1.0
vllm:cache_config_info{block_size="16",engine="1",num_gpu_blocks="120"} 1.0
"#;

// FR-098
#[test]
fn every_engine_is_recognized_by_its_page() {
    let llama = Some(Arc::new(names(["llama"])));
    let triton = Sample { waiting: Some(4.0), ..Sample::default() };
    let adapters = Adapters { running: names(["sql"]), waiting: names([]), slots: Some(2) };
    for (page, engine, expected, models, adapters) in [
        (SGLANG, "sglang", with_cache(2.0, 5.0, 0.28, 64, 4096), llama.clone(), None),
        (TRTLLM, "trtllm-serve", with_cache(1.0, 3.0, 0.5, 32, 1000), llama.clone(), None),
        (TRITON_TRTLLM, "triton-tensorrt-llm", with_cache(2.0, 4.0, 0.25, 64, 24), None, None),
        (TRITON, "triton", triton, None, None),
        (
            LLM_D_SIM,
            "vllm",
            with_cache(0.0, 1.0, 0.125, 16, 1024),
            llama.clone(),
            Some(Arc::new(adapters)),
        ),
        (OLD_VLLM, "vllm", with_cache(4.0, 3.0, 0.75, 16, 220), llama, None),
    ] {
        let expected = Sample { adapters, models, ..expected };
        assert_eq!(recognized(page), Some((engine.to_owned(), expected)), "{engine}");
    }
    assert_eq!(recognized("go_goroutines 7\nprocess_open_fds 3\n"), None);
}

#[test]
fn a_cache_that_is_not_known_yet_is_absent_and_not_zero() {
    for blocks in ["None", "0", "-1", "1e99", ""] {
        let text = format!(
            "vllm:num_requests_waiting 1\nvllm:cache_config_info{{block_size=\"16\",num_gpu_blocks=\"{blocks}\"}} 1\n"
        );
        assert_eq!((page(&text).blocks, page(&text).block_size), (None, Some(16)), "{blocks}");
    }
}

#[test]
fn of_adapters_the_newest_series_counts_wherever_it_stands() {
    let series = |running: &str, waiting: &str, time: f64| {
        format!(
            "vllm:lora_requests_info{{max_lora=\"4\",running_lora_adapters=\"{running}\",waiting_lora_adapters=\"{waiting}\"}} {time:e}\n"
        )
    };
    let load = "vllm:num_requests_waiting 0\n".to_owned();
    let states =
        [series("a", "", 1.0e9), series(" b , c,,", "d\\\"", 1.5e9), series("x", "y", 1.4e9)];
    let expected = Adapters { running: names(["b", "c"]), waiting: names(["d\""]), slots: Some(4) };
    for order in [[0, 1, 2], [1, 0, 2], [2, 0, 1]] {
        let text = load.clone() + &order.map(|at: usize| states[at].clone()).concat();
        assert_eq!(page(&text).adapters.as_deref(), Some(&expected));
    }
    let broken =
        load.clone() + &series("a", "", f64::NAN) + "vllm:lora_requests_info{max_lora=\"x\n";
    assert_eq!(page(&broken).adapters, None);
    let bare = load + "vllm:lora_requests_info 5\n";
    assert_eq!(page(&bare).adapters.as_deref(), Some(&Adapters::default()));
}

// FR-089
#[test]
fn names_are_allocated_only_when_they_change() {
    let dialects = Dialects::new(&Engines::default());
    let dialect = dialects.dialect(Some(0));
    let mut scan = Scan::new(dialect);
    let mut read = |text: &str| {
        scan.begin(dialect);
        scan.feed(text.as_bytes());
        let (_, sample) = scan.finish().unwrap();
        (sample.adapters, sample.models)
    };
    let (first, again) = (read(LLM_D_SIM), read(LLM_D_SIM));
    assert!(Arc::ptr_eq(&first.0.unwrap(), again.0.as_ref().unwrap()));
    assert!(Arc::ptr_eq(&first.1.unwrap(), again.1.as_ref().unwrap()));
    let other = read(&LLM_D_SIM.replace("sql", "chat"));
    assert!(other.0 != again.0 && other.1 == again.1);
    assert_eq!(read("vllm:num_requests_waiting 0\n"), (None, None), "the page has none any more");
}

#[test]
fn a_page_that_breaks_off_leaves_nothing_to_the_next() {
    let dialects = Dialects::new(&Engines::default());
    let mut scan = Scan::new(dialects.dialect(Some(0)));
    scan.feed(
        b"vllm:num_requests_waiting 5\nvllm:lora_requests_info{max_lora=\"9\"} 9e9\nvllm:num_req",
    );
    scan.begin(dialects.dialect(None));
    scan.feed(b"sglang:num_queue_reqs 1\n");
    let (_, sample) = scan.finish().unwrap();
    assert_eq!(sample, Sample { waiting: Some(1.0), ..Sample::default() });
}

proptest! {
    #[test]
    fn any_labels_in_any_pieces_read_the_same(
        lines in prop::collection::vec(
            (0..6_usize, "(\\{[a-c=\",\\\\ {}]{0,16})?", "(\\{(model_name|max_lora|block_size|request_type)=\"[a-z0-9,\\\\]{0,6}\"\\})?", "[0-9.eN-]{0,4}"),
            0..10,
        ),
        chunk in 1..60_usize,
    ) {
        let metrics = [
            "vllm:num_requests_waiting", "vllm:lora_requests_info", "vllm:cache_config_info",
            "sglang:num_queue_reqs", "nv_trt_llm_request_metrics", "trtllm_kv_cache_max_blocks",
        ];
        let line = |(name, soup, labels, value): &(usize, String, String, String)| {
            format!("{}{labels}{soup} {value}\n", metrics[*name])
        };
        let text: String = lines.iter().map(line).collect();
        let dialects = Dialects::new(&Engines::default());
        let mut pieces = Scan::new(dialects.dialect(None));
        text.as_bytes().chunks(chunk).for_each(|piece| pieces.feed(piece));
        let whole = recognized(&text);
        prop_assert_eq!(pieces.finish().map(|(_, sample)| sample), whole.map(|(_, sample)| sample));
    }
}

#[test]
fn a_page_of_endless_models_tells_none() {
    let series = |n| format!("vllm:num_requests_waiting{{model_name=\"model-{n}\"}} 1\n");
    let text: String = (0..5_000).map(series).collect();
    assert_eq!((page(&text).models, page(&text).waiting), (None, Some(5_000.0)));
}

#[test]
fn attributes_are_summed_over_their_series_and_may_be_negative() {
    let mut engines = Engines::default();
    for (key, series) in [
        ("depth", "x:depth{kind=a}"),
        ("slack", "x:slack"),
        ("bad", "x:bad"),
        ("none", "x:none"),
        ("again", "vllm:num_requests_waiting"),
    ] {
        let (signal, series) = (Signal::Attribute(key.into()), series.parse().unwrap());
        engines.list[0].metrics.push(Metric { signal, series, label: None });
    }
    let mut scan = Scan::new(Dialects::new(&engines).dialect(None));
    let text = "x:depth{kind=\"a\",e=\"0\"} 2\nx:depth{kind=\"a\",e=\"1\"} 3 1700000000\n\
                x:depth{kind=\"b\"} 9\nx:slack -1.5\nx:bad 1\nx:bad NaN\nvllm:num_requests_waiting 4\n";
    scan.feed(text.as_bytes());
    let (_, told) = scan.finish().unwrap();
    let expected = [("depth", 5.0), ("slack", -1.5), ("again", 4.0)];
    assert_eq!(
        told.attributes,
        expected.map(|(key, value)| (key.into(), value)).into_iter().collect()
    );
    assert_eq!(told.waiting, Some(4.0));
}
