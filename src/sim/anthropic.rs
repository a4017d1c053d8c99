//! Answers in the shapes of Anthropic's Messages API.

use serde_json::{Value, json};

use super::{answer::Answer, engine::Event};

/// Server-sent events of a streamed message.
pub(super) fn events(answer: &Answer, event: Event) -> Vec<u8> {
    let mut out = Vec::new();
    if matches!(event, Event::FirstToken { .. }) {
        let message = shell(answer, &json!([]), None, &usage(answer, 0));
        send(&mut out, &json!({"type": "message_start", "message": message}));
        let block = json!({"type": "text", "text": ""});
        send(&mut out, &json!({"type": "content_block_start", "index": 0, "content_block": block}));
    }
    match event {
        Event::FirstToken { .. } | Event::Token { .. } => {
            let delta = json!({"type": "text_delta", "text": answer.word()});
            send(&mut out, &json!({"type": "content_block_delta", "index": 0, "delta": delta}));
        }
        Event::Finished { .. } => {
            send(&mut out, &json!({"type": "content_block_stop", "index": 0}));
            let delta = json!({"stop_reason": "max_tokens", "stop_sequence": null});
            let usage = usage(answer, answer.generated);
            send(&mut out, &json!({"type": "message_delta", "delta": delta, "usage": usage}));
            send(&mut out, &json!({"type": "message_stop"}));
        }
        Event::Preempted { .. } => {}
    }
    out
}

/// A message that is not streamed.
pub(super) fn message(answer: &Answer, text: &str) -> Value {
    let content = json!([{"type": "text", "text": text}]);
    shell(answer, &content, Some("max_tokens"), &usage(answer, answer.generated))
}

fn shell(answer: &Answer, content: &Value, stop_reason: Option<&str>, usage: &Value) -> Value {
    json!({
        "id": format!("msg_{}", answer.id),
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": null,
        "usage": usage,
    })
}

/// `input_tokens` are those that were not in the cache.
fn usage(answer: &Answer, output_tokens: usize) -> Value {
    json!({
        "input_tokens": answer.prompt_tokens - answer.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": answer.cached_tokens,
        "output_tokens": output_tokens,
    })
}

/// Adds one event, named by its `type`.
fn send(out: &mut Vec<u8>, event: &Value) {
    let name = event.get("type").and_then(Value::as_str).unwrap_or_default();
    out.extend_from_slice(format!("event: {name}\ndata: {event}\n\n").as_bytes());
}
