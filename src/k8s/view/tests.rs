use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::config::{LabelSelector, TargetPorts};
use crate::k8s::types::Pod;

fn target(labels: &str, ports: &[i64]) -> Target {
    let selector: LabelSelector = labels.parse().unwrap();
    Target::new(&selector, TargetPorts::new(ports).unwrap())
}

fn pool(target: Option<Result<Target, String>>) -> Listing<Said> {
    let said = |target| ("p".to_owned(), Said { uid: "u".to_owned(), target });
    Listing::of("", target.into_iter().map(said))
}

fn member(name: &str, annotations: &serde_json::Value) -> Member {
    let pod = json!({"metadata": {"name": name, "uid": name, "annotations": annotations},
                     "status": {"podIP": format!("10.0.0.{name}"),
                                "conditions": [{"type": "Ready", "status": "True"}]}});
    convert::member(serde_json::from_value::<Pod>(pod).unwrap()).unwrap()
}

fn annotated(name: &str, key: &str, value: &str) -> Member {
    member(name, &json!({key: value}))
}

fn pods(labels: &str, numbers: &[u8]) -> Listing<Member> {
    let item = |n: &u8| (n.to_string(), member(&n.to_string(), &json!({})));
    Listing::of(labels, numbers.iter().map(item))
}

/// A view, and what the pool task knows from it.
struct Bench {
    view: View,
    now: Instant,
    endpoints: Vec<String>,
    missing: Option<String>,
    labels: Option<Arc<str>>,
}

impl Bench {
    fn new() -> Self {
        let view = View::of_pool("prod", "p");
        let (endpoints, missing, labels) = (Vec::new(), None, None);
        Self { view, now: Instant::now(), endpoints, missing, labels }
    }

    fn see(&mut self, pool: &Listing<Said>, pods: &Listing<Member>) -> Outcome {
        self.view.pool(pool, self.now);
        let outcome = self.view.outcome(pool, pods, self.now);
        if let Some(endpoints) = &outcome.endpoints {
            self.endpoints = endpoints.iter().map(|spec| spec.address.to_string()).collect();
            self.endpoints.sort();
        }
        self.missing.clone_from(&outcome.missing);
        self.labels.clone_from(&outcome.labels);
        outcome
    }

    fn missing(&self) -> &str {
        self.missing.as_deref().unwrap_or_default()
    }
}

// FR-112
#[test]
fn what_is_missing_is_said_until_pool_and_pods_are_known() {
    let mut bench = Bench::new();
    let silent = Listing::missing("403 no");
    let outcome = bench.see(&Listing::default(), &Listing::default());
    assert_eq!((bench.missing(), outcome.asking), ("InferencePool prod/p not known yet", true));
    assert!(!bench.see(&silent, &Listing::default()).asking);
    assert_eq!(bench.missing(), "InferencePool prod/p cannot be read: 403 no");
    bench.see(&pool(None), &Listing::default());
    assert_eq!(bench.missing(), "InferencePool prod/p not found");
    let known = pool(Some(Ok(target("app=a", &[80]))));
    let outcome = bench.see(&known, &Listing::default());
    assert_eq!(bench.missing(), "pods with app=a not listed yet");
    assert_eq!((bench.labels.as_deref(), outcome.endpoints), (Some("app=a"), None));
    bench.see(&known, &pods("app=a", &[]));
    assert_eq!(bench.missing, None, "no pods are a list too");
}

#[test]
fn a_new_selector_swaps_the_endpoints_when_its_pods_are_listed() {
    let mut bench = Bench::new();
    bench.see(&pool(Some(Ok(target("app=a", &[80])))), &pods("app=a", &[1]));
    let moved = pool(Some(Ok(target("app=b", &[81]))));
    bench.see(&moved, &pods("app=a", &[1, 2]));
    assert_eq!(bench.endpoints, ["10.0.0.1:80"]);
    assert_eq!((bench.missing(), bench.labels.as_deref()), ("", Some("app=b")));
    bench.see(&moved, &pods("app=b", &[3]));
    assert_eq!(bench.endpoints, ["10.0.0.3:81"]);
}

// FR-103
#[test]
fn the_endpoints_follow_the_ports_at_once() {
    let mut bench = Bench::new();
    let pods = pods("app=a", &[1]);
    for ports in [&[80, 81][..], &[80], &[80, 82]] {
        bench.see(&pool(Some(Ok(target("app=a", ports)))), &pods);
        let expected: Vec<_> = ports.iter().map(|port| format!("10.0.0.1:{port}")).collect();
        assert_eq!(bench.endpoints, expected);
    }
}

