//! The demonstration in Kubernetes: the manifests that a user applies, a real API server, pods that are played, and a
//! request that finds its way to one of them through a real Envoy.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use http::Request;
use serde_json::{Value, json};

use crate::client::{Body, Client};
use crate::envoy::{Destination, Envoy, EnvoyConfig, ExtProc, Pool};
use crate::kube::assets::manifests;
use crate::kube::{Account, Cluster, Container, Namespace};
use crate::lodesman::{Fleet, Lodesman, binary};
use crate::wait::eventually;

/// From the start of the picker until it knows its pods, and from a change until it is seen.
const SEEN: Duration = Duration::from_secs(20);

/// The port of the pool in the manifests.
const PORT: u16 = 8000;

/// The base model of the simulated servers.
const MODEL: &str = "llama";

/// A model of another name.
const REWRITE: &str = "\
apiVersion: llm-d.ai/v1alpha2
kind: InferenceModelRewrite
metadata: {name: chat}
spec:
  poolRef: {name: llm}
  rules:
  - matches: [{model: {value: chat}}]
    targets: [{modelRewrite: llama}]
";

/// What the demonstration shows.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Pods with simulated model servers
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(2..=9))]
    pub pods: u8,
    /// Lodesman's binary, if not the one beside this program
    #[arg(long, value_name = "FILE")]
    pub lodesman: Option<PathBuf>,
    /// End after the last step instead of running on; also by the environment variable ONCE=1
    #[arg(long)]
    pub once: bool,
}

/// Runs the demonstration. Returns when it is done or, unless it is to run once, when one of its parts ends; dropping
/// the future stops everything.
///
/// # Errors
/// When a part does not start or ends by itself, or something is not as it should be.
pub async fn run(options: &Options) -> Result<()> {
    let binary = options.lodesman.clone().map_or_else(binary, Ok)?;
    say("starting etcd and kube-apiserver (built from source the first time, some minutes)")?;
    let cluster = Cluster::start(&[]).await?.context("there is no Kubernetes API server")?;
    let namespace = Namespace {
        name: "default".to_owned(),
        client: cluster.client().await?,
        cluster: &cluster,
    };
    for folder in ["crds", "base"] {
        let arguments = ["apply", "--server-side", "-k", &manifests(folder)];
        kubectl(&cluster, &arguments).await?;
    }
    let mut stage = Stage::start(options, &binary, &namespace).await?;
    stage.show(&namespace).await?;
    if options.once {
        return Ok(());
    }
    say(&stage.invitation(&cluster))?;
    stage.run_on().await
}

/// What runs in the demonstration's cluster.
struct Stage {
    fleet: Fleet,
    lodesman: Lodesman,
    envoy: Envoy,
    /// What the picker's process needs of its pod.
    _pod: (Container, Account),
}

impl Stage {
    /// Starts what kubelets would: the model servers, and the picker as its Deployment says; and a gateway.
    async fn start(options: &Options, binary: &Path, namespace: &Namespace<'_>) -> Result<Self> {
        say(&format!("\nplaying the kubelet: {} pods with simulated model servers", options.pods))?;
        let first = SocketAddr::from((home(), PORT));
        let args = ["--model", MODEL, "--time-scale", "10"];
        let fleet = Fleet::at(binary, first, usize::from(options.pods), args).await?;
        let kubelet = namespace.kubelet();
        let labels = json!({"app": "model-server"});
        for (at, server) in fleet.servers.iter().enumerate() {
            kubelet.run(&pod(at), &labels, &[server.ip()]).await?;
        }
        say("playing the kubelet: Lodesman, as its Deployment and its ServiceAccount say")?;
        let account = namespace.account("lodesman").await?;
        let container = Container::of(namespace, "lodesman", "lodesman-0").await?;
        let command = container.command(binary, account.kubeconfig());
        let mut lodesman = Lodesman::launch(command, container.args()).await?;
        let ready = eventually(SEEN, async || {
            let answer = Client::http1(lodesman.metrics).get("/readyz").await?;
            ensure!(answer.status.is_success(), "{} {}", answer.status, answer.text());
            Ok(())
        });
        let ready = lodesman.process.while_alive(ready).await;
        ready.with_context(|| format!("Lodesman is not ready:\n{}", lodesman.process.output()))?;
        say("playing the gateway: a real Envoy that asks Lodesman\n")?;
        let pool = Pool::OriginalDst(Destination::Header);
        let config = EnvoyConfig::picked(ExtProc::full_duplex(lodesman.ext_proc), pool);
        let envoy = Envoy::start(&config).await?;
        Ok(Self { fleet, lodesman, envoy, _pod: (container, account) })
    }

