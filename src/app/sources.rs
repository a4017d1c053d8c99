//! Where endpoints come from, and under which names the pool goes.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use crate::app::leader::Seat;
use crate::app::stop::DISCOVERY;
use crate::app::supervisor::{Plane, Supervisor};
use crate::app::{Parts, StartError};
use crate::config::{Flags, Kubernetes, LabelSelector, Resolved, TargetPorts};
use crate::discovery;
use crate::k8s::{self, Access, Members, Outlets};
use crate::metrics::Metrics;
use crate::pool::Event;

/// The name of a pool that has none, as in the reference.
const NAMELESS: &str = "epp";

/// Where endpoints come from.
#[derive(Debug)]
pub(super) struct Source {
    /// Namespace of the pool.
    pub(super) namespace: String,
    /// Its name.
    pub(super) pool: String,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// A list or a file.
    Discovery(discovery::Source),
    /// An InferencePool, or pods by their labels.
    Kubernetes(Box<k8s::Source>, Seat),
    /// The program that embeds the picker.
    Embedding(mpsc::Receiver<Event>),
    /// Nothing is decided.
    Null,
}

/// What the process is told from outside.
#[derive(Debug, Default)]
struct Environment {
    namespace: Option<String>,
    pod_name: Option<String>,
}

impl Source {
    /// The embedding program where it is a source, else what flags and configuration name.
    ///
    /// # Errors
    /// When they name none or two, or Kubernetes is named and cannot be asked.
    pub(super) async fn of(
        flags: &Flags,
        resolved: &Resolved,
        embedding: Option<mpsc::Receiver<Event>>,
    ) -> Result<Self, StartError> {
        let environment = Environment {
            namespace: std::env::var("NAMESPACE").ok(),
            pod_name: std::env::var("POD_NAME").ok(),
        };
        let outside = match embedding {
            Some(events) => Some(Kind::Embedding(events)),
            None => discovered(flags, resolved)?,
        };
        if let Some(kind) = outside {
            return Ok(Self::outside(flags, &environment, kind));
        }
        let access = Access::infer().await;
        let access = access.map_err(|error| StartError::Setup(error.to_string()))?;
        Ok(Self::inside(&flags.kubernetes, &environment, access))
    }

    fn outside(flags: &Flags, environment: &Environment, kind: Kind) -> Self {
        let namespace = flags.kubernetes.namespace(&[environment.namespace.as_deref()]);
        let pool = flags.kubernetes.pool().1;
        let pool = if pool.is_empty() { NAMELESS } else { pool };
        Self { namespace: namespace.to_owned(), pool: pool.to_owned(), kind }
    }

    fn inside(flags: &Kubernetes, environment: &Environment, access: Access) -> Self {
        let others = [environment.namespace.as_deref(), Some(access.namespace.as_str())];
        let namespace = flags.namespace(&others).to_owned();
        let (pool, members) = if let Some((selector, ports)) = selected(flags) {
            let owner = environment.pod_name.as_deref().and_then(owner).unwrap_or(NAMELESS);
            (owner.to_owned(), Members::Selected { selector, ports })
        } else {
            (flags.pool().1.to_owned(), Members::Pool(flags.pool_group))
        };
        let retry = flags.kind_retry_interval;
        let settings = k8s::Settings {
            server: access.server,
            namespace: namespace.clone(),
            pool: pool.clone(),
            members,
            nodes: flags.watch_nodes,
            retry,
        };
        let seat = Seat {
            client: access.client.clone(),
            namespace: namespace.clone(),
            pool: pool.clone(),
            instance: environment.pod_name.clone().unwrap_or_else(|| NAMELESS.to_owned()),
            elected: flags.ha_enable_leader_election,
            appraises: flags.pod_deletion_cost_interval,
        };
        let kind = Kind::Kubernetes(Box::new(k8s::Source::new(access.client, settings)), seat);
        Self { namespace, pool, kind }
    }

    /// A client of the API server; none where there is none.
    pub(super) fn client(&self) -> Option<kube::Client> {
        match &self.kind {
            Kind::Kubernetes(_, seat) => Some(seat.client.clone()),
            Kind::Discovery(_) | Kind::Embedding(_) | Kind::Null => None,
        }
    }

    /// Adds the metrics that only this source has.
    pub(super) fn register(&self, metrics: &Metrics) -> anyhow::Result<()> {
        if let Kind::Kubernetes(source, _) = &self.kind {
            metrics.register(Box::new(source.watches()?))?;
        }
        Ok(())
    }