#[test]
fn a_deleted_pool_is_served_for_thirty_seconds() {
    let mut bench = Bench::new();
    let (known, listed) = (pool(Some(Ok(target("app=a", &[80])))), pods("app=a", &[1]));
    bench.see(&known, &listed);
    let deleted = bench.now;
    let outcome = bench.see(&pool(None), &listed);
    let warning = "InferencePool prod/p was deleted, it is served for 30s more";
    assert_eq!((bench.missing(), outcome.warning.as_deref()), ("", Some(warning)));
    assert_eq!((bench.endpoints.len(), outcome.again), (1, Some(deleted + GRACE)));
    bench.now += GRACE.saturating_sub(Duration::from_millis(1));
    bench.see(&pool(None), &pods("app=a", &[2]));
    assert_eq!(bench.endpoints, ["10.0.0.2:80"], "its pods are still followed");
    bench.now += Duration::from_millis(1);
    bench.see(&pool(None), &pods("app=a", &[2]));
    assert_eq!((bench.endpoints.len(), bench.labels.as_deref()), (0, None));
    assert_eq!(bench.missing(), "InferencePool prod/p not found");
    bench.see(&known, &Listing::default());
    assert_eq!(bench.missing(), "pods with app=a not listed yet");
    bench.see(&known, &listed);
    assert_eq!((bench.endpoints.len(), bench.missing()), (1, ""));
}

#[test]
fn a_pool_that_comes_back_in_time_is_ready_at_once() {
    let mut bench = Bench::new();
    let (known, listed) = (pool(Some(Ok(target("app=a", &[80])))), pods("app=a", &[1]));
    bench.see(&known, &listed);
    bench.see(&pool(None), &listed);
    bench.now += GRACE / 2;
    let outcome = bench.see(&known, &listed);
    assert_eq!((bench.missing(), outcome.again), ("", None));
    bench.see(&pool(None), &listed);
    bench.now += GRACE.saturating_sub(Duration::from_millis(1));
    bench.see(&pool(None), &listed);
    assert_eq!(bench.endpoints.len(), 1, "the time begins anew with each deletion");
}

#[test]
fn a_pool_that_is_not_valid_says_why_and_does_not_replace_a_valid_one() {
    let mut bench = Bench::new();
    let bad = pool(Some(Err("ports".to_owned())));
    bench.see(&bad, &Listing::default());
    assert_eq!(bench.missing(), "InferencePool prod/p is not valid: ports");
    bench.see(&pool(Some(Ok(target("app=a", &[80])))), &pods("app=a", &[1]));
    let outcome = bench.see(&bad, &pods("app=a", &[1, 2]));
    assert_eq!((bench.missing(), bench.endpoints.len()), ("", 2));
    let warning = "InferencePool prod/p is not valid: ports; the last valid state of it holds";
    assert_eq!(outcome.warning.as_deref(), Some(warning));
}

#[test]
fn pods_that_do_not_serve_are_told_of_once_they_are_listed() {
    let mut bench = Bench::new();
    let known = pool(Some(Ok(target("app=a", &[80]))));
    let mut told = |pods: &Listing<Member>| {
        let warning = bench.see(&known, pods).warning.unwrap_or_default();
        let trouble = bench.view.trouble().map(|it| (it.reason, it.note));
        assert_eq!(trouble.as_ref().map_or("", |(_, note)| note), warning);
        trouble.map(|(reason, _)| (reason, warning))
    };
    assert_eq!(told(&Listing::default()), None);
    let none = "no ready pod matches app=a in namespace prod".to_owned();
    assert_eq!(told(&pods("app=a", &[])), Some(("NoPods", none)));
    assert_eq!(told(&pods("app=a", &[1])), None);
    let key = "llm-d.ai/active-ports";
    let with = |value: &str| {
        let mut pods = pods("app=a", &[1, 2]);
        pods.put("3".to_owned(), Some(annotated("3", key, value)));
        pods
    };
    let idle = format!("pod 3: annotation {key}=\"8080\" names no target port");
    assert_eq!(told(&with("8080")), Some(("NoActivePorts", idle)));
    assert_eq!((told(&with("80")), told(&with(""))), (None, None), "none may be meant");
    assert!(told(&with(&"9".repeat(1000))).is_some_and(|(_, text)| text.len() < 200));
}

#[test]
fn a_selector_needs_no_pool() {
    let mut view = View::of_selector("prod", target("app=a", &[80]));
    let none = Listing::default();
    view.pool(&none, Instant::now());
    assert_eq!(view.outcome(&none, &Listing::default(), Instant::now()).endpoints, None);
    let outcome = view.outcome(&none, &pods("app=a", &[]), Instant::now());
    assert_eq!((outcome.endpoints, outcome.missing), (Some(Vec::new()), None));
    assert!(outcome.warning.is_some());
    assert_eq!(view.trouble(), None, "there is no object to tell it of");
}

