//! Settings of where the id of a request's session is: a header or a cookie.
//!
//! Session affinity reads it as the attribute `SessionID` of this producer. Of the id a hash is kept, and nothing else.

use serde::Deserialize;

use crate::schedule::Needs;
use crate::schedule::facts::SessionSource;
use crate::schedule::headers::header_name;
use crate::schedule::producer::{Producer, Product};
use crate::schedule::registry::{BadParameters, Build, Plugin, parameters};

pub(in crate::schedule) const PLUGIN: Plugin = Plugin {
    name: "session-id-producer",
    summary: "Tells the session of a request by a header or a cookie, for session affinity.",
    needs: Needs::NONE,
    build: Build::Producer(|raw| parameters::<SessionId>(raw)?.producer()),
};

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct SessionId {
    /// The header with the id, in any case; this or the other.
    header_name: Option<String>,
    /// The cookie with the id; this or the other.
    cookie_name: Option<String>,
}

impl SessionId {
    fn producer(self) -> Result<Producer, BadParameters> {
        let source = match (self.header_name, self.cookie_name) {
            (Some(header), None) => {
                SessionSource::Header(header_name("headerName", &header)?.into())
            }
            (None, Some(cookie)) if !cookie.is_empty() && !cookie.contains(['=', ';', ' ']) => {
                SessionSource::Cookie(cookie.into())
            }
            (None, Some(cookie)) => {
                let message = format!("cookieName is `{cookie}`, give a name of a cookie");
                return Err(BadParameters(message));
            }
            (None, None) | (Some(_), Some(_)) => {
                let message = "give headerName or cookieName, one of them";
                return Err(BadParameters(message.to_owned()));
            }
        };
        Ok(Producer { product: Product::Session(source), warnings: Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn produced(raw: Value) -> Result<Product, String> {
        let read = parameters::<SessionId>(raw).and_then(SessionId::producer);
        read.map(|producer| producer.product).map_err(|error| error.0)
    }

    #[test]
    fn a_session_has_one_source() {
        let header = SessionSource::Header("x-session".into());
        assert_eq!(produced(json!({"headerName": "X-Session"})), Ok(Product::Session(header)));
        let cookie = SessionSource::Cookie("Sid".into());
        assert_eq!(produced(json!({"cookieName": "Sid"})), Ok(Product::Session(cookie)));
        for raw in [json!({}), json!({"headerName": "a", "cookieName": "b"})] {
            assert!(produced(raw).unwrap_err().contains("one of them"));
        }
    }

    #[test]
    fn a_name_that_is_none_is_refused() {
        for (field, name) in [("headerName", "a b"), ("cookieName", "a=b"), ("cookieName", "")] {
            let error = produced(json!({field: name})).unwrap_err();
            assert!(error.contains(field), "{error}");
        }
    }
}
