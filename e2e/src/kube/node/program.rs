//! The process of a pod.

use std::net::{IpAddr, SocketAddr};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::Result;
use serde_json::Value;

use crate::client::Client;
use crate::lodesman::{Fleet, Lodesman};
use crate::process::Process;
use crate::relay::Relay;

/// Where pickers take streams, as the manifests say.
pub(super) const PORT: u16 = 9002;
/// Grace of a pod that says none.
const GRACE: u64 = 30;
/// Longest time for the answer to a probe.
const PROBE: Duration = Duration::from_secs(1);

/// A picker or a simulated model server.
#[derive(Debug)]
pub(super) enum Program {
    /// Its ports are of the kernel's choice; the one for streams is served at the pod's address too.
    Picker { lodesman: Box<Lodesman>, _port: Relay },
    /// It listens at the pod's address.
    Model(Fleet),
}

impl Program {
    /// Starts what `args` say at the address of a pod.
    pub(super) async fn start(command: Command, args: &[String], ip: IpAddr) -> Result<Self> {
        if args.first().is_some_and(|first| first == "sim") {
            return Ok(Self::Model(Fleet::launch(command, args, 1).await?));
        }
        let lodesman = Box::new(Lodesman::launch(command, args).await?);
        let to = SocketAddr::new([127, 0, 0, 1].into(), lodesman.ext_proc.port());
        let port = Relay::start(SocketAddr::new(ip, PORT), to).await?;
        Ok(Self::Picker { lodesman, _port: port })
    }

    /// Whether it says that it is ready.
    pub(super) async fn ready(&self) -> bool {
        let (address, path) = match self {
            Self::Picker { lodesman, .. } => {
                let port = lodesman.metrics.port();
                (Some(SocketAddr::new([127, 0, 0, 1].into(), port)), "/readyz")
            }
            Self::Model(fleet) => (fleet.servers.first().copied(), "/health"),
        };
        let Some(address) = address else { return false };
        let answer = tokio::time::timeout(PROBE, Client::http1(address).get(path)).await;
        answer.is_ok_and(|answer| answer.is_ok_and(|answer| answer.status.is_success()))
    }

    /// The exit status, if it has ended.
    pub(super) fn exited(&mut self) -> Result<Option<ExitStatus>> {
        self.process().exited()
    }

    /// Ends it as a kubelet does, by the spec of its pod: after the hook that it waits for, with SIGTERM
    /// and, when its grace is over, with SIGKILL.
    pub(super) async fn end(&mut self, spec: &Value) -> Result<()> {
        let seconds = |path: &str| spec.pointer(path).and_then(Value::as_u64);
        let pause = seconds("/containers/0/lifecycle/preStop/sleep/seconds").unwrap_or(0);
        let grace = seconds("/terminationGracePeriodSeconds").unwrap_or(GRACE);
        tokio::time::sleep(Duration::from_secs(pause)).await;
        self.process().terminate()?;
        let left = Duration::from_secs(grace.saturating_sub(pause));
        if self.process().wait(left).await.is_err() {
            self.process().kill()?;
        }
        Ok(())
    }

    fn process(&mut self) -> &mut Process {
        match self {
            Self::Picker { lodesman, .. } => &mut lodesman.process,
            Self::Model(fleet) => &mut fleet.process,
        }
    }
}