    /// Keeps the pool current.
    pub(super) fn follow(self, parts: &Parts, tasks: &mut Supervisor) {
        let events = parts.events.clone();
        match self.kind {
            Kind::Discovery(source) => tasks.spawn(Plane::Control, DISCOVERY, async move {
                discovery::follow(source, events).await?;
                std::future::pending().await
            }),
            Kind::Kubernetes(source, seat) => {
                let verdicts = watch::Sender::new(Arc::default());
                let notices = seat.take(verdicts.subscribe(), parts, tasks);
                let readiness = parts.readiness.clone();
                tasks.spawn(Plane::Control, "kubernetes", async move {
                    Ok(source.run(Outlets { events, readiness, verdicts, notices }).await?)
                });
            }
            Kind::Embedding(told) => tasks.run(Plane::Control, "source", relay(told, events)),
            Kind::Null => {}
        }
    }
}

/// Tells the pool what the embedding program tells.
async fn relay(mut told: mpsc::Receiver<Event>, events: mpsc::Sender<Event>) {
    while let Some(event) = told.recv().await {
        if events.send(event).await.is_err() {
            break;
        }
    }
    std::future::pending::<()>().await;
}

/// Whether flags and configuration name one source of endpoints.
///
/// # Errors
/// When they name none or two.
pub(super) fn check(flags: &Flags, resolved: &Resolved) -> Result<(), StartError> {
    discovered(flags, resolved).map(drop)
}

/// The source outside Kubernetes; none when it is Kubernetes.
fn discovered(flags: &Flags, resolved: &Resolved) -> Result<Option<Kind>, StartError> {
    let setup = |text: &str| Err(StartError::Setup(text.to_owned()));
    let listed = &flags.pool.endpoints;
    let named = !flags.kubernetes.pool().1.is_empty();
    let labels = flags.kubernetes.endpoint_selector.is_some();
    match (&resolved.discovery, listed.is_empty()) {
        (Some(_), false) => {
            setup("--endpoints and dataLayer.discovery both name endpoints, give one of them")
        }
        (Some(_), _) | (_, false) if labels => {
            setup("--endpoint-selector and a list both name endpoints, give one of them")
        }
        (Some(file), true) => Ok(Some(Kind::Discovery(discovery::Source::File(file.clone())))),
        (None, false) => Ok(Some(Kind::Discovery(discovery::Source::List(listed.clone())))),
        (None, true) if named && labels => {
            setup("--pool-name and --endpoint-selector both name endpoints, give one of them")
        }
        (None, true) if named || labels => Ok(None),
        (None, true) if flags.listen.null => Ok(Some(Kind::Null)),
        (None, true) => setup(
            "no source of endpoints: give --pool-name (or --endpoint-selector and --endpoint-target-ports) in \
             Kubernetes, --endpoints ip:port,…, or a configuration with dataLayer.discovery (file-discovery)",
        ),
    }
}

fn selected(flags: &Kubernetes) -> Option<(LabelSelector, TargetPorts)> {
    Some((flags.endpoint_selector.clone()?, flags.endpoint_target_ports.clone()?))
}

/// The Deployment of a pod: its name without the two last parts, which a Deployment adds. As in the reference.
fn owner(pod: &str) -> Option<&str> {
    let added = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    let (rest, last) = pod.rsplit_once('-')?;
    let (owner, middle) = rest.rsplit_once('-')?;
    (!owner.is_empty() && added(last) && added(middle)).then_some(owner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The source that the arguments name, in a word, or why they name none.
    fn named(args: &str) -> String {
        use clap::{Args, FromArgMatches};
        let command = Flags::augment_args(clap::Command::new("lodesman"));
        let matches = command.no_binary_name(true).get_matches_from(args.split_whitespace());
        let flags = Flags::from_arg_matches(&matches).unwrap();
        let resolved = crate::config::load(None, &[crate::schedule::registry::PLUGINS]).unwrap();
        match discovered(&flags, &resolved) {
            Ok(None) => "kubernetes".to_owned(),
            Ok(Some(Kind::Null)) => "null".to_owned(),
            Ok(Some(Kind::Discovery(_))) => "discovery".to_owned(),
            Ok(Some(Kind::Kubernetes(..) | Kind::Embedding(_))) => "another".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn kubernetes_is_asked_where_a_pool_or_labels_are_named_and_no_list() {
        let labels = "--endpoint-selector app=a --endpoint-target-ports 80";
        assert_eq!(named("--pool-name p"), "kubernetes");
        assert_eq!(named(labels), "kubernetes");
        assert_eq!(named("--pool-name p --endpoints 10.0.0.1:80"), "discovery");
        assert_eq!(named("--null"), "null");
        for both in [format!("{labels} --pool-name p"), format!("{labels} --endpoints 10.0.0.1:80")]
        {
            assert!(named(&both).contains("give one of them"), "{both}");
        }
        assert!(named("").contains("--pool-name"));
    }

    #[test]
    fn the_owner_of_a_pod_is_its_deployment() {
        assert_eq!(owner("my-epp-6d4b-x2x9z"), Some("my-epp"));
        assert_eq!(owner("epp-6d4b"), None);
        assert_eq!(owner("epp-0-X"), None);
        assert_eq!(owner("-a-b"), None);
    }
}
