//! What a request to the API asks for.

use serde::Deserialize;
use serde_json::Value;

use super::{denial::Denial, engine::AdapterId, prompt::Prompt};

/// Output tokens of a request that does not say how many.
const DEFAULT_OUTPUT_TOKENS: usize = 16;

/// The fields that matter of a request body, over all paths.
#[derive(Deserialize)]
pub(super) struct Ask {
    /// The first model of the catalog if absent.
    pub(super) model: Option<String>,
    #[serde(default)]
    tools: Value,
    #[serde(default)]
    system: Value,
    #[serde(default)]
    messages: Value,
    #[serde(default)]
    prompt: Value,
    #[serde(default)]
    input: Value,
    max_tokens: Option<usize>,
    max_completion_tokens: Option<usize>,
    pub(super) stream: Option<bool>,
    pub(super) stream_options: Option<StreamOptions>,
    /// Separates the cache of those who share it.
    pub(super) cache_salt: Option<String>,
}

impl Ask {
    /// The text that the engine gets; an error where the request has none.
    pub(super) fn text(&self, api: Api) -> Result<Prompt, Denial> {
        let text = match api {
            Api::Chat | Api::Messages => &self.messages,
            Api::Completions => &self.prompt,
            Api::Embeddings => &self.input,
        };
        if text.is_null() {
            return Err(Denial::BadRequest("the request has no prompt".to_owned()));
        }
        let mut prompt = Prompt::default();
        for part in [&self.tools, &self.system, text] {
            prompt.add(part);
        }
        Ok(prompt)
    }

    /// Tokens to generate, at least 1; an embedding takes one step, as a token does.
    pub(super) fn output_tokens(&self, api: Api) -> usize {
        let asked = self.max_completion_tokens.or(self.max_tokens);
        let wanted = asked.unwrap_or(DEFAULT_OUTPUT_TOKENS).max(1);
        if api == Api::Embeddings { 1 } else { wanted }
    }

    /// Embeddings that are asked for: a list of token ids is one input, any other list one for
    /// each element.
    pub(super) fn inputs(&self) -> usize {
        let list = self.input.as_array().filter(|values| !values.iter().all(Value::is_number));
        list.map_or(1, Vec::len)
    }
}

/// When a stream tells its usage.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StreamOptions {
    /// In a chunk of its own at the end.
    pub(super) include_usage: bool,
    /// In each chunk; has an effect only with `include_usage`.
    pub(super) continuous_usage_stats: bool,
}

impl StreamOptions {
    /// Whether each chunk tells the usage so far.
    pub(super) fn continuous(self) -> bool {
        self.include_usage && self.continuous_usage_stats
    }
}

/// A path of the API that takes a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Api {
    Chat,
    Completions,
    Messages,
    Embeddings,
}

impl Api {
    pub(super) fn of(path: &str) -> Option<Self> {
        match path {
            "/v1/chat/completions" => Some(Self::Chat),
            "/v1/completions" => Some(Self::Completions),
            "/v1/messages" => Some(Self::Messages),
            "/v1/embeddings" => Some(Self::Embeddings),
            _ => None,
        }
    }
}

/// What a server serves, the same for all of a fleet.
#[derive(Clone, Debug)]
pub(super) struct Catalog {
    pub(super) models: Vec<String>,
    /// Adapters of the first model; the position is the id.
    pub(super) loras: Vec<String>,
    pub(super) seed: u64,
}

impl Catalog {
    /// The adapter that a model name stands for, none for a base model; an error for an unknown
    /// name.
    pub(super) fn adapter(&self, model: &str) -> Result<Option<AdapterId>, Denial> {
        if self.models.iter().any(|known| known == model) {
            return Ok(None);
        }
        let at = self.loras.iter().position(|known| known == model);
        let id = at.and_then(|at| u32::try_from(at).ok());
        id.map(|id| Some(AdapterId(id))).ok_or_else(|| Denial::UnknownModel(model.to_owned()))
    }

    /// The name of an adapter; empty for one that there is not.
    pub(super) fn name(&self, adapter: AdapterId) -> &str {
        self.loras.get(adapter.0 as usize).map_or("", String::as_str)
    }
}
