//! The bench runs against real processes and tells what it has measured; how fast they are is not looked at.

#[cfg(test)]
mod bench {
    use std::path::PathBuf;

    use clap::Parser;
    use lodesman_e2e::bench::{Options, run};
    use serde_json::Value;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        options: Options,
    }

    #[tokio::test]
    async fn rows_are_measured_without_a_failure() {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let page = root.join("tests/data/vllm-metrics.txt").display().to_string();
        let lodesman = env!("CARGO_BIN_EXE_lodesman");
        let args =
            ["bench", "--quick", "--only", "1,4,12", "--lodesman", lodesman, "--page", &page];
        let report = run(&Cli::parse_from(args).options, |_| {}).await.unwrap();
        let json = report.json();
        assert_eq!(json["failed"], 0, "{json:#}");
        let rows = json["rows"].as_array().unwrap();
        let numbers: Vec<_> = rows.iter().filter_map(|row| row["number"].as_u64()).collect();
        assert_eq!(numbers, [1, 4, 12]);
        for figure in rows.iter().flat_map(|row| row["figures"].as_array().unwrap()) {
            assert!(figure["median"].as_f64() >= Some(0.0), "{figure:#}");
            assert_eq!(figure["goal"].is_null(), figure["met"].is_null(), "{figure:#}");
        }
        let goals = rows.iter().filter(|row| !goal(row).is_null()).count();
        assert_eq!(goals, 3, "{json:#}");
    }

    /// The goal of the first figure.
    fn goal(row: &Value) -> &Value {
        &row["figures"][0]["goal"]
    }
}
