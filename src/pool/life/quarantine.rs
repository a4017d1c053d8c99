//! How many endpoints may be in quarantine at once.
//!
//! Refused connections and errors in a row are plain: such an endpoint would fail what it is given, so there is no limit.
//! What is inferred may be a fault of ours, so at most a share of the pool is held for it; the others stay, those first
//! against which least speaks.

use std::cmp::Reverse;
use std::time::Instant;

use crate::pool::{Reason, Slot};

/// The weight of what is plain.
const PLAIN: u8 = 3;

/// An endpoint against which something speaks.
#[derive(Clone, Copy, Debug)]
pub(in crate::pool) struct Suspect {
    pub(in crate::pool) slot: Slot,
    pub(in crate::pool) reason: Reason,
    /// Whether it is in quarantine already.
    pub(in crate::pool) held: bool,
    /// When its present phase began.
    pub(in crate::pool) since: Instant,
}

/// Leaves those that may be in quarantine, at most `share` of `members` for what is inferred.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a count")]
pub(in crate::pool) fn within(suspects: &mut Vec<Suspect>, members: usize, share: f32) {
    let most = (members as f32 * share.clamp(0.0, 1.0)) as usize;
    // Who is in quarantine stays there before others of its kind come.
    suspects.sort_by_key(|it| (Reverse(weight(it.reason)), Reverse(it.held), it.since, it.slot));
    let mut inferred = 0;
    suspects.retain(|suspect| {
        let plain = weight(suspect.reason) == PLAIN;
        inferred += usize::from(!plain);
        plain || inferred <= most
    });
}

/// How much speaks against an endpoint.
fn weight(reason: Reason) -> u8 {
    match reason {
        Reason::Unreachable | Reason::Errors => PLAIN,
        Reason::NoToken => 2,
        Reason::Silent => 1,
        Reason::Frozen
        | Reason::Listed
        | Reason::Heard
        | Reason::SpeedKnown
        | Reason::WarmedUp
        | Reason::PodDeleted
        | Reason::DisruptionTarget
        | Reason::Annotation
        | Reason::NodeRemoved
        | Reason::NodeCordoned
        | Reason::Ordered
        | Reason::Awaited
        | Reason::DrainWithdrawn
        | Reason::Answers
        | Reason::Removed => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::clock;

    /// Who may be held of ten, by slot.
    fn held(share: f32, suspects: &[(Reason, bool)]) -> Vec<usize> {
        let now = clock::now();
        let suspect = |(at, &(reason, held)): (usize, &(Reason, bool))| {
            let slot = Slot(u16::try_from(at).unwrap());
            Suspect { slot, reason, held, since: now }
        };
        let mut suspects: Vec<_> = suspects.iter().enumerate().map(suspect).collect();
        within(&mut suspects, 10, share);
        let mut slots: Vec<_> = suspects.iter().map(|suspect| suspect.slot.index()).collect();
        slots.sort_unstable();
        slots
    }

    #[test]
    fn at_most_a_share_is_held_for_what_is_inferred_and_the_worst_of_it() {
        use Reason::{Frozen, NoToken, Silent};
        let all = [(Frozen, false), (NoToken, false), (Silent, false), (NoToken, false)];
        assert_eq!(held(1.0, &all), [0, 1, 2, 3]);
        assert_eq!(held(0.3, &all), [1, 2, 3]);
        assert_eq!(held(0.25, &all), [1, 3]);
        assert_eq!(held(0.0, &all), [0; 0]);
        assert_eq!(held(0.1, &[(Silent, false), (Silent, true), (Silent, false)]), [1]);
    }

    #[test]
    fn what_fails_requests_is_held_without_a_limit() {
        use Reason::{Errors, Silent, Unreachable};
        let suspects = [(Unreachable, false), (Silent, false), (Errors, false)];
        assert_eq!(held(0.0, &suspects), [0, 2]);
        assert_eq!(held(0.1, &suspects), [0, 1, 2], "they take nobody's place");
    }
}
