//! Models: a priority and targets for the requests that name them.

use std::collections::HashMap;

use super::rewrites::Owners;
use super::{Judged, Ours, Spec, Weighted, weighted};
use crate::k8s::types::ModelSpec;
use crate::k8s::verdict::{Findings, Reason, quoted};

/// Adds the models' priorities, targets and verdicts. A name belongs to the first object that has it; a rewrite for that
/// name stands over its targets.
pub(super) fn judge(ours: &[Ours<'_>], rewrites: &Owners<'_>, judged: &mut Judged) {
    let mut owners = HashMap::<&str, Ours<'_>>::new();
    for &object in ours {
        let Spec::Model(spec) = &object.entry.spec else { continue };
        let name = spec.model_name.as_str();
        let mut findings = Findings::default();
        let winner = *owners.entry(name).or_insert(object);
        if name.is_empty() {
            findings.invalid(Reason::InvalidModelName, || "modelName is empty".to_owned());
        } else if std::ptr::eq(winner.entry, object.entry) {
            let priority = priority(spec, &mut findings);
            judged.routes.models.insert(name.into(), priority);
            findings.in_effect();
            retarget(object, spec, rewrites, &mut findings, judged);
        } else {
            findings.conflict(Reason::ModelNameInUse, || {
                format!("model {} belongs to {}", quoted(name), winner.full_name())
            });
        }
        judged.verdicts.push(object.verdict(&findings));
    }
}

/// Higher is more urgent, below 0 is sheddable.
fn priority(spec: &ModelSpec, findings: &mut Findings) -> i32 {
    match spec.criticality.as_deref() {
        Some("Critical") => 1,
        None | Some("Standard") => 0,
        Some("Sheddable") => -1,
        Some(other) => {
            findings.remark(|| format!("criticality {} counts as Standard", quoted(other)));
            0
        }
    }
}

/// Adds the model's targets, where it has some.
fn retarget(
    object: Ours<'_>,
    spec: &ModelSpec,
    rewrites: &Owners<'_>,
    findings: &mut Findings,
    judged: &mut Judged,
) {
    let name = spec.model_name.as_str();
    let targets: Vec<Weighted<'_>> =
        spec.target_models.iter().map(|to| (to.name.as_str(), to.weight)).collect();
    if targets.is_empty() {
        return;
    }
    if let Some((rewrite, rule)) = rewrites.get(&Some(name)) {
        return findings.conflict(Reason::Conflicted, || {
            format!("targetModels gives way to rules[{rule}] of {}", rewrite.full_name())
        });
    }
    if let Some(targets) = weighted((&object.entry.name, "targetModels"), &targets, findings) {
        judged.routes.exact.insert(name.into(), targets);
    }
}
