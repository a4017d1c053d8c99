//! The `dataLayer` of a configuration file.

use crate::config::file::DataLayer;
use crate::config::problem::Problem;
use crate::config::resolve::FileDiscovery;
use crate::config::resolve::instances::Instances;
use crate::config::resolve::role::Role;
use crate::config::resolve::signals;
use crate::config::sources::Sources;

/// Where endpoints and their signals come from.
#[derive(Debug)]
pub(super) struct Data {
    /// The file that endpoints come from; none without one.
    pub(super) discovery: Option<FileDiscovery>,
    /// Where their signals come from.
    pub(super) sources: Sources,
}

pub(super) fn resolve(
    data: &DataLayer,
    instances: &Instances<'_>,
    problems: &mut Vec<Problem>,
) -> Data {
    let sources = signals::resolve(data, instances, problems);
    replicas(data, problems);
    let discovery = data.discovery.as_ref().and_then(|discovery| {
        let path = "dataLayer.discovery.pluginRef";
        let name = discovery.plugin_ref.as_deref();
        instances.referenced(name, path, Role::Discovery, problems)?.discovery.clone()
    });
    Data { discovery, sources }
}

/// What is shared with sibling replicas: nothing, yet.
fn replicas(data: &DataLayer, problems: &mut Vec<Problem>) {
    let sections = [
        ("peerDiscovery", data.peer_discovery.is_some()),
        ("crossReplicaSyncerPluginRef", data.cross_replica_syncer_plugin_ref.is_some()),
        ("crossReplicaSyncInterval", data.cross_replica_sync_interval.is_some()),
    ];
    for (name, _) in sections.into_iter().filter(|(_, given)| *given) {
        let problem = Problem::error(format!("dataLayer.{name}"), "is not supported yet");
        problems.push(problem.hint("leave it out"));
    }
}
