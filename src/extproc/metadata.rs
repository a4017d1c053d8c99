//! Dynamic metadata: what a gateway tells beside the headers, and what it is told.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

use bytes::Bytes;
use prost_types::value::Kind;
use prost_types::{Struct, Value};

use crate::director::Decision;
use crate::pool::{Allowed, Subset};
use crate::wire::{Metadata, Structure};

/// The header and the metadata key that carry the chosen endpoint.
pub const DESTINATION: &str = "x-gateway-destination-endpoint";

/// The namespace that load balancers read.
const NAMESPACE: &str = "envoy.lb";
const SCORES: &str = "x-gateway-destination-endpoint-scores";
const SERVED: &str = "x-gateway-destination-endpoint-served";
const SUBSET_NAMESPACE: &str = "envoy.lb.subset_hint";
const SUBSET: &str = "x-gateway-destination-endpoint-subset";

/// A subset hint as it was found.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::extproc) struct Hint {
    /// What it allows.
    pub(in crate::extproc) subset: Subset,
    /// Whether some of it was no address, or all of it no list.
    pub(in crate::extproc) malformed: bool,
}

/// Reads the subset hint: a list of addresses, each also a list with commas, or one such text. Anything else allows
/// nothing: a boundary that cannot be read is not open.
pub(in crate::extproc) fn subset(metadata: &Metadata) -> Option<Hint> {
    let hint = metadata.filter_metadata.get(SUBSET_NAMESPACE)?.fields.get(SUBSET)?;
    let mut read = Hint { subset: Subset::All, malformed: false };
    let mut allowed = smallvec::SmallVec::new();
    let mut add = |value: Option<&Kind>| match value {
        Some(Kind::StringValue(text)) => {
            for entry in text.split(',').filter(|entry| !entry.trim().is_empty()) {
                match Allowed::parse(entry) {
                    Some(entry) => allowed.push(entry),
                    None => read.malformed = true,
                }
            }
        }
        _ => read.malformed = true,
    };
    match &hint.kind {
        Some(Kind::ListValue(list)) => {
            list.values.iter().for_each(|value| add(value.kind.as_ref()));
        }
        other => add(other.as_ref()),
    }
    read.subset = Subset::Only(allowed);
    Some(read)
}

/// What is taken for metadata that cannot be read: a hint that allows nothing, since there may have been one.
pub(in crate::extproc) fn unreadable() -> Metadata {
    let fields = BTreeMap::from([(SUBSET.to_owned(), Value { kind: None })]);
    Metadata { filter_metadata: HashMap::from([(SUBSET_NAMESPACE.to_owned(), Struct { fields })]) }
}

/// The endpoint that the gateway says has served the request.
pub(in crate::extproc) fn served(metadata: &Metadata) -> Option<SocketAddr> {
    served_text(metadata.filter_metadata.get(NAMESPACE)?)?.parse().ok()
}

/// What the gateway says of it, or that it does not, in the words of the reference's conformance plugin.
pub(in crate::extproc) fn served_report(metadata: Option<&Metadata>) -> String {
    let fields = metadata.and_then(|metadata| metadata.filter_metadata.get(NAMESPACE));
    let report = match fields {
        None => "fail: missing envoy lb metadata",
        Some(fields) => {
            served_text(fields).unwrap_or("fail: missing destination endpoint served metadata")
        }
    };
    report.to_owned()
}

fn served_text(fields: &Struct) -> Option<&str> {
    if let Some(Kind::StringValue(text)) = &fields.fields.get(SERVED)?.kind {
        Some(text)
    } else {
        None
    }
}

/// What the gateway's load balancer is told: `destination`, the same as in the header, and the scores if there are any.
pub(in crate::extproc) fn chosen(destination: &str, decision: &Decision) -> Bytes {
    let mut fields = Structure::empty();
    fields.text(DESTINATION, destination);
    if !decision.scores.is_empty() {
        let mut scores = Structure::empty();
        for (endpoint, score) in &decision.scores {
            scores.number(&endpoint.spec.address.to_string(), f64::from(*score));
        }
        fields.nested(SCORES, &scores);
    }
    fields.within(NAMESPACE)
}

#[cfg(test)]
mod tests {
    use prost_types::ListValue;

    use super::*;

    fn hint(value: Value) -> Hint {
        let fields = BTreeMap::from([(SUBSET.to_owned(), value)]);
        let filter_metadata = HashMap::from([(SUBSET_NAMESPACE.to_owned(), Struct { fields })]);
        subset(&Metadata { filter_metadata }).expect("a hint")
    }

    fn only(entries: &[&str]) -> Subset {
        Subset::Only(entries.iter().map(|entry| Allowed::parse(entry).unwrap()).collect())
    }

    fn text(text: String) -> Value {
        Value { kind: Some(Kind::StringValue(text)) }
    }

    fn list(values: Vec<Value>) -> Value {
        Value { kind: Some(Kind::ListValue(ListValue { values })) }
    }

    #[test]
    fn a_hint_is_a_list_or_a_text_with_commas() {
        for value in [
            list(vec![text("10.0.0.1:80".to_owned()), text("[fd00::1]:80".to_owned())]),
            list(vec![text("10.0.0.1:80, [fd00::1]:80".to_owned())]),
            text("10.0.0.1:80,[fd00::1]:80,".to_owned()),
        ] {
            assert_eq!(
                hint(value),
                Hint { subset: only(&["10.0.0.1:80", "[fd00::1]:80"]), malformed: false }
            );
        }
    }

    #[test]
    fn an_empty_or_unreadable_hint_allows_nothing() {
        let number = Value { kind: Some(Kind::NumberValue(1.0)) };
        assert_eq!(hint(list(vec![])), Hint { subset: only(&[]), malformed: false });
        let nested = Value { kind: Some(Kind::StructValue(Struct::default())) };
        for value in [number.clone(), nested, list(vec![number]), text("pod".to_owned())] {
            assert_eq!(hint(value), Hint { subset: only(&[]), malformed: true });
        }
    }

    #[test]
    fn items_that_are_no_address_are_skipped() {
        let mixed = list(vec![Value { kind: None }, text("10.0.0.1".to_owned())]);
        assert_eq!(hint(mixed), Hint { subset: only(&["10.0.0.1"]), malformed: true });
    }

    #[test]
    fn other_metadata_is_no_hint() {
        assert_eq!(subset(&Metadata::default()), None);
    }
}
