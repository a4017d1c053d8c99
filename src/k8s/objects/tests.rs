use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::k8s::types::{Model, Objective, Rewrite};
use crate::k8s::verdict::Reason;
use crate::pool::Targets;

const POOL_NAME: &str = "llama";

/// An object as the API server sends it.
fn read(kind: Kind, text: Value) -> Entry {
    fn entry<S>(text: Value) -> Entry
    where
        S: Into<Spec> + Clone + serde::de::DeserializeOwned,
    {
        serde_json::from_value::<Object<S, Status>>(text).unwrap().into()
    }
    match kind {
        Kind::Objective | Kind::LegacyObjective => entry::<ObjectiveSpec>(text),
        Kind::Rewrite | Kind::LegacyRewrite => entry::<RewriteSpec>(text),
        Kind::Model => entry::<ModelSpec>(text),
    }
}

/// An object of our pool; `age` in seconds, the higher the older.
fn object(kind: Kind, name: &str, age: u32, spec: &Value) -> (Kind, Entry) {
    let mut spec = spec.clone();
    spec.as_object_mut().unwrap().entry("poolRef").or_insert(json!({"name": POOL_NAME}));
    let created = Timestamp::from_second(1_800_000_000 - i64::from(age)).unwrap();
    let metadata = json!({
        "name": name, "uid": format!("{}/{name}", kind.full_name()), "resourceVersion": "7",
        "generation": 3, "creationTimestamp": created.to_string(),
    });
    (kind, read(kind, json!({"metadata": metadata, "spec": spec})))
}

fn judged(list: impl IntoIterator<Item = (Kind, Entry)>) -> Judged {
    let named = |(kind, entry): (Kind, Entry)| ((kind, entry.name.clone()), entry);
    let objects: BTreeMap<_, _> = list.into_iter().map(named).collect();
    super::judged(POOL_NAME, objects.iter().map(|((kind, _), entry)| (*kind, entry)))
}

/// Type, whether it holds, and the reason of all conditions of an object.
fn said(judged: &Judged, kind: Kind, name: &str) -> Vec<(&'static str, bool, Reason)> {
    let verdict = verdict(judged, kind, name);
    verdict.wanted.iter().map(|wanted| (wanted.kind, wanted.holds, wanted.reason)).collect()
}

fn message(judged: &Judged, kind: Kind, name: &str) -> String {
    verdict(judged, kind, name).wanted[0].message.clone()
}

fn verdict<'a>(judged: &'a Judged, kind: Kind, name: &str) -> &'a Verdict {
    let mut found = judged.verdicts.iter().filter(|v| v.kind == kind && &*v.name == name);
    let first = found.next().unwrap();
    assert!(found.next().is_none(), "one verdict of an object");
    first
}

/// The first target of requests for a model.
fn target<'a>(judged: &'a Judged, model: Option<&str>) -> Option<&'a str> {
    judged.routes.targets(model)?.draw(0)
}

fn exact(model: &str, target: &str) -> Value {
    json!({"matches": [{"model": {"type": "Exact", "value": model}}], "targets": [{"modelRewrite": target}]})
}

#[test]
fn objects_mean_our_pool_by_name_in_either_group() {
    let spec = |pool: Value| object(Kind::Objective, "o", 0, &json!({"poolRef": pool}));
    let cases = [
        (json!({"name": POOL_NAME}), true),
        (json!({"name": POOL_NAME, "group": GROUP, "kind": "InferencePool"}), true),
        (json!({"name": POOL_NAME, "group": LEGACY_GROUP}), true),
        (json!({"name": POOL_NAME, "group": ""}), true),
        (json!({"name": POOL_NAME, "group": "example.com"}), false),
        (json!({"name": POOL_NAME, "kind": "Service"}), false),
        (json!({"name": "other"}), false),
    ];
    for (pool, ours) in cases {
        let judged = judged([spec(pool.clone())]);
        assert_eq!(judged.verdicts.len(), usize::from(ours), "{pool}");
        assert_eq!(judged.routes.objectives.len(), usize::from(ours), "{pool}");
    }
}

