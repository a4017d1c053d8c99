//! Objectives, rewrites and models: what they do to requests, and what their authors are told.

use anyhow::{Context as _, ensure};
use http::Request;
use lodesman_e2e::kube::Kind;
use lodesman_e2e::kube::objects::{
    EVENT, LEGACY_OBJECTIVE, LEGACY_REWRITE, MODEL, OBJECTIVE, POOL as POOL_KIND, REWRITE, model,
    objective, rewrite,
};
use lodesman_e2e::{Body, Envoy, eventually};
use serde_json::{Value, json};

use super::site::{POOL, Site, cluster, until_sum, until_warned, until_well};
use super::stage::{CHAT, SOON, chat, is_whole};

/// A condition of an object, once it has `status`.
pub(super) async fn until_condition(
    site: &Site<'_>,
    (kind, name): (Kind<'_>, &str),
    condition: &str,
    status: &str,
) -> Value {
    let said = eventually(SOON, async || {
        let object = site.namespace.read(kind, name).await?;
        let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array);
        let of = |it: &&Value| it["type"] == condition;
        let found = conditions.and_then(|all| all.iter().find(of).cloned());
        let found = found.with_context(|| format!("no {condition}: {}", object.data))?;
        ensure!(found["status"] == status, "{found}");
        ensure!(found["observedGeneration"] == json!(object.metadata.generation), "{found}");
        Ok(found)
    });
    said.await.unwrap()
}

/// A chat request for a model, of an objective.
async fn ask(envoy: &Envoy, model: &str, objective: &str) -> Value {
    asked(envoy, model, objective).await.unwrap()
}

/// The same for a model that is served from now on: that is told to Kubernetes and to decisions, one after the other.
async fn ask_soon(envoy: &Envoy, model: &str) -> Value {
    eventually(SOON, async || asked(envoy, model, "").await).await.unwrap()
}

async fn asked(envoy: &Envoy, model: &str, objective: &str) -> anyhow::Result<Value> {
    let mut body = chat(1, false);
    body["model"] = json!(model);
    let request = Request::post(CHAT)
        .header("content-type", "application/json")
        .header("x-llm-d-inference-objective", objective)
        .body(Body::full(body.to_string()))
        .unwrap();
    let answer = envoy.client().send(request).await.unwrap().collect().await;
    ensure!(is_whole(&answer), "{} {}", answer.status, answer.text());
    answer.json()
}

// FR-107
#[tokio::test]
async fn objectives_of_both_groups_give_priorities() {
    let Some(cluster) = cluster().await else { return };
    let site = Site::with_pods(cluster, 1).await;
    for (kind, name, priority) in [(OBJECTIVE, "urgent", 7), (LEGACY_OBJECTIVE, "old", 3)] {
        site.namespace.apply(&objective(kind, name, POOL, priority)).await.unwrap();
    }
    let picker = site.synced_picker("").await;
    for (kind, name) in [(OBJECTIVE, "urgent"), (LEGACY_OBJECTIVE, "old")] {
        until_condition(&site, (kind, name), "Accepted", "True").await;
    }
    let envoy = site.envoy(&picker).await;
    for (name, priority) in [("urgent", "7"), ("old", "3"), ("unknown", "0")] {
        ask(&envoy, "sim", name).await;
        let priority = format!("priority=\"{priority}\"");
        until_sum(&picker, "llm_d_epp_request_total", &[&priority], 1.0).await;
    }
}

#[tokio::test]
async fn rewritten_model_is_asked_for_and_the_clients_name_comes_back() {
    let Some(cluster) = cluster().await else { return };
    let site = Site::with_pods(cluster, 1).await;
    let picker = site.synced_picker("").await;
    let envoy = site.envoy(&picker).await;
    for (kind, name, alias) in [(REWRITE, "new", "alias-new"), (LEGACY_REWRITE, "old", "alias-old")]
    {
        let object = rewrite(kind, name, POOL, alias, &[("sim", 1)]);
        site.namespace.apply(&object).await.unwrap();
        until_condition(&site, (kind, name), "Accepted", "True").await;
        assert_eq!(ask_soon(&envoy, alias).await["model"], alias);
        let labels = [format!("model_name=\"{alias}\""), "target_model=\"sim\"".to_owned()];
        let family = "llm_d_epp_model_rewrite_decisions_total";
        until_sum(&picker, family, &[&labels[0], &labels[1]], 1.0).await;
    }
    let mut object = model("m", POOL, "alias-model", "Critical");
    object["spec"]["targetModels"] = json!([{"name": "sim"}]);
    site.namespace.apply(&object).await.unwrap();
    until_condition(&site, (MODEL, "m"), "Accepted", "True").await;
    assert_eq!(ask_soon(&envoy, "alias-model").await["model"], "alias-model");
    until_sum(&picker, "llm_d_epp_request_total", &["priority=\"1\""], 1.0).await;
}

