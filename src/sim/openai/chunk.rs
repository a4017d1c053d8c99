//! The chunks of streamed answers. A field that vLLM leaves out is left out, one that it sends as
//! null is null.

use serde::Serialize;

use super::{super::answer::Answer, FINGERPRINT};

/// A chunk of a chat.
#[derive(Serialize)]
pub(super) struct ChatChunk<'a> {
    id: String,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: Vec<ChatChoice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_fingerprint: Option<&'static str>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    prompt: Option<NoPrompt>,
}

impl<'a> ChatChunk<'a> {
    /// The first one, with the role and no text.
    pub(super) fn opening(answer: &'a Answer) -> Self {
        let delta = Delta { role: Some("assistant"), content: "" };
        let choice = ChatChoice { delta, ..ChatChoice::default() };
        let usage = answer.options.continuous().then(|| Usage::after(answer, 0));
        Self { usage, prompt: Some(NoPrompt::default()), ..Self::new(answer, vec![choice]) }
    }

    /// The token that was generated last.
    pub(super) fn token(answer: &'a Answer) -> Self {
        let choice = ChatChoice {
            delta: Delta { role: None, content: answer.word() },
            finish_reason: answer.is_last().then_some("length"),
            stop_reason: answer.is_last().then_some(()),
            token_ids: Some(()),
            ..ChatChoice::default()
        };
        let usage = answer.options.continuous().then(|| Usage::of(answer));
        Self { usage, ..Self::new(answer, vec![choice]) }
    }

    /// The last one, with the usage alone.
    pub(super) fn usage(answer: &'a Answer) -> Self {
        let (usage, system_fingerprint) = (Some(Usage::of(answer)), Some(FINGERPRINT));
        Self { usage, system_fingerprint, ..Self::new(answer, Vec::new()) }
    }

    fn new(answer: &'a Answer, choices: Vec<ChatChoice>) -> Self {
        Self {
            id: format!("chatcmpl-{}", answer.id),
            object: "chat.completion.chunk",
            created: answer.created,
            model: &answer.model,
            choices,
            usage: None,
            system_fingerprint: None,
            prompt: None,
        }
    }
}

/// Fields of the first chunk that are null unless asked for.
#[derive(Default, Serialize)]
struct NoPrompt {
    prompt_token_ids: (),
    prompt_text: (),
}

#[derive(Default, Serialize)]
struct ChatChoice {
    index: usize,
    delta: Delta,
    logprobs: (),
    finish_reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_reason: Option<()>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_ids: Option<()>,
}

#[derive(Default, Serialize)]
struct Delta {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    content: &'static str,
}

/// A chunk of a completion; `usage` is null where there is none.
#[derive(Serialize)]
pub(super) struct TextChunk<'a> {
    id: String,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: Vec<TextChoice>,
    usage: Option<Usage>,
}

impl<'a> TextChunk<'a> {
    /// The token that was generated last.
    pub(super) fn token(answer: &'a Answer) -> Self {
        let choice = TextChoice {
            text: answer.word(),
            finish_reason: answer.is_last().then_some("length"),
            ..TextChoice::default()
        };
        let usage = answer.options.continuous().then(|| Usage::of(answer));
        Self::new(answer, vec![choice], usage)
    }

    /// The last one, with the usage alone.
    pub(super) fn usage(answer: &'a Answer) -> Self {
        Self::new(answer, Vec::new(), Some(Usage::of(answer)))
    }

    fn new(answer: &'a Answer, choices: Vec<TextChoice>, usage: Option<Usage>) -> Self {
        Self {
            id: format!("cmpl-{}", answer.id),
            object: "text_completion",
            created: answer.created,
            model: &answer.model,
            choices,
            usage,
        }
    }
}

#[derive(Default, Serialize)]
struct TextChoice {
    index: usize,
    text: &'static str,
    logprobs: (),
    finish_reason: Option<&'static str>,
    stop_reason: (),
    prompt_token_ids: (),
    token_ids: (),
}

/// Tokens so far.
#[derive(Serialize)]
pub(super) struct Usage {
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
    pub(super) fn of(answer: &Answer) -> Self {
        Self::after(answer, answer.generated)
    }

    /// After so many output tokens.
    fn after(answer: &Answer, completion_tokens: usize) -> Self {
        Self {
            prompt_tokens: answer.prompt_tokens,
            total_tokens: answer.prompt_tokens + completion_tokens,
            completion_tokens,
            prompt_tokens_details: PromptTokens { cached_tokens: answer.cached_tokens },
        }
    }
}
