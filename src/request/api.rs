//! Which API a request speaks, told from its path.

use std::ops::BitOr;

const OPENAI: Parsers = Parsers(1);
const ANTHROPIC: Parsers = Parsers(1 << 1);
const VLLM_HTTP: Parsers = Parsers(1 << 2);
const SGLANG_HTTP: Parsers = Parsers(1 << 3);
const VLLM_GRPC: Parsers = Parsers(1 << 4);
const VERTEX: Parsers = Parsers(1 << 5);
const PASSTHROUGH: Parsers = Parsers(1 << 6);

/// Path suffixes and whose they are; the longest that matches counts.
const SUFFIXES: [(&str, Parsers, Api); 29] = [
    ("chat/completions", OPENAI, Api::ChatCompletions),
    ("chat/completions/render", OPENAI, Api::ChatCompletions),
    ("completions", OPENAI, Api::Completions),
    ("completions/render", OPENAI, Api::Completions),
    ("embeddings", OPENAI, Api::Embeddings),
    ("responses", OPENAI, Api::Responses),
    ("conversations", OPENAI, Api::Conversations),
    ("images/generations", OPENAI, Api::ImagesGenerations),
    ("messages", ANTHROPIC, Api::Messages),
    ("messages/count_tokens", ANTHROPIC, Api::CountTokens),
    ("inference/v1/generate", VLLM_HTTP, Api::VllmGenerate),
    ("generate", SGLANG_HTTP, Api::SglangGenerate),
    ("vllm.grpc.engine.VllmEngine/Generate", VLLM_GRPC, Api::VllmGrpcGenerate),
    ("vllm.grpc.engine.VllmEngine/Embed", VLLM_GRPC, Api::VllmGrpcEmbed),
    ("PredictionService/ChatCompletions", VERTEX, Api::VertexChat),
    ("PredictionService/RawPredict", VERTEX, Api::VertexRaw),
    ("PredictionService/StreamRawPredict", VERTEX, Api::VertexRaw),
    ("rerank", OPENAI, Api::ModelOnly),
    ("score", OPENAI, Api::ModelOnly),
    ("classify", OPENAI, Api::ModelOnly),
    ("pooling", OPENAI, Api::ModelOnly),
    ("tokenize", OPENAI, Api::ModelOnly),
    ("detokenize", OPENAI, Api::ModelOnly),
    ("moderations", OPENAI, Api::ModelOnly),
    ("audio/speech", OPENAI, Api::ModelOnly),
    ("api/chat", OPENAI, Api::ModelOnly),
    ("api/generate", OPENAI, Api::ModelOnly),
    ("api/embed", OPENAI, Api::ModelOnly),
    ("api/embeddings", OPENAI, Api::ModelOnly),
];

/// Any other method of vLLM's gRPC service.
const VLLM_SERVICE: &str = "vllm.grpc.engine.VllmEngine";

/// An API that model servers offer, as far as its bodies differ for us.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Api {
    /// OpenAI `chat/completions`, also its `render` twin.
    ChatCompletions,
    /// OpenAI `completions`, also its `render` twin.
    Completions,
    /// OpenAI `embeddings`.
    Embeddings,
    /// OpenAI `responses`.
    Responses,
    /// OpenAI `conversations`.
    Conversations,
    /// OpenAI `images/generations`.
    ImagesGenerations,
    /// Anthropic `messages`.
    Messages,
    /// Anthropic `messages/count_tokens`: forwarded unread.
    CountTokens,
    /// vLLM `inference/v1/generate`: token ids in, token ids out.
    VllmGenerate,
    /// SGLang's own `generate`.
    SglangGenerate,
    /// vLLM's gRPC method `Generate`.
    VllmGrpcGenerate,
    /// vLLM's gRPC method `Embed`.
    VllmGrpcEmbed,
    /// The other methods of vLLM's gRPC service: forwarded unread.
    VllmGrpcOther,
    /// Vertex AI `PredictionService/ChatCompletions`: a chat body in an `HttpBody` message.
    VertexChat,
    /// Vertex AI `RawPredict` and `StreamRawPredict`: a responses body in an `HttpBody` message.
    VertexRaw,
    /// JSON APIs of which only `model` is read: rerank, score, classify, pooling, tokenize, Ollama, …
    ModelOnly,
    /// Everything else: forwarded unread.
    #[default]
    Passthrough,
}

