//! The files by which a server knows its clients and itself.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Result;
use rcgen::KeyPair;
use serde_json::{Value, json};

/// Where the files stand in the server's folder.
#[derive(Debug, Clone)]
pub(super) struct Credentials {
    folder: PathBuf,
}

impl Credentials {
    /// Writes keys, tokens and the policy of the audit log.
    pub(super) fn write(folder: &Path) -> Result<Self> {
        let files = Self { folder: folder.to_owned() };
        let key = KeyPair::generate()?;
        fs::write(files.signing_key(), key.serialize_pem())?;
        fs::write(files.public_key(), key.public_key_pem())?;
        let token = token();
        fs::write(files.tokens(), format!("{token},admin,1,\"system:masters\"\n"))?;
        fs::write(files.audit_policy(), audit_policy().to_string())?;
        Ok(files)
    }

    /// Signs the tokens of accounts.
    pub(super) fn signing_key(&self) -> PathBuf {
        self.folder.join("accounts.key")
    }

    /// Verifies them.
    pub(super) fn public_key(&self) -> PathBuf {
        self.folder.join("accounts.pub")
    }

    /// The token of the administrator.
    pub(super) fn tokens(&self) -> PathBuf {
        self.folder.join("tokens.csv")
    }

    /// Which requests are logged.
    pub(super) fn audit_policy(&self) -> PathBuf {
        self.folder.join("audit-policy.json")
    }

    /// The certificate that the server makes for itself when it first starts.
    pub(super) fn certificate(&self) -> PathBuf {
        self.folder.join("apiserver.crt")
    }

    /// The administrator's kubeconfig.
    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.folder.join("admin.kubeconfig")
    }

    /// Writes the administrator's kubeconfig for a server at `address`.
    pub(super) fn write_kubeconfig(&self, address: SocketAddr) -> Result<()> {
        let line = fs::read_to_string(self.tokens())?;
        let token = line.split(',').next().unwrap_or_default();
        let cluster = json!({
            "server": format!("https://{address}"),
            "certificate-authority": self.certificate(),
        });
        let text = kubeconfig(&cluster, "default", token).to_string();
        Ok(fs::write(self.kubeconfig(), text)?)
    }
}

/// A kubeconfig of one cluster, one user and one namespace.
pub(super) fn kubeconfig(cluster: &Value, namespace: &str, token: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "only",
        "contexts": [{
            "name": "only",
            "context": {"cluster": "only", "user": "only", "namespace": namespace},
        }],
        "clusters": [{"name": "only", "cluster": cluster}],
        "users": [{"name": "only", "user": {"token": token}}],
    })
}

/// What accounts ask for, once it is answered, without bodies; nothing of others.
fn audit_policy() -> Value {
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
            {"level": "None"},
        ],
    })
}

fn token() -> String {
    std::iter::repeat_with(fastrand::alphanumeric).take(32).collect()
}
