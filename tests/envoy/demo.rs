//! The demonstration, short.

use clap::Parser;
use lodesman_e2e::demo::{Options, run};

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    options: Options,
}

#[tokio::test]
async fn the_demonstration_runs_to_its_summary() {
    let args = ["demo", "--once", "--seconds", "20", "--servers", "3", "--slow", "2=3"];
    let binary = ["--lodesman", env!("CARGO_BIN_EXE_lodesman")];
    let Cli { options } = Cli::parse_from(args.into_iter().chain(binary));
    run(&options).await.unwrap();
}
