//! What plugins ask of metrics by name: that there is who tells it.

use crate::config::engines::{Engines, Metric, Signal};
use crate::config::problem::Problem;
use crate::config::resolve::instances::{Instance, Instances, Kind};
use crate::config::sources::Source;
use crate::pool::Attributes;

/// The types that ask, each with its parameter of the name.
const TYPES: [(&str, &str); 2] =
    [("endpoint-attribute-filter", "attribute"), ("endpoint-attribute-scorer", "attributeKey")];

/// Who tells where nobody is named.
const EXTRACTOR: &str = "core-metrics-extractor";

/// The parameter that names who tells; empty is anybody.
const PRODUCER: &str = "producer";

/// Reports who is asked and tells no metrics, and warns of metrics that no engine tells.
pub(super) fn check(instances: &Instances<'_>, engines: &Engines, problems: &mut Vec<Problem>) {
    for instance in instances.iter() {
        let asks = TYPES.iter().find(|(name, _)| *name == instance.type_name());
        let Some((_, field)) = asks else { continue };
        let text = |field: &str| instance.parameters.get(field).and_then(|value| value.as_str());
        let path = |field: &str| format!("plugins[{}].parameters.{field}", instance.at);
        let producer = text(PRODUCER).filter(|name| !name.is_empty() && *name != EXTRACTOR);
        if let Some(name) = producer {
            problems.extend(no_teller(path(PRODUCER), name, instances));
        }
        let Some(key) = text(field).filter(|key| !key.is_empty() && !key.contains('/')) else {
            continue;
        };
        let told = told(engines);
        if !told.contains(&key) {
            let problem = Problem::warning(path(field), format!("no engine tells of `{key}`"));
            let near = problem.nearest(key, told.iter().copied());
            let hinted = near.hint.is_some();
            let list = || format!("list it among customMetrics of {EXTRACTOR}");
            problems.push(if hinted { near } else { near.hint(list()) });
        }
    }
}

/// The problem of one that is asked and is no extractor of metrics.
fn no_teller(path: String, name: &str, instances: &Instances<'_>) -> Option<Problem> {
    match instances.named(name) {
        None => Some(instances.undefined(path, name)),
        Some(
            Instance { source: Some(Source::Engines(_)), .. }
            | Instance { kind: Kind::Later | Kind::Unknown, .. },
        ) => None,
        Some(instance) if instance.type_name() == EXTRACTOR => None,
        Some(_) => {
            let problem = Problem::error(path, format!("`{name}` tells no metrics"));
            Some(problem.hint("name a core-metrics-extractor"))
        }
    }
}

/// The names of all that engines may tell.
fn told(engines: &Engines) -> Vec<&str> {
    let metrics = engines.list.iter().flat_map(|engine| &engine.metrics);
    metrics.filter_map(attribute).chain(Attributes::COMMON).collect()
}

fn attribute(metric: &Metric) -> Option<&str> {
    let Signal::Attribute(name) = &metric.signal else { return None };
    Some(name)
}
