//! What follows from a choice: the charge, the counts, and the news for whoever keeps accounts.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::director::{Ask, Choice, Decision, Director, Rejection, Rules, View, context};
use crate::pool::{Endpoint, InFlight, Prompt, Slot, Snapshot, Standing};
use crate::schedule::{PickContext, Scratch, Signals};

/// The output tokens that a request is taken to generate, if its client does not allow fewer: the mean of the
/// conversations that Azure published in 2023 is 211.
pub(super) const EXPECTED_OUTPUT: u64 = 211;

impl Director {
    /// Charges what was chosen, counts it, and tells whoever wants to know.
    pub(super) fn place(
        &self,
        ask: Ask<'_>,
        view: View<'_>,
        (scratch, signals): &(Scratch, Signals),
        choice: Choice<'_>,
    ) -> Result<Decision, Rejection> {
        let View { snapshot, rules: Rules { policy, settings, affinity }, .. } = view;
        let Choice { profile, rung, faults, scored } = choice;
        let relay = policy.profiles.relay();
        self.count(rung, &faults);
        let endpoints: SmallVec<[_; 1]> =
            scratch.chosen().filter_map(|slot| snapshot.endpoint(slot).cloned()).collect();
        let Some(first) = endpoints.first() else { return Err(Rejection::NoEndpoints) };
        if ask.bodyless {
            let in_flight = InFlight::begin(&first.live, 0);
            let scores = Vec::new();
            return Ok(Decision { endpoints, in_flight, rung, faults, relay, scores });
        }
        let cx = context(ask, view, signals);
        let cached = signals.prefix.tokens(first.id.slot);
        let tokens = ask.request.prompt_tokens.saturating_sub(cached);
        let in_flight = charged(InFlight::begin(&first.live, tokens), cx, first.id.slot);
        if let Some(affinity) = affinity {
            affinity.count(first, &signals.prefix);
            affinity.placed(snapshot, first, ask.chain);
        }
        profile.placed(cx, &scratch.candidates, first);
        let shown = settings.scores && scored;
        let scores = if shown { scores(snapshot, scratch) } else { Vec::new() };
        Ok(Decision { endpoints, in_flight, rung, faults, relay, scores })
    }
}

/// The charge with all that the request is going to take on the endpoint of `slot`.
fn charged(in_flight: InFlight, cx: PickContext<'_>, slot: Slot) -> InFlight {
    let PickContext { request, snapshot, now, .. } = cx;
    let adapter = cx.model.filter(|model| snapshot.adapts(model));
    let resident = |adapter| snapshot.standing(slot, adapter, now) == Some(Standing::Resident);
    let usual = || request.output_cap.map_or(EXPECTED_OUTPUT, |cap| cap.min(EXPECTED_OUTPUT));
    let expected = cx.signals.output_tokens.unwrap_or_else(usual);
    let prompt = Prompt {
        tokens: Prompt::uncached(request.prompt_tokens, cx.signals.prefix.tokens(slot)),
        at: now,
        streams: request.stream,
        loads: adapter.is_some_and(|adapter| !resident(adapter)),
    };
    let in_flight = in_flight.decoding(expected).computing(prompt);
    match adapter {
        Some(adapter) => in_flight.adapting(adapter, now),
        None => in_flight,
    }
}

fn scores(snapshot: &Snapshot, scratch: &Scratch) -> Vec<(Arc<Endpoint>, f32)> {
    let scored = scratch.candidates.iter().zip(&scratch.total);
    scored
        .filter_map(|(&slot, &total)| Some((Arc::clone(snapshot.endpoint(slot)?), total)))
        .collect()
}
