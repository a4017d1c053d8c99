//! Answers in the shapes of vLLM's OpenAI API (0.32), field by field.

use serde::Serialize;
use serde_json::{Value, json};

use super::{
    answer::{Answer, Catalog, StreamOptions},
    engine::Event,
};

/// Components of an embedding; enough to tell two apart.
const DIMENSIONS: u32 = 8;

const FINGERPRINT: &str = "lodesman-sim";

/// Ends a stream.
const DONE: &[u8] = b"data: [DONE]\n\n";

/// Server-sent events of a streamed chat.
pub(super) fn chat_events(answer: &Answer, event: Event) -> Vec<u8> {
    let mut out = Vec::new();
    if matches!(event, Event::FirstToken { .. }) {
        let delta = Delta { role: Some("assistant"), content: "" };
        let choice = ChatChoice::new(delta);
        // The usage of this chunk is that before the first token.
        let usage = answer
            .options
            .continuous()
            .then(|| Usage { completion_tokens: 0, ..Usage::of(answer) });
        let choices = [choice];
        let chunk =
            ChatChunk { prompt: Some(NoPrompt::default()), ..chat_chunk(answer, &choices, usage) };
        send(&mut out, &chunk);
    }
    match event {
        Event::FirstToken { .. } | Event::Token { .. } => {
            let last = answer.is_last();
            let choice = ChatChoice {
                finish_reason: last.then_some("length"),
                stop_reason: last.then_some(()),
                token_ids: Some(()),
                ..ChatChoice::new(Delta { role: None, content: answer.word() })
            };
            let usage = answer.options.continuous().then(|| Usage::of(answer));
            send(&mut out, &chat_chunk(answer, &[choice], usage));
        }
        Event::Finished { .. } => {
            if answer.options.include_usage {
                let usage = Some(Usage::of(answer));
                let fingerprint = Some(FINGERPRINT);
                let chunk = chat_chunk(answer, &[], usage);
                send(&mut out, &ChatChunk { system_fingerprint: fingerprint, ..chunk });
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
            let usage = answer.options.continuous().then(|| Usage::of(answer));
            send(&mut out, &completion_chunk(answer, &[TextChoice::of(answer)], usage));
        }
        Event::Finished { .. } => {
            if answer.options.include_usage {
                send(&mut out, &completion_chunk(answer, &[], Some(Usage::of(answer))));
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

impl StreamOptions {
    fn continuous(self) -> bool {
        self.include_usage && self.continuous_usage_stats
    }
}

#[derive(Serialize)]
struct Usage {
    prompt_tokens: usize,
    total_tokens: usize,
    completion_tokens: usize,
    prompt_tokens_details: PromptTokens,
}

#[derive(Serialize)]
struct PromptTokens {
    cached_tokens: usize,
}

impl Usage {
    fn of(answer: &Answer) -> Self {
        Self {
            prompt_tokens: answer.prompt_tokens,
            total_tokens: answer.prompt_tokens + answer.generated,
            completion_tokens: answer.generated,
            prompt_tokens_details: PromptTokens { cached_tokens: answer.cached_tokens },
        }
    }
}

/// A chunk of a chat; fields that a chunk lacks are left out, as vLLM does.
#[derive(Serialize)]
struct ChatChunk<'a> {
    id: String,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: &'a [ChatChoice<'a>],
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_fingerprint: Option<&'static str>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    prompt: Option<NoPrompt>,
}

fn chat_chunk<'a>(
    answer: &'a Answer,
    choices: &'a [ChatChoice<'a>],
    usage: Option<Usage>,
) -> ChatChunk<'a> {
    ChatChunk {
        id: format!("chatcmpl-{}", answer.id),
        object: "chat.completion.chunk",
        created: answer.created,
        model: &answer.model,
        choices,
        usage,
        system_fingerprint: None,
        prompt: None,
    }
}

/// Fields of the first chunk that are null unless asked for.
#[derive(Default, Serialize)]
struct NoPrompt {
    prompt_token_ids: (),
    prompt_text: (),
}

#[derive(Serialize)]
struct ChatChoice<'a> {
    index: usize,
    delta: Delta<'a>,
    logprobs: (),
    finish_reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_reason: Option<()>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_ids: Option<()>,
}

impl<'a> ChatChoice<'a> {
    fn new(delta: Delta<'a>) -> Self {
        Self {
            index: 0,
            delta,
            logprobs: (),
            finish_reason: None,
            stop_reason: None,
            token_ids: None,
        }
    }
}

#[derive(Serialize)]
struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    content: &'a str,
}

/// A chunk of a completion; `usage` is null where there is none, as with vLLM.
#[derive(Serialize)]
struct TextChunk<'a> {
    id: String,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: &'a [TextChoice],
    usage: Option<Usage>,
}

fn completion_chunk<'a>(
    answer: &'a Answer,
    choices: &'a [TextChoice],
    usage: Option<Usage>,
) -> TextChunk<'a> {
    let id = format!("cmpl-{}", answer.id);
    let object = "text_completion";
    TextChunk { id, object, created: answer.created, model: &answer.model, choices, usage }
}

#[derive(Serialize)]
struct TextChoice {
    index: usize,
    text: &'static str,
    logprobs: (),
    finish_reason: Option<&'static str>,
    stop_reason: (),
    prompt_token_ids: (),
    token_ids: (),
}

impl TextChoice {
    fn of(answer: &Answer) -> Self {
        Self {
            index: 0,
            text: answer.word(),
            logprobs: (),
            finish_reason: answer.is_last().then_some("length"),
            stop_reason: (),
            prompt_token_ids: (),
            token_ids: (),
        }
    }
}

/// Adds one `data:` event.
fn send(out: &mut Vec<u8>, chunk: &impl Serialize) {
    out.extend_from_slice(b"data: ");
    let written = serde_json::to_writer(&mut *out, chunk);
    debug_assert!(written.is_ok(), "plain structures can be written");
    out.extend_from_slice(b"\n\n");
}
