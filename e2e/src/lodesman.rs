//! The `lodesman` binary as a picker and as a fleet of simulated model servers.

use std::env;
use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::process::Process;

/// From the start of the binary until all its ports are open.
const START: Duration = Duration::from_mins(1);

/// A running picker on loopback ports of the kernel's choice.
#[derive(Debug)]
pub struct Lodesman {
    /// The process, for its id, its log, or to stop it.
    pub process: Process,
    /// The `ext_proc` server.
    pub ext_proc: SocketAddr,
    /// The gRPC health server.
    pub health: SocketAddr,
    /// The HTTP server of `/metrics`, `/livez` and `/readyz`.
    pub metrics: SocketAddr,
    /// The admin server.
    pub admin: SocketAddr,
    /// The external scaler of KEDA, where an argument asks for one.
    pub keda: Option<SocketAddr>,
}

impl Lodesman {
    /// Starts `binary` with `args` after those that choose ports and the log format, and waits
    /// until it listens.
    ///
    /// # Errors
    /// When it ends or does not listen in time; the error shows its log.
    pub async fn start<S: AsRef<OsStr>>(
        binary: &Path,
        args: impl IntoIterator<Item = S>,
    ) -> Result<Self> {
        Self::launch(Command::new(binary), args).await
    }

    /// Like [`Lodesman::start`], with what `command` says besides arguments: the environment.
    ///
    /// # Errors
    /// When it ends or does not listen in time; the error shows its log.
    pub async fn launch<S: AsRef<OsStr>>(
        mut command: Command,
        args: impl IntoIterator<Item = S>,
    ) -> Result<Self> {
        command
            .args(["--grpc-port", "0", "--grpc-health-port", "0", "--metrics-port", "0"])
            .args(["--admin-port", "0", "--log-format", "json"])
            .args(args);
        let mut process = Process::spawn(command)?;
        let ports = process.find(START, |lines| {
            let open: Vec<_> = lines.iter().filter_map(|line| listening(line)).collect();
            let port =
                |name: &str| open.iter().find(|(n, _)| n == name).map(|(_, address)| *address);
            let always = [port("ext_proc")?, port("health")?, port("metrics")?, port("admin")?];
            Some((always, port("keda")))
        });
        let ([ext_proc, health, metrics, admin], keda) = ports.await?;
        Ok(Self { process, ext_proc, health, metrics, admin, keda })
    }
}

/// Simulated model servers in one process.
#[derive(Debug)]
pub struct Fleet {
    /// The process.
    pub process: Process,
    /// The servers, in their order.
    pub servers: Vec<SocketAddr>,
}

impl Fleet {
    /// Starts `servers` model servers with `args` on ports of the kernel's choice.
    ///
    /// # Errors
    /// When the binary ends or does not report all servers in time; the error shows its output.
    pub async fn start<S: AsRef<OsStr>>(
        binary: &Path,
        servers: usize,
        args: impl IntoIterator<Item = S>,
    ) -> Result<Self> {
        Self::at(binary, SocketAddr::from(([127, 0, 0, 1], 0)), servers, args).await
    }

    /// Starts `servers` model servers with `args`: the first at `address`, each further one at the next address with
    /// the same port; 0 takes one that is free at all of them.
    ///
    /// # Errors
    /// As [`Fleet::start`].
    pub async fn at<S: AsRef<OsStr>>(
        binary: &Path,
        address: SocketAddr,
        servers: usize,
        args: impl IntoIterator<Item = S>,
    ) -> Result<Self> {
        let mut command = Command::new(binary);
        command.args(["sim", "--address", &address.ip().to_string()]).args([
            "--port",
            &address.port().to_string(),
            "--servers",
            &servers.to_string(),
        ]);
        Self::launch(command, args, servers).await
    }

    /// Runs `command` with `args` and waits for the so many servers that they mean.
    ///
    /// # Errors
    /// As [`Fleet::start`].
    pub async fn launch<S: AsRef<OsStr>>(
        mut command: Command,
        args: impl IntoIterator<Item = S>,
        servers: usize,
    ) -> Result<Self> {
        command.args(args);
        let mut process = Process::spawn(command)?;
        let ready = process.find(START, |lines| {
            let open: Vec<SocketAddr> = lines
                .iter()
                .filter_map(|line| line.strip_prefix("ready ")?.trim().parse().ok())
                .collect();
            (open.len() == servers).then_some(open)
        });
        let servers = ready.await?;
        Ok(Self { process, servers })
    }
}

/// The `lodesman` binary beside the running program.
///
/// # Errors
/// When there is none.
pub fn binary() -> Result<PathBuf> {
    beside("lodesman")
}

/// A binary beside the running program.
///
/// # Errors
/// When there is none.
pub(crate) fn beside(name: &str) -> Result<PathBuf> {
    let path = env::current_exe()?.with_file_name(name);
    let found = path.is_file().then_some(path.clone());
    found
        .with_context(|| format!("{} is missing: build it, or name it by --{name}", path.display()))
}

/// Name and address from a log line that says that a listener is open.
fn listening(line: &str) -> Option<(String, SocketAddr)> {
    if let Some((_, fields)) = line.split_once(": listening ") {
        let text = |name: &str| {
            fields.split_whitespace().find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
        };
        return Some((
            text("listener")?.trim_matches('"').to_owned(),
            text("address")?.parse().ok()?,
        ));
    }
    let line: Value = serde_json::from_str(line).ok()?;
    let fields = line.get("fields").unwrap_or(&line);
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    (text("message")? == "listening")
        .then_some((text("listener")?.to_owned(), text("address")?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_read_from_log_lines_of_each_form() {
        let expected = Some(("health".to_owned(), "127.0.0.1:41234".parse().unwrap()));
        let fields = r#""message":"listening","listener":"health","address":"127.0.0.1:41234""#;
        assert_eq!(listening(&format!("{{{fields}}}")), expected);
        assert_eq!(listening(&format!(r#"{{"level":"INFO","fields":{{{fields}}}}}"#)), expected);
        let text = r#"2026-01-31T12:00:00Z  INFO lodesman::cli: listening listener="health" address=127.0.0.1:41234"#;
        assert_eq!(listening(text), expected);
        assert_eq!(listening("INFO listening"), None);
    }
}