#[test]
fn an_objective_gives_its_name_a_priority() {
    let judged = judged([
        object(Kind::Objective, "urgent", 0, &json!({"priority": 5})),
        object(Kind::LegacyObjective, "plain", 0, &json!({})),
    ]);
    assert_eq!(judged.routes.objectives, [("urgent".into(), 5), ("plain".into(), 0)].into());
    let want = [("Accepted", true, Reason::Accepted)];
    assert_eq!(said(&judged, Kind::Objective, "urgent"), want);
    assert_eq!(said(&judged, Kind::LegacyObjective, "plain"), want);
}

#[test]
fn of_one_objective_in_both_groups_the_newer_group_counts_at_any_age() {
    let judged = judged([
        object(Kind::LegacyObjective, "o", 100, &json!({"priority": 1})),
        object(Kind::Objective, "o", 0, &json!({"priority": 2})),
    ]);
    assert_eq!(judged.routes.objectives, [("o".into(), 2)].into());
    let lost = said(&judged, Kind::LegacyObjective, "o");
    let want = [("Accepted", false, Reason::Conflicted), ("Conflicted", true, Reason::Conflicted)];
    assert_eq!(lost, want);
    let message = message(&judged, Kind::LegacyObjective, "o");
    assert!(message.contains("inferenceobjectives.llm-d.ai/o"), "{message}");
}

#[test]
fn the_older_rewrite_owns_a_model_and_the_younger_says_so() {
    let judged = judged([
        object(
            Kind::Rewrite,
            "a-young",
            1,
            &json!({"rules": [exact("chat", "young"), exact("code", "code-1")]}),
        ),
        object(Kind::LegacyRewrite, "z-old", 9, &json!({"rules": [exact("chat", "old")]})),
    ]);
    assert_eq!(target(&judged, Some("chat")), Some("old"));
    assert_eq!(target(&judged, Some("code")), Some("code-1"));
    let want =
        [("Accepted", true, Reason::PartlyAccepted), ("Conflicted", true, Reason::Conflicted)];
    assert_eq!(said(&judged, Kind::Rewrite, "a-young"), want);
    let message = message(&judged, Kind::Rewrite, "a-young");
    let want = "rules[0]: \"chat\" belongs to rules[0] of \
                inferencemodelrewrites.inference.networking.x-k8s.io/z-old";
    assert_eq!(message, want);
}

#[test]
fn at_one_age_the_name_decides_and_within_an_object_the_first_rule() {
    let judged = judged([
        object(Kind::Rewrite, "b", 0, &json!({"rules": [{"targets": [{"modelRewrite": "b"}]}]})),
        object(
            Kind::Rewrite,
            "a",
            0,
            &json!({"rules": [exact("m", "first"), exact("m", "second"),
            {"matches": [{"model": {"value": "n"}}, {"model": {"value": "n"}}, {}], "targets": [{"modelRewrite": "a"}]}]}),
        ),
    ]);
    assert_eq!(target(&judged, Some("m")), Some("first"));
    assert_eq!(target(&judged, None), Some("a"), "a match without a model is for all");
    assert_eq!(said(&judged, Kind::Rewrite, "b")[0], ("Accepted", false, Reason::Conflicted));
    let message = message(&judged, Kind::Rewrite, "a");
    assert!(message.starts_with("rules[1]: \"m\" belongs to rules[0] of"), "{message}");
    assert!(!message.contains("\"n\""), "a match twice in one rule is no conflict: {message}");
}

#[test]
fn rules_without_usable_targets_are_left_out_and_named() {
    let rules = [
        json!({"targets": []}),
        json!({}),
        json!({"targets": [{"modelRewrite": ""}]}),
        json!({"targets": [{"modelRewrite": "a"}, {}]}),
        json!({"targets": [{"modelRewrite": "a", "weight": 0}]}),
    ];
    for rule in rules {
        let judged = judged([object(Kind::Rewrite, "r", 0, &json!({"rules": [rule]}))]);
        assert_eq!(judged.routes, Routes::default(), "{rule}");
        let want = [("Accepted", false, Reason::InvalidTargets)];
        assert_eq!(said(&judged, Kind::Rewrite, "r"), want, "{rule}");
    }
    let rules = json!({"rules": [{"targets": []}, exact("m", "t")]});
    let judged = judged([object(Kind::Rewrite, "r", 0, &rules)]);
    assert_eq!(target(&judged, Some("m")), Some("t"));
    assert_eq!(said(&judged, Kind::Rewrite, "r"), [("Accepted", true, Reason::PartlyAccepted)]);
    assert_eq!(message(&judged, Kind::Rewrite, "r"), "rules[0] has no targets");
}

