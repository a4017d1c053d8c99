//! Leaves out endpoints that do not serve the request's model.
//!
//! Always on, before the filters of a profile: where it is known that a candidate serves the model, those that are known
//! not to are left out; those of which nothing is known stay. Where nobody is known to serve it nothing is left out, as
//! in the reference: a server may load it on demand, or it answers the client itself.

use crate::pool::Slot;
use crate::schedule::PickContext;

/// Keeps the candidates that may serve the model, in their order.
pub(crate) fn keep_servers(cx: PickContext<'_>, candidates: &mut Vec<Slot>) {
    let Some(model) = cx.model else { return };
    let serves = cx.snapshot.servers(model);
    if candidates.iter().any(|&slot| serves(slot) == Some(true)) {
        candidates.retain(|&slot| serves(slot) != Some(false));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::pool::Sample;
    use crate::schedule::fixture;
    use crate::server::clock;

    /// Positions of the candidates that are left for `model`, of those that serve these models each.
    fn left(pool: &[Option<&[&str]>], model: Option<&str>) -> Vec<usize> {
        let sample = |models: Option<&[&str]>| {
            let models = models.map(|names| Arc::new(names.iter().copied().collect()));
            Some(Sample { models, ..Sample::default() })
        };
        let now = clock::now();
        let snapshot = fixture::sampled(&pool.iter().copied().map(sample).collect::<Vec<_>>(), now);
        let (asked, mut candidates) = (fixture::Asked::of(&snapshot), snapshot.ready().to_vec());
        keep_servers(PickContext { model, ..asked.cx(now) }, &mut candidates);
        candidates.iter().map(|slot| slot.index()).collect()
    }

    #[test]
    fn a_request_goes_to_those_that_serve_its_model_or_may() {
        let pool: [Option<&[&str]>; 3] = [Some(&["llama"]), Some(&["qwen"]), None];
        assert_eq!(left(&pool, Some("llama")), [0, 2]);
        assert_eq!(left(&pool, Some("qwen")), [1, 2]);
    }

    #[test]
    fn a_model_that_nobody_is_known_to_serve_goes_anywhere_as_does_none() {
        let pool: [Option<&[&str]>; 2] = [Some(&["llama"]), Some(&["qwen"])];
        assert_eq!(left(&pool, Some("sql")), [0, 1]);
        assert_eq!(left(&pool, None), [0, 1]);
        assert_eq!(left(&[None, None], Some("llama")), [0, 1]);
    }
}
