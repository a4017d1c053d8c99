//! What objects mean for the pool. Pure.

use std::collections::{BTreeMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use super::follow::Item;
use super::types::pool::{PickerRef, Port};
use super::types::{LegacyPool, Pod, Pool};
use crate::config::{LabelSelector, TargetPorts};
use crate::pool::{EndpointSpec, FailureMode};

use self::leaving::{DRAIN, Word};

pub(super) use self::leaving::{Emptied, Leaving, emptied};

/// The annotation of a pod that says which of its target ports serve, comma separated; the first that is there counts.
const ACTIVE_PORTS: [&str; 2] =
    ["llm-d.ai/active-ports", "inference.networking.k8s.io/active-ports"];

/// Active ports that are kept of a pod; a pool has 8 ports, an annotation can have more than 100,000.
const MOST_ACTIVE: usize = 64;

/// Bytes that hold a label, about.
const LABEL: usize = 64;

/// Characters of an annotation's value that messages show.
const SHOWN: usize = 64;

/// Which endpoints a pool has, and what it says of faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// Selects the pods, as the API server takes it; never empty.
    pub(super) labels: Arc<str>,
    /// One endpoint of a pod for each.
    pub(super) ports: TargetPorts,
    /// None when the pool does not say.
    pub(super) failure_mode: Option<FailureMode>,
}

impl Target {
    /// The pods that a selector selects.
    pub(super) fn new(selector: &LabelSelector, ports: TargetPorts) -> Self {
        Self { labels: selector.to_string().into(), ports, failure_mode: None }
    }
}

/// What a pool says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said {
    /// The pool's UID.
    pub(super) uid: String,
    /// Its members, or why it cannot be served.
    pub(super) target: Result<Target, String>,
}

impl Item for Said {
    const PAGE: u32 = 50;
    const ROOM: usize = 16 << 20;

    fn size(&self) -> usize {
        size_of::<Self>()
    }
}

impl Said {
    fn new(metadata: ObjectMeta, target: impl FnOnce() -> Result<Target, String>) -> Option<Self> {
        let said = || Self { uid: metadata.uid.unwrap_or_default(), target: target() };
        metadata.deletion_timestamp.is_none().then(said)
    }
}

/// What a pool says; none when it is being deleted.
pub(super) fn pool(pool: Pool) -> Option<Said> {
    let spec = pool.spec;
    let target = || {
        let ports: Vec<i64> =
            spec.target_ports.iter().map(|Port { number }| i64::from(*number)).collect();
        target(spec.selector.match_labels, &ports, spec.endpoint_picker_ref.as_ref())
    };
    Said::new(pool.metadata, target)
}

/// The same of a pool v1alpha2.
pub(super) fn legacy_pool(pool: LegacyPool) -> Option<Said> {
    let spec = pool.spec;
    let target = || {
        let port = i64::from(spec.target_port_number);
        target(spec.selector, &[port], spec.extension_ref.as_ref())
    };
    Said::new(pool.metadata, target)
}

fn target(
    labels: BTreeMap<String, String>,
    ports: &[i64],
    picker: Option<&PickerRef>,
) -> Result<Target, String> {
    let selector = LabelSelector::new(labels).map_err(|error| format!("selector: {error}"))?;
    let ports = TargetPorts::new(ports).map_err(|error| format!("target ports: {error}"))?;
    let failure_mode = picker.and_then(|picker| picker.failure_mode.as_deref()?.parse().ok());
    Ok(Target { failure_mode, ..Target::new(&selector, ports) })
}

/// A pod that may be sent requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    name: String,
    namespace: String,
    uid: String,
    ip: IpAddr,
    other_ips: Vec<IpAddr>,
    labels: BTreeMap<String, String>,
    /// The ports that serve; none when all do.
    active: Option<Active>,
    /// Whether it says that it is to drain, and why.
    leaving: Option<Leaving>,
    /// Whether it is ready.
    ready: bool,
    /// Where it runs; empty where that is not said.
    node: Box<str>,
    /// The first [`SHOWN`] characters of an annotation that should say so and says nothing.
    unread: Option<String>,
    /// Seconds since 1970.
    created: i64,
    /// Tells the later of two pods of one second; 0 where versions are no numbers.
    version: u64,
}

impl Item for Member {
    const PAGE: u32 = 500;
    const ROOM: usize = 64 << 20;

    fn size(&self) -> usize {
        let labels = self.labels.iter().map(|(key, value)| LABEL + key.len() + value.len());
        size_of::<Self>()
            + self.node.len()
            + self.other_ips.len() * size_of::<IpAddr>()
            + labels.sum::<usize>()
    }
}

