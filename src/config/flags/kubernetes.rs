//! Flags of a picker in Kubernetes.

use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};

use super::{boolean, duration};
use crate::config::selector::LabelSelector;
use crate::config::target::TargetPorts;

/// Kubernetes, where a pool or a selector is named and no other source of endpoints is.
#[derive(Args, Clone, Debug)]
pub struct Kubernetes {
    /// Name of the InferencePool, or `namespace/name`.
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub pool_name: String,
    /// Its namespace [default: $NAMESPACE, else the namespace of our own pod or kubeconfig, else default].
    #[arg(long, value_name = "NAMESPACE", default_value = "", hide_default_value = true)]
    pub pool_namespace: String,
    /// Its API group; the one with `x-` is InferencePool v1alpha2.
    #[arg(long, value_name = "GROUP", default_value = PoolGroup::V1_NAME)]
    pub pool_group: PoolGroup,
    /// Labels of the pods to serve, as `app=llm,tier in (a,b),!spot`, instead of an InferencePool.
    #[arg(long, value_name = "LABELS", requires = "endpoint_target_ports")]
    pub endpoint_selector: Option<LabelSelector>,
    /// Ports of those pods, 1 to 8, comma separated.
    #[arg(long, value_name = "PORTS", requires = "endpoint_selector")]
    pub endpoint_target_ports: Option<TargetPorts>,
    /// Let pods drain when their node is cordoned or about to be removed by an autoscaler; needs the right to list and watch
    /// nodes.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false,
          hide_default_value = true, default_missing_value = "true", action = ArgAction::Set, value_parser = boolean)]
    pub watch_nodes: bool,
    /// How often pods are told what they are worth, by the annotation `controller.kubernetes.io/pod-deletion-cost`: a
    /// ReplicaSet that shrinks deletes those of least worth first; 1s or more, never when absent; needs the right to patch
    /// pods.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub pod_deletion_cost_interval: Option<Duration>,
    /// Only the replica that leads is ready; all are when absent.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false,
          hide_default_value = true, default_missing_value = "true", action = ArgAction::Set, value_parser = boolean)]
    pub ha_enable_leader_election: bool,
    /// Time between two looks for a kind of objects that is not installed, or not permitted; 200ms to 24h.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub kind_retry_interval: Duration,
}

/// The API groups of InferencePool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PoolGroup {
    /// InferencePool v1.
    #[value(name = PoolGroup::V1_NAME)]
    V1,
    /// InferencePool v1alpha2.
    #[value(name = PoolGroup::V1ALPHA2_NAME)]
    V1Alpha2,
}

impl PoolGroup {
    const V1_NAME: &str = "inference.networking.k8s.io";
    const V1ALPHA2_NAME: &str = "inference.networking.x-k8s.io";
}

impl Kubernetes {
    /// Why the flags contradict each other, if they do.
    pub fn contradiction(&self) -> Option<String> {
        let (Some(with_name), _) = self.pool() else { return None };
        let flag = self.pool_namespace.as_str();
        let differ = !with_name.is_empty() && !flag.is_empty() && flag != with_name;
        differ.then(|| {
            let name = &self.pool_name;
            format!("--pool-name {name} and --pool-namespace {flag} name two namespaces, give one")
        })
    }

    /// The pool's name, and its namespace where one was given with it.
    pub fn pool(&self) -> (Option<&str>, &str) {
        match self.pool_name.split_once('/') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, &self.pool_name),
        }
    }

    /// The first namespace that is given: with the pool's name, by the flag, then those of `others`, else `default`.
    pub fn namespace<'a>(&'a self, others: &[Option<&'a str>]) -> &'a str {
        let (with_name, _) = self.pool();
        let given = [with_name, Some(self.pool_namespace.as_str())];
        let mut all = given.into_iter().chain(others.iter().copied()).flatten();
        all.find(|name| !name.is_empty()).unwrap_or("default")
    }
}
