//! What decisions are made by, and its change while they are made.

use std::sync::Arc;

use crate::director::affinity::Affinity;
use crate::director::{Director, Policy, Settings};
use crate::prefix::Index;

/// What decisions are made by; replaced as a whole while they are made.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) policy: Arc<Policy>,
    pub(super) settings: Settings,
    /// None when no plugin needs it.
    pub(super) affinity: Option<Arc<Affinity>>,
}

impl Director {
    /// Decides by another policy from now on; decisions under way end by the old one. Plugins that are built of the same
    /// keep what they remember.
    pub fn adopt(&self, policy: Policy) {
        let policy = Arc::new(policy.after(&self.rules.load().policy));
        self.rules.rcu(|rules| Rules { policy: Arc::clone(&policy), ..Rules::clone(rules) });
    }

    /// The same with other settings, and with another index unless it is the present one.
    pub fn adopt_all(&self, policy: Policy, settings: &Settings, index: Option<&Arc<Index>>) {
        let policy = Arc::new(policy.after(&self.rules.load().policy));
        self.rules.rcu(|rules| Rules {
            policy: Arc::clone(&policy),
            settings: settings.clone(),
            affinity: index.map(|index| self.affinity_over(index, rules)),
        });
    }

    fn affinity_over(&self, index: &Arc<Index>, rules: &Rules) -> Arc<Affinity> {
        let present = rules.affinity.as_ref().filter(|affinity| affinity.is_over(index));
        let new = || Arc::new(Affinity::new(Arc::clone(index), &self.metrics));
        present.map_or_else(new, Arc::clone)
    }

    /// Lets decisions know, and add to, what endpoints have in their caches.
    #[must_use]
    pub fn with_prefix(self, index: Arc<Index>) -> Self {
        let affinity = Arc::new(Affinity::new(index, &self.metrics));
        let told = |rules: &Arc<Rules>| Rules {
            affinity: Some(Arc::clone(&affinity)),
            ..Rules::clone(rules)
        };
        self.rules.rcu(told);
        self
    }
}
