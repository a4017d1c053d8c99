//! Endpoints of sessions, as many as fit.
//!
//! Two generations, each with half of the room: what is bound or used goes to the young one. When that is full, or as old
//! as a binding may be unused, it takes the place of the old one, whose bindings are forgotten. So nothing is searched
//! for: a flood of sessions forgets those that were not used lately.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::pool::EndpointId;

/// Sessions of a generation: 64 KiB of them, some 4 MiB.
const HALF: usize = 1 << 16;

/// At most 131,072 sessions; beyond it the ones that were not used for longest are forgotten.
#[derive(Debug)]
pub(in crate::schedule) struct Bindings {
    unused_for: Duration,
    generations: Mutex<Generations>,
}

#[derive(Debug, Default)]
struct Generations {
    young: HashMap<u128, Binding>,
    old: HashMap<u128, Binding>,
    /// When the young one began.
    since: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Binding {
    endpoint: EndpointId,
    used: Instant,
}

impl Bindings {
    /// None; each will be forgotten when it was unused for so long.
    pub(super) fn new(unused_for: Duration) -> Self {
        Self { unused_for, generations: Mutex::default() }
    }

    /// The endpoint of a session.
    pub(super) fn find(&self, session: u128, now: Instant) -> Option<EndpointId> {
        let generations = self.generations.lock();
        let binding = generations.young.get(&session).or_else(|| generations.old.get(&session))?;
        let unused = now.saturating_duration_since(binding.used);
        (unused < self.unused_for).then_some(binding.endpoint)
    }

    /// Binds a session to the endpoint that it uses now.
    pub(super) fn bind(&self, session: u128, endpoint: EndpointId, now: Instant) {
        let mut generations = self.generations.lock();
        let since = *generations.since.get_or_insert(now);
        let aged = now.saturating_duration_since(since) >= self.unused_for;
        if aged || generations.young.len() >= HALF {
            generations.old = std::mem::take(&mut generations.young);
            generations.since = Some(now);
        }
        generations.young.insert(session, Binding { endpoint, used: now });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::fixture;
    use crate::server::clock;

    const MINUTE: Duration = Duration::from_mins(1);

    fn ids() -> [EndpointId; 2] {
        let ids: Vec<_> = fixture::snapshot(2).endpoints().map(|endpoint| endpoint.id).collect();
        [ids[0], ids[1]]
    }

    #[test]
    fn a_session_keeps_its_last_endpoint_for_as_long_as_it_may_be_unused() {
        let (bindings, [first, second], now) = (Bindings::new(MINUTE), ids(), clock::now());
        assert_eq!(bindings.find(7, now), None);
        bindings.bind(7, first, now);
        bindings.bind(7, second, now);
        assert_eq!(bindings.find(7, now + Duration::from_secs(59)), Some(second));
        assert_eq!(bindings.find(7, now + MINUTE), None);
    }

    #[test]
    fn what_is_used_outlives_what_is_not_and_the_unused_are_let_go() {
        let (bindings, [first, _], now) = (Bindings::new(MINUTE), ids(), clock::now());
        (0..100).for_each(|session| bindings.bind(session, first, now));
        for half_minutes in 1..=6 {
            bindings.bind(7, first, now + MINUTE / 2 * half_minutes);
        }
        assert_eq!(bindings.find(7, now + MINUTE * 3), Some(first));
        let generations = bindings.generations.lock();
        assert!(generations.young.len() + generations.old.len() <= 2);
    }

    #[test]
    fn a_flood_of_sessions_forgets_the_oldest_and_never_the_latest() {
        let (bindings, [first, second], now) = (Bindings::new(MINUTE), ids(), clock::now());
        bindings.bind(u128::MAX, first, now);
        for session in 0..3 * HALF as u128 {
            bindings.bind(session, second, now);
        }
        assert_eq!(bindings.find(u128::MAX, now), None);
        let latest = 2 * HALF as u128 + 1..3 * HALF as u128;
        assert!(latest.into_iter().all(|session| bindings.find(session, now) == Some(second)));
        let generations = bindings.generations.lock();
        assert!(generations.young.len() + generations.old.len() <= 2 * HALF);
    }
}
