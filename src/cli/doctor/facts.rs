//! What was gathered, for the checks to judge. Everything is bounded by the lists that were asked for.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::config::{PoolGroup, Problem};

/// An object or a list as the API server shows it; none when it is not there, an error when it may not or cannot be read.
pub(super) type Read<T = Value> = Result<Option<T>, String>;

/// Why a check has nothing to look at, for people.
pub(super) type Reason = &'static str;

/// All that is known.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// The problems of the configuration file; none where there is none.
    pub(super) configuration: Option<Result<Vec<Problem>, String>>,
    /// None where no cluster is asked.
    pub(super) cluster: Option<Cluster>,
    /// Pages of model servers; a part of them where there are many.
    pub(super) pages: Vec<Page>,
    /// The pair that `--cert-path` names; none where the picker makes its own.
    pub(super) certificate: Option<Result<Certificate, String>>,
    /// As the flag says: TLS only, plaintext only, or both.
    pub(super) secure_serving: Option<bool>,
    /// Clocks of others.
    pub(super) clocks: Vec<Clock>,
    /// Seconds since 1970, when this was gathered.
    pub(super) now: i64,
}

/// What the API server says.
#[derive(Clone, Debug)]
pub(super) struct Cluster {
    /// Its address.
    pub(super) server: String,
    /// Why it does not answer; none when it does.
    pub(super) silent: Option<String>,
    /// The namespace of the pool.
    pub(super) namespace: String,
    /// What is served.
    pub(super) wanted: Wanted,
    /// Plural names by group and version; absent is what is not installed.
    pub(super) served: BTreeMap<String, Read<Vec<String>>>,
    /// Whose rights these are, for people.
    pub(super) account: String,
    /// What the picker needs, and whether it may.
    pub(super) rights: Vec<Right>,
    /// The InferencePool.
    pub(super) pool: Read,
    /// Pods that the pool selects.
    pub(super) pods: Read<Vec<Value>>,
    /// Pods of the namespace, some of them.
    pub(super) others: Read<Vec<Value>>,
    /// The Service of the pool's picker, and its `EndpointSlices`.
    pub(super) service: Read,
    pub(super) slices: Read<Vec<Value>>,
    /// `HTTPRoutes` of the namespace, and what gateways add to them.
    pub(super) routes: Read<Vec<Value>>,
    pub(super) extension_policies: Read<Vec<Value>>,
    pub(super) traffic_policies: Read<Vec<Value>>,
    pub(super) destination_rules: Read<Vec<Value>>,
}

/// Which pods are endpoints.
#[derive(Clone, Debug)]
pub(super) enum Wanted {
    /// Those of an InferencePool.
    Pool { name: String, group: PoolGroup },
    /// Those with some labels.
    Selected { labels: String, ports: Vec<u16> },
}

/// Something that the picker asks the API server for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Right {
    /// The API group; empty for that of pods.
    pub(super) group: &'static str,
    /// Plural, with `/status` where that is meant.
    pub(super) resource: &'static str,
    pub(super) verb: &'static str,
    /// The only object that is asked for.
    pub(super) name: Option<String>,
    /// What is off without it.
    pub(super) purpose: &'static str,
    /// Why the API server does not tell, or whether it is allowed.
    pub(super) allowed: Result<bool, String>,
}

/// The metrics page of an endpoint.
#[derive(Clone, Debug)]
pub(super) struct Page {
    /// The pod and the port, or the address.
    pub(super) endpoint: String,
    /// What it told, or why it was not read.
    pub(super) told: Result<Told, String>,
}

/// What a metrics page told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// The engine that its load is told by; none where no known one does.
    pub(super) engine: Option<String>,
    /// Whether prefixes are cached; none where the page does not say.
    pub(super) prefix_caching: Option<bool>,
}

/// A clock that is not ours.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    /// Whose, for people.
    pub(super) whose: String,
    /// How far it is ahead of ours, in seconds; exact to a second or two.
    pub(super) ahead: i64,
}

/// A certificate with its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Certificate {
    /// The directory.
    pub(super) path: String,
    /// Seconds since 1970 between which it is valid.
    pub(super) valid: (i64, i64),
    /// Why it cannot be used with its key; none when it can.
    pub(super) unusable: Option<String>,
}

/// The parts of an InferencePool of either group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PoolParts {
    pub(super) labels: BTreeMap<String, String>,
    pub(super) ports: Vec<u16>,
    /// The picker's Service and its port.
    pub(super) picker: Option<(String, Option<u16>)>,
    pub(super) fail_open: bool,
}

