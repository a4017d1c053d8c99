//! `lodesman drain`: takes an endpoint out of service, and waits for what runs on it.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use reqwest::{Method, RequestBuilder, Url};
use serde::Serialize;
use tokio::time::{Instant, sleep};

use crate::cli::failure::{Failure, fault, usage};
use crate::cli::remote::{admin_port, client, page};
use crate::cli::{control_runtime, say};
use crate::pool::Remaining;
use crate::units::GoDuration;

/// The wait ended before the endpoint was drained.
const NOT_DRAINED: u8 = 1;

/// Longest wait for one answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a picker says of a name that it does not know; any other answer with 404 is that of another server.
const UNKNOWN: &str = "the pool has no endpoint and no pod named";

/// Between two looks at what is left.
const LOOK: Duration = Duration::from_millis(250);

const AFTER_HELP: &str = "\
Examples:
  lodesman drain llm-6d4b-x2x9z --wait 10m
  kubectl port-forward deploy/lodesman 9091 & lodesman drain llm-6d4b-x2x9z
  lodesman drain llm-6d4b-x2x9z --undo

A pod is drained with all its endpoints. It gets no new request; those that run go on. An order \
holds in the replica that is asked, until it is withdrawn or the endpoint is gone; the annotation \
lodesman.dev/drain=true reaches all replicas.
Exit codes: 0 it drains (with --wait: nothing is left), 1 something is left after the wait, 64 \
wrong usage, an unknown name or no admin port, 70 the picker does not answer.";

/// Takes an endpoint out of service: it gets no new request, and those that run go on.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct DrainArgs {
    /// The name of an endpoint, or of a pod for all of its endpoints.
    #[arg(value_name = "NAME")]
    name: String,
    /// The admin port of a running picker.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9091", value_parser = admin_port)]
    at: Url,
    /// Wait at most so long until nothing runs on it any more.
    #[arg(long, value_name = "DURATION", conflicts_with = "undo")]
    wait: Option<GoDuration>,
    /// Withdraw the order.
    #[arg(long)]
    undo: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// How it stands.
#[derive(Debug, Serialize)]
struct Told {
    /// Nothing is left on any of the endpoints.
    drained: bool,
    /// Those that are still in the pool.
    endpoints: Vec<Remaining>,
}

pub(super) fn run(args: &DrainArgs) -> ExitCode {
    let done = control_runtime()
        .map_err(|error| fault(error.to_string()))
        .and_then(|runtime| runtime.block_on(drain(args)))
        .and_then(|told| print(&told, args.json).map(|()| told));
    match done {
        Ok(told) if args.wait.is_none() || told.drained => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(NOT_DRAINED),
        Err(failure) => failure.tell(),
    }
}

async fn drain(args: &DrainArgs) -> Result<Told, Failure> {
    let client = client(&args.at, PATIENCE)?;
    let at = page(&args.at, ["endpoints", &args.name, "drain"], [])?;
    let method = if args.undo { Method::DELETE } else { Method::POST };
    let (picker, name) = (&args.at, &args.name);
    let unknown =
        || usage(format!("the picker at {picker} knows no endpoint and no pod named {name}"));
    let told = ask(client.request(method, at.clone()), picker).await?;
    let mut told = told.ok_or_else(unknown)?;
    let Some(GoDuration(wait)) = args.wait else { return Ok(told) };
    let begun = Instant::now();
    while !told.drained && begun.elapsed() < wait {
        sleep(LOOK).await;
        // What has left the pool has nothing left.
        let left = ask(client.get(at.clone()), picker).await?;
        told = left.unwrap_or_else(|| Told::of(Vec::new()));
    }
    Ok(told)
}

/// What the picker tells; none when it does not know the name.
async fn ask(request: RequestBuilder, at: &Url) -> Result<Option<Told>, Failure> {
    let failed = |error: reqwest::Error| fault(format!("{:#}", anyhow::Error::new(error)));
    let answer = request.send().await.map_err(failed)?;
    let status = answer.status().as_u16();
    let body = answer.bytes().await.map_err(failed)?;
    match status {
        200 => {
            let read = serde_json::from_slice(&body);
            let odd = |error| fault(format!("the answer is not what a picker says: {error}"));
            Ok(Some(Told::of(read.map_err(odd)?)))
        }
        404 if body.starts_with(UNKNOWN.as_bytes()) => Ok(None),
        404 | 405 => Err(usage(format!(
            "--at {at}: this is not the admin port of a picker: it answers {status}"
        ))),
        _ => {
            let told = String::from_utf8_lossy(&body);
            Err(fault(format!("the picker answers {status}: {}", told.trim_end())))
        }
    }
}

impl Told {
    fn of(endpoints: Vec<Remaining>) -> Self {
        Self { drained: endpoints.iter().all(|endpoint| endpoint.drained), endpoints }
    }
}

fn print(told: &Told, json: bool) -> Result<(), Failure> {
    let page = if json {
        serde_json::to_string_pretty(told).map_err(|error| fault(error.to_string()))? + "\n"
    } else if told.endpoints.is_empty() {
        "it left the pool\n".to_owned()
    } else {
        let lines: Vec<_> = told.endpoints.iter().map(ToString::to_string).collect();
        lines.join("\n") + "\n"
    };
    say(page.as_bytes()).map_err(|error| fault(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arc_swap::ArcSwap;
    use axum::Router;
    use clap::Parser;
    use tokio::net::TcpListener;
    use tokio::sync::mpsc;

    use super::*;
    use crate::pool::Snapshot;
    use crate::server::drain::Drains;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        drain: DrainArgs,
    }

    fn parsed(at: &str) -> Result<DrainArgs, clap::Error> {
        Cli::try_parse_from(["drain", "pod-1", "--at", at]).map(|cli| cli.drain)
    }

    /// What is said of a pod that is asked for at a port with these routes.
    async fn refused(routes: Router) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = format!("http://{}", listener.local_addr().unwrap());
        let mut server = tokio::task::JoinSet::new();
        server.spawn(async move { axum::serve(listener, routes).await });
        let Err(failure) = drain(&parsed(&at).unwrap()).await else { panic!("it drains") };
        failure.message().to_owned()
    }

    #[tokio::test]
    async fn a_wrong_port_is_told_from_an_unknown_name() {
        let (events, _queue) = mpsc::channel(1);
        let pool = Arc::new(ArcSwap::from_pointee(Snapshot::default()));
        let drains = Drains::new(pool, events);
        let unknown = refused(drains.order_router()).await;
        assert!(unknown.ends_with("knows no endpoint and no pod named pod-1"), "{unknown}");
        let other = refused(drains.wait_router()).await;
        assert!(other.ends_with("is not the admin port of a picker: it answers 404"), "{other}");
    }

    #[test]
    fn an_address_that_is_not_http_is_refused() {
        let error = parsed("ftp://h:1").unwrap_err().to_string();
        assert!(error.contains("'ftp://h:1' for '--at <URL>'"), "{error}");
    }
}
