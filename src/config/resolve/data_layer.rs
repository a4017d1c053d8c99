//! The `dataLayer` of a configuration file.

use crate::config::file::DataLayer;
use crate::config::problem::Problem;
use crate::config::resolve::FileDiscovery;
use crate::config::resolve::instances::Instances;
use crate::config::resolve::role::Role;

/// The source of metrics pages; one of another name is the same source.
const METRICS: &str = "metrics-data-source";

/// Where endpoints and their signals come from.
#[derive(Debug)]
pub(super) struct Data {
    /// The file that endpoints come from; none without one.
    pub(super) discovery: Option<FileDiscovery>,
    /// Whether metrics pages are read.
    pub(super) scraped: bool,
}

pub(super) fn resolve(
    data: &DataLayer,
    instances: &Instances<'_>,
    problems: &mut Vec<Problem>,
) -> Data {
    let mut metrics = None;
    for (at, source) in data.sources.iter() {
        let path = format!("dataLayer.sources[{at}]");
        let name = source.plugin_ref.as_deref();
        let instance =
            instances.referenced(name, &format!("{path}.pluginRef"), Role::Source, problems);
        let read = instance.filter(|instance| instance.type_name() == METRICS);
        if let (Some(first), Some(_)) = (metrics, read) {
            let message = format!("has no effect: metrics pages are read by `{first}` already");
            problems.push(Problem::warning(&path, message));
        }
        metrics = metrics.or_else(|| read.map(|instance| instance.name));
        for (at, extractor) in source.extractors.iter() {
            let path = format!("{path}.extractors[{at}].pluginRef");
            let name = extractor.plugin_ref.as_deref();
            instances.referenced(name, &path, Role::Extractor, problems);
        }
    }
    replicas(data, problems);
    let discovery = data.discovery.as_ref().and_then(|discovery| {
        let path = "dataLayer.discovery.pluginRef";
        let name = discovery.plugin_ref.as_deref();
        instances.referenced(name, path, Role::Discovery, problems)?.discovery.clone()
    });
    Data { discovery, scraped: metrics.is_some() || data.inject_defaults != Some(false) }
}

/// What is shared with sibling replicas: nothing, yet.
fn replicas(data: &DataLayer, problems: &mut Vec<Problem>) {
    let sections = [
        ("peerDiscovery", data.peer_discovery.is_some()),
        ("crossReplicaSyncerPluginRef", data.cross_replica_syncer_plugin_ref.is_some()),
        ("crossReplicaSyncInterval", data.cross_replica_sync_interval.is_some()),
    ];
    for (name, _) in sections.into_iter().filter(|(_, given)| *given) {
        problems.push(Problem::error(format!("dataLayer.{name}"), "is not supported yet"));
    }
}
