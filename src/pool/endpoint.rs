//! One place a request can be sent to, and how it is named inside the process.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;

use crate::pool::Live;

/// Index of an endpoint in all columns of a snapshot, stable while the endpoint lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(pub(in crate::pool) u16);

impl Slot {
    /// Position in a column.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Names an endpoint beyond the reuse of its slot: two endpoints that had the same slot differ in `epoch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EndpointId {
    /// Where its columns are.
    pub slot: Slot,
    /// Counts the endpoints that the pool has ever had.
    pub epoch: u64,
}

/// An endpoint as its source describes it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct EndpointSpec {
    /// Unique in the pool; a pod's name with `-rank-<n>` in Kubernetes, the configured name otherwise.
    pub name: String,
    /// Namespace of the pod; `default` outside Kubernetes.
    pub namespace: String,
    /// Tells a pod from a later one of the same name and address; empty where there are no pods.
    pub uid: String,
    /// Where requests go, and where the metrics page is read.
    pub address: SocketAddr,
    /// Other addresses of the host, by which a gateway may name it too: those of the other IP family.
    pub other_ips: Vec<IpAddr>,
    /// Labels that filters and dialects look at.
    pub labels: BTreeMap<String, String>,
}

impl EndpointSpec {
    /// Whether both are the same server: what is known of one holds for the other.
    pub fn same(&self, other: &Self) -> bool {
        let Self { name, namespace, uid, address, other_ips: _, labels: _ } = self;
        (name, namespace, uid, address)
            == (&other.name, &other.namespace, &other.uid, &other.address)
    }

    /// Whether this is the endpoint of that name, or one of the pod of that name.
    pub fn is_of(&self, name: &str) -> bool {
        self.name == name || self.pod() == Some(name)
    }

    /// The name of its pod; none where there are no pods.
    pub fn pod(&self) -> Option<&str> {
        let (pod, rank) = self.name.rsplit_once("-rank-")?;
        let number = !rank.is_empty() && rank.bytes().all(|byte| byte.is_ascii_digit());
        (!self.uid.is_empty() && number).then_some(pod)
    }
}

/// An endpoint of the pool with what is fixed while it lives.
#[derive(Debug)]
pub struct Endpoint {
    /// Its name inside the process.
    pub id: EndpointId,
    /// What its source says.
    pub spec: EndpointSpec,
    /// `ip:port`, IPv6 in brackets: the value of the destination header.
    pub destination: Bytes,
    /// What this process has in flight on it.
    pub live: Arc<Live>,
}

impl Endpoint {
    pub(in crate::pool) fn new(id: EndpointId, spec: EndpointSpec, live: Arc<Live>) -> Self {
        let destination = Bytes::from(spec.address.to_string());
        Self { id, spec, destination, live }
    }
}
