//! Which kinds of objects are installed, in which versions.

use crate::cli::doctor::facts::{Cluster, Facts, Wanted};
use crate::cli::doctor::finding::{Check, Finding, Outcome};
use crate::config::PoolGroup;

pub(in crate::cli::doctor) const CHECK: Check =
    Check { name: "crds", good: "the kinds that are needed are installed", run };

/// InferencePool of each group, by group and version.
const POOLS: [(PoolGroup, &str); 2] = [
    (PoolGroup::V1, "inference.networking.k8s.io/v1"),
    (PoolGroup::V1Alpha2, "inference.networking.x-k8s.io/v1alpha2"),
];

/// Kinds without which something is off, in any of the versions.
const OPTIONAL: [(&str, &[&str], &str); 2] = [
    (
        "inferenceobjectives",
        &["llm-d.ai/v1alpha2", "inference.networking.x-k8s.io/v1alpha2"],
        "requests have no priorities by objective",
    ),
    (
        "inferencemodelrewrites",
        &["llm-d.ai/v1alpha2", "inference.networking.x-k8s.io/v1alpha2"],
        "models are not rewritten",
    ),
];

fn run(facts: &Facts) -> Outcome {
    let cluster = facts.cluster()?;
    let needed = match &cluster.wanted {
        Wanted::Pool { group, .. } => pool(cluster, *group),
        Wanted::Selected { .. } => None,
    };
    let missing = OPTIONAL.iter().filter_map(|kind| optional(cluster, kind));
    Ok(needed.into_iter().chain(missing).collect())
}

fn pool(cluster: &Cluster, group: PoolGroup) -> Option<Finding> {
    let version = |of: PoolGroup| POOLS.iter().find(|(it, _)| *it == of).map_or("", |it| it.1);
    let wanted = version(group);
    match serves(cluster, wanted, "inferencepools") {
        Ok(true) => return None,
        Err(why) => {
            let fix = "let this account read /apis";
            return Some(Finding::unseen(CHECK, wanted, &why, fix));
        }
        Ok(false) => {}
    }
    let other = POOLS.iter().find(|(it, version)| {
        *it != group && serves(cluster, version, "inferencepools").unwrap_or(false)
    });
    let (found, fix) = match other {
        Some((_, other)) => (
            format!("InferencePool is served as {other}, not as {wanted}"),
            format!(
                "apply manifests/crds, or serve the other one with --pool-group {}",
                other.split('/').next().unwrap_or_default()
            ),
        ),
        None => (
            format!("there is no InferencePool {wanted}"),
            "kubectl apply --server-side -k manifests/crds".to_owned(),
        ),
    };
    Some(Finding::problem(CHECK, found, "the pool cannot be read, so there are no endpoints", fix))
}

fn optional(
    cluster: &Cluster,
    (plural, versions, means): &(&str, &[&str], &str),
) -> Option<Finding> {
    let served = |version: &&str| serves(cluster, version, plural).unwrap_or(true);
    let none = !versions.iter().any(served);
    none.then(|| {
        let found = format!("{plural} are not installed in {}", versions.join(" or "));
        Finding::problem(CHECK, found, *means, "apply manifests/crds if you want them").noted()
    })
}

/// Whether a version has a kind.
fn serves(cluster: &Cluster, version: &str, plural: &str) -> Result<bool, String> {
    match cluster.served.get(version) {
        Some(Ok(Some(plurals))) => Ok(plurals.iter().any(|it| it == plural)),
        Some(Ok(None)) | None => Ok(false),
        Some(Err(why)) => Err(why.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::checks::fixture::{cluster, told, with};

    #[test]
    fn a_pool_of_another_version_is_told_with_the_flag_for_it() {
        assert_eq!(told(CHECK, &with(cluster())), [""; 0]);
        let mut old = cluster();
        old.served.remove("inference.networking.k8s.io/v1");
        let found = "problem: InferencePool is served as inference.networking.x-k8s.io/v1alpha2, \
                     not as inference.networking.k8s.io/v1";
        assert_eq!(told(CHECK, &with(old.clone())), [found]);
        let findings = (CHECK.run)(&with(old.clone())).unwrap();
        assert!(findings[0].fix.contains("--pool-group inference.networking.x-k8s.io"));
        old.served.clear();
        let all = told(CHECK, &with(old));
        assert_eq!(all[0], "problem: there is no InferencePool inference.networking.k8s.io/v1");
        assert_eq!(all.len(), 3, "objectives and rewrites are noted: {all:?}");
        assert!(all[1].starts_with("note: inferenceobjectives are not installed"));
    }

    #[test]
    fn what_may_not_be_read_is_noted() {
        let mut closed = cluster();
        let refused = Err("forbidden".to_owned());
        closed.served.insert("inference.networking.k8s.io/v1".to_owned(), refused);
        let noted = "note: inference.networking.k8s.io/v1 cannot be read: forbidden";
        assert_eq!(told(CHECK, &with(closed)), [noted]);
    }
}