/// The pod as a member; none while it is not ready, has no address or has ended. One that ends stays until it has ended,
/// so that what it still does is known.
///
/// Readiness gates are part of the condition `Ready`, so they count.
pub(super) fn member(pod: Pod) -> Option<Member> {
    let ended = matches!(pod.status.phase.as_deref(), Some("Failed" | "Succeeded"));
    let ending = pod.metadata.deletion_timestamp.is_some();
    if ended || !(pod.has("Ready") || ending) {
        return None;
    }
    let said = pod.annotations().get(DRAIN).map(|text| Word::read(text));
    let unread = match said {
        Some(Word::Unread(text)) => Some(text.chars().take(SHOWN).collect()),
        Some(Word::No | Word::Yes | Word::Until(_)) | None => None,
    };
    let leaving = leaving::leaving(&pod, said);
    let ready = pod.has("Ready");
    let node = pod.spec.node_name.as_deref().unwrap_or_default().into();
    let ip: IpAddr = pod.status.pod_ip.as_deref()?.parse().ok()?;
    let ips = pod.status.pod_ips.iter().filter_map(|other| other.ip.parse().ok());
    let other_ips = ips.filter(|other| *other != ip).collect();
    let active = |key: &'static str| Some(Active::new(key, pod.annotations().get(key)?));
    let active = ACTIVE_PORTS.into_iter().find_map(active);
    let created = pod.metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second());
    let version = pod.resource_version().and_then(|version| version.parse().ok()).unwrap_or(0);
    let (name, namespace) = (pod.name_any(), pod.namespace().unwrap_or_default());
    let (uid, labels) = (pod.uid().unwrap_or_default(), pod.metadata.labels.unwrap_or_default());
    Some(Member {
        name,
        namespace,
        uid,
        ip,
        other_ips,
        labels,
        active,
        leaving,
        ready,
        node,
        unread,
        created,
        version,
    })
}

/// The ports of a pod that serve, as an annotation says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Active {
    annotation: &'static str,
    /// The first [`SHOWN`] characters of what it says.
    value: String,
    /// What is no port is left out, and what comes after [`MOST_ACTIVE`]; nothing left means that none serves.
    ports: Vec<u16>,
}

impl Active {
    fn new(annotation: &'static str, text: &str) -> Self {
        let ports = text.split(',').filter_map(|port| port.trim().parse().ok());
        let ports = ports.take(MOST_ACTIVE).collect();
        Self { annotation, value: text.chars().take(SHOWN).collect(), ports }
    }
}

/// A pod whose annotation names ports and none of the pool's.
pub(super) struct Idle<'a> {
    pub(super) pod: &'a str,
    pub(super) annotation: &'static str,
    /// The first [`SHOWN`] characters.
    pub(super) value: &'a str,
}

/// The endpoints of members: for each target port one, named `<pod>-rank-<index of the port>`.
///
/// Of two at one address the one of the newer pod counts: the older one's address was given away.
pub(super) fn endpoints<'a>(
    members: impl Iterator<Item = &'a Member>,
    ports: &TargetPorts,
) -> Vec<EndpointSpec> {
    let mut members: Vec<_> = members.collect();
    members.sort_by(|a, b| b.youth().cmp(&a.youth()));
    let mut taken = HashSet::with_capacity(members.len() * ports.as_slice().len());
    let mut endpoints = Vec::with_capacity(members.len());
    for member in members {
        for (rank, &port) in ports.as_slice().iter().enumerate() {
            let serves = member.active.as_ref().is_none_or(|active| active.ports.contains(&port));
            let address = SocketAddr::new(member.ip, port);
            if serves && taken.insert(address) {
                endpoints.push(member.endpoint(rank, address));
            }
        }
    }
    endpoints
}

/// The endpoints of one pod of a pool with these ports, and whether it is to drain by what it says itself.
pub fn endpoints_of_pod(pod: Pod, ports: &TargetPorts) -> (Vec<EndpointSpec>, bool) {
    let member = member(pod);
    let drains = member.as_ref().is_some_and(|member| member.leaving(None).is_some());
    (endpoints(member.iter(), ports), drains)
}

impl Member {
    /// Tells when no target port serves although the annotation is not empty, which would be meant.
    pub(super) fn idle(&self, ports: &TargetPorts) -> Option<Idle<'_>> {
        let Active { annotation, value, ports: active } = self.active.as_ref()?;
        let serves = active.iter().any(|port| ports.as_slice().contains(port));
        let idle = !serves && !value.trim().is_empty();
        idle.then_some(Idle { pod: &self.name, annotation, value })
    }

    /// The pod's UID.
    pub(super) fn uid(&self) -> &str {
        &self.uid
    }

    /// The node that it runs on; empty where that is not said.
    pub(super) fn node(&self) -> &str {
        &self.node
    }

    /// Whether it is to drain: by what it says itself, else since its node is emptied.
    pub(super) fn leaving(&self, emptied: Option<Emptied>) -> Option<Leaving> {
        let by_node = |Emptied(reason)| Leaving { reason, until: None, serves: self.ready };
        self.leaving.or_else(|| emptied.map(by_node))
    }

    /// What is wrong with an annotation that should say whether to drain.
    pub(super) fn misread(&self) -> Option<String> {
        let (pod, value) = (&self.name, self.unread.as_ref()?);
        Some(format!(
            "pod {pod}: annotation {DRAIN}={value:?} is neither true, false nor a time such as 2026-01-31T12:00:00Z"
        ))
    }

    /// Greater for a younger pod, and no two are equal.
    fn youth(&self) -> (i64, u64, &str) {
        (self.created, self.version, &self.uid)
    }

    fn endpoint(&self, rank: usize, address: SocketAddr) -> EndpointSpec {
        EndpointSpec {
            name: format!("{}-rank-{rank}", self.name),
            namespace: self.namespace.clone(),
            uid: self.uid.clone(),
            address,
            other_ips: self.other_ips.clone(),
            labels: self.labels.clone(),
        }
    }
}

mod leaving;
#[cfg(test)]
mod tests;
