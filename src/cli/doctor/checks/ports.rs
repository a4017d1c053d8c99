//! Whether pods serve on the ports of the pool.

use std::collections::BTreeMap;

use crate::cli::doctor::facts::{Cluster, Facts, declared, name};
use crate::cli::doctor::finding::{Check, Finding, Outcome};

pub(in crate::cli::doctor) const CHECK: Check =
    Check { name: "ports", good: "the ports of the pool are ports of its pods", run };

/// Pods whose containers declare no port are not looked at: a port need not be declared.
fn run(facts: &Facts) -> Outcome {
    let cluster = facts.cluster()?;
    let wanted = cluster.ports();
    if wanted.is_empty() {
        return Err("the ports of the pool are not known");
    }
    let mut alike = BTreeMap::<Vec<u16>, Vec<&str>>::new();
    for pod in Cluster::list(&cluster.pods) {
        alike.entry(declared(pod)).or_default().push(name(pod));
    }
    alike.remove(&Vec::new());
    if alike.is_empty() {
        return Err("no pod that declares a port was read");
    }
    let others = alike
        .into_iter()
        .filter(|(declared, _)| wanted.iter().any(|port| !declared.contains(port)));
    let told = others.map(|(declared, pods)| mismatch(&wanted, &declared, &pods));
    Ok(told.collect())
}

fn mismatch(wanted: &[u16], declared: &[u16], pods: &[&str]) -> Finding {
    let missing: Vec<_> = wanted.iter().copied().filter(|port| !declared.contains(port)).collect();
    let (missing, declared) = (listed(&missing), listed(declared));
    let first = pods.first().copied().unwrap_or_default();
    let pods = match pods.len() {
        1 => format!("the pod {first} declares"),
        count => format!("{count} pods, such as {first}, declare"),
    };
    Finding::problem(
        CHECK,
        format!("the pool's target port {missing} is none that {pods}: {declared}"),
        "requests go to a port on which nobody listens, and the endpoints count as unreachable",
        format!(
            "set the pool's target ports to those of the model servers, or declare containerPort {missing} where it is served"
        ),
    )
}

fn listed(ports: &[u16]) -> String {
    ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::doctor::checks::fixture::{cluster, pod, told, with};

    // FR-066
    #[test]
    fn a_port_that_no_container_has_is_told_once_for_all_pods_alike() {
        assert_eq!(told(CHECK, &with(cluster())), [""; 0]);
        let mut other = cluster();
        let pods = ["a", "b"].map(|name| pod(name, &json!({"app": "llm"}), 8080));
        other.pods = Ok(Some(pods.to_vec()));
        let found =
            "problem: the pool's target port 8000 is none that 2 pods, such as a, declare: 8080";
        assert_eq!(told(CHECK, &with(other.clone())), [found]);
        let mut silent = pod("c", &json!({"app": "llm"}), 8080);
        silent["spec"]["containers"] = json!([{"name": "server"}]);
        other.pods = Ok(Some(vec![silent]));
        let nothing = ["not checked: no pod that declares a port was read"];
        assert_eq!(told(CHECK, &with(other.clone())), nothing);
        other.pods = Err("forbidden".to_owned());
        assert_eq!(told(CHECK, &with(other)), nothing);
    }
}
