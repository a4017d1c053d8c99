//! Keeps the endpoints that do a stage of the work: decode, prefill or encode.
//!
//! The label `llm-d.ai/role` names the stages of an endpoint, `both` is prefill and decode. Decoding is also what an
//! endpoint without the label does; the other two stages need a label. Labels are never missing or stale. Where nobody
//! does the stage, none is kept: 503.

use serde::Deserialize;

use crate::pool::Slot;
use crate::schedule::registry::{BadParameters, Build, Empty, Parameters, Plugin, parameters};
use crate::schedule::{Filter, Needs, PickContext};

/// The label that names the stages of an endpoint; the reference's.
const ROLE: &str = "llm-d.ai/role";

const DECODE: Role =
    Role { roles: &["decode", "prefill-decode", "both", "encode-prefill-decode"], unlabeled: true };
const PREFILL: Role = Role {
    roles: &["prefill", "encode-prefill", "prefill-decode", "both", "encode-prefill-decode"],
    unlabeled: false,
};
const ENCODE: Role =
    Role { roles: &["encode", "encode-prefill", "encode-prefill-decode"], unlabeled: false };

pub(in crate::schedule) const PLUGIN_DECODE: Plugin = row(
    "decode-filter",
    "Keeps the endpoints that decode: their label `llm-d.ai/role` is `decode`, `prefill-decode`, `both` or \
     `encode-prefill-decode`, or absent.",
    |raw| DECODE.boxed(raw),
);
pub(in crate::schedule) const PLUGIN_PREFILL: Plugin = row(
    "prefill-filter",
    "Keeps the endpoints that prefill: their label `llm-d.ai/role` is `prefill`, `encode-prefill`, `prefill-decode`, \
     `both` or `encode-prefill-decode`.",
    |raw| PREFILL.boxed(raw),
);
pub(in crate::schedule) const PLUGIN_ENCODE: Plugin = row(
    "encode-filter",
    "Keeps the endpoints that encode media: their label `llm-d.ai/role` is `encode`, `encode-prefill` or \
     `encode-prefill-decode`.",
    |raw| ENCODE.boxed(raw),
);

/// A stage.
#[derive(Clone, Copy, Debug)]
struct Role {
    /// Values of the label of endpoints that do it.
    roles: &'static [&'static str],
    /// Whether endpoints without the label do it too.
    unlabeled: bool,
}

/// They take no parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

impl Role {
    fn boxed(self, raw: Parameters) -> Result<Box<dyn Filter>, BadParameters> {
        let Nothing {} = parameters(raw)?;
        Ok(Box::new(self))
    }
}

impl Filter for Role {
    fn filter(&self, cx: PickContext<'_>, candidates: &mut Vec<Slot>) {
        candidates.retain(|&slot| match cx.snapshot.label(slot, ROLE) {
            Some(role) => self.roles.contains(&role),
            None => self.unlabeled,
        });
    }

    fn reason(&self, cx: PickContext<'_>, slot: Slot) -> Option<String> {
        let roles = self.roles.join(", ");
        Some(match cx.snapshot.label(slot, ROLE) {
            Some(role) => format!("its role is {role}, kept are {roles}"),
            None => format!("it has no role, kept are {roles}"),
        })
    }
}

const fn row(
    name: &'static str,
    summary: &'static str,
    build: fn(Parameters) -> Result<Box<dyn Filter>, BadParameters>,
) -> Plugin {
    Plugin { name, summary, needs: Needs::NONE, build: Build::Filter(build, Empty::Capability) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::fixture;

    #[test]
    fn each_stage_has_the_endpoints_that_do_it() {
        let roles = [
            "decode",
            "prefill",
            "encode",
            "prefill-decode",
            "both",
            "encode-prefill",
            "encode-prefill-decode",
            "other",
        ];
        let labels: Vec<_> = roles.iter().map(|&role| [(ROLE, role)]).collect();
        let mut labels: Vec<&[_]> = labels.iter().map(<[_; 1]>::as_slice).collect();
        labels.push(&[]);
        let pool = fixture::labeled(&labels);
        assert_eq!(fixture::kept(&DECODE, &pool), [0, 3, 4, 6, 8]);
        assert_eq!(fixture::kept(&PREFILL, &pool), [1, 3, 4, 5, 6]);
        assert_eq!(fixture::kept(&ENCODE, &pool), [2, 5, 6]);
    }

    #[test]
    fn a_pool_without_labels_decodes_and_does_nothing_else() {
        for size in [1, 1000] {
            let pool = fixture::snapshot(size);
            assert_eq!(fixture::kept(&DECODE, &pool).len(), usize::from(size));
            assert!(fixture::kept(&PREFILL, &pool).is_empty());
            assert!(fixture::kept(&ENCODE, &pool).is_empty());
        }
    }
}
