//! Settings of which headers name the session of an agent, which is whose request it is where the header of the fairness
//! id does not say.

use std::sync::Arc;

use serde::Deserialize;

use crate::schedule::Needs;
use crate::schedule::headers::header_name;
use crate::schedule::producer::{Producer, Product};
use crate::schedule::registry::{BadParameters, Build, Plugin, parameters};

/// The headers of known agents, the first that is there counts; the reference's.
const KNOWN: [&str; 4] =
    ["x-claude-code-session-id", "x-session-affinity", "session-id", "session_id"];

pub(in crate::schedule) const PLUGIN: Plugin = Plugin {
    name: "agent-identity",
    summary: "Takes the session of an agent for the fairness id of a request without one: `x-claude-code-session-id`, \
              `x-session-affinity`, `session-id`, `session_id`, the first that is there.",
    needs: Needs::NONE,
    build: Build::Producer(|raw| parameters::<AgentIdentity>(raw)?.producer()),
};

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct AgentIdentity {
    /// Headers to look for before the known ones, in any case; default none.
    additional_session_headers: Vec<String>,
}

impl AgentIdentity {
    fn producer(self) -> Result<Producer, BadParameters> {
        let given = self.additional_session_headers.iter();
        let given = given.map(|name| header_name("additionalSessionHeaders", name).map(Arc::from));
        let mut headers = given.collect::<Result<Vec<Arc<str>>, _>>()?;
        headers.extend(KNOWN.map(Arc::from));
        Ok(Producer { product: Product::Agent(headers), warnings: Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn headers(raw: Value) -> Result<Vec<String>, String> {
        let read = parameters::<AgentIdentity>(raw).and_then(AgentIdentity::producer);
        let Product::Agent(headers) = read.map_err(|error| error.0)?.product else {
            return Err("another product".to_owned());
        };
        Ok(headers.iter().map(|name| String::from(&**name)).collect())
    }

    #[test]
    fn additional_headers_come_before_the_known_ones() {
        assert_eq!(headers(Value::Null).unwrap(), KNOWN);
        let more = headers(json!({"additionalSessionHeaders": ["X-Run", "x-b"]})).unwrap();
        assert_eq!((&*more[0], &*more[1], more.len()), ("x-run", "x-b", 6));
    }

    #[test]
    fn a_name_that_is_none_is_refused() {
        let error = headers(json!({"additionalSessionHeaders": ["a b"]})).unwrap_err();
        assert!(error.contains("additionalSessionHeaders"), "{error}");
    }
}
