//! Whether gateway and picker mean the same by TLS: the `DestinationRules` of Istio.

use serde_json::Value;

use crate::cli::doctor::facts::{Facts, at, name, text};
use crate::cli::doctor::finding::{Check, Finding, Outcome};

pub(in crate::cli::doctor) const CHECK: Check =
    Check { name: "gateway-tls", good: "no rule for the picker's TLS contradicts it", run };

fn run(facts: &Facts) -> Outcome {
    let cluster = facts.cluster()?;
    let (service, _) = cluster.picker()?;
    let rules = match &cluster.destination_rules {
        Ok(Some(rules)) => rules,
        Ok(None) => return Err("DestinationRules are not installed"),
        Err(why) => {
            let fix = "let this account list destinationrules.networking.istio.io";
            return Ok(vec![Finding::unseen(CHECK, "DestinationRules", why, fix)]);
        }
    };
    let ours = rules.iter().filter(|rule| is_host(at(rule, "/spec/host"), &service));
    Ok(ours.flat_map(|rule| judge(rule, facts)).collect())
}

/// Whether a rule is for a Service, by its short name or by a longer one.
fn is_host(host: &Value, service: &str) -> bool {
    let host = text(host).unwrap_or_default();
    host == service || host.strip_prefix(service).is_some_and(|rest| rest.starts_with('.'))
}

fn judge(rule: &Value, facts: &Facts) -> Vec<Finding> {
    let tls = at(rule, "/spec/trafficPolicy/tls");
    let rule = format!("the DestinationRule {}", name(rule));
    let refused = "no handshake with the picker succeeds: the gateway refuses requests, or goes on without it";
    let mode = text(at(tls, "/mode")).unwrap_or("DISABLE");
    let own = facts.certificate.is_none();
    let mut found = Vec::new();
    let mut add = |what: String, fix: &str| found.push(Finding::problem(CHECK, what, refused, fix));
    match (mode, facts.secure_serving) {
        ("SIMPLE" | "MUTUAL", Some(false)) => add(
            format!("{rule} has the gateway speak TLS, and the picker serves plaintext only"),
            "leave out --secure-serving=false: one port then takes both",
        ),
        ("DISABLE", Some(true)) => add(
            format!("{rule} has the gateway speak plaintext, and the picker serves TLS only"),
            "leave out --secure-serving: one port then takes both; or set tls.mode: SIMPLE",
        ),
        ("SIMPLE", _) => {
            if own && at(tls, "/insecureSkipVerify").as_bool() != Some(true) {
                add(
                    format!("{rule} verifies the picker's certificate, which it made itself"),
                    "set tls.insecureSkipVerify: true, or give the picker a certificate by --cert-path",
                );
            }
            if text(at(tls, "/sni")).is_none() {
                add(
                    format!(
                        "{rule} names no sni, and Istio's own name for the picker is no host name"
                    ),
                    "set tls.sni to the name of the picker's Service",
                );
            }
        }
        _ => {}
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::doctor::checks::fixture::{cluster, told, with};

    fn rule(tls: &Value) -> Facts {
        let mut cluster = cluster();
        let rule = json!({"metadata": {"name": "r"}, "spec": {"host": "lodesman.prod.svc", "trafficPolicy": {"tls": tls}}});
        cluster.destination_rules = Ok(Some(vec![rule]));
        with(cluster)
    }

    #[test]
    fn a_rule_that_no_handshake_survives_is_told() {
        let good = json!({"mode": "SIMPLE", "insecureSkipVerify": true, "sni": "lodesman"});
        assert_eq!(told(CHECK, &rule(&good)), [""; 0]);
        assert_eq!(
            told(CHECK, &rule(&json!({"mode": "SIMPLE"}))),
            [
                "problem: the DestinationRule r verifies the picker's certificate, which it made itself",
                "problem: the DestinationRule r names no sni, and Istio's own name for the picker is no host name",
            ]
        );
        let plain = Facts { secure_serving: Some(false), ..rule(&good) };
        let found = "problem: the DestinationRule r has the gateway speak TLS, and the picker serves plaintext only";
        assert_eq!(told(CHECK, &plain), [found]);
        let tls_only = Facts { secure_serving: Some(true), ..rule(&Value::Null) };
        let found = "problem: the DestinationRule r has the gateway speak plaintext, and the picker serves TLS only";
        assert_eq!(told(CHECK, &tls_only), [found]);
    }

    #[test]
    fn rules_of_others_are_not_ours() {
        let mut cluster = cluster();
        let rule = json!({"metadata": {"name": "r"}, "spec": {"host": "lodesman-two", "trafficPolicy": {"tls": {"mode": "SIMPLE"}}}});
        cluster.destination_rules = Ok(Some(vec![rule]));
        assert_eq!(told(CHECK, &with(cluster)), [""; 0]);
    }
}
