//! One look at a metrics page, for a person who wants to know what is on it.

use std::net::SocketAddr;

use tokio::time::timeout;

use crate::config::Sources;

use super::client::{Client, ClientError, whole};
use super::counters::ScrapeError;
use super::dialect::Dialects;
use super::endpoint::{LONGEST_PAGE, TIME_OUT};
use super::exposition::Scan;

/// Where the page is unless it is configured.
const PATH: &str = "/metrics";

/// The series in which vLLM tells how its cache is configured, and the label that says that it keeps no prefixes.
const CACHE: &str = "vllm:cache_config_info{";
const KEEPS: &str = "enable_prefix_caching=\"";

/// Looks at pages as they are configured.
#[derive(Debug)]
pub struct Looker {
    client: Client,
    dialects: Dialects,
    path: String,
}

/// A page and when its server thinks that it is.
#[derive(Clone, Debug)]
pub struct Looked {
    /// The text.
    pub text: String,
    /// The header `date` of the answer; none where there is none.
    pub date: Option<String>,
}

/// What a page tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// The engine that its load is told by; none where no known one does.
    pub engine: Option<String>,
    /// Whether the engine keeps prefixes; none where the page does not say.
    pub prefix_caching: Option<bool>,
}

impl Looker {
    /// For the metrics pages of these sources; of none, for those of servers that are not configured.
    ///
    /// # Errors
    /// When an HTTP client cannot be set up, most likely for a bad certificate file.
    pub fn new(sources: &Sources) -> Result<Self, ClientError> {
        let page = sources.metrics.clone().unwrap_or_default();
        let client = Client::new(&page, PATH)?;
        let dialects = Dialects::new(&sources.engines);
        Ok(Self { client, dialects, path: page.path(PATH).to_owned() })
    }

    /// The path of the page.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Reads the page of an endpoint.
    ///
    /// # Errors
    /// When there is none within a second: why, in words.
    pub async fn look(&self, address: SocketAddr) -> Result<Looked, String> {
        let url = self.client.url(address).ok_or_else(|| format!("{address} is no address"))?;
        let read = timeout(TIME_OUT, self.read(&url)).await;
        read.unwrap_or(Err(ScrapeError::TimedOut)).map_err(|error| error.chain())
    }

    async fn read(&self, url: &reqwest::Url) -> Result<Looked, ScrapeError> {
        let response = self.client.ask(url).await?;
        let date = response.headers().get("date").and_then(|date| date.to_str().ok());
        let date = date.map(str::to_owned);
        let text = whole(response, LONGEST_PAGE).await?;
        Ok(Looked { text: String::from_utf8_lossy(&text).into_owned(), date })
    }

    /// What a page tells.
    pub fn told(&self, page: &str) -> Told {
        let mut scan = Scan::new(self.dialects.dialect(None));
        scan.feed(page.as_bytes());
        let engine = scan.finish().map(|(engine, _)| self.dialects.name(engine).to_owned());
        let cache = page.lines().find(|line| line.starts_with(CACHE));
        let keeps = cache.and_then(|line| line.split_once(KEEPS)?.1.split('"').next());
        Told { engine, prefix_caching: keeps.map(|keeps| keeps.eq_ignore_ascii_case("true")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looker() -> Looker {
        let resolved = crate::config::load(None, &[crate::schedule::registry::PLUGINS]).unwrap();
        Looker::new(&resolved.sources).unwrap()
    }

    #[test]
    fn a_recorded_page_tells_its_engine_and_that_it_keeps_prefixes() {
        let page = include_str!("../../tests/data/engines/vllm-0.32/metrics-lora.txt");
        let told = looker().told(page);
        assert_eq!((told.engine.as_deref(), told.prefix_caching), (Some("vllm"), Some(true)));
        let off = page.replace("enable_prefix_caching=\"True\"", "enable_prefix_caching=\"False\"");
        assert_eq!(looker().told(&off).prefix_caching, Some(false));
        assert_eq!(looker().told("up 1\n"), Told::default());
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_told_in_words() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let why = looker().look(address).await.unwrap_err();
        assert!(why.starts_with("no answer: "), "{why}");
    }
}
