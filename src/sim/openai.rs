//! Answers in the shapes of vLLM's OpenAI API (0.32), field by field.

mod chunk;

use serde::Serialize;
use serde_json::{Value, json};

use self::chunk::{ChatChunk, TextChunk, Usage};
use super::{answer::Answer, ask::Catalog, engine::Event};

/// Components of an embedding; enough to tell two apart.
const DIMENSIONS: u32 = 8;

const FINGERPRINT: &str = "lodesman-sim";

/// Ends a stream.
const DONE: &[u8] = b"data: [DONE]\n\n";

/// Server-sent events of a streamed chat.
pub(super) fn chat_events(answer: &Answer, event: Event) -> Vec<u8> {
    let mut out = Vec::new();
    if matches!(event, Event::FirstToken { .. }) {
        send(&mut out, &ChatChunk::opening(answer));
    }
    match event {
        Event::FirstToken { .. } | Event::Token { .. } => {
            send(&mut out, &ChatChunk::token(answer));
        }
        Event::Finished { .. } => {
            if answer.options.include_usage {
                send(&mut out, &ChatChunk::usage(answer));
            }
            out.extend_from_slice(DONE);
        }
        Event::Preempted { .. } => {}
    }
    out
}

/// Server-sent events of a streamed completion.
pub(super) fn completion_events(answer: &Answer, event: Event) -> Vec<u8> {
    let mut out = Vec::new();
    match event {
        Event::FirstToken { .. } | Event::Token { .. } => {
            send(&mut out, &TextChunk::token(answer));
        }
        Event::Finished { .. } => {
            if answer.options.include_usage {
                send(&mut out, &TextChunk::usage(answer));
            }
            out.extend_from_slice(DONE);
        }
        Event::Preempted { .. } => {}
    }
    out
}

/// A chat that is not streamed.
pub(super) fn chat(answer: &Answer, text: &str) -> Value {
    json!({
        "id": format!("chatcmpl-{}", answer.id),
        "object": "chat.completion",
        "created": answer.created,
        "model": answer.model,
        "choices": [{
            "index": 0,
            "message": {
                "role": "assistant", "content": text, "refusal": null, "annotations": null,
                "audio": null, "function_call": null, "tool_calls": [], "reasoning": null,
            },
            "logprobs": null, "finish_reason": "length", "stop_reason": null, "token_ids": null,
        }],
        "service_tier": null,
        "system_fingerprint": FINGERPRINT,
        "usage": Usage::of(answer),
        "prompt_logprobs": null,
        "prompt_token_ids": null,
        "kv_transfer_params": null,
    })
}

/// A completion that is not streamed.
pub(super) fn completion(answer: &Answer, text: &str) -> Value {
    json!({
        "id": format!("cmpl-{}", answer.id),
        "object": "text_completion",
        "created": answer.created,
        "model": answer.model,
        "choices": [{
            "index": 0, "text": text, "logprobs": null, "finish_reason": "length",
            "stop_reason": null, "token_ids": null, "prompt_logprobs": null,
            "prompt_token_ids": null,
        }],
        "service_tier": null,
        "system_fingerprint": FINGERPRINT,
        "usage": Usage::of(answer),
        "kv_transfer_params": null,
    })
}

/// Embeddings, one for each input.
pub(super) fn embeddings(answer: &Answer) -> Value {
    let vector = (0..DIMENSIONS)
        .map(|n| f64::from(answer.digest.rotate_left(n * 8).to_le_bytes()[0]) / 255.0)
        .collect::<Vec<_>>();
    let data = (0..answer.inputs)
        .map(|index| json!({"index": index, "object": "embedding", "embedding": vector}))
        .collect::<Vec<_>>();
    json!({
        "id": format!("embd-{}", answer.id),
        "object": "list",
        "created": answer.created,
        "model": answer.model,
        "data": data,
        "usage": {
            "prompt_tokens": answer.prompt_tokens,
            "total_tokens": answer.prompt_tokens,
            "completion_tokens": 0,
            "prompt_tokens_details": null,
        },
    })
}

/// `GET /v1/models`: base models, then adapters with their parent.
pub(super) fn models(catalog: &Catalog, created: u64, max_model_len: usize) -> Value {
    let base = catalog.models.iter().map(|name| (name, None));
    let loras = catalog.loras.iter().map(|name| (name, catalog.models.first()));
    let data = base.chain(loras).map(|(name, parent)| {
        json!({
            "id": name, "object": "model", "created": created, "owned_by": "vllm", "root": name,
            "parent": parent,
            "max_model_len": if parent.is_none() { Some(max_model_len) } else { None },
            "permission": [],
        })
    });
    json!({"object": "list", "data": data.collect::<Vec<_>>()})
}

/// Adds one `data:` event.
fn send(out: &mut Vec<u8>, chunk: &impl Serialize) {
    out.extend_from_slice(b"data: ");
    let written = serde_json::to_writer(&mut *out, chunk);
    debug_assert!(written.is_ok(), "plain structures can be written");
    out.extend_from_slice(b"\n\n");
}
