//! A service account and its token.

use std::path::Path;

use ::kube::api::{Api, PostParams};
use ::kube::config::Kubeconfig;
use anyhow::{Context, Result};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use serde_json::json;
use tempfile::TempPath;

use super::Namespace;
use super::credentials::kubeconfig;

/// A service account that a process can be, with a token as a pod would have one.
#[derive(Debug)]
pub struct Account {
    /// The name by which the server knows it.
    pub user: String,
    /// Its token.
    pub token: String,
    kubeconfig: TempPath,
}

impl Account {
    /// Makes the account if it is not there, and asks for a token.
    pub(super) async fn create(namespace: &Namespace<'_>, name: &str) -> Result<Self> {
        let metadata = json!({"name": name});
        let object = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata});
        namespace.apply(&object).await?;
        let api: Api<ServiceAccount> = Api::namespaced(namespace.client.clone(), &namespace.name);
        let spec = TokenRequestSpec { expiration_seconds: Some(3600), ..Default::default() };
        let request = TokenRequest { spec, ..Default::default() };
        let answer = api.create_token_request(name, &PostParams::default(), &request).await?;
        let token = answer.status.context("no token")?.token;
        let admin = Kubeconfig::read_from(namespace.cluster.kubeconfig())?;
        let cluster = admin.clusters.into_iter().next().context("no cluster")?.cluster;
        let text = kubeconfig(&serde_json::to_value(cluster)?, &namespace.name, &token);
        let file = tempfile::Builder::new().suffix(".kubeconfig").tempfile()?.into_temp_path();
        std::fs::write(&file, text.to_string())?;
        let user = format!("system:serviceaccount:{}:{name}", namespace.name);
        Ok(Self { user, token, kubeconfig: file })
    }

    /// Its kubeconfig, which goes with this value.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }
}
