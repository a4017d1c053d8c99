//! What objects say of requests before an endpoint is looked for: how urgent they are, and which model they are for.

use std::collections::HashMap;
use std::sync::Arc;

/// Priorities and model rewrites; replaced as a whole. Bounded by the objects that the source has read.
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
    /// The name of the object that says so.
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

    /// The name of an objective, if it is known.
    pub fn objective<'a>(&self, name: Option<&'a str>) -> Option<&'a str> {
        name.filter(|name| self.objectives.contains_key(*name))
    }

    /// What to ask for instead of the model that the client names: its own targets, else those of all others.
    pub fn targets(&self, model: Option<&str>) -> Option<&Targets> {
        model.and_then(|name| self.exact.get(name)).or(self.any.as_ref())
    }
}

impl Targets {
    /// Models and their weights, as the object of this name says; none when no weight is above 0.
    pub fn new<'a>(
        object: &str,
        weighted: impl IntoIterator<Item = (&'a str, u32)>,
    ) -> Option<Self> {
        let mut sum = 0;
        let add = |(name, weight): (&str, u32)| {
            sum += u64::from(weight);
            (Box::from(name), sum)
        };
        let weighted = weighted.into_iter().filter(|(_, weight)| *weight > 0);
        let sums: Box<[_]> = weighted.map(add).collect();
        (!sums.is_empty()).then(|| Self { object: object.into(), sums })
    }

    /// The name of the object that says so.
    pub fn object(&self) -> &Arc<str> {
        &self.object
    }

    /// The models with their weights.
    pub(in crate::pool) fn weights(&self) -> impl Iterator<Item = (&str, u32)> {
        let before = std::iter::once(0).chain(self.sums.iter().map(|(_, sum)| *sum));
        let weight = |(before, (_, sum)): (u64, &(Box<str>, u64))| sum - before;
        let weights = before.zip(&self.sums).map(weight);
        let names = self.sums.iter().map(|(name, _)| &**name);
        names.zip(weights.map(|weight| u32::try_from(weight).unwrap_or(u32::MAX)))
    }

    /// One of the models, as often as its weight says; `dice` is random.
    pub fn draw(&self, dice: u64) -> Option<&str> {
        let &(_, total) = self.sums.last()?;
        // The upper half of the product is uniform over 0 .. total.
        let point = u64::try_from((u128::from(dice) * u128::from(total)) >> 64).unwrap_or(0);
        let at = self.sums.partition_point(|&(_, sum)| sum <= point);
        self.sums.get(at).map(|(name, _)| &**name)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const CHAT: [(&str, u32); 3] = [("chat-v1", 3), ("chat-v0", 0), ("chat-v2", 1)];

    fn routes() -> Routes {
        Routes {
            objectives: [("batch".into(), -1)].into(),
            models: [("chat".into(), 1)].into(),
            exact: [("chat".into(), Targets::new("canary", CHAT).unwrap())].into(),
            any: Targets::new("rest", [("small", 1)]),
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
        let object = |model| routes.targets(model).map(|targets| &**targets.object());
        assert_eq!(object(Some("chat")), Some("canary"));
        assert_eq!(object(Some("other")), Some("rest"));
        assert_eq!(object(None), Some("rest"));
        assert_eq!(Routes::default().targets(Some("chat")), None);
    }

    #[test]
    fn targets_are_drawn_by_weight() {
        let (targets, mut rng) =
            (Targets::new("canary", CHAT).unwrap(), fastrand::Rng::with_seed(7));
        let mut drawn = BTreeMap::new();
        for _ in 0..10_000 {
            *drawn.entry(targets.draw(rng.u64(..)).unwrap()).or_insert(0) += 1;
        }
        assert_eq!(drawn.keys().copied().collect::<Vec<_>>(), ["chat-v1", "chat-v2"]);
        assert!((7_300..7_700).contains(&drawn["chat-v1"]), "{drawn:?}, should be 7,500 first");
        assert_eq!(targets.draw(u64::MAX), Some("chat-v2"));
    }

    #[test]
    fn targets_without_weight_are_none() {
        assert_eq!(Targets::new("empty", []), None);
        assert_eq!(Targets::new("stopped", [("chat-v1", 0)]), None);
    }
}
