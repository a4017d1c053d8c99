//! A service account and its token.

use std::net::Ipv4Addr;
use std::path::Path;

use ::kube::api::{Api, PostParams};
use ::kube::config::Kubeconfig;
use anyhow::{Context, Result};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use serde_json::{Value, json};
use tempfile::TempPath;

use super::Namespace;
use super::credentials::kubeconfig;
use crate::relay::Relay;

/// A service account that a process can be, with a token as a pod would have one.
#[derive(Debug)]
pub struct Account {
    /// The name by which the server knows it.
    pub user: String,
    /// Its token.
    pub token: String,
    namespace: String,
    /// The server, as a kubeconfig has it.
    cluster: Value,
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
        let cluster = serde_json::to_value(cluster)?;
        let user = format!("system:serviceaccount:{}:{name}", namespace.name);
        let kubeconfig = written(&cluster, &namespace.name, &token)?;
        Ok(Self { user, token, namespace: namespace.name.clone(), cluster, kubeconfig })
    }

    /// Puts a way that can be cut between the server and the processes that are this account from now on.
    ///
    /// # Errors
    /// When nothing can listen, or its file cannot be written.
    pub async fn relayed(&mut self) -> Result<Relay> {
        let known = self.cluster.get_mut("server").context("no server")?;
        let server = known.as_str().and_then(|it| it.strip_prefix("https://"));
        let server = server.context("no server")?.parse()?;
        let relay = Relay::start((Ipv4Addr::LOCALHOST, 0).into(), server).await?;
        *known = format!("https://{}", relay.address).into();
        self.kubeconfig = written(&self.cluster, &self.namespace, &self.token)?;
        Ok(relay)
    }

    /// Its kubeconfig, which goes with this value.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }
}

fn written(cluster: &Value, namespace: &str, token: &str) -> Result<TempPath> {
    let file = tempfile::Builder::new().suffix(".kubeconfig").tempfile()?.into_temp_path();
    std::fs::write(&file, kubeconfig(cluster, namespace, token).to_string())?;
    Ok(file)
}
