//! May this replica take traffic, and if not, why.

use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a complete pod list waits for its first scrape round before the replica is ready
/// without it.
///
/// An endpoint that was never scraped counts as unknown, not as idle, so routing by our own
/// accounting is sound from the start; 2 s cover many scrape intervals of 50 ms.
pub const SCRAPE_GRACE: Duration = Duration::from_secs(2);

/// What decides whether this replica takes traffic. The default is a replica that just started.
///
/// Written by the source of endpoints, the pool task and the supervisor, read by the health services.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Readiness {
    /// What the source of endpoints lacks, in words: the pool, or its pods. None when it lacks nothing.
    pub missing: Option<Arc<str>>,
    /// What is wrong and does not keep us from serving, in words.
    pub warning: Option<Arc<str>>,
    /// How far the view of the endpoints has come.
    pub stage: Stage,
    /// Why another replica is to be asked; none where leader election is off.
    pub standby: Option<Arc<str>>,
    /// Shutdown has begun: running requests finish, the gateway is to send new ones elsewhere.
    pub draining: bool,
}

impl Readiness {
    /// Whether this replica may take new requests.
    pub fn ready(&self) -> bool {
        self.checks().all(|check| check.failure.is_none())
    }

    /// Every condition of readiness, in the order in which a start fulfills them.
    pub fn checks(&self) -> impl Iterator<Item = Check<'_>> {
        let fails = |failed: bool, reason| failed.then_some(reason);
        [
            Check { name: "source", failure: self.missing.as_deref() },
            Check {
                name: "endpoints",
                failure: fails(self.stage < Stage::Scraping, "endpoints not listed yet"),
            },
            Check {
                name: "scrape",
                failure: fails(self.stage < Stage::Synced, "first scrape round not done yet"),
            },
            Check { name: "leadership", failure: self.standby.as_deref() },
            Check { name: "drain", failure: fails(self.draining, "draining") },
        ]
        .into_iter()
    }
}

/// How far the view of the endpoints has come; a stage never goes back, as what was listed stays known. A pool that is
/// gone is [`Readiness::missing`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Stage {
    /// No endpoints are known.
    #[default]
    Listing,
    /// The endpoints are known, the first scrape round runs.
    Scraping,
    /// Ready to route.
    Synced,
}

impl Stage {
    /// The stage of a pool whose endpoints were first complete at `listed`: [`Stage::Synced`] after the
    /// first scrape round, or without it after [`SCRAPE_GRACE`].
    pub fn listed(listed: Instant, round_done: bool, now: Instant) -> Self {
        let waited = now.saturating_duration_since(listed);
        if round_done || waited >= SCRAPE_GRACE { Self::Synced } else { Self::Scraping }
    }
}

/// One condition of readiness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Check<'a> {
    /// One lowercase word.
    pub name: &'static str,
    /// Why the condition is not met; `None` when it is.
    pub failure: Option<&'a str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failures(readiness: &Readiness) -> Vec<String> {
        readiness.checks().filter_map(|check| check.failure).map(str::to_owned).collect()
    }

    #[test]
    fn a_fresh_replica_is_not_ready_and_says_what_is_missing() {
        let fresh = Readiness::default();
        assert!(!fresh.ready());
        assert_eq!(
            failures(&fresh),
            ["endpoints not listed yet", "first scrape round not done yet"]
        );
    }

    #[test]
    fn a_synced_replica_is_ready_until_it_drains_or_stands_by_or_its_pool_goes() {
        let synced = Readiness { stage: Stage::Synced, ..Readiness::default() };
        assert!(synced.ready());
        let changed = |change: fn(&mut Readiness)| {
            let mut readiness = synced.clone();
            change(&mut readiness);
            failures(&readiness)
        };
        assert_eq!(changed(|readiness| readiness.draining = true), ["draining"]);
        assert_eq!(
            changed(|readiness| readiness.standby = Some("another replica leads".into())),
            ["another replica leads"]
        );
        let gone = |readiness: &mut Readiness| readiness.missing = Some("pool was deleted".into());
        assert_eq!(changed(gone), ["pool was deleted"]);
    }

    #[test]
    fn a_scrape_round_that_does_not_end_is_waited_for_two_seconds() {
        #[expect(clippy::disallowed_methods, reason = "any instant serves as the origin")]
        let listed = Instant::now();
        let just_before = listed + SCRAPE_GRACE.saturating_sub(Duration::from_millis(1));
        assert_eq!(Stage::listed(listed, false, just_before), Stage::Scraping);
        assert_eq!(Stage::listed(listed, false, listed + SCRAPE_GRACE), Stage::Synced);
        assert_eq!(Stage::listed(listed, true, listed), Stage::Synced);
    }
}
