//! Runs the profile that a request header names.
//!
//! Without the header `defaultProfile` is run, and the only profile whatever the header says. A name that no profile has
//! is the client's mistake: 400. (In the reference it is an overload, 429.)

use serde::Deserialize;

use crate::schedule::headers::header_name;
use crate::schedule::registry::{BadParameters, Build, Plugin, parameters};
use crate::schedule::{Handler, Needs, PickContext};

pub(in crate::schedule) const PLUGIN: Plugin = Plugin {
    name: "header-profile-handler",
    summary: "Runs the profile that a request header names, else `defaultProfile`; a name that no profile has is answered \
              with 400. The only profile is run whatever the header says.",
    needs: Needs::NONE,
    build: Build::Handler(|raw| Ok(Box::new(parameters::<HeaderProfile>(raw)?.checked()?))),
};

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct HeaderProfile {
    /// The header, in any case.
    header_name: String,
    /// The profile of requests without it.
    default_profile: String,
}

impl Default for HeaderProfile {
    fn default() -> Self {
        Self { header_name: "EPP-Profile".to_owned(), default_profile: "decode".to_owned() }
    }
}

impl HeaderProfile {
    fn checked(self) -> Result<Self, BadParameters> {
        Ok(Self { header_name: header_name("headerName", &self.header_name)?, ..self })
    }
}

impl Handler for HeaderProfile {
    fn choose(&self, cx: PickContext<'_>, names: &[Box<str>]) -> Option<usize> {
        if names.len() == 1 {
            return Some(0);
        }
        let header = cx.header(&self.header_name).map(str::trim).filter(|name| !name.is_empty());
        let wanted = header.unwrap_or(&self.default_profile);
        names.iter().position(|name| **name == *wanted)
    }

    fn chooses(&self) -> bool {
        true
    }

    fn fallback(&self) -> Option<&str> {
        Some(&self.default_profile)
    }

    fn headers(&self) -> Vec<&str> {
        vec![&self.header_name]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::schedule::fixture;
    use crate::server::clock;

    fn handler(raw: Value) -> Result<HeaderProfile, BadParameters> {
        parameters::<HeaderProfile>(raw)?.checked()
    }

    /// The position that is chosen among profiles of these names, for a request with this header.
    fn chosen(raw: Value, header: Option<&'static str>, names: &[&str]) -> Option<usize> {
        let (snapshot, handler) = (fixture::snapshot(1), handler(raw).unwrap());
        let mut asked = fixture::Asked::of(&snapshot);
        let sent: Vec<_> =
            header.iter().map(|&value| (handler.header_name.as_str(), value)).collect();
        asked.headers(&handler.headers(), &sent);
        let names: Vec<Box<str>> = names.iter().map(|&name| name.into()).collect();
        handler.choose(asked.cx(clock::now()), &names)
    }

    #[test]
    fn the_header_names_the_profile_and_its_absence_the_default() {
        let names = ["prefill", "decode", "batch"];
        assert_eq!(chosen(Value::Null, Some("batch"), &names), Some(2));
        assert_eq!(chosen(Value::Null, Some(" prefill "), &names), Some(0));
        assert_eq!(chosen(Value::Null, None, &names), Some(1));
        assert_eq!(chosen(Value::Null, Some(""), &names), Some(1));
        let other = json!({"headerName": "X-Class", "defaultProfile": "batch"});
        assert_eq!(chosen(other.clone(), None, &names), Some(2));
        assert_eq!(chosen(other, Some("decode"), &names), Some(1));
    }

    #[test]
    fn a_name_that_no_profile_has_is_none_and_the_only_profile_needs_no_name() {
        assert_eq!(chosen(Value::Null, Some("Batch"), &["decode", "batch"]), None);
        assert_eq!(chosen(Value::Null, None, &["a", "b"]), None);
        assert_eq!(chosen(Value::Null, Some("other"), &["only"]), Some(0));
    }

    #[test]
    fn a_header_that_cannot_be_is_refused() {
        let error = handler(json!({"headerName": "a b"})).unwrap_err();
        assert_eq!(error.0, "headerName: `a b` is no name of a header");
    }
}