impl Facts {
    /// The cluster, where one is asked and answers.
    ///
    /// # Errors
    /// When there is none to look at; says why.
    pub(super) fn cluster(&self) -> Result<&Cluster, Reason> {
        let cluster = self.cluster.as_ref().ok_or("no cluster is asked")?;
        let silent = cluster.silent.is_some();
        if silent { Err("the API server does not answer") } else { Ok(cluster) }
    }
}

impl PoolParts {
    /// Of v1, or of v1alpha2, which has other names for the same.
    pub(super) fn of(pool: &Value) -> Self {
        let spec = at(pool, "/spec");
        let labels =
            at(spec, "/selector").get("matchLabels").unwrap_or_else(|| at(spec, "/selector"));
        let picker = spec.get("endpointPickerRef").or_else(|| spec.get("extensionRef"));
        let listed = items(at(spec, "/targetPorts")).filter_map(|it| port(at(it, "/number")));
        let named = |picker: &Value| {
            let number =
                port(at(picker, "/port/number")).or_else(|| port(at(picker, "/portNumber")));
            Some((text(at(picker, "/name"))?.to_owned(), number))
        };
        Self {
            labels: labels_of(labels),
            ports: listed.chain(port(at(spec, "/targetPortNumber"))).collect(),
            picker: picker.and_then(named),
            fail_open: picker.is_some_and(|picker| at(picker, "/failureMode") == "FailOpen"),
        }
    }
}

impl Cluster {
    /// The name of the InferencePool and its parts.
    ///
    /// # Errors
    /// When it is not there, or was not read; says why.
    pub(super) fn known_pool(&self) -> Result<(&str, PoolParts), Reason> {
        let Wanted::Pool { name, .. } = &self.wanted else {
            return Err("no InferencePool is named");
        };
        Ok((name, self.pool_parts().ok_or("no InferencePool was read")?))
    }

    /// The Service of the picker that the pool names, and the parts of the pool.
    ///
    /// # Errors
    /// When there is none; says why.
    pub(super) fn picker(&self) -> Result<(String, PoolParts), Reason> {
        let (_, mut pool) = self.known_pool()?;
        let (service, _) = pool.picker.take().ok_or("the InferencePool names no picker")?;
        Ok((service, pool))
    }

    /// The parts of the pool, where it is there and read.
    pub(super) fn pool_parts(&self) -> Option<PoolParts> {
        Some(PoolParts::of(self.pool.as_ref().ok()?.as_ref()?))
    }

    /// The ports on which pods are asked to serve.
    pub(super) fn ports(&self) -> Vec<u16> {
        match &self.wanted {
            Wanted::Pool { .. } => self.pool_parts().map(|pool| pool.ports).unwrap_or_default(),
            Wanted::Selected { ports, .. } => ports.clone(),
        }
    }

    /// What was read of a list; nothing where it was not.
    pub(super) fn list(read: &Read<Vec<Value>>) -> &[Value] {
        read.as_ref().ok().and_then(Option::as_deref).unwrap_or_default()
    }
}

/// What stands at a place of an object, as a JSON pointer names it; null where there is nothing.
pub(super) fn at<'a>(object: &'a Value, place: &str) -> &'a Value {
    static NOTHING: Value = Value::Null;
    object.pointer(place).unwrap_or(&NOTHING)
}

/// The elements of a list; none of what is none.
pub(super) fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// A text that is not empty.
pub(super) fn text(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}

/// The name of an object; empty where it has none.
pub(super) fn name(object: &Value) -> &str {
    text(at(object, "/metadata/name")).unwrap_or_default()
}

fn port(value: &Value) -> Option<u16> {
    value.as_u64().and_then(|port| u16::try_from(port).ok())
}

/// Labels by their keys.
pub(super) fn labels_of(labels: &Value) -> BTreeMap<String, String> {
    let labels = labels.as_object().into_iter().flatten();
    labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// The ports that the containers of a pod say they have.
pub(super) fn declared(pod: &Value) -> Vec<u16> {
    let containers = ["/spec/containers", "/spec/initContainers"].map(|kind| at(pod, kind));
    let ports = containers.into_iter().flat_map(items).flat_map(|it| items(at(it, "/ports")));
    ports.filter_map(|it| port(at(it, "/containerPort"))).collect()
}

/// Whether a pod is ready.
pub(super) fn is_ready(pod: &Value) -> bool {
    items(at(pod, "/status/conditions"))
        .any(|it| at(it, "/type") == "Ready" && at(it, "/status") == "True")
}
