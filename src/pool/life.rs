//! The life of an endpoint: where it stands, since when, and why.
//!
//! ```text
//!   new ──▶ warming ──▶ ready        what it has shown
//!     └────────┴──────────┴──▶ quarantined    what speaks against it
//!     └────────┴──────────┴──▶ draining       what was said of it
//! ```
//!
//! From quarantine and from a drain it comes back to what it has shown by then. A drain outweighs what speaks against an
//! endpoint. What left the pool is gone, and stays so.

use std::time::Instant;

use serde::{Deserialize, Serialize};

pub use self::drains::Drain;
pub use self::remaining::Remaining;

pub(in crate::pool) use self::drains::Drains;
pub(in crate::pool) use self::lives::Lives;
pub(in crate::pool) use self::quarantine::{Suspect, within};
pub(in crate::pool) use self::vitals::{Page, Signs, Vitals};

mod drains;
mod lives;
mod quarantine;
mod remaining;
mod vitals;

/// Where an endpoint stands.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Listed, and nothing was heard of it.
    #[default]
    New,
    /// It answers, and how fast it is must still show.
    Warming,
    /// It takes its share.
    Ready,
    /// It takes no new request; those that run go on.
    Draining,
    /// It seems not to answer: a last resort.
    Quarantined,
    /// It left the pool.
    Gone,
}

/// Why an endpoint stands where it stands.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Its source lists it.
    #[default]
    Listed,
    /// Its metrics page was read, or it answered.
    Heard,
    /// Its speed is known.
    SpeedKnown,
    /// It has had the time to warm up.
    WarmedUp,
    /// Its pod is being deleted.
    PodDeleted,
    /// Its pod has the condition `DisruptionTarget`.
    DisruptionTarget,
    /// Its pod has the annotation `lodesman.dev/drain`.
    Annotation,
    /// An autoscaler is about to remove its node.
    NodeRemoved,
    /// Its node is cordoned.
    NodeCordoned,
    /// An operator ordered it.
    Ordered,
    /// The one who ends the server waits for it.
    Awaited,
    /// No drain holds any more.
    DrainWithdrawn,
    /// Connections to it fail.
    Unreachable,
    /// It answered errors of its own, several in a row.
    Errors,
    /// Its answers stopped, though it has work of ours.
    Silent,
    /// Its page stands still, though it has work of ours.
    Frozen,
    /// It was asked for one token, twice, and gave none.
    NoToken,
    /// Nothing speaks against it any more.
    Answers,
    /// Its source lists it no more.
    Removed,
}

/// Where an endpoint stands, since when, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// Where.
    pub phase: Phase,
    /// Why; of a drain the cause that holds now.
    pub reason: Reason,
    /// When the phase began.
    pub since: Instant,
}

/// What is known of an endpoint when it is judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Why it is to drain; none when it is not.
    pub drain: Option<Reason>,
    /// What speaks against it; none when nothing does, or when too many others are in quarantine.
    pub suspicion: Option<Reason>,
    /// Whether anything was ever heard of it.
    pub heard: bool,
    /// By what it is known to be warm; none while it is not.
    pub warm: Option<Reason>,
}

/// An endpoint that went from one phase to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// Its name.
    pub endpoint: String,
    /// Where it stood.
    pub from: Phase,
    /// Where it stands now.
    pub to: Phase,
    /// Why.
    pub reason: Reason,
}

impl Phase {
    /// All of them, in the order of a life.
    pub const ALL: [Self; 6] =
        [Self::New, Self::Warming, Self::Ready, Self::Draining, Self::Quarantined, Self::Gone];

    /// A word for labels and programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Warming => "warming",
            Self::Ready => "ready",
            Self::Draining => "draining",
            Self::Quarantined => "quarantined",
            Self::Gone => "gone",
        }
    }
}

impl Reason {
    /// A word for labels and programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Listed => "listed",
            Self::Heard => "heard",
            Self::SpeedKnown => "speed_known",
            Self::WarmedUp => "warmed_up",
            Self::PodDeleted => "pod_deleted",
            Self::DisruptionTarget => "disruption_target",
            Self::Annotation => "annotation",
            Self::NodeRemoved => "node_removed",
            Self::NodeCordoned => "node_cordoned",
            Self::Ordered => "ordered",
            Self::Awaited => "awaited",
            Self::DrainWithdrawn => "drain_withdrawn",
            Self::Unreachable => "unreachable",
            Self::Errors => "errors",
            Self::Silent => "silent",
            Self::Frozen => "frozen",
            Self::NoToken => "no_token",
            Self::Answers => "answers",
            Self::Removed => "removed",
        }
    }
}

impl Life {
    /// An endpoint that was just listed.
    pub fn new(now: Instant) -> Self {
        Self { phase: Phase::New, reason: Reason::Listed, since: now }
    }