    /// Goes through the steps.
    async fn show(&mut self, namespace: &Namespace<'_>) -> Result<()> {
        let cluster = namespace.cluster;
        kubectl(cluster, &["get", "inferencepool,pods", "-o", "wide"]).await?;
        self.ask_six(MODEL).await?;
        kubectl(cluster, &["delete", "pod", &pod(0), "--wait=false"]).await?;
        self.wait_for_endpoints(self.fleet.servers.len() - 1).await?;
        let answered = self.ask_six(MODEL).await?;
        ensure!(!answered.contains(&pod(0)), "a terminating pod was asked");
        namespace.kubelet().end(&pod(0)).await?;
        say("\na model of another name: an InferenceModelRewrite")?;
        say(&format!("\n$ kubectl apply -f - <<EOF\n{REWRITE}EOF"))?;
        say(cluster.kubectl(&["apply", "-f", "-"], REWRITE).await?.trim_end())?;
        let accepted = ["wait", "inferencemodelrewrites.llm-d.ai/chat", "--for=condition=Accepted"];
        kubectl(cluster, &accepted).await?;
        self.ask_six("chat").await?;
        Ok(())
    }

    /// Asks six times and tells which pods answered; the answer must name the model that was asked for.
    async fn ask_six(&mut self, model: &str) -> Result<Vec<String>> {
        let mut answered = Vec::new();
        for question in 0..6 {
            let body = json!({
                "model": model, "max_tokens": 8,
                "messages": [{"role": "user", "content": format!("Question {question}: where is the harbor?")}],
            });
            let request = Request::post("/v1/chat/completions")
                .header("content-type", "application/json")
                .body(Body::full(body.to_string()))?;
            let asking = async { Ok(self.envoy.client().send(request).await?.collect().await) };
            let answer = self.lodesman.process.while_alive(asking).await?;
            ensure!(answer.status == 200, "{}: {}", answer.status, answer.text());
            let json = answer.json()?;
            let named = json.get("model").and_then(Value::as_str).unwrap_or_default();
            ensure!(named == model, "the answer names `{named}`, not `{model}`");
            let server = answer.header("x-sim-server").unwrap_or_default();
            let at = self.fleet.servers.iter().position(|known| known.to_string() == server);
            let pod = pod(at.with_context(|| format!("answered by {server:?}"))?);
            say(&format!("POST /v1/chat/completions  model {named}: 200 from {pod} at {server}"))?;
            answered.push(pod);
        }
        Ok(answered)
    }

    async fn wait_for_endpoints(&mut self, count: usize) -> Result<()> {
        let metrics = Client::http1(self.lodesman.metrics);
        let line = format!("llm_d_epp_ready_endpoints{{name=\"llm\"}} {count}");
        let seen = eventually(SEEN, async || {
            let page = metrics.get("/metrics").await?.text();
            ensure!(page.lines().any(|known| known == line), "not yet: {line}");
            Ok(())
        });
        self.lodesman.process.while_alive(seen).await
    }

    /// What to try next.
    fn invitation(&self, cluster: &Cluster) -> String {
        let body = json!({"model": MODEL, "messages": [{"role": "user", "content": "Hello?"}]});
        format!(
            "\nEverything is still running. Look around, change objects, send requests:\n\n  \
             export KUBECONFIG={kubeconfig}\n  \
             alias kubectl={kubectl}\n  \
             kubectl get inferencepools,inferencemodelrewrites,pods,events\n  \
             curl http://{envoy}/v1/chat/completions -H 'content-type: application/json' -d '{body}'\n\n\
             metrics  http://127.0.0.1:{metrics}/metrics\n\
             admin    http://{admin}/\n\nStop with Ctrl-C.",
            kubeconfig = cluster.kubeconfig().display(),
            kubectl = cluster.kubectl_binary().display(),
            envoy = self.envoy.address(),
            metrics = self.lodesman.metrics.port(),
            admin = self.lodesman.admin,
        )
    }

    /// Keeps everything running; returns only when a part ends.
    async fn run_on(mut self) -> Result<()> {
        let Self { fleet, lodesman, envoy, _pod: _ } = &mut self;
        let envoy = envoy.process().while_alive(std::future::pending());
        fleet.process.while_alive(lodesman.process.while_alive(envoy)).await
    }
}

/// Runs kubectl where a user would see it.
async fn kubectl(cluster: &Cluster, args: &[&str]) -> Result<()> {
    let shown: Vec<_> =
        args.iter().map(|arg| arg.rsplit_once("/../").map_or(*arg, |(_, path)| path)).collect();
    say(&format!("\n$ kubectl {}", shown.join(" ")))?;
    say(cluster.kubectl(args, "").await?.trim_end())
}

fn pod(at: usize) -> String {
    format!("model-server-{at}")
}

/// Where the first pod is: an address of loopback that hardly anyone has.
fn home() -> Ipv4Addr {
    Ipv4Addr::new(127, fastrand::u8(64..128), fastrand::u8(..), 10)
}

fn say(text: &str) -> Result<()> {
    Ok(writeln!(std::io::stdout(), "{text}")?)
}
