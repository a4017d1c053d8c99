//! What objects say of requests before an endpoint is looked for: how urgent they are, and which model they are for.

use std::collections::HashMap;
use std::sync::Arc;

/// Priorities and model rewrites; replaced as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    /// Priority by the name of an objective.
    pub objectives: HashMap<Box<str>, i32>,
    /// Priority by the model that the client names, for requests without a known objective.
    pub models: HashMap<Box<str>, i32>,
    /// Targets by the model that the client names.
    pub exact: HashMap<Box<str>, Targets>,
    /// Targets of all other requests.
    pub any: Option<Targets>,
}

/// Models to ask for, each with its share of the requests; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Targets {
    /// The InferenceModelRewrite that says so; empty where another object or nobody does.
    object: Arc<str>,
    /// Each with the sum of the weights up to its own.
    sums: Box<[(Box<str>, u64)]>,
}

impl Routes {
    /// The priority of a request: its objective's, else its model's, else 0.
    pub fn priority(&self, objective: Option<&str>, model: Option<&str>) -> i32 {
        let objective = objective.and_then(|name| self.objectives.get(name));
        objective.or_else(|| self.models.get(model?)).copied().unwrap_or(0)
    }

    /// The model to ask for instead of the one that the client names, drawn by weight; none when no rule matches.
    /// `dice` is random.
    pub fn target(&self, model: Option<&str>, dice: u64) -> Option<&str> {
        self.rule(model)?.draw(dice)
    }

    /// The InferenceModelRewrite that [`Routes::target`] follows, empty when it is none; none when no rule matches.
    pub fn object(&self, model: Option<&str>) -> Option<&Arc<str>> {
        self.rule(model).map(|targets| &targets.object)
    }

    fn rule(&self, model: Option<&str>) -> Option<&Targets> {
        model.and_then(|name| self.exact.get(name)).or(self.any.as_ref())
    }
}

impl Targets {
    /// Models and their weights; none when there is no model. A weight of 0 counts as 1.
    pub fn new<'a>(weighted: impl IntoIterator<Item = (&'a str, u32)>) -> Option<Self> {
        let mut sum = 0;
        let add = |(name, weight): (&str, u32)| {
            sum += u64::from(weight.max(1));
            (Box::from(name), sum)
        };
        let sums: Box<[_]> = weighted.into_iter().map(add).collect();
        (!sums.is_empty()).then(|| Self { object: Arc::default(), sums })
    }

    /// The same, said by an InferenceModelRewrite of this name.
    #[must_use]
    pub fn of(self, object: &str) -> Self {
        Self { object: object.into(), ..self }
    }

    fn draw(&self, dice: u64) -> Option<&str> {
        let &(_, total) = self.sums.last()?;
        // The upper half of the product is uniform over 0 .. total.
        let point = u64::try_from((u128::from(dice) * u128::from(total)) >> 64).unwrap_or(0);
        let at = self.sums.partition_point(|&(_, sum)| sum <= point);
        self.sums.get(at).map(|(name, _)| &**name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes() -> Routes {
        Routes {
            objectives: [("batch".into(), -1)].into(),
            models: [("chat".into(), 1)].into(),
            exact: [("chat".into(), Targets::new([("chat-v1", 3), ("chat-v2", 1)]).unwrap())]
                .into(),
            any: Targets::new([("small", 0)]).map(|targets| targets.of("rest")),
        }
    }

    #[test]
    fn an_objective_stands_over_a_model_and_an_unknown_one_counts_as_none() {
        let routes = routes();
        assert_eq!(routes.priority(Some("batch"), Some("chat")), -1);
        assert_eq!(routes.priority(Some("unknown"), Some("chat")), 1);
        assert_eq!(routes.priority(None, Some("other")), 0);
        assert_eq!(routes.priority(None, None), 0);
    }

    #[test]
    fn an_exact_rule_stands_over_the_one_for_all() {
        let routes = routes();
        assert_eq!(routes.target(Some("chat"), 0), Some("chat-v1"));
        assert_eq!(routes.target(Some("other"), 0), Some("small"));
        assert_eq!(routes.target(None, 0), Some("small"));
        assert_eq!(Routes::default().target(Some("chat"), 0), None);
        let object = |model| routes.object(model).map(|name| &**name);
        assert_eq!(
            [Some("chat"), Some("other"), None].map(object),
            [Some(""), Some("rest"), Some("rest")]
        );
    }

    #[test]
    fn targets_are_drawn_by_weight() {
        let (routes, mut rng) = (routes(), fastrand::Rng::with_seed(7));
        let drawn = (0..10_000).map(|_| routes.target(Some("chat"), rng.u64(..)).unwrap());
        let first = drawn.filter(|name| *name == "chat-v1").count();
        assert!((7_300..7_700).contains(&first), "{first} of 10,000, should be 7,500");
        assert_eq!(routes.target(Some("chat"), u64::MAX), Some("chat-v2"));
    }

    #[test]
    fn no_targets_are_none() {
        assert_eq!(Targets::new([]), None);
    }
}
