//! A streamed chat completion as its client sees it.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use http::Request;
use serde_json::Value;

use crate::client::{Body, Client, Response};

/// Bytes of an event line beyond which an answer is given up.
const LINE_BYTES: usize = 1 << 20;

/// A complete answer. Times are from the start of the request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Streamed {
    /// Until the first event; absent without one.
    pub(crate) begun: Option<Duration>,
    /// Until the first content that is not empty; absent without one.
    pub(crate) first_content: Option<Duration>,
    /// What the server says of its tokens; zeros when it does not.
    pub(crate) usage: Usage,
}

/// Tokens of an answer as its server counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Of the prompt.
    pub(crate) prompt: u64,
    /// Those of the prompt that were in its cache.
    pub(crate) cached: u64,
    /// Of the answer.
    pub(crate) completion: u64,
}

/// Sends a request and waits for the head of a good answer.
///
/// # Errors
/// When there is no answer or its status is none of success.
pub(crate) async fn open(client: Client, path: &str, body: Bytes) -> Result<Response> {
    let request =
        Request::post(path).header("content-type", "application/json").body(Body::full(body))?;
    let response = client.send(request).await?;
    if !response.status.is_success() {
        let status = response.status;
        bail!("status {status}: {}", response.collect().await.text());
    }
    Ok(response)
}

/// Reads an answer to its end.
///
/// # Errors
/// When the stream ends before its end mark.
pub(crate) async fn read(mut response: Response) -> Result<Streamed> {
    let mut reader = Reader::default();
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
    done: bool,
    answer: Streamed,
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
        self.answer.begun.get_or_insert(at);
        let content = event.pointer("/choices/0/delta/content").and_then(Value::as_str);
        if content.is_some_and(|content| !content.is_empty()) {
            self.answer.first_content.get_or_insert(at);
        }
        let count = |path: &str| event.pointer(path).and_then(Value::as_u64);
        if let Some(tokens) = count("/usage/prompt_tokens") {
            self.answer.usage = Usage {
                prompt: tokens,
                cached: count("/usage/prompt_tokens_details/cached_tokens").unwrap_or(0),
                completion: count("/usage/completion_tokens").unwrap_or(0),
            };
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENTS: &str = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n\
        data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n\
        data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":2,\"prompt_tokens_details\":{\"cached_tokens\":8}}}\r\n\r\n\
        data: [DONE]\n\n";

    #[test]
    fn answer_is_the_same_however_the_bytes_are_cut() {
        for size in [1, 7, 64, EVENTS.len()] {
            let mut reader = Reader::default();
            for (number, chunk) in EVENTS.as_bytes().chunks(size).enumerate() {
                reader.read(chunk, Duration::from_millis(number as u64)).unwrap();
            }
            let Streamed { begun, first_content, usage } = reader.answer;
            assert!(reader.done);
            assert_eq!(usage, Usage { prompt: 9, cached: 8, completion: 2 });
            // the role begins the answer, and is no content
            let chunk = |at: Option<Duration>| usize::try_from(at.unwrap().as_millis()).unwrap();
            let role = EVENTS.find('\n').unwrap();
            assert_eq!(chunk(begun), role / size);
            assert!(size == EVENTS.len() || chunk(first_content) > role / size);
        }
    }

    #[test]
    fn broken_event_is_an_error() {
        assert!(Reader::default().read(b"data: {\n", Duration::ZERO).is_err());
    }
}
