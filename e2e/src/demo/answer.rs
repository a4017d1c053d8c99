//! What the client sees of one streamed chat completion.

use std::time::Duration;

use anyhow::{Context, Result};

use super::traffic::Arrival;
use crate::chat::PATH;
use crate::client::Client;
use crate::streamed;

/// A complete answer.
#[derive(Debug, Clone, Default)]
pub(super) struct Answer {
    /// The server that answered, as it says.
    pub(super) server: String,
    /// From the start of the request to the first content.
    pub(super) first_token: Duration,
    /// Tokens of the prompt, as the server counts them.
    pub(super) prompt_tokens: u64,
    /// Tokens of the prompt that were in its cache.
    pub(super) cached_tokens: u64,
}

/// Sends a request and reads its answer to the end.
///
/// # Errors
/// When the status is not 200 or the stream ends before its end mark.
pub(super) async fn ask(client: Client, arrival: &Arrival) -> Result<Answer> {
    let response = streamed::open(client, PATH, arrival.body.clone()).await?;
    let server = response.headers.get("x-sim-server").context("x-sim-server is missing")?;
    let server = server.to_str()?.to_owned();
    let streamed = streamed::read(response).await?;
    Ok(Answer {
        server,
        first_token: streamed.first_content.unwrap_or_default(),
        prompt_tokens: streamed.usage.prompt,
        cached_tokens: streamed.usage.cached,
    })
}
