//! What the keys of request bodies mean.

use super::{Api, media::Medium};

/// What a value stands for, by the keys that lead to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Role {
    /// The document.
    #[default]
    Top,
    /// Of no interest, with all that is in it.
    Skip,
    Model,
    Stream,
    /// A limit of output tokens; the lower number wins.
    Cap(usize),
    Salt,
    /// `sampling_params`.
    Sampling,
    /// Stands in for the prompt but is not read.
    Unread,
    /// A list of messages.
    Messages,
    /// One of them.
    Message,
    /// One prompt or a list of them, each text or token ids.
    Batch,
    /// One prompt of a batch, or one token of the only prompt.
    Item,
    /// A token of one prompt of a batch.
    Inner,
    /// One prompt: text or a list of items.
    Input,
    /// Prompt text at any depth, without the names of its keys.
    Prose,
    /// JSON that goes into the prompt as it stands.
    Raw,
    Media(Medium),
    /// `features`, or what is in it: hashes of media.
    Features,
}

impl Role {
    /// Whether a value here satisfies the need for a prompt.
    pub(super) fn satisfies(self) -> bool {
        matches!(self, Self::Unread | Self::Messages | Self::Batch | Self::Input)
    }

    /// Whether a string here is prompt text.
    pub(super) fn is_text(self) -> bool {
        matches!(self, Self::Batch | Self::Item | Self::Inner | Self::Input | Self::Prose)
    }

    /// The role of a list's elements.
    pub(super) fn element(self) -> Self {
        match self {
            Self::Messages => Self::Message,
            Self::Batch => Self::Item,
            Self::Item => Self::Inner,
            Self::Input | Self::Prose => Self::Prose,
            Self::Features => Self::Media(Medium::Hash),
            Self::Media(_) => self,
            Self::Top
            | Self::Skip
            | Self::Model
            | Self::Stream
            | Self::Cap(_)
            | Self::Salt
            | Self::Sampling
            | Self::Unread
            | Self::Message
            | Self::Inner
            | Self::Raw => Self::Skip,
        }
    }

    /// The role of an object's member below the top.
    pub(super) fn member(self, key: &[u8]) -> Self {
        match (self, key) {
            (Self::Sampling, b"max_tokens" | b"max_new_tokens") => Self::Cap(0),
            (Self::Media(medium), b"url" | b"data" | b"file_id") => Self::Media(medium),
            (Self::Features, b"mm_placeholders" | b"kwargs_data") => Self::Skip,
            (Self::Features, _) => Self::Features,
            (Self::Message | Self::Prose | Self::Item | Self::Batch | Self::Input, _) => prose(key),
            _ => Self::Skip,
        }
    }
}

/// The member of a message or content block.
fn prose(key: &[u8]) -> Role {
    match key {
        b"image_url" | b"image" | b"source" | b"file_data" => Role::Media(Medium::Image),
        b"video_url" | b"video" => Role::Media(Medium::Video),
        b"input_audio" | b"audio_url" | b"audio" => Role::Media(Medium::Audio),
        b"input" => Role::Raw,
        b"type" | b"id" | b"call_id" | b"tool_call_id" | b"tool_use_id" | b"status" | b"detail"
        | b"format" | b"media_type" | b"cache_control" | b"signature" => Role::Skip,
        _ => Role::Prose,
    }
}

/// The field that holds the prompt, where one is required.
pub(super) fn required(api: Api) -> Option<&'static str> {
    Some(match api {
        Api::ChatCompletions | Api::Messages | Api::VertexChat => "messages",
        Api::Completions | Api::ImagesGenerations => "prompt",
        Api::Embeddings | Api::Responses | Api::VertexRaw => "input",
        Api::VllmGenerate => "token_ids",
        Api::SglangGenerate => "input_ids",
        Api::Conversations
        | Api::CountTokens
        | Api::VllmGrpcGenerate
        | Api::VllmGrpcEmbed
        | Api::VllmGrpcOther
        | Api::ModelOnly
        | Api::Passthrough => return None,
    })
}

/// The member of the document.
pub(super) fn top(api: Api, key: &[u8]) -> Role {
    match (api, key) {
        (Api::SglangGenerate, b"model") => Role::Skip,
        (_, b"model") => Role::Model,
        (Api::ModelOnly, _) => Role::Skip,
        (_, b"stream") => Role::Stream,
        (Api::SglangGenerate, b"extra_key") | (_, b"cache_salt") => Role::Salt,
        (Api::VllmGenerate | Api::SglangGenerate, b"sampling_params") => Role::Sampling,
        (Api::ChatCompletions | Api::VertexChat, b"max_completion_tokens")
        | (Api::Completions | Api::Messages, b"max_tokens")
        | (Api::Responses | Api::VertexRaw, b"max_output_tokens") => Role::Cap(0),
        (Api::ChatCompletions | Api::VertexChat, b"max_tokens") => Role::Cap(1),
        (Api::Responses | Api::VertexRaw, b"input") | (Api::Conversations, b"items") => Role::Input,
        (Api::ImagesGenerations | Api::Responses | Api::VertexRaw, b"prompt")
        | (Api::Completions, b"prompt_embeds")
        | (Api::SglangGenerate, b"input_embeds") => Role::Unread,
        (Api::Completions, b"prompt")
        | (Api::Embeddings, b"input")
        | (Api::VllmGenerate, b"token_ids")
        | (Api::SglangGenerate, b"input_ids" | b"text") => Role::Batch,
        (Api::VllmGenerate, b"features") => Role::Features,
        (Api::ChatCompletions | Api::VertexChat | Api::Messages | Api::Embeddings, b"messages") => {
            Role::Messages
        }
        (_, b"system" | b"instructions") => Role::Prose,
        (_, b"tools" | b"functions" | b"documents") => Role::Raw,
        _ => Role::Skip,
    }
}

/// The API of a body without a path, by a key at its top.
pub(super) fn guess(known: Option<Api>, key: &[u8]) -> Option<Api> {
    match (known, key) {
        (None, b"messages") => Some(Api::ChatCompletions),
        (None, b"prompt") => Some(Api::Completions),
        (None, b"input") => Some(Api::Embeddings),
        (
            None | Some(Api::Embeddings),
            b"instructions" | b"max_output_tokens" | b"previous_response_id",
        ) => Some(Api::Responses),
        _ => known,
    }
}
