//! Whether a route leads to the pool, and lets answers take their time.

use serde_json::Value;

use crate::cli::doctor::facts::{Cluster, Facts, Wanted, at, items, name, text};
use crate::cli::doctor::finding::{Check, Finding, Outcome};

pub(in crate::cli::doctor) const CHECK: Check =
    Check { name: "routes", good: "the routes to the pool let answers take their time", run };

/// Seconds that an answer may well take.
const LONG: f64 = 300.0;

fn run(facts: &Facts) -> Outcome {
    let cluster = facts.cluster()?;
    let Wanted::Pool { name: pool, .. } = &cluster.wanted else {
        return Err("no InferencePool is named");
    };
    let routes = match &cluster.routes {
        Ok(Some(routes)) => routes,
        // Without the Gateway API there is an Envoy of its own.
        Ok(None) => return Err("HTTPRoutes are not installed"),
        Err(why) => {
            let fix = "let this account list httproutes.gateway.networking.k8s.io";
            return Ok(vec![Finding::unseen(CHECK, "HTTPRoutes", why, fix)]);
        }
    };
    let ours: Vec<_> = routes.iter().filter(|route| concerns(cluster, route, pool)).collect();
    if ours.is_empty() {
        let found = format!("no HTTPRoute of the namespace leads to the InferencePool {pool}");
        let means = "a Gateway sends no request to it, if one is meant to: routes of other namespaces were not read";
        let fix = "apply manifests/overlays for your gateway, or name the pool in the backendRefs of a route";
        return Ok(vec![Finding::problem(CHECK, found, means, fix).noted()]);
    }
    Ok(ours.into_iter().flat_map(|route| judge(route, pool)).collect())
}

/// Whether a route leads to the pool, or asks the picker by a policy of Envoy Gateway.
fn concerns(cluster: &Cluster, route: &Value, pool: &str) -> bool {
    let direct = items(at(route, "/spec/rules")).any(|rule| leads(rule, pool));
    let policies = Cluster::list(&cluster.extension_policies).iter();
    direct || policies.flat_map(targets).any(|target| target == name(route))
}

fn leads(rule: &Value, pool: &str) -> bool {
    items(at(rule, "/backendRefs"))
        .any(|it| at(it, "/kind") == "InferencePool" && at(it, "/name") == pool)
}

/// The routes that a policy is for.
pub(super) fn targets(policy: &Value) -> impl Iterator<Item = &str> {
    let all = items(at(policy, "/spec/targetRefs")).chain(at(policy, "/spec").get("targetRef"));
    all.filter(|target| at(target, "/kind") == "HTTPRoute")
        .filter_map(|target| text(at(target, "/name")))
}

fn judge(route: &Value, pool: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    for rule in items(at(route, "/spec/rules")) {
        let limit = ["request", "backendRequest"].into_iter().find_map(|kind| {
            let written = text(at(rule, &format!("/timeouts/{kind}")))?;
            let seconds = seconds(written)?;
            (seconds > 0.0 && seconds < LONG).then_some((kind, written))
        });
        if let Some((kind, written)) = limit {
            found.push(Finding::problem(
                CHECK,
                format!("the HTTPRoute {} has timeouts.{kind}: {written}", name(route)),
                format!("answers that take longer than {written} are cut, streams in the middle"),
                format!("set timeouts.{kind}: 0s, which is none"),
            ));
        }
        let pools =
            items(at(rule, "/backendRefs")).filter(|it| at(it, "/kind") == "InferencePool").count();
        if pools > 1 && leads(rule, pool) {
            found.push(Finding::problem(
                CHECK,
                format!("a rule of the HTTPRoute {} leads to {pools} InferencePools", name(route)),
                "Istio asks the picker of one pool for all of them",
                "give each pool a rule of its own, or share out models by an InferenceModelRewrite",
            ));
        }
    }
    found
}

/// A duration of the Gateway API: 1h2m3s4ms, in whole numbers.
fn seconds(text: &str) -> Option<f64> {
    let (mut sum, mut rest) = (0.0, text);
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at_checked(digits)?;
        let letters = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, next) = after.split_at_checked(letters)?;
        let size = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 0.001,
            _ => return None,
        };
        sum += number.parse::<f64>().ok()? * size;
        rest = next;
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::doctor::checks::fixture::{cluster, told, with};

    fn routed(rule: &Value) -> Facts {
        let mut cluster = cluster();
        let route = json!({"metadata": {"name": "chat"}, "spec": {"rules": [rule]}});
        cluster.routes = Ok(Some(vec![route]));
        with(cluster)
    }

    #[test]
    fn a_route_that_cuts_answers_is_told() {
        let pool = json!({"kind": "InferencePool", "name": "llm"});
        let rule = |timeout: &str| json!({"backendRefs": [pool], "timeouts": {"request": timeout}});
        assert_eq!(told(CHECK, &routed(&rule("0s"))), [""; 0]);
        assert_eq!(told(CHECK, &routed(&rule("1h"))), [""; 0]);
        let found = "problem: the HTTPRoute chat has timeouts.request: 1m30s";
        assert_eq!(told(CHECK, &routed(&rule("1m30s"))), [found]);
        let two = json!({"backendRefs": [pool, {"kind": "InferencePool", "name": "other"}]});
        let found = "problem: a rule of the HTTPRoute chat leads to 2 InferencePools";
        assert_eq!(told(CHECK, &routed(&two)), [found]);
    }

    #[test]
    fn a_pool_without_a_route_is_noted() {
        let other = json!({"backendRefs": [{"kind": "Service", "name": "llm"}]});
        let found = "note: no HTTPRoute of the namespace leads to the InferencePool llm";
        assert_eq!(told(CHECK, &routed(&other)), [found]);
        let mut closed = cluster();
        closed.routes = Err("forbidden".to_owned());
        assert_eq!(told(CHECK, &with(closed)), ["note: HTTPRoutes cannot be read: forbidden"]);
    }

    #[test]
    fn durations_are_those_of_the_gateway_api() {
        let all = ["0s", "1m30s", "500ms", "2h", "", "5", "1d", "s"].map(seconds);
        let [zero, more, less, hours, empty, bare, day, unit] = all;
        assert_eq!((zero, more, less, hours), (Some(0.0), Some(90.0), Some(0.5), Some(7200.0)));
        assert_eq!((empty, bare, day, unit), (Some(0.0), None, None, None));
    }
}