#[test]
fn a_match_that_is_not_understood_does_not_match_all() {
    for matched in
        [json!({"model": {"type": "Regex", "value": ".*"}}), json!({"model": {"value": ""}})]
    {
        let rule = json!({"matches": [matched], "targets": [{"modelRewrite": "t"}]});
        let judged = judged([object(Kind::Rewrite, "r", 0, &json!({"rules": [rule]}))]);
        assert_eq!(judged.routes, Routes::default());
        let want = [("Accepted", false, Reason::UnsupportedMatch)];
        assert_eq!(said(&judged, Kind::Rewrite, "r"), want);
    }
}

#[test]
fn a_missing_weight_among_weights_is_1_and_said() {
    let rule = json!({"split": [{"modelRewrite": "a", "weight": 3}, {"modelRewrite": "b"}]});
    let judged = judged([object(Kind::Rewrite, "r", 0, &json!({"rules": [rule]}))]);
    assert_eq!(judged.routes.any, Targets::new("r", [("a", 3), ("b", 1)]));
    assert_eq!(said(&judged, Kind::Rewrite, "r"), [("Accepted", true, Reason::Accepted)]);
    let message = message(&judged, Kind::Rewrite, "r");
    assert!(message.contains("without a weight"), "{message}");
}

#[test]
fn a_model_gives_priority_and_targets_and_its_name_belongs_to_the_oldest() {
    let model = |name: &str, age, spec: &Value| object(Kind::Model, name, age, spec);
    let judged = judged([
        model(
            "old",
            5,
            &json!({"modelName": "chat", "criticality": "Critical",
            "targetModels": [{"name": "chat-1", "weight": 9}, {"name": "chat-2", "weight": 1}]}),
        ),
        model("copy", 4, &json!({"modelName": "chat", "criticality": "Sheddable"})),
        model("batch", 4, &json!({"modelName": "batch", "criticality": "Sheddable"})),
        model("odd", 4, &json!({"modelName": "odd", "criticality": "Vital"})),
        model("empty", 4, &json!({"modelName": ""})),
    ]);
    let want = [("chat".into(), 1), ("batch".into(), -1), ("odd".into(), 0)];
    assert_eq!(judged.routes.models, want.into());
    assert_eq!(
        judged.routes.exact.get("chat"),
        Targets::new("old", [("chat-1", 9), ("chat-2", 1)]).as_ref()
    );
    let want =
        [("Accepted", false, Reason::ModelNameInUse), ("Conflicted", true, Reason::ModelNameInUse)];
    assert_eq!(said(&judged, Kind::Model, "copy"), want);
    assert!(message(&judged, Kind::Model, "copy").ends_with("/old"));
    assert_eq!(said(&judged, Kind::Model, "odd"), [("Accepted", true, Reason::Accepted)]);
    assert!(message(&judged, Kind::Model, "odd").contains("\"Vital\""));
    assert_eq!(said(&judged, Kind::Model, "empty")[0].2, Reason::InvalidModelName);
}

#[test]
fn a_rewrite_stands_over_the_targets_of_a_model_of_any_age() {
    let judged = judged([
        object(
            Kind::Model,
            "m",
            9,
            &json!({"modelName": "chat", "criticality": "Critical", "targetModels": [{"name": "model"}]}),
        ),
        object(Kind::Rewrite, "r", 0, &json!({"rules": [exact("chat", "rewrite")]})),
    ]);
    assert_eq!(target(&judged, Some("chat")), Some("rewrite"));
    assert_eq!(judged.routes.priority(None, Some("chat")), 1);
    let want =
        [("Accepted", true, Reason::PartlyAccepted), ("Conflicted", true, Reason::Conflicted)];
    assert_eq!(said(&judged, Kind::Model, "m"), want);
}

#[test]
fn a_winner_that_goes_makes_room() {
    let rules = |target: &str| json!({"rules": [exact("m", target)]});
    let old = object(Kind::Rewrite, "old", 9, &rules("old"));
    let young = object(Kind::Rewrite, "young", 0, &rules("young"));
    assert_eq!(target(&judged([young.clone(), old]), Some("m")), Some("old"));
    assert_eq!(target(&judged([young]), Some("m")), Some("young"));
}

