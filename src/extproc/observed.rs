//! A request that another stream has placed.

use crate::extproc::Exchange;
use crate::extproc::account::Who;
use crate::extproc::request::{Asked, Phase, fairness_id};

impl Exchange {
    /// Charges what another stream has decided: an observer takes part in accounting alone.
    pub(in crate::extproc) fn observe(&mut self, asked: &Asked) {
        self.phase = Phase::Trailers;
        self.answer.expect(self.api, None);
        let destination = self
            .head
            .destination
            .as_ref()
            .and_then(|at| std::str::from_utf8(at).ok()?.parse().ok());
        let Some(endpoint) = destination.and_then(|address| self.director.endpoint_at(address))
        else {
            return;
        };
        let (model, routes) = (asked.parsed.model_name(), self.director.routes());
        let who = Who {
            model,
            target: model,
            objective: routes.objective(self.head.objective.text()),
            fairness_id: fairness_id(&self.head, &self.director),
            priority: self.priority,
        };
        self.prompt_tokens = asked.parsed.prompt_tokens;
        let prompt = (asked.parsed.prompt_tokens, asked.parsed.stream);
        self.account.observed(who, endpoint, prompt);
    }
}
