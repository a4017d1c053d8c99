//! What the listed producers find out about requests, and the plugins that refer to it.

use serde_json::Value;

use crate::config::problem::Problem;
use crate::config::resolve::instances::{Instance, Instances, Kind};
use crate::schedule::facts::Facts;
use crate::schedule::registry::{Build, Plugin};
use crate::schedule::{AdmitterStep, Product};

/// The facts of all producers; of two that tell the same fact differently the second is a problem.
pub(super) fn resolve(instances: &Instances<'_>, problems: &mut Vec<Problem>) -> Facts {
    let mut facts = Facts::default();
    let mut first: Vec<&Instance<'_>> = Vec::new();
    for instance in instances.iter() {
        let Some(product) = &instance.product else { continue };
        match product {
            Product::InFlight(output) => facts.output = facts.output.or(*output),
            Product::Session(source) => facts.session = Some(source.clone()),
            Product::Agent(headers) => facts.agent.clone_from(headers),
            Product::Media(kept) => facts.media_kept = Some(*kept),
            Product::Prefix(_) | Product::Tokens => continue,
        }
        match first.iter().find(|first| first.type_name() == instance.type_name()) {
            Some(before) => problems.push(again(before, instance)),
            None => first.push(instance),
        }
    }
    let asked = asked(instances, problems);
    for instance in instances.iter() {
        let Some(product) = &instance.product else { continue };
        if REFERENCES.iter().any(|kind| (kind.produces)(product) && !asked.contains(&kind.default))
        {
            let message = format!("`{}` has no effect: nothing asks it", instance.name);
            let problem = Problem::warning(format!("plugins[{}]", instance.at), message);
            problems.push(problem.hint("leave it out"));
        }
    }
    facts
}

/// The listed admitters, in the order of the file.
pub(super) fn admitters(instances: &Instances<'_>) -> Vec<AdmitterStep> {
    let step = |instance: &Instance<'_>| {
        let Kind::Known(Plugin { build: Build::Admitter(build), .. }) = instance.kind else {
            return None;
        };
        let admitter = build(instance.parameters.clone()).ok()?;
        Some(AdmitterStep { name: instance.name.into(), admitter })
    };
    instances.iter().filter_map(step).collect()
}

/// The problem of a second producer of one fact.
fn again(first: &Instance<'_>, second: &Instance<'_>) -> Problem {
    let path = format!("plugins[{}]", second.at);
    if first.product == second.product {
        let message = format!("`{}` has no effect: `{}` says the same", second.name, first.name);
        return Problem::warning(path, message).hint("leave it out");
    }
    let message = format!("there is one `{}`, this is a second", second.type_name());
    Problem::error(path, message).hint(format!("leave it out, or `{}`", first.name))
}

/// Checks whom the plugins name that refer to a producer; the types of producers that are asked.
fn asked(instances: &Instances<'_>, problems: &mut Vec<Problem>) -> Vec<&'static str> {
    let mut asked = Vec::new();
    for consumer in instances.iter() {
        for kind in REFERENCES {
            for (path, name) in (kind.names)(consumer) {
                asked.push(kind.default);
                let named = name.filter(|name| !name.is_empty());
                let path = format!("plugins[{}].parameters.{path}", consumer.at);
                problems.extend(kind.problem(path, named, instances));
            }
        }
    }
    asked
}

/// References to producers of one kind.
struct References {
    /// The type of the producers, which is the name that is meant when none is given.
    default: &'static str,
    /// Whether it is there without being listed.
    implied: bool,
    /// What it does not do who is named wrongly.
    tells: &'static str,
    produces: fn(&Product) -> bool,
    /// The references of a plugin, by the paths of their parameters.
    names: for<'a> fn(&'a Instance<'_>) -> Names<'a>,
}

/// Paths of parameters, and the names that are given there.
type Names<'a> = Vec<(String, Option<&'a str>)>;

const REFERENCES: &[References] = &[
    References {
        default: "session-id-producer",
        implied: false,
        tells: "sessions",
        produces: |product| matches!(product, Product::Session(_)),
        names: sessions,
    },
    References {
        default: "mm-embeddings-cache-producer",
        implied: true,
        tells: "media",
        produces: |product| matches!(product, Product::Media(_)),
        names: |consumer| match consumer.type_name() {
            "mm-embeddings-cache-scorer" => {
                let name = consumer.parameters.get("producerName").and_then(Value::as_str);
                vec![("producerName".to_owned(), name)]
            }
            _ => Vec::new(),
        },
    },
];

impl References {
    fn problem(
        &self,
        path: String,
        named: Option<&str>,
        instances: &Instances<'_>,
    ) -> Option<Problem> {
        let name = named.unwrap_or(self.default);
        let Some(producer) = instances.named(name) else {
            let implied = self.implied && name == self.default;
            return (!implied).then(|| instances.undefined(path, name));
        };
        let bad_already = matches!(producer.kind, Kind::Later | Kind::Unknown);
        let right = producer.type_name() == self.default;
        let wrong = || Problem::error(path, format!("`{name}` tells no {}", self.tells));
        (!bad_already && !right).then(|| wrong().hint(format!("name a {}", self.default)))
    }
}

