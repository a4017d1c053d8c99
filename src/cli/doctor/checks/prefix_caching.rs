//! Whether engines keep prefixes.

use super::metrics::such_as;
use crate::cli::doctor::facts::{Facts, Page};
use crate::cli::doctor::finding::{Check, Finding, Outcome};

pub(in crate::cli::doctor) const CHECK: Check =
    Check { name: "prefix-caching", good: "no engine says that it keeps no prefixes", run };

fn run(facts: &Facts) -> Outcome {
    let mut telling = facts.pages.iter().filter(|page| keeps(page).is_some()).peekable();
    if telling.peek().is_none() {
        return Err("no metrics page tells whether prefixes are kept");
    }
    let off = telling.filter(|page| keeps(page) == Some(false));
    let off: Vec<_> = off.map(|page| page.endpoint.as_str()).collect();
    let told = (!off.is_empty()).then(|| {
        Finding::problem(
            CHECK,
            format!("prefix caching is off on {}", such_as(&off)),
            "each prompt is computed from its first token on, and requests are drawn to servers that kept nothing of them",
            "start the engine with prefix caching (vLLM: --enable-prefix-caching, or without --no-enable-prefix-caching)",
        )
    });
    Ok(told.into_iter().collect())
}

/// Whether prefixes are cached; none where the page was not read, or does not say.
fn keeps(page: &Page) -> Option<bool> {
    page.told.as_ref().ok()?.prefix_caching
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::checks::fixture::{page, told};
    use crate::cli::doctor::facts::Told;

    #[test]
    fn an_engine_that_keeps_no_prefixes_is_told() {
        let says = |prefix_caching| Ok(Told { prefix_caching, ..Told::default() });
        let pages = [Some(true), None, Some(false)].map(|it| page("a:8000", says(it))).to_vec();
        let facts = Facts { pages, ..Facts::default() };
        assert_eq!(told(CHECK, &facts), ["problem: prefix caching is off on a:8000"]);
        let pages = vec![page("a:8000", says(None)), page("b:8000", Err("status 404".to_owned()))];
        let silent = Facts { pages, ..Facts::default() };
        let nothing = ["not checked: no metrics page tells whether prefixes are kept"];
        assert_eq!(told(CHECK, &silent), nothing);
    }
}
