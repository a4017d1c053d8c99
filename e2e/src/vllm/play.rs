//! Sends requests through a gateway and tells what came of them.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::Value;

use super::server::Server;
use super::traffic::Ask;
use crate::client::Client;
use crate::envoy::Envoy;
use crate::percentile::percentile;
use crate::streamed::{self, Streamed, Usage};
use crate::wait::eventually;

/// Requests that are under way at a time.
const CLIENTS: usize = 4;
/// Longest time that a request may take.
const PATIENCE: Duration = Duration::from_mins(1);
/// From the end of the last answer until a page counts it.
const COUNTED: Duration = Duration::from_secs(5);

/// What came of the requests of one run.
#[derive(Debug)]
pub(super) struct Played {
    /// Answers in the order of the requests.
    pub(super) answers: Vec<Streamed>,
    /// Who gave each of them.
    pub(super) by: Vec<SocketAddr>,
    /// Their tokens as the engines counted them.
    pub(super) engines: Usage,
}

/// Sends `asks` in their order, four at a time, and waits for all answers.
///
/// # Errors
/// When one fails.
pub(super) async fn play(envoy: &Envoy, servers: &[Server], asks: &[Ask]) -> Result<Played> {
    let logged = envoy.access_log()?.len();
    let before = Usage::of_engines(servers).await?;
    let sent = stream::iter(asks).map(|asked| ask(envoy.client(), asked)).buffered(CLIENTS);
    let answers: Vec<Streamed> = sent.try_collect().await?;
    let log = envoy.access_log_of(logged + asks.len()).await?;
    let log = log.get(logged..).unwrap_or_default();
    let by = asks.iter().map(|asked| server_of(log, asked)).collect::<Result<_>>()?;
    let engines = async || Ok(Usage::of_engines(servers).await? - before);
    let engines = counted(total(&answers), engines).await;
    Ok(Played { answers, by, engines })
}

/// Sends one request and reads its answer.
///
/// # Errors
/// When there is none, or it is not whole after a minute.
pub(super) async fn ask(client: Client, ask: &Ask) -> Result<Streamed> {
    let answer = async {
        let head = streamed::open(client, &ask.path, ask.body.clone()).await?;
        streamed::read(head).await
    };
    let answer = tokio::time::timeout(PATIENCE, answer).await;
    answer.with_context(|| format!("no complete answer within {PATIENCE:?}"))?
}

/// What `read` says once it says `expected`, else what it said last: a page may lag behind the answers.
pub(super) async fn counted(expected: Usage, read: impl AsyncFn() -> Result<Usage>) -> Usage {
    let mut seen = Usage::default();
    let equal = eventually(COUNTED, async || {
        seen = read().await?;
        ensure!(seen == expected, "{seen:?}");
        Ok(())
    });
    equal.await.map_or(seen, |()| expected)
}

/// All tokens of `answers`, as their servers told the clients.
pub(super) fn total(answers: &[Streamed]) -> Usage {
    let mut all = Usage::default();
    for answer in answers {
        all += answer.usage;
    }
    all
}

impl Played {
    /// A percentile of the times to the first token, in milliseconds.
    pub(super) fn first_token(&self, percent: u8) -> String {
        let mut times: Vec<Duration> = self.answers.iter().filter_map(|it| it.begun).collect();
        times.sort_unstable();
        let time = percentile(&times, percent).unwrap_or_default();
        format!("{:.0} ms", time.as_secs_f64() * 1e3)
    }
}

/// The server that answered a request, by the access log.
fn server_of(log: &[Value], ask: &Ask) -> Result<SocketAddr> {
    let line = log.iter().find(|line| line.get("path").is_some_and(|path| *path == ask.path));
    let server = line.and_then(|line| line.get("upstream")?.as_str());
    server
        .with_context(|| format!("{} is missing in the access log", ask.path))?
        .parse()
        .context("upstream")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn server_of_a_request_is_found_by_its_path() {
        let log = ["a", "b"]
            .map(|path| json!({"path": path, "upstream": format!("127.0.0.1:{}", path.len())}));
        let ask = |path: &str| Ask { model: "m", path: path.to_owned(), body: "".into() };
        assert_eq!(server_of(&log, &ask("b")).unwrap(), "127.0.0.1:1".parse().unwrap());
        assert!(server_of(&log, &ask("c")).unwrap_err().to_string().contains('c'));
        assert!(server_of(&[json!({"path": "b", "upstream": null})], &ask("b")).is_err());
    }

    #[tokio::test]
    async fn page_is_read_until_it_tells_what_the_clients_saw() {
        let expected = Usage { prompt: 3, cached: 2, completion: 1 };
        let reads = std::cell::Cell::new(0_u64);
        let seen = counted(expected, async || {
            reads.set(reads.get() + 1);
            let completion = reads.get() / 3;
            Ok(Usage { completion, ..expected })
        });
        assert_eq!(seen.await, expected);
        assert_eq!(reads.get(), 3);
    }
}
