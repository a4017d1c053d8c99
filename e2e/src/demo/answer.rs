//! What the client sees of one streamed chat completion.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use http::Request;
use serde_json::Value;

use super::traffic::Arrival;
use crate::client::{Body, Client};

/// Bytes of an event line beyond which an answer is given up.
const LINE_BYTES: usize = 1 << 20;

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
    let request = Request::post("/v1/chat/completions")
        .header("content-type", "application/json")
        .body(Body::full(arrival.body.clone()))?;
    let mut response = client.send(request).await?;
    if !response.status.is_success() {
        let status = response.status;
        bail!("status {status}: {}", response.collect().await.text());
    }
    let server = response.headers.get("x-sim-server").context("x-sim-server is missing")?;
    let mut reader = Reader::default();
    reader.answer.server = server.to_str()?.to_owned();
    while let Some(chunk) = response.chunk().await? {
        reader.read(&chunk.data, chunk.at)?;
    }
    ensure!(reader.done, "the answer ended without [DONE]");
    Ok(reader.answer)
}

/// Reads server-sent events as they come.
#[derive(Debug, Default)]
struct Reader {
    line: Vec<u8>,
    started: bool,
    done: bool,
    answer: Answer,
}

impl Reader {
    fn read(&mut self, data: &[u8], at: Duration) -> Result<()> {
        for piece in data.split_inclusive(|&byte| byte == b'\n') {
            self.line.extend_from_slice(piece);
            ensure!(self.line.len() < LINE_BYTES, "an event of more than {LINE_BYTES} bytes");
            if self.line.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                self.event(line.trim_ascii(), at)?;
            }
        }
        Ok(())
    }

    fn event(&mut self, line: &[u8], at: Duration) -> Result<()> {
        let Some(data) = line.strip_prefix(b"data:").map(<[u8]>::trim_ascii) else { return Ok(()) };
        if data == b"[DONE]" {
            self.done = true;
            return Ok(());
        }
        let event: Value = serde_json::from_slice(data).context("an event that is not JSON")?;
        let content = event.pointer("/choices/0/delta/content").and_then(Value::as_str);
        if !self.started && content.is_some_and(|content| !content.is_empty()) {
            self.started = true;
            self.answer.first_token = at;
        }
        let count = |path: &str| event.pointer(path).and_then(Value::as_u64);
        if let Some(tokens) = count("/usage/prompt_tokens") {
            self.answer.prompt_tokens = tokens;
            self.answer.cached_tokens =
                count("/usage/prompt_tokens_details/cached_tokens").unwrap_or(0);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENTS: &str = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n\
        data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n\
        data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"prompt_tokens_details\":{\"cached_tokens\":8}}}\r\n\r\n\
        data: [DONE]\n\n";

    #[test]
    fn answer_is_the_same_however_the_bytes_are_cut() {
        for size in [1, 7, 64, EVENTS.len()] {
            let mut reader = Reader::default();
            for (number, chunk) in EVENTS.as_bytes().chunks(size).enumerate() {
                reader.read(chunk, Duration::from_millis(number as u64)).unwrap();
            }
            let answer = reader.answer;
            assert!(reader.done);
            assert_eq!((answer.prompt_tokens, answer.cached_tokens), (9, 8));
            // the first content, not the role, whose event ends at byte 66
            assert!(size == EVENTS.len() || answer.first_token.as_millis() >= 66 / size as u128);
        }
    }

    #[test]
    fn broken_event_is_an_error() {
        assert!(Reader::default().read(b"data: {\n", Duration::ZERO).is_err());
    }
}
