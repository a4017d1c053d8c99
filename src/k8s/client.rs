//! The way to the API server.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use http::header::USER_AGENT;
use kube::{Client, Config};

/// How the API server sees us.
const AGENT: HeaderValue =
    HeaderValue::from_static(concat!("lodesman/", env!("CARGO_PKG_VERSION")));

/// Time for a connection, TLS included.
const CONNECT: Duration = Duration::from_secs(5);

/// Silence after which a connection is dead: more than a watch lasts (see `follow.rs`).
const SILENCE: Duration = Duration::from_mins(1);

/// Where a pod finds the namespace that it is in.
const OWN_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// A client, whom it asks, and the namespace that it takes for its own.
#[derive(Clone)]
pub struct Access {
    /// The address of the API server.
    pub server: Arc<str>,
    /// To ask with.
    pub client: Client,
    /// That of our pod, else that of the kubeconfig's context.
    pub namespace: String,
}

/// Why there is no way to the API server.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// Neither in a cluster nor told of one.
    #[error(
        "no Kubernetes to ask for the pool: run in a pod with a service account, set KUBECONFIG, or serve without \
         Kubernetes by --endpoints ip:port,… or file-discovery ({0})"
    )]
    Unconfigured(String),
    /// The configuration leads nowhere.
    #[error("the configuration of the Kubernetes client is not usable: {0}")]
    Unusable(String),
}

impl Access {
    /// By the file that `KUBECONFIG` names or `~/.kube/config`, else as a pod of the cluster.
    ///
    /// # Errors
    /// When there is neither, or it is not usable.
    pub async fn infer() -> Result<Self, AccessError> {
        let config = Config::infer().await;
        let config = config.map_err(|error| AccessError::Unconfigured(error.to_string()))?;
        Self::new(config, own_namespace(Path::new(OWN_NAMESPACE)))
    }

    /// By a configuration; `own` is the namespace of our pod.
    ///
    /// # Errors
    /// When the configuration is not usable.
    pub fn new(mut config: Config, own: Option<String>) -> Result<Self, AccessError> {
        rustls::crypto::ring::default_provider().install_default().ok();
        config.connect_timeout = Some(CONNECT);
        config.read_timeout = Some(SILENCE);
        // Otherwise the time that a connection lay idle would count.
        config.reset_reader_on_write = true;
        // Who watches waits by itself, and says why.
        config.default_retry = false;
        config.headers.push((USER_AGENT, AGENT));
        let namespace = own.unwrap_or_else(|| config.default_namespace.clone());
        let server = config.cluster_url.to_string().trim_end_matches('/').into();
        let client = Client::try_from(config);
        let client = client.map_err(|error| AccessError::Unusable(error.to_string()))?;
        Ok(Self { server, client, namespace })
    }
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

fn own_namespace(file: &Path) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    Some(text.trim().to_owned()).filter(|namespace| !namespace.is_empty())
}
