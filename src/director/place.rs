//! What follows from a choice: the charge, the counts, and the news for whoever keeps accounts.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::director::{
    Ask, Choice, Decision, Director, Prediction, Rejection, Rules, View, context,
};
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
        let Choice { profile, rung, mut faults, scored } = choice;
        let relay = policy.profiles.relay();
        let endpoints: SmallVec<[_; 1]> =
            scratch.chosen().filter_map(|slot| snapshot.endpoint(slot).cloned()).collect();
        let Some(first) = endpoints.first() else { return Err(Rejection::NoEndpoints) };
        let (mut prediction, mut shown) = (Prediction::default(), Vec::new());
        let in_flight = if ask.bodyless {
            InFlight::begin(&first.live, 0)
        } else {
            let cx = context(ask, view, signals);
            let cached = signals.prefix.tokens(first.id.slot);
            prediction = Prediction::new(ask.request, cx.prompt_tokens(), cached);
            prediction.average_cached = signals.prefix.average(scratch.candidates.len());
            first.live.cached().believed(cached, prediction.prompt_tokens);
            let tokens = prediction.prompt_tokens.saturating_sub(cached);
            let in_flight = charged(InFlight::begin(&first.live, tokens), cx, first.id.slot);
            if let Some(affinity) = affinity {
                let known = (ask.chain, &signals.prefix);
                faults.extend(affinity.chosen(snapshot, first, known, &mut prediction));
            }
            profile.placed(cx, &scratch.candidates, first);
            in_flight
        };
        if settings.scores && scored {
            shown = scores(snapshot, scratch);
        }
        self.count(rung, &faults);
        Ok(Decision { endpoints, in_flight, prediction, rung, faults, relay, scores: shown })
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
        tokens: Prompt::uncached(cx.prompt_tokens(), cx.signals.prefix.tokens(slot)),
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
