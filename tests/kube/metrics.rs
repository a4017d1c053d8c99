//! Who may read metrics, by the API server's own word.

use anyhow::{Result, ensure};
use http::Request;
use http::header::AUTHORIZATION;
use lodesman_e2e::client::Answer;
use lodesman_e2e::kube::Account;
use lodesman_e2e::{Body, Client, Lodesman, eventually};
use serde_json::{Value, json};

use super::site::{Site, cluster, own_cluster, until_endpoints, until_ready};
use super::stage::SOON;

const RBAC: &str = "rbac.authorization.k8s.io";

/// Gives an account a `ClusterRole`, under a name that no other test has.
async fn bind(site: &Site<'_>, account: &Account, role: &str) {
    let (namespace, name) = (&site.namespace.name, account.user.rsplit(':').next().unwrap());
    let binding = json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": "ClusterRoleBinding",
        "metadata": {"name": format!("{namespace}-{name}")},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
    });
    site.namespace.apply(&binding).await.unwrap();
}

/// An account that may read metrics.
async fn reader(site: &Site<'_>) -> Account {
    let name = format!("{}-metrics-reader", site.namespace.name);
    let rules: Value = json!([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]);
    let role = json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole",
        "metadata": {"name": name}, "rules": rules});
    site.namespace.apply(&role).await.unwrap();
    let account = site.namespace.account("prometheus").await.unwrap();
    bind(site, &account, &name).await;
    account
}

/// A picker of one pod that asks who reads its metrics, and may ask.
async fn picker(site: &Site<'_>) -> Lodesman {
    bind(site, &site.account, "system:auth-delegator").await;
    let picker = site.picker("--metrics-endpoint-auth").await;
    until_endpoints(&picker, [site.endpoint(0)]).await;
    picker
}

async fn read(picker: &Lodesman, token: Option<&str>) -> Result<Answer> {
    let mut request = Request::get("/metrics");
    if let Some(token) = token {
        request = request.header(AUTHORIZATION, format!("Bearer {token}"));
    }
    let answer = Client::http1(picker.metrics).send(request.body(Body::default())?).await?;
    Ok(answer.collect().await)
}

/// Waits until a token has this status: rights that were just granted take a moment.
async fn until(picker: &Lodesman, token: &str, status: u16) -> String {
    let answer = eventually(SOON, async || {
        let answer = read(picker, Some(token)).await?;
        ensure!(answer.status == status, "{} {}", answer.status, answer.text());
        Ok(answer.text())
    });
    answer.await.unwrap()
}

#[tokio::test]
async fn metrics_are_for_those_whom_the_api_server_lets() {
    let Some(cluster) = cluster().await else { return };
    let site = Site::with_pods(cluster, 1).await;
    let (reader, other) = (reader(&site).await, site.namespace.account("other").await.unwrap());
    let picker = picker(&site).await;
    let page = until(&picker, &reader.token, 200).await;
    assert!(page.contains("llm_d_epp_ready_endpoints"), "{page}");
    let refused = until(&picker, &other.token, 403).await;
    assert!(refused.contains(&other.user) && refused.contains("nonResourceURLs"), "{refused}");
    assert_eq!(read(&picker, Some("nobody's")).await.unwrap().status, 401);
    let unnamed = read(&picker, None).await.unwrap();
    assert_eq!(unnamed.status, 401);
    assert_eq!(unnamed.header("www-authenticate"), Some("Bearer"));
    until_ready(&picker).await;
    let alive = Client::http1(picker.metrics).get("/livez").await.unwrap();
    assert_eq!(alive.status, 200, "probes need no token");
}

#[tokio::test]
async fn without_the_right_to_ask_nobody_is_let_in_and_the_page_says_which() {
    let Some(cluster) = cluster().await else { return };
    let site = Site::with_pods(cluster, 1).await;
    let reader = reader(&site).await;
    let picker = site.picker("--metrics-endpoint-auth").await;
    let said = until(&picker, &reader.token, 503).await;
    assert!(said.contains("tokenreviews") && said.contains("system:auth-delegator"), "{said}");
    bind(&site, &site.account, "system:auth-delegator").await;
    until(&picker, &reader.token, 200).await;
}

#[tokio::test]
async fn who_was_let_in_is_while_the_api_server_is_away() {
    let Some(cluster) = own_cluster(&[]).await else { return };
    let site = Site::with_pods(&cluster, 1).await;
    let (reader, stranger) = (reader(&site).await, site.namespace.account("new").await.unwrap());
    let picker = picker(&site).await;
    until(&picker, &reader.token, 200).await;
    cluster.server().unwrap().stop().await.unwrap();
    assert_eq!(read(&picker, Some(&reader.token)).await.unwrap().status, 200);
    until(&picker, &stranger.token, 503).await;
}
