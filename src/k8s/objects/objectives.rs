//! Objectives: the priority of the requests that name them.

use std::collections::BTreeMap;

use super::{Judged, Kind, Ours, Spec};
use crate::k8s::verdict::{Findings, Reason};

/// Adds the objectives' priorities and verdicts. A name belongs to the object of `llm-d.ai` where both groups have it.
pub(super) fn judge(ours: &[Ours<'_>], judged: &mut Judged) {
    let objectives = ours.iter().filter_map(|object| match &object.entry.spec {
        Spec::Objective(spec) => Some((object, spec)),
        Spec::Rewrite(_) | Spec::Model(_) => None,
    });
    let mut objectives: Vec<_> = objectives.collect();
    objectives.sort_by_key(|(object, _)| object.kind);
    let mut owners = BTreeMap::<&str, Kind>::new();
    for (object, spec) in objectives {
        let mut findings = Findings::default();
        let owner = *owners.entry(&object.entry.name).or_insert(object.kind);
        if owner == object.kind {
            let priority = spec.priority.unwrap_or(0);
            judged.routes.objectives.insert(object.entry.name.clone(), priority);
            findings.in_effect();
        } else {
            let winner = Ours { kind: owner, entry: object.entry }.full_name();
            findings.conflict(Reason::Conflicted, || format!("{winner} has the same name"));
        }
        judged.verdicts.push(object.verdict(&findings));
    }
}