impl Api {
    /// The API at `path`: the longest known suffix on `/` boundaries, after the query, spaces and outer slashes are
    /// cut. A method other than `POST` is [`Api::Passthrough`]; an empty one (not seen) counts as `POST`.
    ///
    /// A suffix belongs to one parser whether it is on or not: with that parser off the path is passed through.
    pub fn of(path: &str, method: &str, parsers: Parsers) -> Self {
        if !method.is_empty() && method != "POST" {
            return Self::Passthrough;
        }
        let path = path.split_once('?').map_or(path, |(path, _)| path);
        let path = path.trim_matches(|c| c == '/' || c == ' ');
        let known = SUFFIXES.iter().filter(|(suffix, parser, _)| claims(path, suffix, *parser));
        if let Some((_, parser, api)) = known.max_by_key(|(suffix, ..)| suffix.len()) {
            return if parsers.contains(*parser) { *api } else { Self::Passthrough };
        }
        let service = path.rsplit_once('/').map_or("", |(service, _)| service);
        if parsers.contains(VLLM_GRPC) && claims(service, VLLM_SERVICE, VLLM_GRPC) {
            return Self::VllmGrpcOther;
        }
        Self::Passthrough
    }

    /// Label of this API in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::ChatCompletions => "chat_completions",
            Self::Completions => "completions",
            Self::Embeddings => "embeddings",
            Self::Responses => "responses",
            Self::Conversations => "conversations",
            Self::ImagesGenerations => "images_generations",
            Self::Messages => "messages",
            Self::CountTokens => "count_tokens",
            Self::VllmGenerate => "vllm_generate",
            Self::SglangGenerate => "sglang_generate",
            Self::VllmGrpcGenerate => "vllm_grpc_generate",
            Self::VllmGrpcEmbed => "vllm_grpc_embed",
            Self::VllmGrpcOther => "vllm_grpc_other",
            Self::VertexChat => "vertex_chat",
            Self::VertexRaw => "vertex_raw",
            Self::ModelOnly => "model_only",
            Self::Passthrough => "passthrough",
        }
    }

    /// How errors are worded for clients of this API.
    pub fn dialect(self) -> Dialect {
        if matches!(self, Self::Messages | Self::CountTokens) {
            Dialect::Anthropic
        } else if self.framed() || self == Self::VllmGrpcOther {
            Dialect::Grpc
        } else {
            Dialect::OpenAi
        }
    }

    /// Whether nothing is read from the answer.
    pub fn skips_response(self) -> bool {
        matches!(self, Self::CountTokens | Self::VllmGrpcOther)
    }

    /// Whether another model name can be put into the body: all plain JSON bodies that we read and whose server knows
    /// models.
    pub fn rewritable(self) -> bool {
        matches!(self, Self::Conversations | Self::ModelOnly) || self.requires_model()
    }

    /// Whether a request without a model, and without a rule that supplies one, is answered with 400.
    pub fn requires_model(self) -> bool {
        matches!(
            self,
            Self::ChatCompletions
                | Self::Completions
                | Self::Embeddings
                | Self::Responses
                | Self::ImagesGenerations
                | Self::Messages
                | Self::VllmGenerate
        )
    }

    /// Whether bodies are gRPC frames that we read.
    pub(crate) fn framed(self) -> bool {
        matches!(
            self,
            Self::VllmGrpcGenerate | Self::VllmGrpcEmbed | Self::VertexChat | Self::VertexRaw
        )
    }
}

/// Whose form an error body has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialect {
    /// `{"error":{"message","type","code","param"}}`; also for unknown paths.
    OpenAi,
    /// `{"type":"error","error":{"type","message"}}`.
    Anthropic,
    /// A gRPC status and no body.
    Grpc,
}

/// A set of parsers that are on, by the reference's parser types.
///
/// The default is `openai-parser`, `anthropic-parser`, `vllmhttp-parser` and `passthrough-parser`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parsers(u8);

