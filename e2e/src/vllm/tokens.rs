//! Tokens as clients, engines and Lodesman count them.

use std::ops::{AddAssign, Sub};

use anyhow::Result;

use super::server::Server;
use crate::client::Client;
use crate::lodesman::Lodesman;
use crate::page::sum;
use crate::streamed::Usage;

impl Usage {
    /// What the engines' pages say, since they started.
    ///
    /// # Errors
    /// When a server does not answer.
    pub(super) async fn of_engines(servers: &[Server]) -> Result<Self> {
        let mut all = Self::default();
        for server in servers {
            let page = server.page().await?;
            all += Self {
                prompt: count(&page, "vllm:prefix_cache_queries_total"),
                cached: count(&page, "vllm:prefix_cache_hits_total"),
                completion: count(&page, "vllm:generation_tokens_total"),
            };
        }
        Ok(all)
    }

    /// What Lodesman's page says, since it started.
    ///
    /// # Errors
    /// When it does not answer.
    pub(super) async fn of_lodesman(lodesman: &Lodesman) -> Result<Self> {
        let page = Client::http1(lodesman.metrics).get("/metrics").await?.text();
        let count = |name: &str| count(&page, &format!("llm_d_epp_request_{name}_tokens_sum"));
        Ok(Self { prompt: count("input"), cached: count("cached"), completion: count("output") })
    }

    /// The share of the prompts that was in a cache, in percent.
    pub(super) fn hits(self) -> f64 {
        self.cached as f64 / self.prompt.max(1) as f64 * 100.0
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, more: Self) {
        self.prompt += more.prompt;
        self.cached += more.cached;
        self.completion += more.completion;
    }
}

impl Sub for Usage {
    type Output = Self;

    /// What came since an earlier count.
    fn sub(self, earlier: Self) -> Self {
        Self {
            prompt: self.prompt.saturating_sub(earlier.prompt),
            cached: self.cached.saturating_sub(earlier.cached),
            completion: self.completion.saturating_sub(earlier.completion),
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts tokens")]
fn count(page: &str, name: &str) -> u64 {
    sum(page, name) as u64
}
