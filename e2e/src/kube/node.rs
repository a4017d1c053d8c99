//! A node that runs the pods of a namespace as processes, each at a loopback address of its own.
//!
//! It schedules, runs, probes and ends pods as a scheduler and a kubelet would, as far as a picker and its
//! model servers need it: the binary stands for every image named `lodesman`, of which a pod's first
//! container is run, and other images cannot be pulled.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use ::kube::Error;
use ::kube::api::{Api, ListParams, PostParams};
use anyhow::{Context as _, Result, bail};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::node::program::Program;
use super::{Account, Container, Kubelet, Namespace};

mod program;

/// Pause between two looks at the pods, and between two probes of one.
const TICK: Duration = Duration::from_millis(50);
/// Probes in a row that fail before a pod is no longer ready: what a kubelet does unless told otherwise.
const FAILURES: u32 = 3;
/// Pickers that there can be at once; their addresses are the last of the network.
const PICKERS: u8 = 8;

/// A node of its own for a namespace.
#[derive(Debug)]
pub struct Node<'a> {
    namespace: &'a Namespace<'a>,
    binary: &'a Path,
    network: Ipv4Addr,
}

/// What is wanted of a pod that runs; that nothing is wanted any more means it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Run,
    End,
    /// It was deleted without a grace.
    Gone,
}

/// Pods by UID, with what is wanted of them and the last byte of their address.
type Pods = BTreeMap<String, (watch::Sender<Wanted>, u8)>;

impl<'a> Node<'a> {
    /// A node whose pods run `binary` at addresses of `network`, a loopback network of 256 addresses.
    pub fn new(namespace: &'a Namespace<'a>, binary: &'a Path, network: Ipv4Addr) -> Self {
        Self { namespace, binary, network }
    }

    /// The addresses at which pickers serve, as long as they live.
    pub fn pickers(&self) -> Vec<SocketAddr> {
        picker_hosts().map(|host| SocketAddr::new(self.address(host), program::PORT)).collect()
    }

    /// Runs what there is to run, for ever.
    ///
    /// # Errors
    /// When the API server does not answer, or a program ends by itself.
    pub async fn run(&self) -> Result<()> {
        let api: Api<Pod> = Api::namespaced(self.namespace.client.clone(), &self.namespace.name);
        let mut ticks = tokio::time::interval(TICK);
        let (mut pods, mut running) = (Pods::new(), FuturesUnordered::new());
        loop {
            tokio::select! {
                _ = ticks.tick() => {
                    let list = api.list(&ListParams::default()).await?.items;
                    let listed = |uid: &String| list.iter().any(|pod| pod.metadata.uid.as_ref() == Some(uid));
                    pods.retain(|uid, (wanted, _)| listed(uid) || !is_over(wanted));
                    for pod in list {
                        if let Some((wanted, host)) = admitted(&mut pods, &pod)? {
                            running.push(self.life(pod, wanted, self.address(host)));
                        }
                    }
                }
                Some(ended) = running.next() => ended?,
            }
        }
    }

    fn address(&self, host: u8) -> IpAddr {
        let [a, b, c, _] = self.network.octets();
        Ipv4Addr::new(a, b, c, host).into()
    }

    /// The life of a pod.
    async fn life(&self, pod: Pod, mut wanted: watch::Receiver<Wanted>, ip: IpAddr) -> Result<()> {
        let name = pod.metadata.name.clone().unwrap_or_default();
        let spec = serde_json::to_value(pod.spec)?;
        let kubelet = self.namespace.kubelet();
        self.bind(&name).await?;
        there(kubelet.start(&name, &[ip], false).await)?;
        if !is_ours(&spec) {
            let ends = ends(&mut wanted).await;
            return if ends { there(kubelet.end(&name).await) } else { Ok(()) };
        }
        let account = spec.pointer("/serviceAccountName").and_then(Value::as_str);
        let account = self.namespace.account(account.unwrap_or("default")).await?;
        let container = Container::of_pod(self.namespace, &spec, &name, Some(ip)).await?;
        let mut program = self.start(&container, &account, ip).await?;
        let ends = {
            let serve = serve(&mut program, &kubelet, &name);
            tokio::select! {
                failed = serve => return failed,
                ends = ends(&mut wanted) => ends,
            }
        };
        if ends {
            program.end(&spec).await?;
            there(kubelet.end(&name).await)?;
        }
        Ok(())
    }

