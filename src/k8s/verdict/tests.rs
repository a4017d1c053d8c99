use kube::core::Object;
use serde_json::{Value, json};

use super::*;
use crate::k8s::types::Status;
use crate::k8s::types::objective::ObjectiveSpec;

/// An objective with these conditions.
fn entry(conditions: &Value) -> Entry {
    let object = json!({
        "metadata": {"name": "o", "uid": "u", "resourceVersion": "1", "generation": 4},
        "spec": {"poolRef": {"name": "p"}}, "status": {"conditions": conditions},
    });
    serde_json::from_value::<Object<ObjectiveSpec, Status>>(object).unwrap().into()
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "1970-01-01T00:00:00Z", "observedGeneration": 4})
}

fn verdict(conditions: &Value, findings: &Findings) -> Verdict {
    Verdict::new(Kind::Objective, &entry(conditions), findings)
}

fn accepted() -> Findings {
    let mut findings = Findings::default();
    findings.in_effect();
    findings
}

fn now() -> Time {
    Time("2026-11-30T00:00:00Z".parse().unwrap())
}

// FR-111
#[test]
fn what_is_said_already_is_not_due() {
    let present = json!([condition("Accepted", "True", "Accepted", "in effect")]);
    let said = verdict(&present, &accepted());
    assert_eq!(said.due(&now()), None);
    assert!(verdict(&json!([]), &accepted()).due(&now()).is_some());
}

#[test]
fn the_time_of_a_transition_moves_with_the_status_alone() {
    let epoch = Time(jiff::Timestamp::UNIX_EPOCH);
    let due = |status: &str, message: &str, generation: i64| {
        let mut present = condition("Accepted", status, "Accepted", message);
        present["observedGeneration"] = json!(generation);
        let verdict = verdict(&json!([present]), &accepted());
        verdict.due(&now()).unwrap().remove(0)
    };
    assert_eq!(due("True", "other words", 4).last_transition_time, epoch);
    assert_eq!(due("True", "in effect", 3).last_transition_time, epoch);
    let changed = due("Unknown", "in effect", 4);
    assert_eq!(changed.last_transition_time, now());
    assert_eq!((changed.status.as_str(), changed.observed_generation), ("True", Some(4)));
}

#[test]
fn conditions_of_others_are_left_alone() {
    let present = json!([
        condition("Accepted", "True", "Accepted", "in effect"),
        condition("Ready", "False", "TheirReason", "theirs"),
        condition("example.com/Audited", "True", "Yes", ""),
    ]);
    let verdict = verdict(&present, &accepted());
    assert_eq!(verdict.wanted.len(), 1);
    assert_eq!(verdict.due(&now()), None);
}

#[test]
fn a_conflict_that_is_over_is_said_to_be_over() {
    let mut findings = Findings::default();
    findings.conflict(Reason::Conflicted, || "x has the same name".to_owned());
    let lost = verdict(&json!([]), &findings);
    let said = |verdict: &Verdict| -> Vec<_> {
        verdict.wanted.iter().map(|wanted| (wanted.kind, wanted.holds, wanted.reason)).collect()
    };
    let want = [("Accepted", false, Reason::Conflicted), ("Conflicted", true, Reason::Conflicted)];
    assert_eq!(said(&lost), want);
    let present = serde_json::to_value(lost.due(&now()).unwrap()).unwrap();
    let over = verdict(&present, &accepted());
    let want = [("Accepted", true, Reason::Accepted), ("Conflicted", false, Reason::NoConflicts)];
    assert_eq!(said(&over), want);
    assert_eq!(lost.warning().map(|(reason, _)| reason), Some(Reason::Conflicted));
    assert_eq!(over.warning(), None);
}

#[test]
fn messages_are_short_however_much_there_is_to_say() {
    let mut findings = accepted();
    for n in 0..10_000 {
        findings.invalid(Reason::InvalidTargets, || {
            format!("rules[{n}] {}", quoted(&"\u{e9}\n".repeat(500)))
        });
    }
    let message = verdict(&json!([]), &findings).wanted.remove(0).message;
    assert!(message.len() <= 1_000 && message.contains("rules[0]"), "{message}");
    assert!(!message.contains('\n'));
    let mut findings = Findings::default();
    for n in 0..10 {
        findings.conflict(Reason::Conflicted, || format!("{n}"));
    }
    let message = verdict(&json!([]), &findings).wanted.remove(0).message;
    assert_eq!(message, "0; 1; 2; 3; and 6 more");
}

#[test]
fn a_warning_names_the_fault_also_where_a_part_is_in_effect() {
    let mut findings = accepted();
    findings.conflict(Reason::Conflicted, || "lost".to_owned());
    let conflict = verdict(&json!([]), &findings);
    assert_eq!(conflict.wanted[0].reason, Reason::PartlyAccepted);
    assert_eq!(conflict.warning().map(|(reason, _)| reason), Some(Reason::Conflicted));
    findings.invalid(Reason::InvalidTargets, || "empty".to_owned());
    let both = verdict(&json!([]), &findings);
    assert_eq!(both.warning(), Some((Reason::InvalidTargets, &both.wanted[0])));
    assert_eq!(both.wanted[0].message, "empty; lost");
    assert_eq!(both.wanted[1].message, "lost");
}