#[derive(Clone, Debug)]
enum Step {
    Pool(Option<(bool, bool)>),
    Pods(bool, Vec<u8>),
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        proptest::option::of((any::<bool>(), any::<bool>())).prop_map(Step::Pool),
        (any::<bool>(), proptest::collection::vec(1..9_u8, 0..5))
            .prop_map(|(selector, pods)| Step::Pods(selector, pods)),
        (0..40_u64).prop_map(Step::Wait),
    ];
    proptest::collection::vec(step, 0..30)
}

fn labels(other: bool) -> &'static str {
    if other { "app=b" } else { "app=a" }
}

#[test]
fn a_pool_in_trouble_is_told_of_until_it_is_mended() {
    let mut bench = Bench::new();
    let (known, listed) = (pool(Some(Ok(target("app=a", &[80])))), pods("app=a", &[1]));
    let trouble = |bench: &Bench| bench.view.trouble().map(|it| (it.reason, it.uid));
    bench.see(&known, &listed);
    assert_eq!(trouble(&bench), None);
    bench.see(&pool(Some(Err("ports".to_owned()))), &listed);
    assert_eq!(trouble(&bench), Some(("InvalidPool", "u".to_owned())));
    bench.see(&pool(None), &listed);
    assert_eq!(trouble(&bench), Some(("PoolDeleted", "u".to_owned())));
    bench.see(&known, &listed);
    assert_eq!(trouble(&bench), None);
    assert_eq!(Bench::new().view.trouble(), None, "who waits for a pool is in none");
}

proptest! {
    // FR-078
    #[test]
    fn every_order_of_events_converges_to_the_same_endpoints(steps in steps()) {
        let mut bench = Bench::new();
        let (mut now_pool, mut now_pods) = (Listing::default(), Listing::default());
        for step in steps {
            match step {
                Step::Pool(said) => now_pool = pool(said.map(|(other, valid)| {
                    if valid { Ok(target(labels(other), &[80])) } else { Err("bad".to_owned()) }
                })),
                Step::Pods(other, numbers) => now_pods = pods(labels(other), &numbers),
                Step::Wait(seconds) => bench.now += Duration::from_secs(seconds),
            }
            bench.see(&now_pool, &now_pods);
            prop_assert!(bench.missing.is_none() || now_pool.items().is_empty() || !bench.missing().contains("deleted"));
        }
        bench.see(&pool(Some(Ok(target("app=b", &[80, 81])))), &now_pods);
        bench.see(&pool(Some(Ok(target("app=b", &[80, 81])))), &pods("app=b", &[3, 4]));
        prop_assert_eq!(&bench.missing, &None);
        prop_assert_eq!(
            &bench.endpoints,
            &["10.0.0.3:80", "10.0.0.3:81", "10.0.0.4:80", "10.0.0.4:81"].map(str::to_owned)
        );
    }
}

#[test]
fn pods_leave_with_their_node_unless_most_nodes_are_cordoned() {
    use Reason::{NodeCordoned, NodeRemoved};

    let on = |name: &str, node: &str| {
        let pod = json!({"metadata": {"name": name, "uid": name}, "spec": {"nodeName": node},
                         "status": {"podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}});
        let member = convert::member(serde_json::from_value::<Pod>(pod).unwrap()).unwrap();
        (name.to_owned(), member)
    };
    let pods = Listing::of("app=a", [on("1", "n1"), on("2", "n2"), on("3", "n3"), on("4", "")]);
    let leaving = |nodes: &[(&str, Reason)]| {
        let mut bench = Bench::new();
        let item = |(name, reason): &(&str, Reason)| ((*name).to_owned(), Emptied(*reason));
        bench.view.nodes(&Listing::of("", nodes.iter().map(item)));
        let pool = pool(Some(Ok(target("app=a", &[80]))));
        let leaving = bench.see(&pool, &pods).leaving.into_iter();
        leaving.map(|(uid, why)| format!("{uid} {}", why.reason.name())).collect::<Vec<_>>()
    };
    assert_eq!(leaving(&[]), [""; 0]);
    let two = [("n1", NodeCordoned), ("n2", NodeCordoned)];
    assert_eq!(leaving(&two), ["1 node_cordoned", "2 node_cordoned"]);
    let three = [two[0], two[1], ("n3", NodeCordoned)];
    assert_eq!(leaving(&three), [""; 0], "most of them");
    let removed = [two[0], two[1], ("n3", NodeRemoved)];
    assert_eq!(leaving(&removed).len(), 3);
    assert_eq!(leaving(&["n1", "n2", "n3"].map(|node| (node, NodeRemoved))).len(), 3);
}
