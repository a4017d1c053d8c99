//! Whether Envoy Gateway asks the picker and obeys it: its policies, since it knows no InferencePool.

use serde_json::Value;

use super::route::targets;
use crate::cli::doctor::facts::{Cluster, Facts, at, items, name, text};
use crate::cli::doctor::finding::{Check, Finding, Outcome};

pub(in crate::cli::doctor) const CHECK: Check = Check {
    name: "envoy-gateway",
    good: "policies of Envoy Gateway ask the picker and obey it",
    run,
};

/// The header that names the destination.
const DESTINATION: &str = "x-gateway-destination-endpoint";

fn run(facts: &Facts) -> Outcome {
    let cluster = facts.cluster()?;
    let (service, pool) = cluster.picker()?;
    let policies = match &cluster.extension_policies {
        Ok(Some(policies)) => policies,
        Ok(None) => return Err("EnvoyExtensionPolicies are not installed"),
        Err(why) => {
            let fix = "let this account list envoyextensionpolicies and backendtrafficpolicies";
            return Ok(vec![Finding::unseen(CHECK, "EnvoyExtensionPolicies", why, fix)]);
        }
    };
    let mut asking = policies
        .iter()
        .flat_map(|policy| asks(policy, &service).map(move |ask| (policy, ask)))
        .peekable();
    if asking.peek().is_none() {
        return Err("no EnvoyExtensionPolicy of the namespace asks the picker");
    }
    let told = asking.flat_map(|(policy, ask)| {
        let wrong = asked(name(policy), ask, pool.fail_open);
        wrong.into_iter().chain(obeyed(cluster, policy))
    });
    Ok(told.collect())
}

/// Where a policy asks the picker of this Service.
fn asks<'a>(policy: &'a Value, service: &'a str) -> impl Iterator<Item = &'a Value> {
    let ours =
        move |it: &&Value| items(at(it, "/backendRefs")).any(|to| at(to, "/name") == service);
    items(at(policy, "/spec/extProc")).filter(ours)
}

/// What is wrong with how the picker is asked.
fn asked(policy: &str, ask: &Value, fail_open: bool) -> Vec<Finding> {
    let mut found = Vec::new();
    let body = text(at(ask, "/processingMode/request/body"));
    if at(ask, "/processingMode").get("request").is_none() {
        found.push(Finding::problem(
            CHECK,
            format!("the EnvoyExtensionPolicy {policy} has no processingMode.request"),
            "nothing of a request is sent to the picker, although the policy is accepted",
            "set processingMode: {request: {body: FullDuplexStreamed}, response: {body: FullDuplexStreamed}}",
        ));
    } else if body.is_none() {
        found.push(Finding::problem(
            CHECK,
            format!("the EnvoyExtensionPolicy {policy} sends no body to the picker"),
            "models, priorities and prefixes are not known: requests are placed by load alone",
            "set processingMode.request.body: FullDuplexStreamed, or Buffered",
        ));
    }
    if ask.get("messageTimeout").is_none() && matches!(body, Some("Buffered" | "Streamed")) {
        found.push(Finding::problem(
            CHECK,
            format!("the EnvoyExtensionPolicy {policy} has no messageTimeout"),
            "Envoy waits 200 ms for a decision, which a long body or a queue can take; then the request fails, or goes on without the picker",
            "set messageTimeout: 5s, or 1s with failOpen",
        ));
    }
    let open = at(ask, "/failOpen").as_bool() == Some(true);
    if open != fail_open {
        let (gateway, picker) = if open { ("open", "FailClose") } else { ("closed", "FailOpen") };
        found.push(Finding::problem(
            CHECK,
            format!("the EnvoyExtensionPolicy {policy} fails {gateway}, and the pool says {picker}"),
            "what a fault means depends on who notices it: the gateway does one thing, the picker the other",
            "set failOpen of the policy and endpointPickerRef.failureMode of the pool to the same",
        ));
    }
    found
}

