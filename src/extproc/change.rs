//! What a decision changes of a request's headers.

use std::sync::Arc;

use bytes::Bytes;

use crate::director::Decision;
use crate::extproc::reply::{self, Change};
use crate::extproc::{Exchange, metadata};
use crate::pool::Endpoint;
use crate::schedule::Relay;
use crate::wire::HeaderMutation;

impl Exchange {
    /// What a decision changes of the headers, as a difference: what is set anew and what a client may not send.
    pub(in crate::extproc) fn change(&self, decision: &Decision) -> Change {
        let shown = decision.endpoints.len().min(self.settings.destinations);
        let destination =
            listed(decision.endpoints.get(..shown).unwrap_or_default(), decision.relay);
        let metadata = metadata::chosen(&String::from_utf8_lossy(&destination), decision);
        let mut set_headers = vec![reply::set(metadata::DESTINATION, destination)];
        if self.head.request_id.is_none() {
            set_headers.push(reply::set("x-request-id", self.request_id()));
        }
        let relayed = decision.endpoints.first().filter(|_| decision.relay.is_some());
        set_headers.extend(relayed.map(|rank| reply::set(Relay::HEADER, rank.destination.clone())));
        let forged = |name: &&&str| relayed.is_none() || **name != Relay::HEADER;
        let removed = self.head.removed.iter().filter(forged);
        let remove_headers = removed.map(|&name| name.to_owned()).collect();
        let mut headers = HeaderMutation { set_headers, remove_headers };
        if let Some(tracked) = &self.tracked {
            tracked.carry(&mut headers);
        }
        Change {
            headers: Some(headers),
            body: None,
            clear_route_cache: true,
            metadata: Some(metadata),
        }
    }
}

/// The endpoints as the destination header has them, or what relays to them: a list with commas, of one mostly.
fn listed(endpoints: &[Arc<Endpoint>], relay: Option<Relay>) -> Bytes {
    let told = |endpoint: &Arc<Endpoint>| match relay {
        Some(relay) => Bytes::from(relay.address(endpoint).to_string()),
        None => endpoint.destination.clone(),
    };
    match endpoints {
        [one] => told(one),
        several => Bytes::from(several.iter().map(told).collect::<Vec<_>>().join(&b',')),
    }
}
