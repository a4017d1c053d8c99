//! Rewrites: which model is asked for instead of the one that a request names.

use std::collections::HashMap;
use std::collections::hash_map::Entry::{Occupied, Vacant};

use super::{Judged, Ours, Spec, Weighted, weighted};
use crate::k8s::types::RewriteSpec;
use crate::k8s::types::rewrite::Rule;
use crate::k8s::verdict::{Findings, Reason, quoted};
use crate::pool::{Routes, Targets};

/// The only way of matching that is defined.
const EXACT: &str = "Exact";

/// What a rule is for: a model by its name, or all that no other rule is for.
type Claim<'a> = Option<&'a str>;

/// The object and the rule that each claim belongs to.
pub(super) type Owners<'a> = HashMap<Claim<'a>, (Ours<'a>, usize)>;

/// Adds the rewrites' targets and verdicts. A claim belongs to the first rule that has it, in the order of the objects
/// and then of their rules.
pub(super) fn judge<'a>(ours: &[Ours<'a>], judged: &mut Judged) -> Owners<'a> {
    let mut owners = Owners::new();
    for &object in ours {
        let Spec::Rewrite(spec) = &object.entry.spec else { continue };
        let findings = judge_one(object, spec, &mut owners, judged);
        judged.verdicts.push(object.verdict(&findings));
    }
    owners
}

fn judge_one<'a>(
    object: Ours<'a>,
    spec: &'a RewriteSpec,
    owners: &mut Owners<'a>,
    judged: &mut Judged,
) -> Findings {
    let mut findings = Findings::default();
    for (at, rule) in spec.rules.iter().enumerate() {
        let place = format!("rules[{at}]");
        let targets: Vec<Weighted<'_>> =
            rule.targets.iter().map(|to| (to.model_rewrite.as_str(), to.weight)).collect();
        let name = (&*object.entry.name, place.as_str());
        let Some(targets) = weighted(name, &targets, &mut findings) else { continue };
        for claim in claims(&place, rule, &mut findings) {
            match owners.entry(claim) {
                Vacant(free) => {
                    free.insert((object, at));
                    findings.in_effect();
                    send(claim, &targets, &mut judged.routes);
                }
                Occupied(taken) if is(taken.get(), object, at) => (),
                Occupied(taken) => {
                    findings.conflict(Reason::Conflicted, || lost(&place, claim, taken.get()));
                }
            }
        }
    }
    findings
}

fn is(&(owner, rule): &(Ours<'_>, usize), object: Ours<'_>, at: usize) -> bool {
    std::ptr::eq(owner.entry, object.entry) && rule == at
}

fn send(claim: Claim<'_>, targets: &Targets, routes: &mut Routes) {
    match claim {
        Some(model) => {
            routes.exact.insert(model.into(), targets.clone());
        }
        None => routes.any = Some(targets.clone()),
    }
}

fn lost(place: &str, claim: Claim<'_>, (owner, rule): &(Ours<'_>, usize)) -> String {
    let what = claim.map_or_else(|| "all other models".to_owned(), quoted);
    format!("{place}: {what} belongs to rules[{rule}] of {}", owner.full_name())
}

/// What a rule is for. A match that cannot be understood is left out, it does not match all.
fn claims<'a>(place: &str, rule: &'a Rule, findings: &mut Findings) -> Vec<Claim<'a>> {
    if rule.matches.is_empty() {
        return vec![None];
    }
    let mut claims = Vec::with_capacity(rule.matches.len());
    for matched in &rule.matches {
        match &matched.model {
            None => claims.push(None),
            Some(model) if model.kind.as_deref().is_some_and(|kind| kind != EXACT) => {
                let kind = model.kind.as_deref().unwrap_or_default();
                findings.invalid(Reason::UnsupportedMatch, || {
                    format!("{place} has a match of unknown type {}", quoted(kind))
                });
            }
            Some(model) if model.value.is_empty() => {
                findings.invalid(Reason::UnsupportedMatch, || {
                    format!("{place} has a match without a model name")
                });
            }
            Some(model) => claims.push(Some(model.value.as_str())),
        }
    }
    claims
}