    /// Where it stands by these facts. The same where nothing changes.
    #[must_use]
    pub fn judged(self, facts: Facts, now: Instant) -> Self {
        let (phase, reason) = self.aim(facts);
        match phase == self.phase {
            true if phase == Phase::Draining => Self { reason, ..self },
            true => self,
            false => Self { phase, reason, since: now },
        }
    }

    /// It left the pool.
    #[must_use]
    pub fn removed(self, now: Instant) -> Self {
        Self { phase: Phase::Gone, reason: Reason::Removed, since: now }
    }

    fn aim(self, facts: Facts) -> (Phase, Reason) {
        let Facts { drain, suspicion, heard, warm } = facts;
        let shown = match (warm, heard) {
            (Some(_), _) => Phase::Ready,
            (None, true) => Phase::Warming,
            (None, false) => Phase::New,
        };
        match (self.phase, drain, suspicion) {
            (Phase::Gone, ..) => (Phase::Gone, self.reason),
            (_, Some(cause), _) => (Phase::Draining, cause),
            (_, None, Some(suspicion)) => (Phase::Quarantined, suspicion),
            (Phase::Draining, ..) => (shown, Reason::DrainWithdrawn),
            (Phase::Quarantined, ..) => (shown, Reason::Answers),
            // What was shown once is not forgotten.
            (Phase::Ready, ..) => (Phase::Ready, self.reason),
            (Phase::Warming, ..) => (shown.max(Phase::Warming), warm.unwrap_or(Reason::Heard)),
            (Phase::New, ..) => (shown, warm.unwrap_or(Reason::Heard)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::server::clock;

    /// The phases and reasons that an endpoint goes through by these facts, a second apart.
    fn told(facts: &[Facts]) -> Vec<(&'static str, &'static str)> {
        let mut now = clock::now();
        let mut life = Life::new(now);
        let step = |facts: &Facts| {
            now += Duration::from_secs(1);
            life = life.judged(*facts, now);
            (life.phase.name(), life.reason.name())
        };
        facts.iter().map(step).collect()
    }

    const HEARD: Facts = Facts { heard: true, drain: None, suspicion: None, warm: None };
    const WARM: Facts = Facts { warm: Some(Reason::SpeedKnown), ..HEARD };
    const BAD: Facts = Facts { suspicion: Some(Reason::Errors), ..WARM };
    const LEAVES: Facts = Facts { drain: Some(Reason::PodDeleted), ..WARM };

    #[test]
    fn a_life_without_trouble_goes_by_what_was_shown() {
        assert_eq!(
            told(&[Facts::default(), HEARD, HEARD, WARM, HEARD]),
            [
                ("new", "listed"),
                ("warming", "heard"),
                ("warming", "heard"),
                ("ready", "speed_known"),
                ("ready", "speed_known")
            ]
        );
    }

    #[test]
    fn trouble_ends_in_what_was_shown_by_then() {
        assert_eq!(
            told(&[BAD, HEARD, BAD, WARM]),
            [
                ("quarantined", "errors"),
                ("warming", "answers"),
                ("quarantined", "errors"),
                ("ready", "answers")
            ]
        );
    }

    #[test]
    fn a_drain_outweighs_suspicion_and_tells_the_cause_that_holds() {
        let ordered = Facts { drain: Some(Reason::Ordered), ..BAD };
        assert_eq!(
            told(&[WARM, ordered, LEAVES, BAD, LEAVES, WARM]),
            [
                ("ready", "speed_known"),
                ("draining", "ordered"),
                ("draining", "pod_deleted"),
                ("quarantined", "errors"),
                ("draining", "pod_deleted"),
                ("ready", "drain_withdrawn")
            ]
        );
    }

    #[test]
    fn a_phase_keeps_its_beginning_and_what_is_gone_stays_so() {
        let now = clock::now();
        let later = now + Duration::from_secs(9);
        let drains = Life::new(now).judged(LEAVES, now);
        assert_eq!(drains.judged(Facts { drain: Some(Reason::Ordered), ..WARM }, later).since, now);
        let gone = drains.removed(later);
        assert_eq!(gone.judged(WARM, later), gone);
        assert_eq!((gone.phase.name(), gone.reason.name()), ("gone", "removed"));
    }

    #[test]
    fn words_are_those_of_dumps() {
        let word = |value: serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        for phase in Phase::ALL {
            assert_eq!(word(serde_json::to_value(phase).unwrap()), phase.name());
        }
        for reason in [Reason::SpeedKnown, Reason::DrainWithdrawn, Reason::DisruptionTarget] {
            assert_eq!(word(serde_json::to_value(reason).unwrap()), reason.name());
        }
    }
}
