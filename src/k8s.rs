//! Kubernetes: the InferencePool that we pick for, its pods, and the objects that say what requests want.
//!
//! Each kind has a follower (`follow.rs`) that keeps its objects, converted, and never gives up; one task makes endpoints
//! of the pool and its pods (`view.rs`) and tells the pool's queue. What the API server does not answer changes nothing:
//! the last state stays.

use std::fmt::{self, Debug};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::core::Object;
use kube::discovery::ApiResource;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};

use crate::config::{LabelSelector, PoolGroup, TargetPorts};
use crate::pool::Event;
use crate::pool::readiness::Readiness;

pub use self::client::{Access, AccessError};
pub use self::convert::endpoints_of_pod;
pub use self::gauges::Watches;
pub use self::reviews::{Judged, Reviews};

use self::convert::{Emptied, Member, Said, Target};
use self::events::Notice;
use self::follow::{Follower, Labels, Listing, Timing};
use self::judge::{Judge, Kept};
use self::keep::Keeper;
use self::kind::{Kind, Place};
use self::types::{GROUP, LEGACY_GROUP, Node, Pod, resource};
use self::verdict::Verdict;
use self::view::View;

pub mod appraiser;
pub mod events;
pub mod lease;
pub mod objects;
pub mod status;
pub mod types;
pub mod verdict;

mod client;
mod convert;
#[cfg(test)]
mod crds;
mod fault;
mod follow;
mod gauges;
mod judge;
mod keep;
mod kind;
mod reviews;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod view;

/// What is to be followed.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address of the API server, for messages.
    pub server: Arc<str>,
    /// Where all objects are.
    pub namespace: String,
    /// The name of the pool, by which objects refer to it also where there is no InferencePool.
    pub pool: String,
    /// Which pods are endpoints.
    pub members: Members,
    /// Whether pods drain by what is said of their nodes.
    pub nodes: bool,
    /// Time between two looks for a kind that is absent or forbidden.
    pub retry: Duration,
}

/// Which pods are endpoints.
#[derive(Clone, Debug)]
pub enum Members {
    /// Those of the InferencePool in this API group.
    Pool(PoolGroup),
    /// Those with some labels; there is no InferencePool.
    Selected {
        /// Their labels.
        selector: LabelSelector,
        /// Their ports.
        ports: TargetPorts,
    },
}

/// Follows a pool and its pods.
pub struct Source {
    followers: Followers,
    keeper: Keeper,
    judge: Judge,
}

/// Who is told.
#[derive(Clone, Debug)]
pub struct Outlets {
    /// The pool's queue; when it is full, we wait.
    pub events: mpsc::Sender<Event>,
    /// What we lack.
    pub readiness: watch::Sender<Readiness>,
    /// What is to be said of objects.
    pub verdicts: watch::Sender<Arc<[Verdict]>>,
    /// What a person should know of the pool; when it is full, they are lost.
    pub notices: mpsc::Sender<Notice>,
}

impl Source {
    /// A source that asks nothing before it runs.
    pub fn new(client: Client, settings: Settings) -> Self {
        let Settings { server, namespace, pool: name, members, nodes, retry } = settings;
        let mut followers = Followers {
            client,
            place: Place { server, namespace: namespace.into() },
            timing: Timing::new(retry),
            kinds: vec![],
            tasks: vec![],
        };
        let (view, pool, regarding) = match members {
            Members::Pool(group) => {
                let regarding = reference(&pools(group), &followers.place.namespace, &name);
                (
                    View::of_pool(&followers.place.namespace, &name),
                    followers.pool(&name, group),
                    regarding,
                )
            }
            Members::Selected { selector, ports } => {
                let none = watch::channel(Listing::default()).1;
                let view =
                    View::of_selector(&followers.place.namespace, Target::new(&selector, ports));
                (view, none, ObjectReference::default())
            }
        };
        let labels = watch::Sender::default();
        let pods = followers.pods(labels.subscribe());
        let listed = objects::Kind::ALL.map(|kind| (kind, followers.objects(kind)));
        let judge = Judge { pool: name, listed };
        let nodes = if nodes { followers.nodes() } else { watch::channel(Listing::default()).1 };
        let (noticed, endpoints) = (None, 0);
        let keeper = Keeper { view, pool, pods, nodes, labels, regarding, noticed, endpoints };
        Self { followers, keeper, judge }
    }

    /// The metrics of its watches.
    ///
    /// # Errors
    /// When a family is malformed, which a test excludes.
    pub fn watches(&self) -> prometheus::Result<Watches> {
        let Followers { kinds, place, .. } = &self.followers;
        Watches::new(kinds.clone(), &place.namespace, &self.judge.pool)
    }

