//! References to numbers of metrics pages.

use crate::config::engines::{Engines, Signal};
use crate::config::problem::Problem;
use crate::config::resolve::instances::{Instance, Instances, Kind};
use crate::pool::Attributes;

/// The plugins that read a number, each with the parameter that names it.
const READERS: [(&str, &str); 2] =
    [("endpoint-attribute-filter", "attribute"), ("endpoint-attribute-scorer", "attributeKey")];

/// Who tells the numbers, unless another is named.
const DEFAULT: &str = "core-metrics-extractor";

/// Reports who is named and tells no numbers, and warns of numbers that no engine tells.
pub(super) fn check(instances: &Instances<'_>, engines: &Engines, problems: &mut Vec<Problem>) {
    for consumer in instances.iter() {
        let reader = READERS.iter().find(|(reader, _)| *reader == consumer.type_name());
        let Some((_, parameter)) = reader else { continue };
        let path = |name| format!("plugins[{}].parameters.{name}", consumer.at);
        let text = |name| consumer.parameters.get(name).and_then(|value| value.as_str());
        // An empty name is anybody.
        let named = text("producer").filter(|name| !name.is_empty() && *name != DEFAULT);
        problems.extend(named.and_then(|name| wrong(path("producer"), name, instances)));
        if let Some(key) = text(parameter).filter(|key| !told(engines, key)) {
            let problem = Problem::warning(path(parameter), format!("no engine tells `{key}`"));
            let near = problem.nearest(key, keys(engines));
            problems.push(match &near.hint {
                Some(_) => near,
                None => near.hint("add it to customMetrics of core-metrics-extractor"),
            });
        }
    }
}

/// The problem of a producer that tells no numbers.
fn wrong(path: String, name: &str, instances: &Instances<'_>) -> Option<Problem> {
    match instances.named(name) {
        None => Some(instances.undefined(path, name)),
        Some(Instance { kind: Kind::Later | Kind::Unknown, .. }) => None,
        Some(producer) if producer.type_name() == DEFAULT => None,
        Some(_) => {
            let problem = Problem::error(path, format!("`{name}` tells nothing of endpoints"));
            Some(problem.hint("name a core-metrics-extractor"))
        }
    }
}

fn told(engines: &Engines, key: &str) -> bool {
    keys(engines).any(|known| known == key)
}

/// The names of the numbers that an engine may tell.
fn keys(engines: &Engines) -> impl Iterator<Item = &str> {
    let metrics = engines.list.iter().flat_map(|engine| &engine.metrics);
    let own = metrics.filter_map(|metric| match &metric.signal {
        Signal::Attribute(key) => Some(&**key),
        Signal::Waiting
        | Signal::Running
        | Signal::KvUsage
        | Signal::Adapters
        | Signal::BlockSize
        | Signal::Blocks => None,
    });
    own.chain(Attributes::COMMON)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use crate::config::load;
    use crate::schedule::registry::PLUGINS;

    fn problems(plugins: &str, expected: &Expect) {
        let head = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n";
        let resolved = load(Some(&format!("{head}{plugins}")), &[PLUGINS]);
        let problems = resolved.map_or_else(|problems| problems, |all| all.warnings);
        let lines = problems.iter().map(|problem| problem.in_file("epp.yaml").to_string() + "\n");
        expected.assert_eq(&lines.collect::<String>());
    }

    #[test]
    fn a_number_that_an_engine_tells_is_no_problem() {
        let custom = "{name: mine, queuedRequestsSpec: q, customMetrics: [{attributeKey: depth, metricSpec: d}]}";
        problems(
            &format!(
                "- {{type: core-metrics-extractor, name: metrics, parameters: {{engineConfigs: [{custom}]}}}}\n\
                 - {{type: endpoint-attribute-scorer, parameters: {{attributeKey: depth, producer: metrics, algorithm: {{type: linear_lower_is_better}}}}}}\n\
                 - {{type: endpoint-attribute-scorer, name: b, parameters: {{attributeKey: WaitingQueueSize, producer: '', algorithm: {{type: linear_lower_is_better}}}}}}\n"
            ),
            &expect![""],
        );
    }

    #[test]
    fn a_number_that_nobody_tells_and_a_producer_that_tells_none_are_problems() {
        let scorer = |name: &str, parameters: &str| {
            format!(
                "- {{type: endpoint-attribute-scorer, name: {name}, parameters: {{algorithm: {{type: linear_lower_is_better}}, {parameters}}}}}\n"
            )
        };
        let all = [
            scorer("a", "attributeKey: WaitingQueueSise"),
            scorer("b", "attributeKey: zzz"),
            scorer("c", "attributeKey: WaitingQueueSize, producer: a"),
            scorer("d", "attributeKey: WaitingQueueSize, producer: nobody"),
        ];
        problems(
            &all.concat(),
            &expect![[r"
                epp.yaml:4: warning: plugins[0].parameters.attributeKey: no engine tells `WaitingQueueSise` (did you mean `WaitingQueueSize`?)
                epp.yaml:5: warning: plugins[1].parameters.attributeKey: no engine tells `zzz` (add it to customMetrics of core-metrics-extractor)
                epp.yaml:6: error: plugins[2].parameters.producer: `a` tells nothing of endpoints (name a core-metrics-extractor)
                epp.yaml:7: error: plugins[3].parameters.producer: no plugin is named `nobody` (list it under plugins)
            "]],
        );
    }
}
