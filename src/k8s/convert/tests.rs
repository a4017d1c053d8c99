use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::k8s::types::Pod;

type Change = fn(&mut Value);

fn member_of(change: impl FnOnce(&mut Value)) -> Option<Member> {
    let mut pod = json!({
        "metadata": {"name": "p1", "namespace": "prod", "uid": "u1", "labels": {"app": "llm"}, "annotations": {},
                     "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"nodeName": "n"},
        "status": {"phase": "Running", "podIP": "10.0.0.1",
                   "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
                   "conditions": [{"type": "ContainersReady", "status": "True"}, {"type": "Ready", "status": "True"}]},
    });
    change(&mut pod);
    member(serde_json::from_value::<Pod>(pod).unwrap())
}

fn ports(numbers: &[i64]) -> TargetPorts {
    TargetPorts::new(numbers).unwrap()
}

fn addresses(members: &[Member], numbers: &[i64]) -> Vec<String> {
    let endpoints = endpoints(members.iter(), &ports(numbers));
    let mut all: Vec<_> =
        endpoints.iter().map(|spec| format!("{} {}", spec.name, spec.address)).collect();
    all.sort();
    all
}

#[test]
fn a_ready_pod_has_an_endpoint_for_each_port_with_all_that_is_known_of_it() {
    let member = member_of(|_| ()).unwrap();
    let endpoints = endpoints([&member].into_iter(), &ports(&[8001, 8000]));
    assert_eq!(
        endpoints,
        [(8001, 0), (8000, 1)].map(|(port, rank)| EndpointSpec {
            name: format!("p1-rank-{rank}"),
            namespace: "prod".to_owned(),
            uid: "u1".to_owned(),
            address: ([10, 0, 0, 1], port).into(),
            other_ips: vec!["fd00::1".parse().unwrap()],
            labels: [("app".to_owned(), "llm".to_owned())].into(),
        })
    );
}

// FR-100
#[test]
fn a_pod_that_is_not_ready_has_ended_or_has_no_address_is_no_member() {
    let changes: [(&str, Change); 7] = [
        ("not ready", |pod| pod["status"]["conditions"][1]["status"] = "False".into()),
        ("unknown", |pod| pod["status"]["conditions"][1]["status"] = "Unknown".into()),
        ("no conditions", |pod| pod["status"]["conditions"] = json!([])),
        ("evicted", |pod| pod["status"]["phase"] = "Failed".into()),
        ("done", |pod| pod["status"]["phase"] = "Succeeded".into()),
        ("no address", |pod| pod["status"]["podIP"] = Value::Null),
        ("bad address", |pod| pod["status"]["podIP"] = "none".into()),
    ];
    for (what, change) in changes {
        assert_eq!(member_of(change), None, "{what}");
    }
    assert_eq!(member_of(|pod| pod["status"] = json!({})), None);
}

// FR-109
#[test]
fn a_readiness_gate_that_is_not_met_keeps_a_pod_out() {
    let gated = |met: &str| {
        member_of(|pod| {
            pod["spec"]["readinessGates"] = json!([{"conditionType": "custom.io/serving"}]);
            let conditions = pod["status"]["conditions"].as_array_mut().unwrap();
            conditions[1]["status"] = met.into();
            conditions.push(json!({"type": "custom.io/serving", "status": met}));
        })
    };
    assert!(gated("False").is_none() && gated("True").is_some());
}

#[test]
fn a_pod_says_that_it_is_to_drain_why_and_until_when() {
    let deleted: Change =
        |pod| pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let disrupted: Change = |pod| {
        let conditions = pod["status"]["conditions"].as_array_mut().unwrap();
        conditions.push(json!({"type": "DisruptionTarget", "status": "True"}));
    };
    let unready: Change = |pod| pod["status"]["conditions"][1]["status"] = "False".into();
    let annotated: Change = |pod| pod["metadata"]["annotations"][DRAIN] = "true".into();
    let why = |changes: &[Change]| {
        let member = member_of(|pod| changes.iter().for_each(|change| change(pod)));
        member.unwrap().leaving(None).map(|leaving| (leaving.reason.name(), leaving.serves))
    };
    assert_eq!(why(&[]), None);
    assert_eq!(why(&[deleted]), Some(("pod_deleted", true)));
    assert_eq!(why(&[deleted, unready]), Some(("pod_deleted", false)), "it is known to its end");
    assert_eq!(why(&[disrupted, annotated]), Some(("disruption_target", true)));
    assert_eq!(why(&[annotated, deleted]), Some(("pod_deleted", true)));
    assert_eq!(why(&[annotated]), Some(("annotation", true)));
    assert_eq!(member_of(|pod| [disrupted, unready].iter().for_each(|it| it(pod))), None);
}

#[test]
fn a_node_is_emptied_when_it_is_cordoned_or_about_to_be_removed() {
    let why = |spec: Value| {
        let node = json!({"metadata": {"name": "n"}, "spec": spec, "status": {"images": []}});
        emptied(serde_json::from_value(node).unwrap()).map(|Emptied(reason)| reason.name())
    };
    assert_eq!(why(json!({})), None);
    assert_eq!(why(json!({"taints": [{"key": "gpu", "effect": "NoSchedule"}]})), None);
    assert_eq!(why(json!({"unschedulable": true})), Some("node_cordoned"));
    for key in ["ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted"] {
        let taints = json!([{"key": "gpu"}, {"key": key, "effect": "NoSchedule"}]);
        assert_eq!(why(json!({"taints": taints, "unschedulable": true})), Some("node_removed"));
    }
    let member = member_of(|_| ()).unwrap();
    assert_eq!(member.node(), "n");
    let leaving = member.leaving(Some(Emptied(crate::pool::Reason::NodeCordoned))).unwrap();
    assert_eq!((leaving.reason.name(), leaving.serves), ("node_cordoned", true));
}

#[test]
fn the_annotation_for_a_drain_is_true_false_or_a_time() {
    let said = |text: &str| {
        let member = member_of(|pod| pod["metadata"]["annotations"][DRAIN] = text.into()).unwrap();
        let until = |leaving: Leaving| leaving.until.map(Timestamp::as_second);
        (member.leaving(None).map(until), member.misread())
    };
    for no in ["false", "", " "] {
        assert_eq!(said(no), (None, None), "{no:?}");
    }
    assert_eq!(said(" true "), (Some(None), None));
    for time in ["2026-01-01T00:00:10Z", "2026-01-01T02:00:10+02:00"] {
        assert_eq!(said(time), (Some(Some(1_767_225_610)), None), "{time}");
    }
    let (leaving, misread) = said("soon");
    assert_eq!(leaving, None);
    assert_eq!(
        misread.unwrap(),
        "pod p1: annotation lodesman.dev/drain=\"soon\" is neither true, false nor a time such as 2026-01-31T12:00:00Z"
    );
}

// FR-065
#[test]
fn active_ports_leave_out_the_other_ports_and_keep_the_ranks() {
    let active = |key: &str, text: &str| {
        let member = member_of(|pod| pod["metadata"]["annotations"][key] = text.into()).unwrap();
        addresses(&[member], &[8000, 8001])
    };
    let [new, old] = ACTIVE_PORTS;
    assert_eq!(active(new, " 8001 ,x,9"), ["p1-rank-1 10.0.0.1:8001"]);
    assert_eq!(active(old, "8000"), ["p1-rank-0 10.0.0.1:8000"]);
    assert_eq!(active(new, ""), [""; 0]);
    assert_eq!(active(new, "none,70000"), [""; 0]);
    let both = member_of(|pod| {
        pod["metadata"]["annotations"] = json!({new: "8000", old: "8001"});
    });
    assert_eq!(addresses(&[both.unwrap()], &[8000, 8001]), ["p1-rank-0 10.0.0.1:8000"]);
}

#[test]
fn the_newer_of_two_pods_at_one_address_counts_whatever_their_order() {
    let at = |name: &str, second: &str, version: &str| {
        let member = member_of(|pod| {
            pod["metadata"]["name"] = name.into();
            pod["metadata"]["uid"] = name.into();
            pod["metadata"]["creationTimestamp"] = format!("2026-01-01T00:00:{second}Z").into();
            pod["metadata"]["resourceVersion"] = version.into();
        });
        member.unwrap()
    };
    let old = at("z", "01", "100");
    for new in [at("new", "02", "9"), at("new", "01", "1000")] {
        for order in [[old.clone(), new.clone()], [new, old.clone()]] {
            assert_eq!(addresses(&order, &[8000]), ["new-rank-0 10.0.0.1:8000"]);
        }
    }
}

#[test]
fn pods_on_the_network_of_one_host_differ_by_port() {
    let on = |name: &str, port: &str| {
        let member = member_of(|pod| {
            pod["metadata"]["name"] = name.into();
            pod["metadata"]["annotations"]["llm-d.ai/active-ports"] = port.into();
        });
        member.unwrap()
    };
    assert_eq!(
        addresses(&[on("a", "8000"), on("b", "8001")], &[8000, 8001]),
        ["a-rank-0 10.0.0.1:8000", "b-rank-1 10.0.0.1:8001"]
    );
}

fn read<T: serde::de::DeserializeOwned>(spec: &Value, metadata: &Value) -> T {
    let mut metadata = metadata.clone();
    metadata["name"] = "p".into();
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

#[test]
fn both_versions_of_a_pool_say_the_same() {
    let v1 = json!({"selector": {"matchLabels": {"app": "llm"}}, "targetPorts": [{"number": 8000}],
                    "endpointPickerRef": {"name": "epp", "failureMode": "FailOpen"}, "later": {}});
    let v1alpha2 = json!({"selector": {"app": "llm"}, "targetPortNumber": 8000,
                          "extensionRef": {"name": "epp", "failureMode": "FailOpen"}});
    let target = pool(read(&v1, &json!({}))).unwrap().target.unwrap();
    assert_eq!(legacy_pool(read(&v1alpha2, &json!({}))).unwrap().target.unwrap(), target);
    assert_eq!(&*target.labels, "app=llm");
    assert_eq!(target.ports.as_slice(), [8000]);
    assert_eq!(target.failure_mode, Some(FailureMode::FailOpen));
}

#[test]
fn what_a_pool_does_not_say_or_says_in_words_of_later_is_none() {
    let mut spec =
        json!({"selector": {"matchLabels": {"app": "llm"}}, "targetPorts": [{"number": 1}]});
    let mode = |spec: &Value| pool(read(spec, &json!({}))).unwrap().target.unwrap().failure_mode;
    assert_eq!(mode(&spec), None);
    spec["endpointPickerRef"] = json!({"name": "epp", "failureMode": "FailSoft"});
    assert_eq!(mode(&spec), None);
}

#[test]
fn a_pool_that_cannot_be_served_says_why_and_one_that_ends_is_none() {
    let good = json!({"selector": {"matchLabels": {"app": "llm"}}, "targetPorts": [{"number": 1}]});
    let problem = |field: &str, value: Value| {
        let mut spec = good.clone();
        spec[field] = value;
        pool(read(&spec, &json!({}))).unwrap().target.unwrap_err()
    };
    let labels = |labels: Value| problem("selector", json!({"matchLabels": labels}));
    assert_eq!(labels(json!({"a b": "c"})), "selector: \"a b\" is no key of a label");
    assert_eq!(labels(json!({})), "selector: a selector needs a label at least");
    assert_eq!(problem("targetPorts", json!([])), "target ports: 0 ports, give 1 to 8");
    let port = problem("targetPorts", json!([{"number": 0}]));
    assert_eq!(port, "target ports: \"0\" is no port, give 1 to 65535");
    let ending = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
    assert_eq!(pool(read(&good, &ending)), None);
}