#[test]
fn every_kind_can_be_asked_for() {
    for kind in Kind::ALL {
        let resource = kind.resource();
        assert_eq!(resource.api_version, format!("{}/v1alpha2", resource.group));
        assert_eq!(kind.full_name(), format!("{}.{}", resource.plural, resource.group));
    }
    // The types that watches read become entries.
    let _: [fn(_) -> Entry; 1] = [<Entry as From<Objective>>::from];
    let _: [fn(_) -> Entry; 1] = [<Entry as From<Rewrite>>::from];
    let _: [fn(_) -> Entry; 1] = [<Entry as From<Model>>::from];
}

fn names() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["", "a", "b", "c"])
}

fn rule() -> impl Strategy<Value = Value> {
    let matches = prop::collection::vec((names(), any::<bool>()), 0..3);
    let targets = prop::collection::vec((names(), prop::option::of(-1..3)), 0..3);
    (matches, targets).prop_map(|(matches, targets)| {
        let matches = matches.into_iter().map(|(name, exact)| {
            json!({"model": {"type": if exact { "Exact" } else { "Prefix" }, "value": name}})
        });
        let targets = targets
            .into_iter()
            .map(|(name, weight)| json!({"modelRewrite": name, "weight": weight}));
        json!({"matches": matches.collect::<Vec<_>>(), "targets": targets.collect::<Vec<_>>()})
    })
}

fn any_object() -> impl Strategy<Value = (Kind, Entry)> {
    let pool = prop::sample::select(vec![POOL_NAME, POOL_NAME, POOL_NAME, "other"]);
    let rules = prop::collection::vec(rule(), 0..3);
    let what = (prop::sample::select(Kind::ALL.to_vec()), names(), 0..3_u32);
    (what, pool, rules, names(), -1..2).prop_map(
        |((kind, name, age), pool, rules, model, priority)| {
            let targets: Vec<_> = rules.iter().map(|_| json!({"name": model})).collect();
            let spec = json!({"poolRef": {"name": pool}, "rules": rules, "priority": priority,
            "modelName": model, "targetModels": targets});
            object(kind, &format!("x{name}"), age, &spec)
        },
    )
}

proptest! {
    #[test]
    fn the_order_of_arrival_does_not_matter(
        list in prop::collection::vec(any_object(), 0..12),
        seed in any::<u64>(),
    ) {
        // Of two with one name the last would count.
        let unique: BTreeMap<_, _> =
            list.into_iter().map(|(kind, entry)| ((kind, entry.name.clone()), entry)).collect();
        let mut list: Vec<_> = unique.into_iter().map(|((kind, _), entry)| (kind, entry)).collect();
        let first = judged(list.clone());
        fastrand::Rng::with_seed(seed).shuffle(&mut list);
        let second = judged(list);
        prop_assert_eq!(first.routes, second.routes);
        prop_assert_eq!(first.verdicts, second.verdicts);
    }

    #[test]
    fn every_object_of_ours_gets_one_accepted_and_no_other_object_a_word(
        list in prop::collection::vec(any_object(), 0..12),
    ) {
        let ours: BTreeMap<_, _> = list.iter().map(|(kind, entry)| ((*kind, entry.name.clone()), entry.pool.name == POOL_NAME)).collect();
        let judged = judged(list);
        prop_assert_eq!(judged.verdicts.len(), ours.values().filter(|ours| **ours).count());
        for verdict in &judged.verdicts {
            prop_assert!(ours[&(verdict.kind, verdict.name.clone())]);
            let accepted: Vec<_> = verdict.wanted.iter().filter(|wanted| wanted.kind == "Accepted").collect();
            prop_assert_eq!(accepted.len(), 1);
            let conflicted = verdict.wanted.iter().any(|wanted| wanted.kind == "Conflicted" && wanted.holds);
            prop_assert!(accepted[0].holds || accepted[0].reason != Reason::Accepted);
            prop_assert!(!conflicted || accepted[0].reason != Reason::Accepted);
            prop_assert!(verdict.wanted.iter().all(|wanted| wanted.message.len() <= 1_000 && !wanted.message.is_empty()));
        }
    }
}
