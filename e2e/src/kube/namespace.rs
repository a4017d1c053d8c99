//! A namespace of its own for a test.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use ::kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use ::kube::core::GroupVersionKind;
use ::kube::discovery::{ApiResource, Scope, pinned_kind};
use ::kube::{Client, Error};
use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{Account, Cluster, Kubelet};

/// The field manager of what tests apply.
const MANAGER: &str = "test";

/// A namespace that exists as long as its server. Objects are JSON, as kubectl takes them; what has no
/// namespace of its own is put into this one.
pub struct Namespace<'a> {
    /// Its name.
    pub name: String,
    /// A client that may do everything, in all namespaces.
    pub client: Client,
    /// Where it is.
    pub cluster: &'a Cluster,
}

impl<'a> Namespace<'a> {
    /// Makes one.
    pub(super) async fn create(cluster: &'a Cluster) -> Result<Self> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        // A cluster that was there before may know the numbers of another run.
        let name = format!("test-{}-{count}", std::process::id());
        let client = cluster.client().await?;
        let namespace = Self { name, client, cluster };
        let object =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace.name}});
        namespace.apply(&object).await?;
        Ok(namespace)
    }

    /// Applies an object as `kubectl apply --server-side --force-conflicts` does.
    ///
    /// # Errors
    /// When the server refuses it.
    pub async fn apply(&self, object: &Value) -> Result<DynamicObject> {
        let (api, object) = self.addressed(object).await?;
        let name = object.metadata.name.clone().context("no name")?;
        let how = PatchParams::apply(MANAGER).force();
        api.patch(&name, &how, &Patch::Apply(&object)).await.with_context(|| name.clone())
    }

    /// Creates an object; it may have `generateName` instead of a name.
    ///
    /// # Errors
    /// The server's refusal, as it says it.
    pub async fn create_object(&self, object: &Value) -> Result<Result<DynamicObject, Error>> {
        let (api, object) = self.addressed(object).await?;
        Ok(api.create(&PostParams::default(), &object).await)
    }

    /// Changes an object by a merge patch.
    ///
    /// # Errors
    /// When there is none, or the server refuses the change.
    pub async fn merge(&self, kind: Kind<'_>, name: &str, patch: &Value) -> Result<()> {
        let api = self.api(kind).await?;
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// Deletes an object at once.
    ///
    /// # Errors
    /// When there is none.
    pub async fn delete(&self, kind: Kind<'_>, name: &str) -> Result<()> {
        let api = self.api(kind).await?;
        api.delete(name, &DeleteParams::default().grace_period(0)).await?;
        Ok(())
    }

    /// Reads an object.
    ///
    /// # Errors
    /// When there is none.
    pub async fn read(&self, kind: Kind<'_>, name: &str) -> Result<DynamicObject> {
        Ok(self.api(kind).await?.get(name).await?)
    }

    /// All objects of a kind.
    ///
    /// # Errors
    /// When the server does not know the kind.
    pub async fn list(&self, kind: Kind<'_>) -> Result<Vec<DynamicObject>> {
        Ok(self.api(kind).await?.list(&ListParams::default()).await?.items)
    }

    /// An account with a token, which may do nothing yet.
    ///
    /// # Errors
    /// When the server does not give a token.
    pub async fn account(&self, name: &str) -> Result<Account> {
        Account::create(self, name).await
    }

    /// What the kubelets of the namespace's pods would do.
    pub fn kubelet(&self) -> Kubelet {
        Kubelet::new(self)
    }

    /// The objects of a kind, here or, if it has no namespaces, everywhere.
    ///
    /// # Errors
    /// When the server does not know the kind.
    pub async fn api(&self, (api_version, kind): Kind<'_>) -> Result<Api<DynamicObject>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let gvk = GroupVersionKind::gvk(group, version, kind);
        let (resource, capabilities) = pinned_kind(&self.client, &gvk).await?;
        Ok(self.place(&resource, &capabilities.scope))
    }

    fn place(&self, resource: &ApiResource, scope: &Scope) -> Api<DynamicObject> {
        match scope {
            Scope::Cluster => Api::all_with(self.client.clone(), resource),
            Scope::Namespaced => Api::namespaced_with(self.client.clone(), &self.name, resource),
        }
    }

    async fn addressed(&self, object: &Value) -> Result<(Api<DynamicObject>, DynamicObject)> {
        let text = |key: &str| object.get(key).and_then(Value::as_str);
        let kind = text("apiVersion").zip(text("kind")).context("no apiVersion and kind")?;
        Ok((self.api(kind).await?, serde_json::from_value(object.clone())?))
    }
}

impl fmt::Debug for Namespace<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Namespace").field("name", &self.name).finish_non_exhaustive()
    }
}

/// `apiVersion` and `kind`.
pub type Kind<'a> = (&'a str, &'a str);
