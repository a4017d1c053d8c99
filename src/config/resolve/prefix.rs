//! The prefix index that the plugins of the profiles ask for.

use std::collections::BTreeSet;

use crate::config::problem::Problem;
use crate::config::resolve::instances::{Instance, Instances, Kind};
use crate::prefix::Settings;
use crate::schedule::registry::{Build, Plugin, find};
use crate::schedule::{Needs, Product, Profiles};

/// The parameter by which a plugin names its producer.
const BY_NAME: &str = "prefixMatchInfoProducerName";

/// The producer that is meant when none is named.
const DEFAULT: &str = "approx-prefix-cache-producer";

/// The settings of the index; none when no plugin of a profile needs one.
pub(super) fn resolve(
    profiles: &Profiles,
    instances: &Instances<'_>,
    tables: &[&'static [Plugin]],
    problems: &mut Vec<Problem>,
) -> Option<Settings> {
    let mut index: Option<Settings> = None;
    let names: BTreeSet<_> = profiles.iter().flat_map(|(_, profile)| profile.names()).collect();
    let needing = |needs| names.iter().filter(move |name| asks(name, needs, instances, tables));
    for name in needing(Needs::PREFIX) {
        let instance = instances.named(name);
        let Some(settings) = producer(instance, instances, problems) else { continue };
        let first = &*index.get_or_insert_with(|| settings.clone());
        if let Some(instance) = instance.filter(|_| first.name != settings.name) {
            let message = format!(
                "`{}` beside `{}`: several prefix indexes are not supported yet",
                settings.name, first.name
            );
            let problem = Problem::error(path(instance), message);
            problems.push(problem.hint(format!("name `{}`", first.name)));
        }
    }
    for instance in instances.iter().filter(|instance| is_producer(instance)) {
        if index.as_ref().is_none_or(|index| *index.name != *instance.name) {
            let message = format!("`{}` has no effect: nothing asks it", instance.name);
            let problem = Problem::warning(format!("plugins[{}]", instance.at), message);
            problems.push(
                problem.hint("leave it out, or name it in a scorer's prefixMatchInfoProducerName"),
            );
        }
    }
    let media = needing(Needs::MEDIA).next().is_some();
    index.map(|index| Settings { media, ..index })
}

/// Whether the plugin of this name needs these.
fn asks(name: &str, needs: Needs, instances: &Instances<'_>, tables: &[&'static [Plugin]]) -> bool {
    let plugin = match instances.named(name).map(|instance| instance.kind) {
        Some(Kind::Known(plugin)) => Some(plugin),
        Some(Kind::Discovery | Kind::Source | Kind::Later | Kind::Unknown) => None,
        None => find(tables, name),
    };
    plugin.is_some_and(|plugin| plugin.needs.contain(needs))
}

/// The producer that an instance names, else the one of the default name, else the first, else one with defaults.
fn producer(
    consumer: Option<&Instance<'_>>,
    instances: &Instances<'_>,
    problems: &mut Vec<Problem>,
) -> Option<Settings> {
    let named = consumer.and_then(|consumer| Some((consumer, named(consumer)?)));
    let Some((consumer, name)) = named else {
        let listed = instances.named(DEFAULT).filter(|instance| is_producer(instance));
        let listed = listed.or_else(|| instances.iter().find(|instance| is_producer(instance)));
        return Some(listed.and_then(settings).unwrap_or_default());
    };
    match instances.named(name) {
        Some(instance) if is_producer(instance) => return settings(instance),
        None if name == DEFAULT => return Some(Settings::default()),
        // Already a problem, of the type or of the parameters.
        Some(
            Instance { kind: Kind::Later | Kind::Unknown, .. }
            | Instance {
                kind: Kind::Known(Plugin { build: Build::Producer(_), .. }),
                product: None,
                ..
            },
        ) => {}
        Some(_) => {
            let message = format!("`{name}` tells nothing of prefixes");
            let problem = Problem::error(path(consumer), message);
            problems.push(problem.hint(format!("name a plugin of the type {DEFAULT}")));
        }
        None => problems.push(instances.undefined(path(consumer), name)),
    }
    None
}

fn named<'a>(consumer: &'a Instance<'_>) -> Option<&'a str> {
    consumer.parameters.get(BY_NAME)?.as_str().filter(|name| !name.is_empty())
}

