//! What the gateway is told of a request at the end of its answer, for policies and an access log of its own.
//!
//! `docs/gateway-policies.md` lists the fields. What is not known is left out, and nothing of a prompt or an answer is in it.

use std::time::Duration;

use crate::extproc::account::Known;
use crate::extproc::{Exchange, set};
use crate::metrics::{Source, Spent};
use crate::request::Api;
use crate::wire::{HeaderValueOption, Structure};

impl Exchange {
    /// Tells it with the reply that was made last, where the request has an endpoint and the settings want it.
    pub(in crate::extproc) fn sum_up(&mut self) {
        let namespace = self.settings.summary_namespace.as_deref().filter(|_| !self.observed);
        let Some((namespace, known)) = namespace.zip(self.account.known()) else { return };
        let mut fields = Structure::empty();
        self.tell_place(known, &mut fields);
        if self.account.well_begun() && !self.api.is_some_and(Api::skips_response) {
            tell_tokens(self.spent(), &mut fields);
        }
        fields.text("decision_id", &self.decision());
        let metadata = fields.within(namespace);
        if let Some(reply) = self.replies.back_mut() {
            reply.dynamic_metadata.get_or_insert(metadata);
        }
    }

    /// The header of an answer that tells which decision it is owed to; none unless the settings want it.
    pub(in crate::extproc) fn decision_report(&self) -> Option<HeaderValueOption> {
        self.settings.report_decision.map(|name| set(name, self.decision()))
    }

    /// The id of the decision as it is told.
    pub(in crate::extproc) fn decision(&self) -> String {
        format!("{:016x}", self.decision_id())
    }

    /// Random, of this exchange alone: it decides once.
    pub(in crate::extproc) fn decision_id(&self) -> u64 {
        u64::try_from(self.identity & u128::from(u64::MAX)).unwrap_or_default()
    }

    fn tell_place(&self, known: Known<'_>, fields: &mut Structure) {
        let Known { endpoint, target, adapter, objective, queued, first_token } = known;
        for (key, text) in [
            ("model", self.answer.client_model().or(target)),
            ("served_model", target),
            ("adapter", target.filter(|_| adapter)),
            ("objective", objective),
            ("endpoint", Some(endpoint.spec.name.as_str())),
        ] {
            if let Some(text) = text {
                fields.text(key, text);
            }
        }
        fields.number("queue_ms", milliseconds(queued));
        if let Some(first_token) = first_token {
            fields.number("first_token_ms", milliseconds(first_token));
        }
    }
}

/// An estimate of nothing is no knowledge, and what a cache has is known by the server alone.
fn tell_tokens(Spent { prompt, cached, generated }: Spent, fields: &mut Structure) {
    let known = |(tokens, source): (u64, Source)| {
        (tokens > 0 || source == Source::Reported).then_some(tokens)
    };
    let total = known((prompt.0.saturating_add(generated.0), prompt.1));
    for (key, tokens) in [
        ("prompt_tokens", known(prompt)),
        ("cached_tokens", Some(cached.0).filter(|_| cached.1 == Source::Reported)),
        ("generated_tokens", known(generated)),
        ("total_tokens", total),
    ] {
        if let Some(tokens) = tokens {
            fields.number(key, tokens as f64);
        }
    }
    if total.is_some() {
        fields.text("tokens_source", prompt.1.name());
    }
}

/// To the microsecond.
fn milliseconds(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1000.0
}
