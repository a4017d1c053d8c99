//! `lodesman top`: what a running picker sees and does, in a terminal.

use std::io::{IsTerminal, stdout};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use reqwest::Url;

use crate::cli::failure::{Failure, fault};
use crate::cli::remote::{admin_port, answer, client, page};
use crate::cli::{control_runtime, say};
use crate::server::overview::Overview;

use self::columns::Column;
use self::state::State;
use self::theme::Theme;

mod columns;
mod feed;
mod list;
mod plain;
mod state;
mod tables;
mod terminal;
mod theme;
mod view;
mod words;

/// Longest wait for a picker's answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a picker is asked for no more often than.
const SHORTEST: Duration = Duration::from_millis(200);

const AFTER_HELP: &str = "\
Examples:
  lodesman top
  kubectl port-forward deploy/lodesman 9091 & lodesman top
  lodesman top --once --sort kv --filter llama
  lodesman top --json | jq '.endpoints[] | select(.waiting > 10) | .name'

Keys: ? shows them. Decisions are kept by the picker while it is watched; those of before only \
with its --decision-log N. Without a terminal it prints once. NO_COLOR is respected.
Exit codes: 0 good, 64 wrong usage, 70 the picker does not answer (at the start, where it prints \
once).";

/// Shows endpoints, load and decisions of a running picker, live.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct TopArgs {
    /// The admin port of the picker.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9091", value_parser = admin_port)]
    at: Url,
    /// Time between two questions, at least 200ms.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// Sort the endpoints by this column.
    #[arg(long, value_name = "COLUMN", value_enum, default_value_t = Column::Endpoint)]
    sort: Column,
    /// Show only what has this in a name: of an endpoint, a state, a model, an adapter.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    filter: String,
    /// Print plain tables once, and end.
    #[arg(long)]
    once: bool,
    /// Print all that is shown once as JSON, and end; neither sorted nor filtered.
    #[arg(long, conflicts_with_all = ["once", "filter"])]
    json: bool,
}

pub(super) fn run(args: &TopArgs) -> ExitCode {
    let shown = if args.json || args.once || !stdout().is_terminal() {
        print(args)
    } else {
        let state = State::new(args.at.to_string(), args.sort, args.filter.clone());
        let feed = feed::Feed::start(args.at.clone(), args.interval);
        feed.and_then(|feed| terminal::show(state, feed, theme()))
    };
    match shown {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.tell(),
    }
}

fn print(args: &TopArgs) -> Result<(), Failure> {
    let runtime = control_runtime().map_err(|error| fault(error.to_string()))?;
    let overview = runtime.block_on(async {
        let client = client(&args.at, PATIENCE)?;
        ask(&client, &args.at).await
    })?;
    let page = if args.json {
        let json = serde_json::to_string_pretty(&overview);
        json.map_err(|error| fault(error.to_string()))? + "\n"
    } else {
        plain::page(&overview, &args.filter, args.sort)
    };
    say(page.as_bytes()).map_err(|error| fault(error.to_string()))
}

/// What a picker shows now.
async fn ask(client: &reqwest::Client, at: &Url) -> Result<Overview, Failure> {
    let page = page(at, ["debug", "overview"], [("decisions", Some(&"100".to_owned()))])?;
    answer(client.get(page)).await?.map_err(|refused| fault(refused.message))
}

fn theme() -> Theme {
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if no_color { Theme::Plain } else { Theme::Colored }
}

fn interval(text: &str) -> Result<Duration, String> {
    let crate::units::GoDuration(interval) = text.parse().map_err(|error| format!("{error}"))?;
    Ok(interval.max(SHORTEST))
}