impl Parsers {
    /// No parser at all.
    pub const NONE: Self = Self(0);
    /// The fallback that takes every path and reads nothing; without it an unclaimed path is an error.
    pub const PASSTHROUGH: Self = PASSTHROUGH;
    /// The one whose APIs are guessed from a body that came without a path.
    pub const GUESSED: Self = OPENAI;

    /// The parser of this type name; absent for a name that the reference does not have.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "openai-parser" => OPENAI,
            "anthropic-parser" => ANTHROPIC,
            "vllmhttp-parser" => VLLM_HTTP,
            "sglanghttp-parser" => SGLANG_HTTP,
            "vllmgrpc-parser" => VLLM_GRPC,
            "vertexai-parser" => VERTEX,
            "passthrough-parser" => PASSTHROUGH,
            _ => return None,
        })
    }

    /// Whether all of `others` are on.
    pub fn contains(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }
}

impl Default for Parsers {
    fn default() -> Self {
        OPENAI | ANTHROPIC | VLLM_HTTP | PASSTHROUGH
    }
}

impl BitOr for Parsers {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Whether `path` ends with the segments of `suffix`; Vertex's service name comes after a package name and a dot.
fn claims(path: &str, suffix: &str, parser: Parsers) -> bool {
    path.strip_suffix(suffix).is_some_and(|rest| {
        rest.is_empty() || rest.ends_with('/') || parser == VERTEX && rest.ends_with('.')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str) -> Api {
        Api::of(path, "POST", Parsers::default())
    }

    #[test]
    fn longest_suffix_wins() {
        assert_eq!(of("/v1/chat/completions"), Api::ChatCompletions);
        assert_eq!(of("/v1/chat/completions/render"), Api::ChatCompletions);
        assert_eq!(of("/v1/completions"), Api::Completions);
        assert_eq!(of("/v1/messages/count_tokens"), Api::CountTokens);
        assert_eq!(of("/inference/v1/generate"), Api::VllmGenerate);
        assert_eq!(of("/v2/rerank"), Api::ModelOnly);
    }

    // FR-035
    #[test]
    fn query_and_outer_slashes_are_cut() {
        assert_eq!(of("/v1/messages?beta=true"), Api::Messages);
        assert_eq!(of("/v1/messages/"), Api::Messages);
        assert_eq!(of("/tenant/a/v1/embeddings//?x"), Api::Embeddings);
    }

    #[test]
    fn suffix_matches_whole_segments_only() {
        assert_eq!(of("/xmessages"), Api::Passthrough);
        assert_eq!(of("/admin_messages"), Api::Passthrough);
        assert_eq!(of("/v1/responses/resp_1"), Api::Passthrough);
        assert_eq!(of(""), Api::Passthrough);
    }

    #[test]
    fn other_methods_are_passed_through() {
        let parsers = Parsers::default();
        assert_eq!(Api::of("/v1/completions", "PUT", parsers), Api::Passthrough);
        assert_eq!(Api::of("/v1/completions", "", parsers), Api::Completions);
    }

    #[test]
    fn opt_in_parsers_claim_their_paths_only_when_on() {
        assert_eq!(of("/generate"), Api::Passthrough);
        let all = ["sglanghttp-parser", "vllmgrpc-parser", "vertexai-parser"]
            .iter()
            .fold(Parsers::NONE, |all, name| all | Parsers::named(name).unwrap());
        assert_eq!(Api::of("/generate", "POST", all), Api::SglangGenerate);
        assert_eq!(Api::of("/inference/v1/generate", "POST", all), Api::Passthrough);
        let service = "/vllm.grpc.engine.VllmEngine/";
        assert_eq!(Api::of(&format!("{service}Embed"), "POST", all), Api::VllmGrpcEmbed);
        assert_eq!(Api::of(&format!("{service}Abort"), "POST", all), Api::VllmGrpcOther);
        let vertex = "/google.cloud.aiplatform.v1.PredictionService/RawPredict";
        assert_eq!(Api::of(vertex, "POST", all), Api::VertexRaw);
    }

    #[test]
    fn unknown_parser_has_no_name() {
        assert_eq!(Parsers::named("openai"), None);
        assert!(Parsers::default().contains(Parsers::PASSTHROUGH));
    }
}
