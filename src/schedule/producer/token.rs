//! Settings of the token estimate: bytes of text / 4, as the parsers of requests count, until engines report how many
//! bytes a token of their model has.
//!
//! The reference's other ways to count tokens ask a tokenizer service; they are not there yet.

use serde::Deserialize;
use serde_json::Value;

use crate::schedule::Needs;
use crate::schedule::producer::{Producer, Product};
use crate::schedule::registry::{BadParameters, Build, Parameters, Plugin, parameters};

pub(in crate::schedule) const PLUGIN: Plugin = Plugin {
    name: "token-producer",
    summary: "Estimates the tokens of a prompt.",
    needs: Needs::NONE,
    build: Build::Producer(produced),
};

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Token {
    /// The estimate's own settings: what media are taken to cost.
    estimate: Option<Value>,
    /// A tokenizer service.
    vllm: Option<Value>,
    /// The model that a tokenizer service tokenizes for.
    model_name: Option<Value>,
    /// A tokenizer behind a Unix socket.
    uds_tokenizer_config: Option<Value>,
}

fn produced(raw: Parameters) -> Result<Producer, BadParameters> {
    let Token { estimate, vllm, model_name, uds_tokenizer_config } = parameters(raw)?;
    let services =
        [("vllm", vllm), ("modelName", model_name), ("udsTokenizerConfig", uds_tokenizer_config)];
    if let Some((name, _)) = services.iter().find(|(_, given)| given.is_some()) {
        let message = format!("{name} is not supported yet, tokens are estimated");
        return Err(BadParameters(message));
    }
    let mut warnings = Vec::new();
    match estimate {
        Some(Value::Object(settings)) if !settings.is_empty() => {
            warnings.push("estimate has no effect: media cost what the defaults say".to_owned());
        }
        None | Some(Value::Null | Value::Object(_)) => {}
        Some(_) => return Err(BadParameters("estimate is not a map of fields".to_owned())),
    }
    Ok(Producer { product: Product::Tokens, warnings })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_estimate_is_there_and_nothing_else_yet() {
        assert_eq!(produced(json!({"estimate": {}})).unwrap().warnings, Vec::<String>::new());
        for name in ["vllm", "modelName", "udsTokenizerConfig"] {
            let error = produced(json!({name: "x"})).unwrap_err();
            assert_eq!(error.0, format!("{name} is not supported yet, tokens are estimated"));
        }
        assert!(produced(json!({"estimate": 1})).is_err());
    }

    #[test]
    fn what_has_no_effect_is_said() {
        let estimate = json!({"estimate": {"image": {"mode": "static"}}});
        assert_eq!(produced(estimate).unwrap().warnings.len(), 1);
    }
}