#[tokio::test]
async fn of_two_objects_that_want_the_same_the_older_prevails_and_the_other_is_told() {
    let Some(cluster) = cluster().await else { return };
    let site = Site::with_pods(cluster, 1).await;
    let picker = site.synced_picker("").await;
    for (name, at) in [("first", "sim"), ("second", "elsewhere")] {
        let object = rewrite(REWRITE, name, POOL, "alias", &[(at, 1)]);
        site.namespace.apply(&object).await.unwrap();
        // Ages are counted in seconds: the first must be seen as older by its name too.
        until_condition(
            &site,
            (REWRITE, name),
            "Accepted",
            if at == "sim" { "True" } else { "False" },
        )
        .await;
    }
    let conflict = until_condition(&site, (REWRITE, "second"), "Conflicted", "True").await;
    assert!(conflict["message"].as_str().unwrap().contains("first"), "{conflict}");
    let told = eventually(SOON, async || {
        let events = site.namespace.list(EVENT).await?;
        let about = |event: &&Value| event["regarding"]["name"] == "second";
        let event = events.iter().map(|event| &event.data).find(about);
        let event = event.with_context(|| format!("none of {} events", events.len()))?;
        ensure!(event["type"] == "Warning" && event["regarding"]["kind"] == REWRITE.1, "{event}");
        Ok(())
    });
    told.await.unwrap();
    let envoy = site.envoy(&picker).await;
    ask(&envoy, "alias", "").await;
    site.namespace.delete(REWRITE, "first").await.unwrap();
    until_condition(&site, (REWRITE, "second"), "Accepted", "True").await;
    until_condition(&site, (REWRITE, "second"), "Conflicted", "False").await;
}

// FR-111
#[tokio::test]
async fn status_is_not_written_again_when_nothing_changes() {
    let Some(cluster) = cluster().await else { return };
    let site = Site::with_pods(cluster, 1).await;
    let apply = async |name: &str| {
        site.namespace.apply(&objective(OBJECTIVE, name, POOL, 1)).await.unwrap();
        until_condition(&site, (OBJECTIVE, name), "Accepted", "True").await;
        site.namespace.read(OBJECTIVE, name).await.unwrap().metadata.resource_version
    };
    let _picker = site.synced_picker("").await;
    let before = apply("one").await;
    // What comes later is written later: by then "one" would have been written again.
    apply("two").await;
    apply("three").await;
    let after = site.namespace.read(OBJECTIVE, "one").await.unwrap();
    assert_eq!(after.metadata.resource_version, before);
}

#[tokio::test]
async fn objects_of_other_pools_are_left_alone() {
    let Some(cluster) = cluster().await else { return };
    let site = Site::with_pods(cluster, 1).await;
    site.namespace.apply(&objective(OBJECTIVE, "foreign", "other", 9)).await.unwrap();
    let picker = site.synced_picker("").await;
    site.namespace.apply(&objective(OBJECTIVE, "ours", POOL, 1)).await.unwrap();
    until_condition(&site, (OBJECTIVE, "ours"), "Accepted", "True").await;
    let foreign = site.namespace.read(OBJECTIVE, "foreign").await.unwrap();
    let managers = foreign.metadata.managed_fields.unwrap_or_default();
    assert!(managers.iter().all(|it| it.manager.as_deref() != Some("lodesman")), "{managers:?}");
    let envoy = site.envoy(&picker).await;
    ask(&envoy, "sim", "foreign").await;
    until_sum(&picker, "llm_d_epp_request_total", &["priority=\"0\""], 1.0).await;
}

#[tokio::test]
async fn objects_outlive_their_pool() {
    let Some(cluster) = cluster().await else { return };
    let site = Site::with_pods(cluster, 1).await;
    site.namespace.apply(&objective(OBJECTIVE, "urgent", POOL, 7)).await.unwrap();
    let picker = site.synced_picker("").await;
    site.namespace.delete(POOL_KIND, POOL).await.unwrap();
    until_warned(&picker, "InferencePool").await;
    site.apply_pool().await;
    until_well(&picker).await;
    let envoy = site.envoy(&picker).await;
    ask(&envoy, "sim", "urgent").await;
    until_sum(&picker, "llm_d_epp_request_total", &["priority=\"7\""], 1.0).await;
}
