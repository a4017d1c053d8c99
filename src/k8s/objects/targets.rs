//! Targets of a rewrite or a model, with their weights.

use super::super::verdict::{Findings, Reason};
use crate::k8s::types::rewrite::{Match, Rule};
use crate::pool::Targets;

/// What holds a name, here and in the routes: a string or two, and what comes with them.
const HOLDER: usize = 96;

/// A target: its name and its weight.
pub(super) type Weighted<'a> = (&'a str, Option<i32>);

/// The targets that `object` has under what is called `place` in messages; none when one of them has no name or none gets
/// requests.
///
/// Where only some have a weight, it is 1 for the others. A weight below 1, which old schemas allow, means no requests.
pub(super) fn weighted(
    (object, place): (&str, &str),
    list: &[Weighted<'_>],
    findings: &mut Findings,
) -> Option<Targets> {
    if list.iter().any(|(name, _)| name.is_empty()) {
        findings.invalid(Reason::InvalidTargets, || format!("{place} has a target without a name"));
        return None;
    }
    let without = list.iter().filter(|(_, weight)| weight.is_none()).count();
    if (1..list.len()).contains(&without) {
        findings.remark(|| format!("{place} has targets without a weight, which count as 1"));
    }
    let share = |weight: Option<i32>| u32::try_from(weight.unwrap_or(1)).unwrap_or(0);
    let shares = list.iter().map(|&(name, weight)| (name, share(weight)));
    let targets = Targets::new(object, shares);
    if targets.is_none() {
        let what = if list.is_empty() { "targets" } else { "target with a weight above 0" };
        findings.invalid(Reason::InvalidTargets, || format!("{place} has no {what}"));
    }
    targets
}

/// The bytes that a name takes, about.
pub(super) fn size(name: &str) -> usize {
    HOLDER + name.len()
}

/// The bytes that a rule takes, about.
pub(super) fn size_of_rule(rule: &Rule) -> usize {
    let named =
        |matched: &Match| size(matched.model.as_ref().map_or("", |model| model.value.as_str()));
    let matches = rule.matches.iter().map(named).sum::<usize>();
    HOLDER + matches + rule.targets.iter().map(|to| size(&to.model_rewrite)).sum::<usize>()
}
