//! Texts that people and other programs write: no panic, and what is read makes sense.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, LazyLock};

use lodesman::config::{self, Address, Engines, Severity, TargetPorts};
use lodesman::discovery;
use lodesman::k8s::endpoints_of_pod;
use lodesman::k8s::types::Pod;
use lodesman::pool::Sample;
use lodesman::schedule::registry::PLUGINS;
use lodesman::scrape::exposition::Scan;
use lodesman::scrape::{Dialect, Dialects};

use super::Dice;

/// What is read where no label and no configuration says the engine: all engines' metrics.
static DIALECT: LazyLock<Arc<Dialect>> =
    LazyLock::new(|| Arc::clone(Dialects::new(&Engines::default()).dialect(None)));

/// A metrics page: cut anywhere it says the same, and only what can be counted.
pub(crate) fn exposition(data: &[u8]) {
    let (first, second) = Dice(data).halves();
    let read = |pieces: &[&[u8]]| {
        let mut scan = Scan::new(&DIALECT);
        for piece in pieces {
            scan.feed(piece);
        }
        scan.finish()
    };
    let whole = read(&[&[first, second].concat()]);
    assert_eq!(read(&[first, second]), whole, "cuts mean nothing");
    let Some((_, Sample { waiting, running, kv_usage, block_size, blocks, .. })) = whole else {
        return;
    };
    assert!(block_size != Some(0) && blocks != Some(0));
    for value in [waiting, running, kv_usage].into_iter().flatten() {
        assert!(value >= 0.0 && value.is_finite(), "{value}");
    }
}

/// A configuration: it is resolved, or there is an error that says why.
pub(crate) fn configuration(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let errors = |problems: &[config::Problem]| {
        problems.iter().filter(|problem| problem.severity == Severity::Error).count()
    };
    match config::load(Some(text), &[PLUGINS]) {
        Ok(resolved) => assert_eq!(errors(&resolved.warnings), 0),
        Err(problems) => assert!(errors(&problems) > 0),
    }
}

/// A file of endpoints: each is listed once, with a port.
pub(crate) fn file_discovery(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(listing) = discovery::parse(text) else { return };
    let (mut names, mut addresses) = (HashSet::new(), HashSet::new());
    for member in &listing.members {
        assert!(names.insert((&member.namespace, &member.name)), "{}", member.name);
        assert!(addresses.insert(&member.address), "{}", member.address);
        if let Address::Ip(address) = member.address {
            assert_ne!(address.port(), 0);
        }
    }
}

/// A ready pod with lines of the bytes as what its annotations say: its endpoints are at ports of the pool, each once and
/// with its rank, at no port but those that it names, and only a word that can be read drains it.
pub(crate) fn pod_annotations(data: &[u8]) {
    const PORTS: [i64; 3] = [8000, 8001, 8002];
    const ACTIVE: [&str; 2] = ["llm-d.ai/active-ports", "inference.networking.k8s.io/active-ports"];
    const DRAIN: &str = "lodesman.dev/drain";
    let text = String::from_utf8_lossy(data);
    let names = [DRAIN].into_iter().chain(ACTIVE);
    let annotations: BTreeMap<&str, &str> = names.zip(text.split('\n')).collect();
    let pod: Pod = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "p", "annotations": annotations},
        "status": {"podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]},
    }))
    .expect("a pod");
    let ports = TargetPorts::new(&PORTS).expect("ports");
    let (endpoints, drains) = endpoints_of_pod(pod, &ports);
    let active = ACTIVE.iter().find_map(|name| annotations.get(name));
    let serves_at =
        |port: &str| active.is_none_or(|text| text.split(',').any(|it| it.trim() == port));
    let mut taken = HashSet::new();
    for endpoint in &endpoints {
        let port = endpoint.address.port();
        let rank = PORTS.iter().position(|it| *it == i64::from(port)).expect("a port of the pool");
        assert_eq!(endpoint.name, format!("p-rank-{rank}"));
        assert!(taken.insert(port), "{port} twice");
    }
    for port in PORTS {
        let (serves, digits) =
            (taken.contains(&u16::try_from(port).expect("a port")), port.to_string());
        // Of a text that is very long only the beginning counts.
        assert!(serves || !serves_at(&digits) || active.is_some_and(|text| text.len() > 128));
        assert!(!serves || active.is_none_or(|text| text.contains(&digits)));
    }
    let word = annotations[DRAIN].trim();
    let time = word.chars().any(|character| character.is_ascii_digit());
    assert!(!drains || word == "true" || time, "{word:?}");
}
