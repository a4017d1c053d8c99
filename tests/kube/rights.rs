//! What our account may do, by the server's own authorizer: every right of the Role is used, nothing
//! else is asked for, and what is missing takes its feature alone.

use std::collections::BTreeSet;

use anyhow::ensure;
use lodesman_e2e::chat::Clients;
use lodesman_e2e::eventually;
use lodesman_e2e::kube::audit::asked;
use lodesman_e2e::kube::objects::{
    LEGACY_OBJECTIVE, LEGACY_REWRITE, OBJECTIVE, REWRITE, ROLE, model, objective, rewrite,
};
use serde_json::{Value, json};

use super::judged::until_condition;
use super::site::{
    POOL, Site, cluster, until_endpoints, until_logged, until_ready, until_unready, until_watch,
};
use super::stage::SOON;

/// What a Role grants: verb, and resource with its group.
fn granted(role: &Value) -> BTreeSet<(String, String)> {
    let texts = |rule: &Value, key: &str| -> Vec<String> {
        let list = rule[key].as_array().cloned().unwrap_or_default();
        list.iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let rules = role["rules"].as_array().unwrap().iter();
    rules
        .flat_map(|rule| {
            let pairs = texts(rule, "apiGroups").into_iter().flat_map(|group| {
                let verbs = texts(rule, "verbs");
                let resources = texts(rule, "resources").into_iter();
                resources.flat_map(move |it| {
                    let resource = addressed(&it, &group);
                    verbs.clone().into_iter().map(move |verb| (verb, resource.clone()))
                })
            });
            pairs.collect::<Vec<_>>()
        })
        .collect()
}

/// `pods`, `leases.coordination.k8s.io`, `inferenceobjectives.llm-d.ai/status`.
fn addressed(resource: &str, group: &str) -> String {
    let (plural, part) = resource.split_once('/').unwrap_or((resource, ""));
    let dot = if group.is_empty() { "" } else { "." };
    let slash = if part.is_empty() { "" } else { "/" };
    format!("{plural}{dot}{group}{slash}{part}")
}

/// Objects that each want a status, two of them at odds.
async fn objects(site: &Site<'_>) {
    for object in [
        objective(OBJECTIVE, "o", POOL, 1),
        objective(LEGACY_OBJECTIVE, "o", POOL, 2),
        rewrite(REWRITE, "r", POOL, "a", &[("sim", 1)]),
        rewrite(LEGACY_REWRITE, "r", POOL, "a", &[("sim", 1)]),
        model("m", POOL, "b", "Critical"),
    ] {
        site.namespace.apply(&object).await.unwrap();
    }
}

#[tokio::test]
async fn every_right_is_used_and_no_other_is_asked_for() {
    let Some(cluster) = cluster().await else { return };
    let Some(log) = cluster.audit_log() else { return };
    let site = Site::with_pods(cluster, 1).await;
    let _picker = site.synced_picker("").await;
    objects(&site).await;
    let role = site.namespace.read(ROLE, "lodesman").await.unwrap();
    let granted = granted(&role.data);
    // The same trouble again is the same Event, counted once more.
    let loser = (LEGACY_OBJECTIVE, "o");
    until_condition(&site, loser, "Accepted", "False").await;
    site.namespace.delete(OBJECTIVE, "o").await.unwrap();
    until_condition(&site, loser, "Accepted", "True").await;
    site.namespace.apply(&objective(OBJECTIVE, "o", POOL, 1)).await.unwrap();
    let all_used = eventually(SOON, async || {
        let asked = asked(&log, &site.account.user)?;
        let of_objects = || asked.iter().filter(|it| !it.resource.is_empty());
        let refused: Vec<_> = of_objects().filter(|it| it.code == 403).collect();
        assert!(refused.is_empty(), "not granted: {refused:?}");
        let used = of_objects().map(|it| (it.verb.clone(), it.resource.clone())).collect();
        let unused: Vec<_> = granted.difference(&used).collect();
        ensure!(unused.is_empty(), "granted and not used: {unused:?}");
        Ok(())
    });
    all_used.await.unwrap();
}

/// What shows that a right is missing.
enum Shows {
    /// The watch of this kind says so, and readiness with these words.
    Unready(&'static str, &'static str),
    /// The watch of this kind says so; all else works.
    Watch(&'static str),
    /// A log line has these words; all else works.
    Log(&'static str),
}

#[tokio::test]
async fn missing_right_takes_its_feature_alone_and_is_taken_up_when_granted() {
    use Shows::{Log, Unready, Watch};
    let Some(cluster) = cluster().await else { return };
    for (resource, shows) in [
        ("pods", Unready("pods", "pods")),
        ("inferencepools", Unready("inferencepools.inference.networking.k8s.io", POOL)),
        ("inferenceobjectives", Watch("inferenceobjectives.llm-d.ai")),
        ("inferencemodelrewrites", Watch("inferencemodelrewrites.inference.networking.x-k8s.io")),
        ("inferencemodels", Watch("inferencemodels.inference.networking.x-k8s.io")),
        ("inferenceobjectives/status", Log("inferenceobjectives/status")),
        ("inferencemodelrewrites/status", Log("inferencemodelrewrites/status")),
        ("inferencemodels/status", Log("inferencemodels/status")),
        ("events", Log("events")),
        ("leases", Log("leases")),
    ] {
        let site = Site::with_pods(cluster, 1).await;
        objects(&site).await;
        let role = site.namespace.read(ROLE, "lodesman").await.unwrap();
        let rules = |rules: &Value| json!({"rules": rules});
        let without = rules(&lessened(&role.data["rules"], resource));
        site.namespace.merge(ROLE, "lodesman", &without).await.unwrap();
        let mut picker = site.picker("").await;
        let (watch, unready) = match shows {
            Unready(kind, words) => {
                until_unready(&picker, words).await;
                (Some(kind), true)
            }
            Watch(kind) => (Some(kind), false),
            Log(words) => {
                until_logged(&mut picker, &["\"WARN\"", words]).await;
                (None, false)
            }
        };
        if let Some(kind) = watch {
            until_watch(&picker, kind, "forbidden").await;
            until_logged(&mut picker, &["\"WARN\"", kind.split('.').next().unwrap()]).await;
        }
        if !unready {
            until_endpoints(&picker, [site.endpoint(0)]).await;
            until_ready(&picker).await;
        }
        let all = rules(&role.data["rules"]);
        site.namespace.merge(ROLE, "lodesman", &all).await.unwrap();
        if let Some(kind) = watch {
            until_watch(&picker, kind, "following").await;
        }
        until_ready(&picker).await;
    }
}

#[tokio::test]
async fn right_that_is_revoked_is_told_and_the_last_state_holds() {
    let Some(cluster) = cluster().await else { return };
    let mut site = Site::with_pods(cluster, 2).await;
    // What is open goes on without the right: the API server asks for it where a watch begins.
    let relay = site.account.relayed().await.unwrap();
    let mut picker = site.synced_picker("").await;
    let envoy = site.envoy(&picker).await;
    let mut load = Clients::start(envoy.client(), "sim", 2);
    let role = site.namespace.read(ROLE, "lodesman").await.unwrap();
    let rules = |rules: &Value| json!({"rules": rules});
    let without = rules(&lessened(&role.data["rules"], "pods"));
    site.namespace.merge(ROLE, "lodesman", &without).await.unwrap();
    let (namespace, user) = (&*site.namespace.name, &*site.account.user);
    let ask = ["auth", "can-i", "list", "pods", "--namespace", namespace, "--as", user];
    let refused = eventually(SOON, async || {
        ensure!(cluster.kubectl(&ask, "").await.is_err(), "still granted");
        Ok(())
    });
    refused.await.unwrap();
    relay.cut();
    until_watch(&picker, "pods", "forbidden").await;
    until_logged(&mut picker, &["\"WARN\"", "pods"]).await;
    site.kubelet.set_ready("pod-0", false).await.unwrap();
    load.next(50).await.unwrap();
    until_endpoints(&picker, [site.endpoint(0), site.endpoint(1)]).await;
    until_ready(&picker).await;
    site.namespace.merge(ROLE, "lodesman", &rules(&role.data["rules"])).await.unwrap();
    until_watch(&picker, "pods", "following").await;
    until_endpoints(&picker, [site.endpoint(1)]).await;
    load.finish().await.unwrap();
}

/// The rules without a resource.
fn lessened(rules: &Value, resource: &str) -> Value {
    let mut rules = rules.clone();
    for rule in rules.as_array_mut().unwrap() {
        rule["resources"].as_array_mut().unwrap().retain(|it| it != resource);
    }
    rules.as_array_mut().unwrap().retain(|rule| rule["resources"] != json!([]));
    rules
}
