//! Whether the metrics pages of the model servers can be read and tell a load.

use std::collections::BTreeMap;

use crate::cli::doctor::facts::Facts;
use crate::cli::doctor::finding::{Check, Finding, Outcome};

pub(in crate::cli::doctor) const CHECK: Check =
    Check { name: "metrics", good: "the metrics pages that were read tell a load", run };

fn run(facts: &Facts) -> Outcome {
    if facts.pages.is_empty() {
        return Err("there is no metrics page to read");
    }
    let mut unread = BTreeMap::<&str, Vec<&str>>::new();
    let mut mute = Vec::new();
    for page in &facts.pages {
        match &page.told {
            Err(why) => unread.entry(why).or_default().push(&page.endpoint),
            Ok(told) if told.engine.is_none() => mute.push(page.endpoint.as_str()),
            Ok(_) => {}
        }
    }
    let unread = unread.into_iter().map(|(why, of)| {
        Finding::problem(
            CHECK,
            format!("the metrics page of {} cannot be read: {why}", such_as(&of)),
            "its queue and cache are not known, and it is chosen by our own requests in flight alone",
            "serve /metrics there, or name path, port and scheme in dataLayer.sources; doctor has to reach pods as the picker does: run it in the cluster",
        )
    });
    let mute = (!mute.is_empty()).then(|| {
        Finding::problem(
            CHECK,
            format!("the metrics page of {} tells no load of a known engine", such_as(&mute)),
            "its queue and cache are not known, and it is chosen by our own requests in flight alone",
            "label its pods llm-d.ai/engine-type, or describe its engine in core-metrics-extractor",
        )
    });
    Ok(unread.chain(mute).collect())
}

/// One of them, and how many there are.
pub(super) fn such_as(endpoints: &[&str]) -> String {
    let first = endpoints.first().copied().unwrap_or_default();
    match endpoints.len() {
        1 => first.to_owned(),
        count => format!("{first} and {} more", count - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::checks::fixture::{page, told};
    use crate::cli::doctor::facts::Told;

    #[test]
    fn pages_that_cannot_be_read_are_told_by_reason() {
        let vllm = Told { engine: Some("vllm".to_owned()), ..Told::default() };
        let refused = || Err("connection refused".to_owned());
        let pages = vec![
            page("a:8000", Ok(vllm)),
            page("b:8000", refused()),
            page("c:8000", refused()),
            page("d:8000", Err("status 404".to_owned())),
            page("e:8000", Ok(Told::default())),
        ];
        let facts = Facts { pages, ..Facts::default() };
        assert_eq!(
            told(CHECK, &facts),
            [
                "problem: the metrics page of b:8000 and 1 more cannot be read: connection refused",
                "problem: the metrics page of d:8000 cannot be read: status 404",
                "problem: the metrics page of e:8000 tells no load of a known engine",
            ]
        );
    }
}
