//! Prefers endpoints whose label has the value of a request header.
//!
//! `score = 1` where the label `labelKey` and the header `headerName` are there and equal, byte for byte, else 0. A
//! request without the header scores 0.0 everywhere.

use serde::Deserialize;

use crate::pool::Slot;
use crate::schedule::registry::{BadParameters, Build, Plugin, parameters};
use crate::schedule::{Needs, PickContext, Scorer};

pub(in crate::schedule) const PLUGIN: Plugin = Plugin {
    name: "header-label-affinity-scorer",
    summary: "Prefers endpoints whose label `labelKey` is what the request's header `headerName` says.",
    needs: Needs::NONE,
    build: Build::Scorer(|raw| Ok(Box::new(parameters::<HeaderLabelAffinity>(raw)?.checked()?))),
};

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct HeaderLabelAffinity {
    /// A name of a header, in any case; required.
    header_name: String,
    /// The key of a label of endpoints; required.
    label_key: String,
}

impl HeaderLabelAffinity {
    fn checked(self) -> Result<Self, BadParameters> {
        let Ok(name) = self.header_name.parse::<http::HeaderName>() else {
            let message = format!("headerName is `{}`, give a name of a header", self.header_name);
            return Err(BadParameters(message));
        };
        if self.label_key.is_empty() {
            return Err(BadParameters("labelKey is missing, give the key of a label".to_owned()));
        }
        Ok(Self { header_name: name.as_str().to_owned(), ..self })
    }
}

impl Scorer for HeaderLabelAffinity {
    fn score(&self, cx: PickContext<'_>, candidates: &[Slot], scores: &mut [f32]) {
        let Some(wanted) = cx.header(&self.header_name) else { return };
        for (score, &slot) in scores.iter_mut().zip(candidates) {
            let label =
                cx.snapshot.endpoint(slot).and_then(|it| it.spec.labels.get(&self.label_key));
            *score = f32::from(u8::from(label.is_some_and(|label| label == wanted)));
        }
    }

    fn headers(&self) -> Vec<&str> {
        vec![&self.header_name]
    }
}
