//! Gathers the facts: asks the API server, model servers and the file system, and judges nothing.

use std::net::SocketAddr;

use futures_util::future::join_all;

use crate::cli::failure::{Failure, fault, usage};
use crate::config::{Address, Problem, Resolved};
use crate::discovery;
use crate::k8s::{Access, AccessError};
use crate::schedule::registry::PLUGINS;
use crate::scrape::look::{Looked, Looker};
use crate::server::clock;

use super::DoctorArgs;
use super::facts::{Clock, Facts, Page, Told};

use self::cluster::Api;

mod certificate;
mod cluster;

/// Metrics pages that are read: enough to see what is wrong with all of them.
const PAGES: usize = 16;

/// An endpoint whose page is to be read.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// For people.
    name: String,
    address: SocketAddr,
    /// The pod and its port, to be read through the API server; none outside Kubernetes.
    pod: Option<(String, u16)>,
}

/// Everything that the checks want to know.
///
/// # Errors
/// When nothing is named to look at, or the machine does not let us.
pub(super) async fn facts(args: &DoctorArgs) -> Result<Facts, Failure> {
    let (configuration, resolved) = configuration(args);
    let mut facts = Facts {
        configuration,
        certificate: args.cert_path().map(|path| certificate::read(path)),
        secure_serving: args.tls.secure_serving,
        now: i64::try_from(clock::unix_seconds()).unwrap_or(i64::MAX),
        ..Facts::default()
    };
    // What cannot be resolved is told; the rest is looked at as if there were none.
    let resolved = match resolved {
        Some(resolved) => resolved,
        None => load("").map_err(|problems| fault(format!("{problems:?}")))?,
    };
    let looker = Looker::new(&resolved.sources).map_err(|error| usage(error.to_string()))?;
    let outside = outside(args, &resolved)?;
    let api = if outside.is_some() { None } else { Some(api(args).await?) };
    let targets = match (&api, outside) {
        (Some(api), _) => {
            let (cluster, clock) = api.cluster(args, facts.now).await;
            let targets = cluster::targets(&cluster);
            facts.cluster = Some(cluster);
            facts.clocks.extend(clock);
            targets
        }
        (None, outside) => outside.unwrap_or_default(),
    };
    if resolved.sources.metrics.is_some() {
        let pages = targets.iter().take(PAGES).map(|target| read(&looker, api.as_ref(), target));
        for (page, clock) in join_all(pages).await {
            facts.pages.push(page);
            facts.clocks.extend(clock);
        }
    }
    Ok(facts)
}

type Configured = Option<Result<Vec<Problem>, String>>;

/// The problems of the configuration, and what it means where it can be used.
fn configuration(args: &DoctorArgs) -> (Configured, Option<Resolved>) {
    let text = match (&args.pool.config_file, &args.pool.config_text) {
        (None, None) => return (None, load("").ok()),
        (None, Some(text)) => Ok(text.clone()),
        (Some(path), _) => {
            std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
        }
    };
    match text.map(|text| load(&text)) {
        Err(why) => (Some(Err(why)), None),
        Ok(Err(problems)) => (Some(Ok(problems)), None),
        Ok(Ok(resolved)) => (Some(Ok(resolved.warnings.clone())), Some(resolved)),
    }
}

fn load(text: &str) -> Result<Resolved, Vec<Problem>> {
    let text = Some(text).filter(|text| !text.is_empty());
    crate::config::load(text, &[PLUGINS])
}

/// The endpoints that flags or a file list; none where Kubernetes is to be asked.
fn outside(args: &DoctorArgs, resolved: &Resolved) -> Result<Option<Vec<Target>>, Failure> {
    let named = |address: &Address| match address {
        Address::Ip(address) => Some(*address),
        Address::Name(_) => None,
    };
    if !args.pool.endpoints.is_empty() {
        let ips = args.pool.endpoints.iter().filter_map(named);
        return Ok(Some(ips.map(|it| Target::listed(it.to_string(), it)).collect()));
    }
    let Some(file) = &resolved.discovery else {
        let kubernetes = &args.kubernetes;
        let asked = !kubernetes.pool().1.is_empty() || kubernetes.endpoint_selector.is_some();
        let only_file = args.pool.config_file.is_some() || args.pool.config_text.is_some();
        return match (asked, only_file) {
            (true, _) => Ok(None),
            (false, true) => Ok(Some(Vec::new())),
            (false, false) => Err(usage(
                "nothing to look at: give --pool-name (or --endpoint-selector and --endpoint-target-ports), \
                 --config-file or --endpoints, as the picker has them",
            )),
        };
    };
    let text = std::fs::read_to_string(&file.path).unwrap_or_default();
    let members = discovery::parse(&text).map(|listing| listing.members).unwrap_or_default();
    let target =
        |member: discovery::Member| Some(Target::listed(member.name, named(&member.address)?));
    Ok(Some(members.into_iter().filter_map(target).collect()))
}

async fn api(args: &DoctorArgs) -> Result<Api, Failure> {
    let access = Access::infer().await.map_err(|error| match error {
        AccessError::Unconfigured(why) => usage(format!(
            "no Kubernetes to ask: set KUBECONFIG, or run in a pod with a service account ({why})"
        )),
        AccessError::Unusable(_) => usage(error.to_string()),
    })?;
    Ok(Api::new(access, args))
}

/// Reads a page directly, as the picker does; from outside of the cluster through the API server.
async fn read(looker: &Looker, api: Option<&Api>, target: &Target) -> (Page, Option<Clock>) {
    let direct = looker.look(target.address).await;
    let found = match (direct, api, &target.pod) {
        (Err(why), Some(api), Some((pod, port))) if !api.inside => {
            let text = api.page(pod, *port, looker.path()).await;
            text.map(|text| Looked { text, date: None }).or(Err(why))
        }
        (direct, ..) => direct,
    };
    let endpoint = target.name.clone();
    let now = i64::try_from(clock::unix_seconds()).unwrap_or(i64::MAX);
    match found {
        Err(why) => (Page { endpoint, told: Err(why) }, None),
        Ok(Looked { text, date }) => {
            let date = date.as_deref().and_then(seconds);
            let clock = date.map(|date| Clock { whose: endpoint.clone(), ahead: date - now });
            let crate::scrape::look::Told { engine, prefix_caching } = looker.told(&text);
            (Page { endpoint, told: Ok(Told { engine, prefix_caching }) }, clock)
        }
    }
}

/// A date of HTTP in seconds since 1970.
pub(super) fn seconds(date: &str) -> Option<i64> {
    let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(date).ok()?;
    Some(date.as_second())
}

impl Target {
    fn listed(name: String, address: SocketAddr) -> Self {
        Self { name, address, pod: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_http_are_read() {
        assert_eq!(seconds("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(seconds("yesterday"), None);
    }
}