/// Where sessions are asked for.
fn sessions<'a>(consumer: &'a Instance<'_>) -> Names<'a> {
    let sources = consumer.parameters.pointer("/sessionIdConfig/sources");
    let sources = sources.and_then(Value::as_array).into_iter().flatten().enumerate();
    let asks = sources.filter(|(_, source)| source.get("attribute").is_some());
    let path = |at| format!("sessionIdConfig.sources[{at}].producer");
    asks.map(|(at, source)| (path(at), source.get("producer").and_then(Value::as_str))).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use crate::config::{Problem, Resolved, load};
    use crate::schedule::facts::{OutputEstimate, SessionSource};
    use crate::schedule::registry::PLUGINS;

    fn resolved(plugins: &str) -> Result<Resolved, Vec<Problem>> {
        let head = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n- type: queue-scorer\n";
        load(Some(&format!("{head}{plugins}")), &[PLUGINS])
    }

    fn problems(plugins: &str, expected: &Expect) {
        let problems = resolved(plugins).map_or_else(|problems| problems, |all| all.warnings);
        let lines = problems.iter().map(|problem| problem.in_file("epp.yaml").to_string() + "\n");
        expected.assert_eq(&lines.collect::<String>());
    }

    #[test]
    fn producers_and_admitters_count_by_being_listed() {
        let all = resolved(
            "- {type: inflight-load-producer, parameters: {addEstimatedOutputTokens: true}}\n\
             - {type: session-id-producer, parameters: {cookieName: sid}}\n\
             - {type: session-affinity-scorer, parameters: {strategy: session_id, sessionIdConfig: {sources: [{attribute: SessionID, producer: session-id-producer}]}}}\n\
             - {type: agent-identity}\n\
             - {type: probabilistic-admitter, name: some}\n",
        )
        .unwrap();
        assert_eq!(all.warnings, Vec::new());
        assert_eq!(all.facts.output, Some(OutputEstimate { ratio: 1.5, most: None }));
        assert_eq!(all.facts.session, Some(SessionSource::Cookie("sid".into())));
        assert_eq!(all.facts.agent.len(), 4);
        let names: Vec<_> = all.admitters.iter().map(|step| &*step.name).collect();
        assert_eq!(names, ["some"]);
    }

    #[test]
    fn media_are_known_one_by_one_only_where_a_plugin_asks_for_them() {
        let media = |plugins: &str| resolved(plugins).unwrap().prefix.map(|index| index.media);
        assert_eq!(media("- type: mm-embeddings-cache-scorer\n"), Some(true));
        assert_eq!(media("- type: prefix-cache-scorer\n"), Some(false));
        assert_eq!(media(""), None);
        let sized = "- {type: mm-embeddings-cache-producer, name: mine, parameters: {cacheSizeInMBPerServer: 64}}\n\
                     - {type: mm-embeddings-cache-scorer, parameters: {producerName: mine}}\n";
        let all = resolved(sized).unwrap();
        assert_eq!((all.facts.media_kept, all.warnings), (Some(32), Vec::new()));
    }

    #[test]
    fn what_is_told_twice_or_asked_of_nobody_is_a_problem() {
        problems(
            "- {type: session-id-producer, parameters: {headerName: a}}\n\
             - {type: session-id-producer, name: b, parameters: {headerName: b}}\n\
             - {type: agent-identity}\n\
             - {type: agent-identity, name: again}\n\
             - {type: mm-embeddings-cache-producer}\n",
            &expect![[r"
                epp.yaml:5: warning: plugins[1]: `session-id-producer` has no effect: nothing asks it (leave it out)
                epp.yaml:6: error: plugins[2]: there is one `session-id-producer`, this is a second (leave it out, or `session-id-producer`)
                epp.yaml:6: warning: plugins[2]: `b` has no effect: nothing asks it (leave it out)
                epp.yaml:8: warning: plugins[4]: `again` has no effect: `agent-identity` says the same (leave it out)
                epp.yaml:9: warning: plugins[5]: `mm-embeddings-cache-producer` has no effect: nothing asks it (leave it out)
            "]],
        );
        problems(
            "- type: session-affinity-filter\n  parameters:\n    strategy: session_id\n    sessionIdConfig:\n      sources:\n      - {attribute: SessionID}\n      - {attribute: SessionID, producer: queue-scorer}\n",
            &expect![[r"
                epp.yaml:10: error: plugins[1].parameters.sessionIdConfig.sources[0].producer: no plugin is named `session-id-producer` (list it under plugins)
                epp.yaml:11: error: plugins[1].parameters.sessionIdConfig.sources[1].producer: `queue-scorer` tells no sessions (name a session-id-producer)
            "]],
        );
    }
}
