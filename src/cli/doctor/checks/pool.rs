//! Whether the pool is there and selects pods that are ready.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::cli::doctor::facts::{Cluster, Facts, Wanted, at, is_ready, labels_of};
use crate::cli::doctor::finding::{Check, Finding, Outcome};

pub(in crate::cli::doctor) const CHECK: Check =
    Check { name: "pool", good: "the pool selects pods that are ready", run };

/// Values of a label that are shown.
const SHOWN: usize = 5;

fn run(facts: &Facts) -> Outcome {
    let cluster = facts.cluster()?;
    let absent = match (&cluster.wanted, &cluster.pool) {
        (Wanted::Pool { name, .. }, Ok(None)) => Some(absent(cluster, name)),
        (Wanted::Pool { name, .. }, Err(why)) => {
            let fix = "see the findings on rights";
            Some(Finding::unseen(CHECK, &format!("the InferencePool {name}"), why, fix))
        }
        _ => None,
    };
    Ok(absent.or_else(|| members(cluster)).into_iter().collect())
}

fn absent(cluster: &Cluster, name: &str) -> Finding {
    let namespace = &cluster.namespace;
    Finding::problem(
        CHECK,
        format!("there is no InferencePool {name:?} in the namespace {namespace}"),
        "the picker is not ready, and the gateway refuses requests or goes on without it, as it is told to",
        "make one (manifests/base/pool.yaml), or mend --pool-name and --pool-namespace",
    )
}

fn members(cluster: &Cluster) -> Option<Finding> {
    let pods = match &cluster.pods {
        Ok(pods) => pods.as_deref().unwrap_or_default(),
        Err(why) => return Some(Finding::unseen(CHECK, "pods", why, "see the findings on rights")),
    };
    let (labels, of) = selector(cluster);
    if pods.is_empty() {
        return Some(Finding::problem(
            CHECK,
            format!("{of} selects no pod: none has {labels}"),
            "there are no endpoints: every request is refused with 503",
            fix(cluster),
        ));
    }
    let ready = pods.iter().filter(|pod| is_ready(pod)).count();
    (ready == 0).then(|| {
        let count = pods.len();
        Finding::problem(
            CHECK,
            format!("none of the {count} pods that {of} selects is ready"),
            "there are no endpoints: every request is refused with 503",
            "see kubectl describe pod; a model server is ready when its model is loaded",
        )
    })
}

/// Which labels are selected, and by what.
fn selector(cluster: &Cluster) -> (String, String) {
    match &cluster.wanted {
        Wanted::Pool { name, .. } => {
            let labels = cluster.pool_parts().map(|pool| pool.labels).unwrap_or_default();
            let labels: Vec<_> =
                labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
            (labels.join(","), format!("the InferencePool {name}"))
        }
        Wanted::Selected { labels, .. } => (labels.clone(), "--endpoint-selector".to_owned()),
    }
}

/// What pods have in place of the labels that are selected.
fn fix(cluster: &Cluster) -> String {
    let wanted = cluster.pool_parts().map(|pool| pool.labels).unwrap_or_default();
    let others: Vec<_> = Cluster::list(&cluster.others)
        .iter()
        .map(|pod: &Value| labels_of(at(pod, "/metadata/labels")))
        .collect();
    let values = |key: &String| {
        let mut values = BTreeMap::<&str, usize>::new();
        for value in others.iter().filter_map(|labels| labels.get(key)) {
            *values.entry(value).or_default() += 1;
        }
        let values = values.into_iter().take(SHOWN);
        let values: Vec<_> =
            values.map(|(value, count)| format!("{key}={value} ({count})")).collect();
        (!values.is_empty()).then(|| values.join(", "))
    };
    let near: Vec<_> = wanted.keys().filter_map(values).collect();
    match (near.is_empty(), others.len()) {
        (false, _) => {
            format!("mend the selector or the labels of the pods; there are {}", near.join("; "))
        }
        (true, 0) => "start the model servers in this namespace, with these labels".to_owned(),
        (true, count) => format!(
            "mend the selector or label the pods; the namespace has {count} pods without such a label"
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::doctor::checks::fixture::{cluster, pod, told, with};

    #[test]
    fn a_pool_that_is_not_there_is_told() {
        assert_eq!(told(CHECK, &with(cluster())), [""; 0]);
        let mut none = cluster();
        none.pool = Ok(None);
        let found = "problem: there is no InferencePool \"llm\" in the namespace prod";
        assert_eq!(told(CHECK, &with(none)), [found]);
    }

    #[test]
    fn a_selector_that_matches_nothing_is_told_with_what_there_is() {
        let mut empty = cluster();
        empty.pods = Ok(Some(Vec::new()));
        empty.others = Ok(Some(vec![
            pod("a", &json!({"app": "vllm"}), 8000),
            pod("b", &json!({"x": "y"}), 1),
        ]));
        let findings = (CHECK.run)(&with(empty)).unwrap();
        assert_eq!(findings[0].found, "the InferencePool llm selects no pod: none has app=llm");
        assert!(findings[0].fix.ends_with("there are app=vllm (1)"), "{}", findings[0].fix);
    }

    #[test]
    fn pods_of_which_none_is_ready_are_told() {
        let mut starting = cluster();
        let mut pod = pod("a", &json!({"app": "llm"}), 8000);
        pod["status"]["conditions"] = json!([{"type": "Ready", "status": "False"}]);
        starting.pods = Ok(Some(vec![pod]));
        let found = "problem: none of the 1 pods that the InferencePool llm selects is ready";
        assert_eq!(told(CHECK, &with(starting)), [found]);
    }
}