fn is_producer(instance: &Instance<'_>) -> bool {
    matches!(instance.product, Some(Product::Prefix(_)))
}

fn settings(instance: &Instance<'_>) -> Option<Settings> {
    let Some(Product::Prefix(settings)) = &instance.product else { return None };
    Some(Settings { name: instance.name.into(), ..settings.clone() })
}

fn path(consumer: &Instance<'_>) -> String {
    format!("plugins[{}].parameters.{BY_NAME}", consumer.at)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use crate::config::{Problem, Resolved, load};
    use crate::prefix::Settings;
    use crate::schedule::registry::PLUGINS;

    fn resolved(plugins: &str) -> Result<Resolved, Vec<Problem>> {
        let head = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n";
        load(Some(&format!("{head}{plugins}")), &[PLUGINS])
    }

    fn index(plugins: &str) -> Option<Settings> {
        resolved(plugins).expect("no errors").prefix
    }

    fn problems(plugins: &str, expected: &Expect) {
        let problems = resolved(plugins).map_or_else(|problems| problems, |all| all.warnings);
        let lines = problems.iter().map(|problem| problem.in_file("epp.yaml").to_string() + "\n");
        expected.assert_eq(&lines.collect::<String>());
    }

    #[test]
    fn the_index_is_there_only_where_a_plugin_asks_for_it() {
        assert_eq!(load(None, &[PLUGINS]).unwrap().prefix, Some(Settings::default()));
        assert_eq!(index("- type: prefix-cache-scorer\n"), Some(Settings::default()));
        assert_eq!(index("- type: queue-scorer\n"), None);
    }

    #[test]
    fn a_listed_producer_is_the_index_under_its_name() {
        let settings = index(
            "- type: prefix-cache-scorer\n\
             - {type: approx-prefix-cache-producer, name: mine, parameters: {blockSizeTokens: 128}}\n",
        );
        let settings = settings.unwrap();
        assert_eq!((&*settings.name, settings.block_tokens.get()), ("mine", 128));
    }

    #[test]
    fn a_scorer_chooses_its_producer_by_name() {
        let settings = index(
            "- {type: prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: b}}\n\
             - {type: approx-prefix-cache-producer, name: a}\n\
             - {type: approx-prefix-cache-producer, name: b, parameters: {autoTune: false}}\n",
        );
        assert_eq!(settings.map(|settings| settings.auto_tune), Some(false));
    }

    #[test]
    fn what_cannot_be_asked_or_is_asked_by_nobody_is_a_problem() {
        problems(
            "- {type: prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: tokens}}\n\
             - {type: prefix-cache-scorer, name: second, parameters: {prefixMatchInfoProducerName: tokns}}\n\
             - {type: tokenizer, name: tokens}\n\
             - {type: approx-prefix-cache-producer, parameters: {blockSize: 32}}\n",
            &expect![[r"
                epp.yaml:4: error: plugins[0].parameters.prefixMatchInfoProducerName: `tokens` tells nothing of prefixes (name a plugin of the type approx-prefix-cache-producer)
                epp.yaml:5: error: plugins[1].parameters.prefixMatchInfoProducerName: no plugin is named `tokns` (did you mean `tokens`?)
                epp.yaml:6: warning: plugins[2].type: plugin type `tokenizer` is deprecated (write token-producer)
                epp.yaml:7: warning: plugins[3].parameters.blockSize: is deprecated (write blockSizeTokens)
                epp.yaml:7: warning: plugins[3]: `approx-prefix-cache-producer` has no effect: nothing asks it (leave it out, or name it in a scorer's prefixMatchInfoProducerName)
            "]],
        );
    }

    #[test]
    fn two_indexes_at_once_are_refused() {
        problems(
            "- {type: prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: a}}\n\
             - {type: prefix-cache-scorer, name: second, parameters: {prefixMatchInfoProducerName: b}}\n\
             - {type: approx-prefix-cache-producer, name: a}\n\
             - {type: approx-prefix-cache-producer, name: b}\n",
            &expect![[r"
                epp.yaml:5: error: plugins[1].parameters.prefixMatchInfoProducerName: `b` beside `a`: several prefix indexes are not supported yet (name `a`)
                epp.yaml:7: warning: plugins[3]: `b` has no effect: nothing asks it (leave it out, or name it in a scorer's prefixMatchInfoProducerName)
            "]],
        );
    }
}
