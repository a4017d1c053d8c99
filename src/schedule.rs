//! How an endpoint is chosen: filters, weighted scorers, a picker.
//!
//! A [`Handler`] chooses the [`Profile`] that a request runs. That is one pass: filters narrow the candidates, each
//! scorer fills a column of scores, the weighted sum goes to the picker. Before it a [`Detector`] says how full the
//! candidates are, and an [`Admitter`] may refuse. Plugins are rows of the table [`registry::PLUGINS`]; each is one
//! file under `filter/`, `scorer/`, `picker/`, `detector/`, `admitter/`, `producer/` or `handler/`. A plugin that
//! panics is left out of the pass, never of the process.

use std::fmt::Debug;
use std::time::Instant;

use bytes::Bytes;

use crate::pool::{Endpoint, Slot, Snapshot};
use crate::request::Parsed;

pub use self::admitter::{Admitter, AdmitterStep};
pub use self::detector::{Detector, DetectorStep};
pub use self::handler::{Handler, Relay};
pub use self::headers::Headers;
pub use self::producer::{Producer, Product};
pub use self::profile::{Fault, Limits, Pass, Profile, Refusal, Scratch};
pub use self::profiles::{Chosen, Profiles};
pub use self::signals::{Needs, Signals};
pub use self::timing::{Call, Point, Timing};
pub use self::trace::{Depth, LeftOut, Part, Trace};

pub mod admitter;
pub(crate) mod capability;
pub mod detector;
pub mod facts;
pub mod filter;
pub mod handler;
pub mod headers;
pub mod picker;
pub mod producer;
pub mod profile;
pub mod profiles;
pub mod readings;
pub mod registry;
pub mod scorer;
mod session;
pub mod signals;
pub mod timing;
pub mod trace;

/// What a plugin may look at.
#[derive(Clone, Copy, Debug)]
pub struct PickContext<'a> {
    /// The request as it was read from its body.
    pub request: &'a Parsed,
    /// The model to ask the server for, after rewriting; none when the API names no model.
    pub model: Option<&'a str>,
    /// The headers that plugins read.
    pub headers: &'a Headers,
    /// The pool; the same for all plugins of a decision.
    pub snapshot: &'a Snapshot,
    /// What was found out about the request; what no configured plugin needs is empty.
    pub signals: &'a Signals,
    /// When the decision began.
    pub now: Instant,
    /// Random, the same for all plugins of a decision; [`PickContext::chance`] draws by it.
    pub dice: u64,
}

impl<'a> PickContext<'a> {
    /// The value of a header that a plugin of this configuration reads, by its name in lower case; none where the request
    /// has it not, or not as text.
    pub fn header(self, name: &str) -> Option<&'a str> {
        std::str::from_utf8(self.headers.find(name)?).ok()
    }

    /// True with this probability; another `salt` is another draw, the same one the same.
    pub fn chance(self, probability: f64, salt: u64) -> bool {
        fastrand::Rng::with_seed(self.dice ^ salt).f64() < probability
    }

    /// Estimated length of the prompt in tokens, by what the model's engines reported of earlier ones.
    pub fn prompt_tokens(self) -> u64 {
        self.request.tokens(self.signals.bytes_per_token)
    }
}

/// Removes candidates that must not be chosen.
pub trait Filter: Debug + Send + Sync {
    /// Keeps the candidates that may be chosen, in their order.
    fn filter(&self, cx: PickContext<'_>, candidates: &mut Vec<Slot>);

    /// Why it removed this endpoint, in a few words for a person, without a value of a header; none when its name says it
    /// all. Asked only when a decision is explained.
    fn reason(&self, _cx: PickContext<'_>, _slot: Slot) -> Option<String> {
        None
    }

    /// The request goes to this endpoint, which was chosen among these candidates.
    fn placed(&self, _cx: PickContext<'_>, _candidates: &[Slot], _endpoint: &Endpoint) {}

    /// A header for the client, name and value, on every answer of this endpoint.
    fn answer_header(&self, _endpoint: &Endpoint) -> Option<(&str, Bytes)> {
        None
    }

    /// The headers that it reads, in lower case.
    fn headers(&self) -> Vec<&str> {
        Vec::new()
    }
}

/// Rates candidates.
pub trait Scorer: Debug + Send + Sync {
    /// Writes a score of 0.0 ..= 1.0 for each candidate; `scores` is as long as `candidates` and holds 0.0.
    fn score(&self, cx: PickContext<'_>, candidates: &[Slot], scores: &mut [f32]);

    /// What the scores are made of; nothing for a scorer that is one formula of a value that is told anyway. Asked only
    /// when a decision is explained.
    fn parts(&self, _cx: PickContext<'_>, _candidates: &[Slot]) -> Vec<Part> {
        Vec::new()
    }

    /// The request goes to this endpoint, which was chosen among these candidates.
    fn placed(&self, _cx: PickContext<'_>, _candidates: &[Slot], _endpoint: &Endpoint) {}

    /// A header for the client, name and value, on every answer of this endpoint.
    fn answer_header(&self, _endpoint: &Endpoint) -> Option<(&str, Bytes)> {
        None
    }

    /// The headers that it reads, in lower case.
    fn headers(&self) -> Vec<&str> {
        Vec::new()
    }
}

/// Chooses by the sums of the scores.
pub trait Picker: Debug + Send + Sync {
    /// Writes the positions of the chosen candidates, best first; `dice` is random.
    fn pick(&self, scores: &[f32], dice: u64, chosen: &mut Vec<usize>);
}

/// Position of the least loaded candidate by `load`, at random among equals; none when there is no candidate.
pub fn least<T: PartialOrd>(
    candidates: &[Slot],
    dice: u64,
    load: impl Fn(Slot) -> T,
) -> Option<usize> {
    least_of(candidates.iter().map(|&slot| load(slot)), dice)
}

/// Position of the least value, at random among equals; none when there is none.
pub fn least_of<T: PartialOrd>(values: impl IntoIterator<Item = T>, dice: u64) -> Option<usize> {
    let mut rng = fastrand::Rng::with_seed(dice);
    let mut best: Option<(T, usize)> = None;
    let mut ties = 0_usize;
    for (at, value) in values.into_iter().enumerate() {
        let better = best.as_ref().is_none_or(|(least, _)| value < *least);
        let tie = best.as_ref().is_some_and(|(least, _)| value == *least);
        ties = if better { 1 } else { ties + usize::from(tie) };
        if better || (tie && rng.usize(..ties) == 0) {
            best = Some((value, at));
        }
    }
    best.map(|(_, at)| at)
}

#[cfg(test)]
pub(crate) mod fixture;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_draws_evenly_among_equals_and_never_takes_a_greater() {
        let snapshot = fixture::snapshot(4);
        let loads = [2, 1, 1, 1];
        let mut counts = [0; 4];
        for dice in 0..3000 {
            let at = least(snapshot.ready(), dice, |slot| loads[slot.index()]).expect("not empty");
            counts[at] += 1;
        }
        assert_eq!(counts[0], 0);
        assert!(counts[1..].iter().all(|count| (900..1100).contains(count)), "{counts:?}");
    }

    #[test]
    fn least_of_nothing_is_nothing() {
        assert_eq!(least(&[], 7, |_| 0), None);
    }
}