/// Whether the destination is obeyed on the routes of a policy.
fn obeyed(cluster: &Cluster, policy: &Value) -> Vec<Finding> {
    let Ok(traffic) = &cluster.traffic_policies else {
        let why = cluster.traffic_policies.as_ref().err().cloned().unwrap_or_default();
        let fix = "let this account list backendtrafficpolicies";
        return vec![Finding::unseen(CHECK, "BackendTrafficPolicies", &why, fix)];
    };
    let traffic = traffic.as_deref().unwrap_or_default();
    let obeys = |route: &str| {
        traffic.iter().filter(|it| targets(it).any(|target| target == route)).any(|it| {
            let from = at(it, "/spec/loadBalancer/endpointOverride/extractFrom");
            let is = |it: &Value| {
                text(at(it, "/header")).is_some_and(|it| it.eq_ignore_ascii_case(DESTINATION))
            };
            items(from).any(is)
        })
    };
    let deaf = targets(policy).filter(|route| !obeys(route)).map(|route| {
        Finding::problem(
            CHECK,
            format!("no BackendTrafficPolicy has the HTTPRoute {route} obey the header {DESTINATION}"),
            "the picker is asked, and its choice has no effect",
            "set loadBalancer.endpointOverride.extractFrom to that header, as manifests/overlays/envoy-gateway/traffic.yaml does",
        )
    });
    deaf.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::doctor::checks::fixture::{cluster, told, with};

    fn target() -> Value {
        json!([{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "chat"}])
    }

    /// A picker that is asked like this, and obeyed.
    fn asking(mut ask: Value) -> Cluster {
        let mut cluster = cluster();
        ask["backendRefs"] = json!([{"name": "lodesman", "port": 9002}]);
        let policy =
            json!({"metadata": {"name": "p"}, "spec": {"targetRefs": target(), "extProc": [ask]}});
        cluster.extension_policies = Ok(Some(vec![policy]));
        let over = json!({"extractFrom": [{"header": "X-Gateway-Destination-Endpoint"}]});
        let traffic =
            json!({"spec": {"targetRefs": target(), "loadBalancer": {"endpointOverride": over}}});
        cluster.traffic_policies = Ok(Some(vec![traffic]));
        cluster
    }

    #[test]
    fn a_picker_that_is_asked_for_nothing_is_told() {
        let body = |body: &str| json!({"request": {"body": body}});
        let good = asking(json!({"processingMode": body("FullDuplexStreamed")}));
        assert_eq!(told(CHECK, &with(good)), [""; 0]);
        let none = "problem: the EnvoyExtensionPolicy p has no processingMode.request";
        assert_eq!(told(CHECK, &with(asking(json!({})))), [none]);
        let heads = asking(json!({"processingMode": {"request": {}}}));
        let found = "problem: the EnvoyExtensionPolicy p sends no body to the picker";
        assert_eq!(told(CHECK, &with(heads)), [found]);
        let hasty = asking(json!({"processingMode": body("Buffered")}));
        let found = "problem: the EnvoyExtensionPolicy p has no messageTimeout";
        assert_eq!(told(CHECK, &with(hasty)), [found]);
    }

    #[test]
    fn failure_modes_that_differ_are_told() {
        let mode = json!({"request": {"body": "Buffered"}});
        let open =
            asking(json!({"processingMode": mode, "failOpen": true, "messageTimeout": "1s"}));
        let found = "problem: the EnvoyExtensionPolicy p fails open, and the pool says FailClose";
        assert_eq!(told(CHECK, &with(open)), [found]);
    }

    #[test]
    fn a_choice_without_effect_is_told() {
        let mode = json!({"request": {"body": "FullDuplexStreamed"}});
        let mut deaf = asking(json!({"processingMode": mode}));
        deaf.traffic_policies = Ok(Some(Vec::new()));
        let found = "problem: no BackendTrafficPolicy has the HTTPRoute chat obey the header x-gateway-destination-endpoint";
        assert_eq!(told(CHECK, &with(deaf)), [found]);
    }
}
