//! Whether a gateway finds the picker: the Service that the pool names.

use serde_json::Value;

use crate::cli::doctor::facts::{Cluster, Facts, at, items};
use crate::cli::doctor::finding::{Check, Finding, Outcome};

pub(in crate::cli::doctor) const CHECK: Check = Check {
    name: "picker-service",
    good: "the Service of the picker has replicas that are ready",
    run,
};

fn run(facts: &Facts) -> Outcome {
    let cluster = facts.cluster()?;
    let (name, pool) = cluster.known_pool()?;
    let Some((service, port)) = pool.picker else {
        let found = format!("the InferencePool {name} names no picker (endpointPickerRef)");
        let means = "a gateway that reads the pool asks nobody";
        let fix = "name the Service of Lodesman and its port, 9002";
        return Ok(vec![Finding::problem(CHECK, found, means, fix)]);
    };
    Ok(match &cluster.service {
        Err(why) => {
            let fix = "let this account get services and endpointslices";
            vec![Finding::unseen(CHECK, &format!("the Service {service}"), why, fix)]
        }
        Ok(None) => vec![Finding::problem(
            CHECK,
            format!(
                "the InferencePool {name} names the picker's Service {service:?}, which is not there"
            ),
            "a gateway that reads the pool cannot ask the picker",
            "make it (manifests/base/service.yaml), or mend endpointPickerRef",
        )],
        Ok(Some(found)) => {
            let wrong = port.and_then(|port| port_of(found, &service, port));
            wrong.into_iter().chain(replicas(cluster, &service)).collect()
        }
    })
}

fn port_of(service: &Value, name: &str, wanted: u16) -> Option<Finding> {
    let ports: Vec<_> =
        items(at(service, "/spec/ports")).filter_map(|port| at(port, "/port").as_u64()).collect();
    let found = ports.contains(&u64::from(wanted));
    (!found).then(|| {
        let ports: Vec<_> = ports.iter().map(u64::to_string).collect();
        Finding::problem(
            CHECK,
            format!(
                "endpointPickerRef names port {wanted}, and the Service {name} has {}",
                ports.join(", ")
            ),
            "a gateway that reads the pool cannot ask the picker",
            format!("add the port {wanted} to the Service, or mend endpointPickerRef"),
        )
    })
}

/// Replicas of the picker that are ready.
fn replicas(cluster: &Cluster, service: &str) -> Option<Finding> {
    let slices = match &cluster.slices {
        Ok(slices) => slices.as_deref().unwrap_or_default(),
        Err(why) => {
            let fix = "let this account list endpointslices";
            return Some(Finding::unseen(CHECK, "EndpointSlices of the picker", why, fix));
        }
    };
    let endpoints = || slices.iter().flat_map(|slice| items(at(slice, "/endpoints")));
    // A condition that is absent is to be taken as true.
    let ready = endpoints().any(|it| at(it, "/conditions/ready").as_bool() != Some(false));
    (!ready).then(|| {
        let found = match endpoints().count() {
            0 => format!("the Service {service} selects no pod"),
            count => format!("none of the {count} replicas behind the Service {service} is ready"),
        };
        Finding::problem(
            CHECK,
            found,
            "no picker is asked: the gateway refuses requests, or spreads them by itself where it may",
            "see /readyz?verbose on the metrics port of a replica, and the labels of the Deployment",
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::doctor::checks::fixture::{cluster, told, with};

    #[test]
    fn a_service_that_is_not_there_or_has_another_port_is_told() {
        assert_eq!(told(CHECK, &with(cluster())), [""; 0]);
        let mut none = cluster();
        none.service = Ok(None);
        let found = "problem: the InferencePool llm names the picker's Service \"lodesman\", which is not there";
        assert_eq!(told(CHECK, &with(none)), [found]);
        let mut other = cluster();
        other.service = Ok(Some(json!({"spec": {"ports": [{"port": 9003}]}})));
        let found = "problem: endpointPickerRef names port 9002, and the Service lodesman has 9003";
        assert_eq!(told(CHECK, &with(other)), [found]);
    }

    #[test]
    fn a_service_without_a_ready_replica_is_told() {
        let mut down = cluster();
        down.slices = Ok(Some(vec![json!({"endpoints": [{"conditions": {"ready": false}}]})]));
        let found = "problem: none of the 1 replicas behind the Service lodesman is ready";
        assert_eq!(told(CHECK, &with(down.clone())), [found]);
        down.slices = Ok(Some(Vec::new()));
        assert_eq!(told(CHECK, &with(down)), ["problem: the Service lodesman selects no pod"]);
    }

    #[test]
    fn a_pool_that_names_no_picker_is_told() {
        let mut mute = cluster();
        mute.pool = Ok(Some(json!({"spec": {"selector": {"matchLabels": {"app": "llm"}}}})));
        let found = "problem: the InferencePool llm names no picker (endpointPickerRef)";
        assert_eq!(told(CHECK, &with(mute)), [found]);
    }
}
