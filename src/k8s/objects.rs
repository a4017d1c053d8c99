//! Objectives, rewrites and models: what is known of them, what they mean for requests, and what is to be said of each.
//!
//! An object counts when its `poolRef` has the pool's name and means an InferencePool. Its group does not decide: the API
//! server fills in a default that differs from kind to kind, so it says little of what the author meant, and as in the
//! reference the name counts.
//!
//! Of two objects that want the same, the older one prevails, then the first by name, then that of `llm-d.ai`. Objectives
//! are known by their name alone, so there `llm-d.ai` prevails at any age.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;
use kube::core::Object;
use kube::discovery::ApiResource;

use crate::pool::Routes;

use self::targets::{Weighted, weighted};
use super::types::{self, GROUP, LEGACY_GROUP, LLM_D_GROUP};
use super::types::{ModelSpec, ObjectiveSpec, PoolRef, RewriteSpec, Status};
use super::verdict::{Findings, Verdict};

mod models;
mod objectives;
mod rewrites;
mod targets;

/// The kind of pools that can be meant.
const POOL: &str = "InferencePool";

/// What objects mean together for the pool of this name, the same in whatever order they come; no two of them have kind
/// and name in common.
pub fn judged<'a>(pool: &str, objects: impl IntoIterator<Item = (Kind, &'a Entry)>) -> Judged {
    let ours = objects.into_iter().filter(|(_, entry)| means(&entry.pool, pool));
    let mut ours: Vec<_> = ours.map(|(kind, entry)| Ours { kind, entry }).collect();
    ours.sort_by_key(Ours::seniority);
    let mut judged = Judged::default();
    objectives::judge(&ours, &mut judged);
    let owners = rewrites::judge(&ours, &mut judged);
    models::judge(&ours, &owners, &mut judged);
    judged
}

/// What the objects of a pool mean.
#[derive(Clone, Debug, Default)]
pub struct Judged {
    /// For requests.
    pub routes: Routes,
    /// For the authors: one for each object of the pool.
    pub verdicts: Vec<Verdict>,
}

/// A kind of objects in one group, the one that prevails first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// InferenceObjective of `llm-d.ai`.
    Objective,
    /// InferenceObjective of `inference.networking.x-k8s.io`.
    LegacyObjective,
    /// InferenceModelRewrite of `llm-d.ai`.
    Rewrite,
    /// InferenceModelRewrite of `inference.networking.x-k8s.io`.
    LegacyRewrite,
    /// InferenceModel of `inference.networking.x-k8s.io`.
    Model,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Objective, Self::LegacyObjective, Self::Rewrite, Self::LegacyRewrite, Self::Model];

    /// How the API server is asked for it.
    pub fn resource(self) -> ApiResource {
        let (kind, plural) = match self {
            Self::Objective | Self::LegacyObjective => {
                ("InferenceObjective", "inferenceobjectives")
            }
            Self::Rewrite | Self::LegacyRewrite => {
                ("InferenceModelRewrite", "inferencemodelrewrites")
            }
            Self::Model => ("InferenceModel", "inferencemodels"),
        };
        types::resource(self.group(), "v1alpha2", kind, plural)
    }

    /// Its name as `kubectl get` takes it, plural and group.
    pub fn full_name(self) -> String {
        format!("{}.{}", self.resource().plural, self.group())
    }

    fn group(self) -> &'static str {
        match self {
            Self::Objective | Self::Rewrite => LLM_D_GROUP,
            Self::LegacyObjective | Self::LegacyRewrite | Self::Model => LEGACY_GROUP,
        }
    }
}

/// What is kept of an object.
#[derive(Clone, Debug)]
pub struct Entry {
    pub(super) name: Box<str>,
    pub(super) uid: Box<str>,
    /// Changes with every write, also of the status.
    pub(super) version: Box<str>,
    /// Changes with the spec.
    pub(super) generation: Option<i64>,
    created: Option<Timestamp>,
    pool: PoolRef,
    spec: Spec,
    /// The conditions that it has, of whoever wrote them.
    pub(super) present: Box<[Condition]>,
}

