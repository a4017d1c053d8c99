//! `lodesman replay` as it is called.
#![expect(clippy::unwrap_used, clippy::tests_outside_test_module, reason = "an integration test")]

use std::process::{Command, Output};

use serde_json::Value;

fn replay(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lodesman"));
    command.arg("replay").args(args).output().unwrap()
}

/// A file of so many requests, half a second apart, every other with the same beginning.
fn trace(requests: usize) -> tempfile::NamedTempFile {
    let line = |at: usize| {
        let first = if at.is_multiple_of(2) { 0 } else { 1_000 + at };
        format!(
            "{{\"timestamp\": {}, \"input_length\": 700, \"output_length\": 20, \"hash_ids\": [{first}, {}]}}\n",
            at * 500,
            2_000 + at
        )
    };
    file(&(0..requests).map(line).collect::<String>())
}

fn file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

fn refused(args: &[&str], code: i32, says: &str) {
    let output = replay(args);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {error}");
    assert!(error.contains(says), "{args:?}: {error}");
}

#[test]
fn the_same_command_prints_the_same_bytes() {
    let trace = trace(60);
    let args = [
        ["--trace", trace.path().to_str().unwrap()],
        ["--pods", "4"],
        ["--load", "0.4,0.7"],
        ["--policy", "default"],
        ["--policy", "reference"],
        ["--policy", "oracle"],
        ["--scrape-age", "50ms"],
        ["--slow", "0:0.5"],
        ["--seeds", "3"],
    ];
    let args: Vec<_> = args.into_iter().flatten().chain(["--jitter", "--json"]).collect();
    let (first, second) = (replay(&args), replay(&args));
    assert!(first.status.success(), "{}", String::from_utf8_lossy(&first.stderr));
    assert_eq!(first.stdout, second.stdout);
    assert!(first.stderr.is_empty(), "a progress bar is for terminals");
    let report: Value = serde_json::from_slice(&first.stdout).unwrap();
    let runs = report["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 6);
    let of =
        |run: &Value| (run["load"].as_f64().unwrap(), run["policy"].as_str().unwrap().to_owned());
    assert_eq!(of(&runs[4]), (0.7, "reference".to_owned()));
    for run in runs {
        for key in ["hit_ratio", "request_hit_ratio", "max_over_mean", "adapter_loads"] {
            assert!(run[key].is_number() && run["spread"][key].is_number(), "{key}: {run}");
        }
        for (group, percentile) in
            [("ttft_ms", "p50"), ("tpot_ms", "p90"), ("end_to_end_ms", "p99")]
        {
            assert!(run[group][percentile].is_number(), "{group}: {run}");
        }
    }
}

#[test]
fn made_up_requests_are_replayed_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let plot = folder.path().join("plot.svg");
    let output = replay(&[
        "--shareable",
        "0.7",
        "--requests",
        "100",
        "--warm-up",
        "20",
        "--kv-tokens",
        "20000",
        "--pods",
        "2,3",
        "--policy",
        "round-robin",
        "--plot",
        plot.to_str().unwrap(),
    ]);
    let table = String::from_utf8(output.stdout).unwrap();
    assert_eq!(table.lines().count(), 4, "{table}");
    assert!(table.lines().next_back().unwrap().starts_with("round-robin     3  0.50"), "{table}");
    let svg = std::fs::read_to_string(plot).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("requests that hit (%)"), "{svg}");
}

#[test]
fn a_policy_may_be_a_configuration_file() {
    let config = file("apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n");
    let name = config.path().to_str().unwrap();
    let output = replay(&["--burst", "20", "--policy", name, "--policy", "default", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["runs"][0]["policy"], name);
    assert_eq!(report["runs"][0]["ttft_ms"], report["runs"][1]["ttft_ms"], "it says nothing");
    assert!(report["runs"][0]["load"].is_null());
}

#[test]
fn wrong_usage_ends_with_64() {
    let trace = trace(2);
    let name = trace.path().to_str().unwrap();
    refused(&[], 64, "--shareable <SHARE>");
    refused(&["--burst", "3", "--shareable", "0.5"], 64, "cannot be used with");
    refused(&["--trace", "absent"], 64, "absent: No such file");
    refused(&["--burst", "3", "--policy", "best"], 64, "no built-in policy (default, round-robin");
    refused(&["--burst", "3", "--load", "0.5"], 64, "cannot be used with");
    refused(&["--shareable", "1.5"], 64, "from 0 to 1");
    refused(&["--trace", name, "--load", "0"], 64, "from 0.001 to 100");
    refused(&["--trace", name, "--pods", "2", "--slow", "2:0.5"], 64, "2 pods are counted from 0");
    refused(&["--trace", name, "--fail", "1:9s:3s"], 64, "FROM before TO");
    refused(&["--trace", name, "--plot", "x.gif"], 64, "ends in .svg");
}

#[test]
fn a_bad_trace_or_configuration_ends_with_78_and_its_line() {
    let broken = file(
        "{\"timestamp\": 0, \"input_length\": 9, \"output_length\": 1, \"hash_ids\": [1]}\n{}\n",
    );
    refused(&["--trace", broken.path().to_str().unwrap()], 78, ":2: missing field `timestamp`");
    let config =
        file("apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins: [{type: no}]\n");
    refused(&["--burst", "3", "--policy", config.path().to_str().unwrap()], 78, ":3");
}