    /// Tells what it finds, until the pool's queue is gone.
    ///
    /// # Errors
    /// When a task of it panicked.
    pub async fn run(self, outlets: Outlets) -> Result<(), JoinError> {
        let mut tasks = JoinSet::new();
        for follower in self.followers.tasks {
            tasks.spawn(follower);
        }
        tasks.spawn(self.judge.run(outlets.events.clone(), outlets.verdicts.clone()));
        tasks.spawn(self.keeper.run(outlets));
        tasks.join_next().await.unwrap_or(Ok(()))
    }
}

impl Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("keeper", &self.keeper).finish_non_exhaustive()
    }
}

/// How the API server is asked for pools of a group.
fn pools(group: PoolGroup) -> ApiResource {
    let (group, version) = match group {
        PoolGroup::V1 => (GROUP, "v1"),
        PoolGroup::V1Alpha2 => (LEGACY_GROUP, "v1alpha2"),
    };
    resource(group, version, "InferencePool", "inferencepools")
}

/// An object, as an Event has it, still without its UID.
fn reference(resource: &ApiResource, namespace: &str, name: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some(resource.api_version.clone()),
        kind: Some(resource.kind.clone()),
        namespace: Some(namespace.to_owned()),
        name: Some(name.to_owned()),
        ..ObjectReference::default()
    }
}

/// One follower for each kind, not running yet.
struct Followers {
    client: Client,
    place: Place,
    timing: Timing,
    kinds: Vec<Arc<Kind>>,
    tasks: Vec<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Followers {
    fn pool(&mut self, name: &str, group: PoolGroup) -> watch::Receiver<Listing<Said>> {
        let resource = pools(group);
        let kind = self.kind((&resource.group, &resource.plural), Some(name), "the endpoints");
        let only = Some(format!("metadata.name={name}"));
        match group {
            PoolGroup::V1 => self.follow(self.api(&resource), kind, only, (convert::pool, all())),
            PoolGroup::V1Alpha2 => {
                self.follow(self.api(&resource), kind, only, (convert::legacy_pool, all()))
            }
        }
    }

    fn objects(&mut self, of: objects::Kind) -> watch::Receiver<Listing<Kept>> {
        use objects::Kind::{LegacyObjective, LegacyRewrite, Model, Objective, Rewrite};
        let resource = of.resource();
        let purpose = match of {
            Objective | LegacyObjective => "priorities of objectives",
            Rewrite | LegacyRewrite => "model rewrites",
            Model => "priorities and rewrites of models",
        };
        let kind = self.kind((&resource.group, &resource.plural), None, purpose);
        match of {
            Objective | LegacyObjective => {
                let api: Api<types::Objective> = self.api(&resource);
                self.follow(api, kind, None, (judge::kept, all()))
            }
            Rewrite | LegacyRewrite => {
                let api: Api<types::Rewrite> = self.api(&resource);
                self.follow(api, kind, None, (judge::kept, all()))
            }
            Model => {
                let api: Api<types::Model> = self.api(&resource);
                self.follow(api, kind, None, (judge::kept, all()))
            }
        }
    }

    fn api<S, T>(&self, resource: &ApiResource) -> Api<Object<S, T>>
    where
        S: Clone,
        T: Clone,
    {
        Api::namespaced_with(self.client.clone(), &self.place.namespace, resource)
    }

    fn pods(&mut self, labels: Labels) -> watch::Receiver<Listing<Member>> {
        let kind = self.kind(("", "pods"), None, "the endpoints");
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &self.place.namespace);
        self.follow(api, kind, None, (convert::member, labels))
    }

    fn nodes(&mut self) -> watch::Receiver<Listing<Emptied>> {
        let kind = Kind::of_cluster(("", "nodes"), &self.place, "drains by what is said of nodes");
        self.kinds.push(Arc::clone(&kind));
        let api: Api<Node> = Api::all(self.client.clone());
        self.follow(api, kind, None, (convert::emptied, all()))
    }

    fn kind(
        &mut self,
        kind: (&str, &str),
        object: Option<&str>,
        purpose: &'static str,
    ) -> Arc<Kind> {
        let kind = Kind::new(kind, object, &self.place, purpose);
        self.kinds.push(Arc::clone(&kind));
        kind
    }

    fn follow<K, T>(
        &mut self,
        api: Api<K>,
        kind: Arc<Kind>,
        fields: Option<String>,
        (convert, labels): (fn(K) -> Option<T>, Labels),
    ) -> watch::Receiver<Listing<T>>
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        T: follow::Item + Send + Sync + 'static,
    {
        let (listing, listed) = watch::channel(Listing::default());
        let follower = Follower { api, kind, fields, convert, listing, timing: self.timing };
        self.tasks.push(Box::pin(follower.run(labels)));
        listed
    }
}

/// Objects whatever their labels.
fn all() -> Labels {
    watch::channel(Some(Arc::default())).1
}
