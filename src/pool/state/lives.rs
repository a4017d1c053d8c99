//! The part of the writer that judges where endpoints stand.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use crate::pool::life::{Signs, Suspect, Vitals, within};
use crate::pool::state::{Change, State};
use crate::pool::{
    Drain, Endpoint, EndpointId, EndpointSpec, Facts, Life, Phase, Reason, Slot, Transition,
};

/// A speed is known when it was learnt from so many prompts.
const KNOWN: f32 = 1.0;

impl State {
    /// Judges where every endpoint stands. To be called a few times a second: what speaks against an endpoint comes and
    /// goes by itself, and drains run out.
    pub fn watch(&mut self, now: Instant) -> Change {
        let endpoints: Vec<_> = self.snapshot.endpoints().cloned().collect();
        let suspects = self.suspects(&endpoints, now);
        let mut change = Change::Nothing;
        for endpoint in endpoints {
            let suspicion = suspects.get(&endpoint.id.slot).copied();
            change = change.max(self.judge(&endpoint, suspicion, now));
        }
        if change == Change::Members {
            let by_slot = self.snapshot.members.by_slot.clone();
            self.publish(by_slot, now);
        }
        change
    }

    /// What changed since this was asked last, in its order.
    pub fn transitions(&mut self) -> Vec<Transition> {
        std::mem::take(&mut self.transitions)
    }

    pub(super) fn drains_told(&mut self, told: HashMap<Box<str>, Drain>, now: Instant) -> Change {
        if !self.drains.tell(told) {
            return Change::Nothing;
        }
        self.again(now)
    }

    pub(super) fn drain_ordered(
        &mut self,
        id: EndpointId,
        drain: Option<Drain>,
        now: Instant,
    ) -> Change {
        if self.snapshot.by_id(id).is_none() {
            return Change::Nothing;
        }
        self.drains.order(id, drain);
        self.again(now)
    }

    /// Who drains has changed.
    fn again(&mut self, now: Instant) -> Change {
        let by_slot = self.snapshot.members.by_slot.clone();
        self.publish(by_slot, now);
        self.watch(now).max(Change::Members)
    }

    /// Whether an endpoint may join the pool: not when its server is ending and answers nobody any more.
    pub(super) fn welcome(&self, spec: &EndpointSpec, now: Instant) -> bool {
        self.drains.of_pod(&spec.uid, now).is_none_or(|drain| drain.serves)
    }

    pub(super) fn added(&mut self, id: EndpointId, now: Instant) {
        self.vitals.insert(id, Vitals::new(now));
        self.set(id.slot, Some(Life::new(now)));
    }

    pub(super) fn removed(&mut self, endpoint: &Endpoint, now: Instant) {
        self.vitals.remove(&endpoint.id);
        self.drains.forget(endpoint.id);
        if let Some(life) = self.set(endpoint.id.slot, None) {
            self.note(endpoint, life, life.removed(now));
        }
    }

    /// Those that are to be in quarantine, and why. Who drains counts neither as one of them nor as one of the pool.
    fn suspects(&mut self, endpoints: &[Arc<Endpoint>], now: Instant) -> HashMap<Slot, Reason> {
        let suspects = endpoints.iter().filter_map(|endpoint| self.suspect(endpoint, now));
        let mut suspects: Vec<_> = suspects.collect();
        within(&mut suspects, self.snapshot.in_service(), self.judging.quarantined);
        suspects.into_iter().map(|suspect| (suspect.slot, suspect.reason)).collect()
    }

    /// Takes in the signs of life of an endpoint.
    fn suspect(&mut self, endpoint: &Endpoint, now: Instant) -> Option<Suspect> {
        let (live, slot) = (&endpoint.live, endpoint.id.slot);
        let signs = Signs { page: self.snapshot.signs(slot, now), ..live.signs(now) };
        let vitals = self.vitals.get_mut(&endpoint.id)?;
        let (before, reason) = (vitals.suspected(), vitals.look(&signs, now));
        if reason.is_some() && reason != before {
            live.doubt();
        }
        let Life { phase, since, .. } =
            self.snapshot.life(slot).filter(|it| it.phase != Phase::Draining)?;
        Some(Suspect { slot, reason: reason?, held: phase == Phase::Quarantined, since })
    }

    fn judge(&mut self, endpoint: &Endpoint, suspicion: Option<Reason>, now: Instant) -> Change {
        let slot = endpoint.id.slot;
        let Some(life) = self.snapshot.life(slot) else { return Change::Nothing };
        let facts = Facts { suspicion, ..self.facts(endpoint, now) };
        let judged = life.judged(facts, now);
        endpoint.live.stands(judged.phase);
        if judged == life {
            return Change::Nothing;
        }
        self.set(slot, Some(judged));
        if judged.phase == life.phase {
            return Change::Load;
        }
        self.note(endpoint, life, judged);
        let suspected = self.vitals.get(&endpoint.id).is_some_and(|it| it.suspected().is_some());
        if life.phase == Phase::Draining && suspected {
            // Who drains is not probed, so an older doubt came to nothing.
            endpoint.live.doubt();
        }
        let drains = [life.phase, judged.phase].contains(&Phase::Draining);
        if drains { Change::Members } else { Change::Load }
    }

    fn facts(&self, endpoint: &Endpoint, now: Instant) -> Facts {
        let live = &endpoint.live;
        let learnt = live.outlook(now).speed.weight() >= KNOWN;
        let listed = self.vitals.get(&endpoint.id).map_or(now, |vitals| vitals.listed);
        let old = now.saturating_duration_since(listed) >= self.judging.warm_up;
        let heard = live.tokens() > 0 || self.snapshot.scrape_age(endpoint.id.slot, now).is_some();
        Facts {
            drain: self.drains.of(endpoint, now).map(|drain| drain.reason),
            suspicion: None,
            heard,
            warm: match (learnt, old) {
                (true, _) => Some(Reason::SpeedKnown),
                (false, true) => Some(Reason::WarmedUp),
                (false, false) => None,
            },
        }
    }

    fn set(&mut self, slot: Slot, life: Option<Life>) -> Option<Life> {
        Arc::make_mut(&mut self.snapshot.lives).set(slot, life)
    }

    fn note(&mut self, endpoint: &Endpoint, from: Life, to: Life) {
        self.transitions.push(Transition {
            endpoint: endpoint.spec.name.clone(),
            from: from.phase,
            to: to.phase,
            reason: to.reason,
        });
    }
}

#[cfg(test)]
mod tests;