    async fn start(&self, container: &Container, account: &Account, ip: IpAddr) -> Result<Program> {
        let command = container.command(self.binary, account.kubeconfig());
        Program::start(command, container.args(), ip).await
    }

    /// Does what a scheduler does with a pod.
    async fn bind(&self, name: &str) -> Result<()> {
        let api: Api<Pod> = Api::namespaced(self.namespace.client.clone(), &self.namespace.name);
        let binding = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "node"},
        });
        let how = PostParams::default();
        let bound = api.create_subresource::<Value, Value>("binding", name, &how, &binding);
        there(bound.await.map(drop).map_err(Into::into))
    }
}

/// Waits until a pod is not to run any more, and tells whether it is to end in good order.
async fn ends(wanted: &mut watch::Receiver<Wanted>) -> bool {
    wanted.wait_for(|wanted| *wanted != Wanted::Run).await.is_ok_and(|it| *it == Wanted::End)
}

/// Whether a pod that is gone has given back its address: its program has ended.
fn is_over(wanted: &watch::Sender<Wanted>) -> bool {
    wanted.send_replace(Wanted::Gone);
    wanted.is_closed()
}

/// Notes what is wanted of a pod; gives it a place where it has none.
fn admitted(pods: &mut Pods, pod: &Pod) -> Result<Option<(watch::Receiver<Wanted>, u8)>> {
    let uid = pod.metadata.uid.clone().context("no uid")?;
    let ends = pod.metadata.deletion_timestamp.is_some();
    let wanted = if ends { Wanted::End } else { Wanted::Run };
    if let Some((known, _)) = pods.get(&uid) {
        known.send_if_modified(|known| std::mem::replace(known, wanted) != wanted);
        return Ok(None);
    }
    let spec = serde_json::to_value(&pod.spec)?;
    let taken = |host: &u8| pods.values().any(|(_, taken)| taken == host);
    let mut places: Box<dyn Iterator<Item = u8>> =
        if is_picker(&spec) { Box::new(picker_hosts()) } else { Box::new(1..=254 - PICKERS) };
    let host = places.find(|host| !taken(host)).context("no address is free")?;
    let (sender, receiver) = watch::channel(wanted);
    pods.insert(uid, (sender, host));
    Ok(Some((receiver, host)))
}

fn picker_hosts() -> impl Iterator<Item = u8> {
    255 - PICKERS..=254
}

/// Whether a pod runs the binary.
fn is_ours(spec: &Value) -> bool {
    let image = spec.pointer("/containers/0/image").and_then(Value::as_str).unwrap_or_default();
    let name = image.rsplit('/').next().unwrap_or_default();
    name.split(':').next() == Some("lodesman")
}

/// Whether a pod is a picker, not a simulated model server.
fn is_picker(spec: &Value) -> bool {
    is_ours(spec) && spec.pointer("/containers/0/args/0").and_then(Value::as_str) != Some("sim")
}

/// Tells how a program is, until it ends.
async fn serve(program: &mut Program, kubelet: &Kubelet, name: &str) -> Result<()> {
    let (mut told, mut failures) = (false, 0);
    loop {
        failures = if program.ready().await { 0 } else { failures + 1 };
        let ready = failures == 0 || told && failures < FAILURES;
        if ready != told {
            there(kubelet.set_ready(name, ready).await)?;
            told = ready;
        }
        if let Some(status) = program.exited()? {
            bail!("{name} ended by itself: {status}");
        }
        tokio::time::sleep(TICK).await;
    }
}

/// That a pod is gone already is no failure.
fn there(done: Result<()>) -> Result<()> {
    let gone = |error: &anyhow::Error| match error.downcast_ref() {
        Some(Error::Api(status)) => matches!(status.code, 404 | 409),
        _ => false,
    };
    done.or_else(|error| if gone(&error) { Ok(()) } else { Err(error) })
}
