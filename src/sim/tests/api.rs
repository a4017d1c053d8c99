//! The API: shapes, usage, cache hits, denials, what reached the server.

use std::collections::BTreeSet;

use serde_json::json as object;
use sha2::{Digest, Sha256};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::*;

const RECORDED: &str = include_str!("../../../tests/data/engines/vllm-0.32/chat-stream-usage.sse");

/// Every path to a leaf, so that two values can be compared by shape.
fn shape(value: &Value, path: &str, into: &mut BTreeSet<String>) {
    if let Some(fields) = value.as_object() {
        for (name, value) in fields {
            shape(value, &format!("{path}.{name}"), into);
        }
    } else if let Some(values) = value.as_array() {
        for value in values {
            shape(value, &format!("{path}[]"), into);
        }
    } else {
        into.insert(path.to_owned());
    }
}

fn shapes(stream: &str) -> Vec<BTreeSet<String>> {
    let parsed =
        data(stream).into_iter().map(|line| serde_json::from_str(line).unwrap_or_default());
    let shape_of = |value: Value| {
        let mut paths = BTreeSet::new();
        shape(&value, "", &mut paths);
        paths
    };
    parsed.map(shape_of).collect()
}

fn chat(content: &str, tokens: usize) -> Value {
    object!({"model": "sim", "max_tokens": tokens, "messages": [{"role": "user", "content": content}]})
}

#[tokio::test]
async fn a_streamed_chat_has_the_shape_that_vllm_sends() {
    let sim = Sim::start("").await;
    let mut body = chat("Where to?", 5);
    body["stream"] = true.into();
    body["stream_options"] = object!({"include_usage": true});
    let response = sim.post(0, "/v1/chat/completions", &body).send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream; charset=utf-8");
    let stream = response.text().await.unwrap();
    let mut ours = shapes(&stream);
    for chunk in &mut ours {
        // The recorded server ran without `--enable-prompt-tokens-details`.
        chunk.remove(".usage.prompt_tokens_details.cached_tokens");
    }
    assert_eq!(ours, shapes(RECORDED), "{stream}");
    assert_eq!(data(&stream).last(), Some(&"[DONE]"));
}

#[tokio::test]
async fn usage_comes_in_every_chunk_when_asked_for_and_in_none_when_not() {
    let sim = Sim::start("").await;
    for (path, tokens) in
        [("/v1/completions", vec![1, 2, 3, 3]), ("/v1/chat/completions", vec![0, 1, 2, 3, 3])]
    {
        let mut body = object!({"max_tokens": 3, "prompt": "a", "messages": ["a"], "stream": true});
        let stream = sim.post(0, path, &body).send().await.unwrap().text().await.unwrap();
        assert!(!stream.contains("prompt_tokens\""), "{stream}");
        body["stream_options"] = object!({"include_usage": true, "continuous_usage_stats": true});
        let stream = sim.post(0, path, &body).send().await.unwrap().text().await.unwrap();
        let chunks =
            data(&stream).into_iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let counts = chunks.map(|chunk| chunk["usage"]["completion_tokens"].as_u64().unwrap());
        assert_eq!(counts.collect::<Vec<_>>(), tokens, "{path}");
    }
}

