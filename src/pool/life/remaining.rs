//! What is left to be done on an endpoint before its server may be ended.

use std::fmt;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::pool::{Endpoint, Phase, Reading, Reason, Slot, Snapshot};

/// A decision that saw the endpoint before its drain has charged it after so long.
const SETTLED: Duration = Duration::from_millis(250);

/// What is left on an endpoint.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Remaining {
    /// Its name in the pool.
    pub endpoint: String,
    /// Where it stands.
    pub state: Phase,
    /// Why.
    pub reason: Reason,
    /// Requests that this process has in flight there.
    pub in_flight: u32,
    /// Requests in its queue, whoever sent them; absent while its page is not fresh.
    pub waiting: Option<f32>,
    /// Requests that it computes, whoever sent them.
    pub running: Option<f32>,
    /// It drains and nothing is left.
    pub drained: bool,
}

impl Snapshot {
    /// The endpoints of a name: the one that has it, or those of the pod that has it.
    pub fn named<'a>(
        &'a self,
        name: &'a str,
    ) -> impl Iterator<Item = &'a std::sync::Arc<Endpoint>> {
        self.endpoints().filter(move |endpoint| endpoint.spec.is_of(name))
    }

    /// What is left on the endpoint of a slot; none where that is free.
    pub fn remaining(&self, slot: Slot, now: Instant) -> Option<Remaining> {
        let (endpoint, life) = (self.endpoint(slot)?, self.life(slot)?);
        let fresh = |reading| match reading {
            Reading::Fresh(value) => Some(value),
            Reading::Stale | Reading::Unknown => None,
        };
        let (waiting, running) = (self.waiting(slot, now), self.running(slot, now));
        let settled = now.saturating_duration_since(life.since) >= SETTLED;
        let in_flight = endpoint.live.requests();
        let own = life.phase == Phase::Draining && settled && in_flight == 0;
        let idle = [waiting, running].into_iter().all(|count| match count {
            Reading::Fresh(count) => count <= 0.0 && self.read_since(slot, life.since),
            // A page that was there and is gone went with its server.
            Reading::Stale => endpoint.live.unreachable(),
            // Where there never was one, only what is ours is known.
            Reading::Unknown => true,
        });
        Some(Remaining {
            endpoint: endpoint.spec.name.clone(),
            state: life.phase,
            reason: life.reason,
            in_flight,
            waiting: fresh(waiting),
            running: fresh(running),
            drained: own && idle,
        })
    }
}

impl fmt::Display for Remaining {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { endpoint, state, reason, in_flight, waiting, running, drained } = self;
        write!(f, "{endpoint}: {} ({}), ", state.name(), reason.name())?;
        if *drained {
            return f.write_str("drained");
        }
        write!(f, "{in_flight} of our requests in flight")?;
        match (waiting, running) {
            (Some(waiting), Some(running)) => {
                write!(f, ", {waiting} waiting and {running} running by its own count")
            }
            _ => f.write_str(", its own count is not known"),
        }
    }
}
