//! What the gateway tells beside its messages: the endpoints that it allows, and the one that served.

use prost::Message as _;

use crate::extproc::request::Phase;
use crate::extproc::{Exchange, metadata};
use crate::wire::Metadata;

impl Exchange {
    /// Reads the metadata of a message; none where it says nothing.
    pub(in crate::extproc) fn metadata(&mut self, encoded: &[u8]) -> Option<Metadata> {
        if encoded.is_empty() {
            return None;
        }
        let metadata = Metadata::decode(encoded).unwrap_or_else(|_| {
            self.anomaly("malformed_metadata");
            metadata::unreadable()
        });
        let told = !metadata.filter_metadata.is_empty();
        if told {
            self.told(&metadata);
        }
        told.then_some(metadata)
    }

    /// The endpoints that the gateway allows come with any message of the request, the one that served with any later.
    fn told(&mut self, metadata: &Metadata) {
        if !matches!(self.phase, Phase::Headers | Phase::Body(_)) {
            return self.served(metadata);
        }
        if let Some(hint) = metadata::subset(metadata).filter(|_| !self.settings.ignore_subset) {
            if hint.malformed {
                self.anomaly("subset_hint");
            }
            self.subset = hint.subset;
        }
    }

    /// Another endpoint than the chosen one may answer: it has the charge and the prompt then. Told once.
    fn served(&mut self, metadata: &Metadata) {
        if self.served {
            return;
        }
        let Some(address) = metadata::served(metadata) else { return };
        self.served = true;
        let Some(endpoint) = self.director.endpoint_at(address) else { return };
        if self.account.served_by(&endpoint) {
            self.director.served(&endpoint, &self.chain);
            self.prediction = self.prediction.elsewhere();
        }
    }
}
