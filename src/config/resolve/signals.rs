//! The sources of signals among the `plugins`, and the `dataLayer.sources` that wire them.
//!
//! An endpoint has one metrics page and one list of models: instances of a source are used whether or not
//! `dataLayer.sources` names them, under whatever name, and a second one of a type is an error. (The reference looks for
//! the literal name, and reads every endpoint twice when the source has another one.)

use crate::config::engines::Engines;
use crate::config::file::{DataLayer, SourceSpec};
use crate::config::problem::Problem;
use crate::config::resolve::instances::{Instance, Instances, Kind};
use crate::config::sources::{Page, Source, Sources};

/// What is read of endpoints.
pub(super) fn resolve(
    data: &DataLayer,
    instances: &Instances<'_>,
    problems: &mut Vec<Problem>,
) -> Sources {
    let mut sources = Sources { metrics: None, models: None, engines: Engines::default() };
    let mut seen: Vec<&str> = Vec::new();
    for instance in instances.iter() {
        let Some(source) = &instance.source else { continue };
        let path = format!("plugins[{}]", instance.at);
        if seen.contains(&instance.type_name()) {
            let message = format!("there is one `{}`, this is a second", instance.type_name());
            problems.push(Problem::error(path, message));
            continue;
        }
        seen.push(instance.type_name());
        match source {
            Source::Metrics(page) => {
                sources.metrics = Some(page.clone());
                problems.extend(without_effect(&path, page));
            }
            Source::Models(page) => {
                sources.models = Some(page.clone());
                problems.extend(without_effect(&path, page));
            }
            Source::Engines(engines) => sources.engines = engines.clone(),
            Source::ModelsExtractor => {}
        }
    }
    for (at, spec) in data.sources.iter() {
        wired(&format!("dataLayer.sources[{at}]"), spec, instances, problems);
    }
    if data.inject_defaults != Some(false) {
        sources.metrics.get_or_insert_default();
    }
    sources
}

fn without_effect(path: &str, page: &Page) -> Option<Problem> {
    let (field, why) = page.without_effect()?;
    Some(Problem::warning(format!("{path}.parameters.{field}"), why))
}

/// Checks one entry of `dataLayer.sources`.
fn wired(path: &str, spec: &SourceSpec, instances: &Instances<'_>, problems: &mut Vec<Problem>) {
    let source = find(path, spec.plugin_ref.as_deref(), instances, problems);
    let is_source = |source: &Source| matches!(source, Source::Metrics(_) | Source::Models(_));
    if let Some((at, source)) = &source
        && !source.is_some_and(is_source)
    {
        problems.push(Problem::error(at, "is no source of signals"));
    }
    let source = source.and_then(|(_, source)| source);
    for (at, extractor) in spec.extractors.iter() {
        let path = format!("{path}.extractors[{at}]");
        let found = find(&path, extractor.plugin_ref.as_deref(), instances, problems);
        let Some((at, extractor)) = found else { continue };
        let fits = source.zip(extractor).is_none_or(|(source, reader)| source.takes(reader));
        if extractor.is_none() || !fits {
            problems.push(Problem::error(at, "does not read this source"));
        }
    }
}

/// The path of a reference with what it names, none for an instance that is no source; none after a problem.
fn find<'a>(
    path: &str,
    name: Option<&str>,
    instances: &'a Instances<'_>,
    problems: &mut Vec<Problem>,
) -> Option<(String, Option<&'a Source>)> {
    let path = format!("{path}.pluginRef");
    let Some(name) = name else {
        problems.push(Problem::error(path, "is missing"));
        return None;
    };
    match instances.named(name) {
        // Already a problem, of the type or of the parameters.
        Some(
            Instance { kind: Kind::Unknown, .. }
            | Instance { kind: Kind::Source, source: None, .. },
        ) => None,
        Some(instance) => Some((path, instance.source.as_ref())),
        None => {
            problems.push(instances.undefined(path, name));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use crate::config::{Problem, Resolved, load};
    use crate::schedule::registry::PLUGINS;

    fn resolved(text: &str) -> Result<Resolved, Vec<Problem>> {
        let header = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n";
        load(Some(&format!("{header}{text}")), &[PLUGINS])
    }

    fn told(problems: &[Problem], expected: &Expect) {
        let lines: Vec<_> =
            problems.iter().map(|problem| format!("{}\n", problem.in_file("epp.yaml"))).collect();
        expected.assert_eq(&lines.concat());
    }

    #[test]
    fn a_metrics_page_is_read_unless_the_defaults_are_off() {
        let page = |text: &str| resolved(text).unwrap().sources.metrics.is_some();
        assert!(page(""));
        assert!(!page("dataLayer: {injectDefaults: false}\n"));
        let listed = "plugins: [{type: metrics-data-source}]\n";
        assert!(page(&format!("{listed}dataLayer: {{injectDefaults: false}}\n")));
    }

    #[test]
    fn a_source_under_another_name_is_the_only_one() {
        let text = "plugins:\n- {name: pages, type: metrics-data-source, parameters: {path: /m, interval: 100ms}}\n\
                    - {name: engines, type: core-metrics-extractor, parameters: {defaultEngine: sglang}}\n\
                    - {type: models-data-source}\n- {type: models-data-extractor}\n- {type: queue-scorer}\n\
                    dataLayer:\n  sources:\n  - {pluginRef: pages, extractors: [{pluginRef: engines}]}\n  \
                    - {pluginRef: models-data-source, extractors: [{pluginRef: models-data-extractor}]}\n";
        let Resolved { sources, warnings, .. } = resolved(text).unwrap();
        assert_eq!(sources.metrics.unwrap().path("/metrics"), "/m");
        assert_eq!(sources.engines.default.as_deref(), Some("sglang"));
        assert_eq!((sources.models.is_some(), warnings.len()), (true, 0));
    }

    #[test]
    fn what_is_wired_wrongly_is_named_with_its_place() {
        let text = "plugins:\n- {type: metrics-data-source, parameters: {caCertPath: /ca}}\n\
                    - {name: twice, type: metrics-data-source}\n- {type: models-data-extractor}\n\
                    - {type: core-metrics-extractor, parameters: {defaultEngine: vlm}}\n- {type: queue-scorer}\n\
                    dataLayer:\n  sources:\n  - extractors: [{}]\n  - {pluginRef: queue-scorer}\n  \
                    - pluginRef: metrics-data-source\n    extractors:\n    - {pluginRef: models-data-extractor}\n    \
                    - {pluginRef: core-metrics-extractor}\n    - {pluginRef: core-metric-extractor}\n";
        let expected = expect![[r"
            epp.yaml:4: warning: plugins[0].parameters.caCertPath: has no effect without scheme: https
            epp.yaml:5: plugins[1]: there is one `metrics-data-source`, this is a second
            epp.yaml:7: plugins[3].parameters: defaultEngine: no engine is named `vlm`, only vllm, sglang, trtllm-serve, triton-tensorrt-llm, triton
            epp.yaml:11: dataLayer.sources[0].pluginRef: is missing
            epp.yaml:11: dataLayer.sources[0].extractors[0].pluginRef: is missing
            epp.yaml:12: dataLayer.sources[1].pluginRef: is no source of signals
            epp.yaml:15: dataLayer.sources[2].extractors[0].pluginRef: does not read this source
            epp.yaml:17: dataLayer.sources[2].extractors[2].pluginRef: no plugin is named `core-metric-extractor` (did you mean `core-metrics-extractor`?)
        "]];
        told(&resolved(text).unwrap_err(), &expected);
    }
}