/// What an object wants.
#[derive(Clone, Debug)]
pub enum Spec {
    /// A priority.
    Objective(ObjectiveSpec),
    /// Other models.
    Rewrite(RewriteSpec),
    /// A priority and other models.
    Model(ModelSpec),
}

impl Entry {
    /// The bytes that it takes, about.
    pub(super) fn size(&self) -> usize {
        let conditions = self.present.iter().map(|condition| {
            let texts =
                [&condition.type_, &condition.status, &condition.reason, &condition.message];
            size_of::<Condition>() + texts.map(String::len).iter().sum::<usize>()
        });
        size_of::<Self>() + self.name.len() + self.spec.size() + conditions.sum::<usize>()
    }
}

impl<S: Into<Spec> + Clone> From<Object<S, Status>> for Entry {
    fn from(object: Object<S, Status>) -> Self {
        let Object { metadata, spec, status, .. } = object;
        let text = |text: Option<String>| text.unwrap_or_default().into_boxed_str();
        let mut spec = spec.into();
        Self {
            name: text(metadata.name),
            uid: text(metadata.uid),
            version: text(metadata.resource_version),
            generation: metadata.generation,
            created: metadata.creation_timestamp.map(|time| time.0),
            pool: std::mem::take(spec.pool()),
            spec,
            present: status.unwrap_or_default().conditions.into(),
        }
    }
}

impl Spec {
    /// The bytes that it takes beyond its own, about.
    fn size(&self) -> usize {
        match self {
            Self::Objective(_) => 0,
            Self::Rewrite(spec) => spec.rules.iter().map(targets::size_of_rule).sum(),
            Self::Model(spec) => {
                let targets = spec.target_models.iter().map(|to| targets::size(&to.name));
                spec.model_name.len() + targets.sum::<usize>()
            }
        }
    }

    fn pool(&mut self) -> &mut PoolRef {
        match self {
            Self::Objective(spec) => &mut spec.pool_ref,
            Self::Rewrite(spec) => &mut spec.pool_ref,
            Self::Model(spec) => &mut spec.pool_ref,
        }
    }
}

impl From<ObjectiveSpec> for Spec {
    fn from(spec: ObjectiveSpec) -> Self {
        Self::Objective(spec)
    }
}

impl From<RewriteSpec> for Spec {
    fn from(spec: RewriteSpec) -> Self {
        Self::Rewrite(spec)
    }
}

impl From<ModelSpec> for Spec {
    fn from(spec: ModelSpec) -> Self {
        Self::Model(spec)
    }
}

/// An object for our pool.
#[derive(Clone, Copy, Debug)]
struct Ours<'a> {
    kind: Kind,
    entry: &'a Entry,
}

impl<'a> Ours<'a> {
    /// Lower prevails; an object without a time is the youngest.
    fn seniority(&self) -> (bool, Option<Timestamp>, &'a str, Kind) {
        let created = self.entry.created;
        (created.is_none(), created, &self.entry.name, self.kind)
    }

    /// As `kubectl get` takes it.
    fn full_name(&self) -> String {
        format!("{}/{}", self.kind.full_name(), self.entry.name)
    }

    fn verdict(&self, findings: &Findings) -> Verdict {
        Verdict::new(self.kind, self.entry, findings)
    }
}

/// Whether a reference means the pool of this name.
fn means(reference: &PoolRef, pool: &str) -> bool {
    let group = reference.group.as_deref().unwrap_or_default();
    let kind = reference.kind.as_deref().unwrap_or(POOL);
    reference.name == pool && kind == POOL && matches!(group, "" | GROUP | LEGACY_GROUP)
}

#[cfg(test)]
mod tests;