#[tokio::test]
async fn the_second_identical_prompt_is_cached_but_for_its_last_block() {
    let sim = Sim::start("--lora ada").await;
    let body = chat(&"x".repeat(4 * 160 - 4), 7);
    let first = sim.ask("/v1/chat/completions", &body).await;
    assert_eq!(first["usage"]["prompt_tokens"], 160);
    assert_eq!(first["usage"]["completion_tokens"], 7);
    assert_eq!(first["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
    assert_eq!(first["choices"][0]["finish_reason"], "length");
    let second = sim.ask("/v1/chat/completions", &body).await;
    assert_eq!(second["usage"]["prompt_tokens_details"]["cached_tokens"], 144);
    for (field, value) in [("model", "ada"), ("cache_salt", "tenant")] {
        let mut other = body.clone();
        other[field] = value.into();
        let answer = sim.ask("/v1/chat/completions", &other).await;
        assert_eq!(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 0, "{field}");
    }
    let message = sim.ask("/v1/messages", &body).await;
    assert_eq!(message["usage"]["cache_read_input_tokens"], 144);
    assert_eq!(message["usage"]["input_tokens"], 16);
    assert_eq!(message["usage"]["output_tokens"], 7);
}

#[tokio::test]
async fn a_streamed_message_follows_the_order_of_anthropic() {
    let sim = Sim::start("").await;
    let mut body = chat("Where to?", 2);
    body["stream"] = true.into();
    let stream = sim.post(0, "/v1/messages", &body).send().await.unwrap().text().await.unwrap();
    let events = stream.lines().filter_map(|line| line.strip_prefix("event: "));
    let order = [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ];
    assert_eq!(events.collect::<Vec<_>>(), order);
    let last: Value = serde_json::from_str(data(&stream)[5]).unwrap();
    assert_eq!(last["usage"]["output_tokens"], 2);
}

#[tokio::test]
async fn embeddings_come_one_for_each_input() {
    let sim = Sim::start("").await;
    let two = sim.ask("/v1/embeddings", &object!({"input": ["abcd", "efgh"]})).await;
    assert_eq!(two["data"].as_array().unwrap().len(), 2);
    assert_eq!(two["usage"]["prompt_tokens"], 2);
    let one = sim.ask("/v1/embeddings", &object!({"input": [1, 2, 3]})).await;
    assert_eq!(one["data"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn what_cannot_be_served_is_denied_as_vllm_does() {
    let sim = Sim::start("--kv-tokens 160").await;
    let mut unknown = chat("a", 1);
    unknown["model"] = "other".into();
    let too_large = chat("a", 161);
    for (body, status, kind) in [
        (unknown.to_string(), 404, "NotFoundError"),
        (too_large.to_string(), 400, "BadRequestError"),
        (r#"{"model": "sim"}"#.to_owned(), 400, "BadRequestError"),
        (r#"{"messages": "secret"#.to_owned(), 400, "BadRequestError"),
    ] {
        let request = sim.client.post(sim.url(0, "/v1/chat/completions")).body(body.clone());
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), status, "{body}");
        let error = json(response).await["error"].take();
        assert_eq!((&error["type"], &error["code"]), (&kind.into(), &status.into()));
        assert!(!error.to_string().contains("secret"));
    }
}

#[tokio::test]
async fn models_are_listed_with_adapters_under_their_parent() {
    let sim = Sim::start("--model base --model second --lora ada").await;
    let models = json(sim.get(0, "/v1/models").await).await;
    let listed = models["data"].as_array().unwrap().iter();
    let pairs = listed.map(|model| (model["id"].as_str().unwrap(), model["parent"].as_str()));
    assert_eq!(
        pairs.collect::<Vec<_>>(),
        [("base", None), ("second", None), ("ada", Some("base"))]
    );
    assert_eq!(sim.get(0, "/health").await.status(), 200);
    assert_eq!(json(sim.get(0, "/version").await).await["version"], env!("CARGO_PKG_VERSION"));
}

#[tokio::test]
async fn a_large_body_to_another_path_is_answered_with_its_facts() {
    let sim = Sim::start("").await;
    let body = vec![b'x'; 8 * 1024 * 1024];
    let sum = format!("{:x}", bytes::Bytes::copy_from_slice(&Sha256::digest(&body)));
    let url = sim.url(0, "/v1/messages/count_tokens?beta=1");
    let response = sim.client.post(url).header("x-test", "1").body(body).send().await.unwrap();
    let address = sim.fleet.addresses()[0].to_string();
    assert_eq!(response.headers()["x-sim-server"], address.as_str());
    let facts = json(response).await;
    assert_eq!(facts["path"], "/v1/messages/count_tokens?beta=1");
    assert_eq!((&facts["body_length"], &facts["body_sha256"]), (&(8 << 20).into(), &sum.into()));
    let seen = json(sim.get(0, "/sim/requests").await).await;
    assert_eq!(seen.as_array().unwrap().len(), 1, "probes are not remembered");
    assert_eq!((&seen[0]["server"], &seen[0]["headers"]["x-test"]), (&address.into(), &"1".into()));
}

#[tokio::test]
async fn trailers_of_a_request_are_told() {
    let sim = Sim::start("").await;
    let mut tcp = TcpStream::connect(sim.fleet.addresses()[0]).await.unwrap();
    let request = "POST /any HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\
        trailer: x-sum\r\n\r\n3\r\nabc\r\n0\r\nx-sum: 7\r\n\r\n";
    tcp.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    timeout(PATIENCE, tcp.read_to_string(&mut response)).await.unwrap().unwrap();
    assert!(response.contains(r#""trailers":{"x-sum":"7"}"#), "{response}");
}
