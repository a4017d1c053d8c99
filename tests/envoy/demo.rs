//! The demonstration, short.

use std::process::Command;

use clap::Parser;
use lodesman_e2e::demo::{Options, run};
use serde_json::Value;

const LODESMAN: &str = env!("CARGO_BIN_EXE_lodesman");

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    options: Options,
}

#[tokio::test]
async fn the_demonstration_runs_to_its_summary_and_what_it_recorded_replays() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace").display().to_string();
    let args = ["demo", "--once", "--seconds", "20", "--servers", "3", "--slow", "2=3"];
    let args = args.into_iter().chain(["--lodesman", LODESMAN, "--record-trace", &trace]);
    let Cli { options } = Cli::parse_from(args);
    run(&options).await.unwrap();
    let recorded = std::fs::read_to_string(&trace).unwrap().lines().count() - 1;
    let replay = ["replay", "--trace", &trace, "--pods", "3", "--seeds", "1", "--json"];
    let output = Command::new(LODESMAN).args(replay).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let run = &report["runs"][0];
    assert!(recorded > 20 && run["requests"] == recorded as f64, "{recorded}: {run}");
    assert!(run["hit_ratio"].as_f64() > Some(0.2) && run["adapter_loads"].as_f64() > Some(0.0));
}
