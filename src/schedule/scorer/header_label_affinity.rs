//! Prefers endpoints whose label has the value of a request header.
//!
//! `score = 1` where the label `labelKey` and the header `headerName` are there and equal, byte for byte, else 0. A
//! request without the header scores 0.0 everywhere.

use serde::Deserialize;

use crate::pool::Slot;
use crate::schedule::headers::header_name;
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
        let header_name = header_name("headerName", &self.header_name)?;
        if self.label_key.is_empty() {
            return Err(BadParameters("labelKey is missing, give the key of a label".to_owned()));
        }
        Ok(Self { header_name, ..self })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::fixture;
    use crate::server::clock;

    fn scorer() -> HeaderLabelAffinity {
        HeaderLabelAffinity { header_name: "X-Tier".to_owned(), label_key: "tier".to_owned() }
            .checked()
            .unwrap()
    }

    fn scores(labels: &[&[(&str, &str)]], header: Option<&'static str>) -> Vec<f32> {
        let (snapshot, scorer) = (fixture::labeled(labels), scorer());
        let mut asked = fixture::Asked::of(&snapshot);
        let given = header.map(|value| ("x-tier", value));
        asked.headers(&scorer.headers(), given.as_slice());
        let mut rated = vec![0.0; labels.len()];
        scorer.score(asked.cx(clock::now()), snapshot.ready(), &mut rated);
        rated
    }

    #[test]
    fn an_endpoint_with_the_value_of_the_header_scores_one() {
        let pool: [&[(&str, &str)]; 4] =
            [&[("tier", "gold")], &[("tier", "Gold")], &[], &[("tier", "gold"), ("zone", "a")]];
        assert_eq!(scores(&pool, Some("gold")), [1.0, 0.0, 0.0, 1.0]);
        assert_eq!(scores(&pool[..1], Some("gold")), [1.0]);
    }

    #[test]
    fn without_the_header_nothing_tells_endpoints_apart() {
        let pool: [&[(&str, &str)]; 2] = [&[("tier", "gold")], &[("tier", "")]];
        assert_eq!(scores(&pool, None), [0.0, 0.0]);
        assert_eq!(scores(&pool, Some("")), [0.0, 1.0], "an empty label is a value");
    }

    #[test]
    fn a_name_that_is_none_and_a_missing_one_are_refused() {
        for (header, label, want) in [
            ("", "tier", "headerName: ``"),
            ("x y", "tier", "headerName: `x y`"),
            ("x", "", "labelKey"),
        ] {
            let raw = HeaderLabelAffinity { header_name: header.into(), label_key: label.into() };
            let error = raw.checked().unwrap_err();
            assert!(error.0.starts_with(want), "{error}");
        }
    }
}
