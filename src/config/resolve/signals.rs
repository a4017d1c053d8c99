//! The sources of signals among the `plugins`, and the `dataLayer.sources` that wire them.
//!
//! An endpoint has one metrics page and one list of models. Instances of their sources are read under whatever name, and
//! whether or not `dataLayer.sources` names them unless `injectDefaults` is false; a second one of a type has no effect
//! where it says the same and is an error where it does not. (The reference looks for the literal name, and reads every
//! endpoint twice when the source has another one.)

use crate::config::engines::Engines;
use crate::config::file::{DataLayer, SourceSpec};
use crate::config::problem::Problem;
use crate::config::resolve::instances::{Instance, Instances, Kind};
use crate::config::resolve::role::Role;
use crate::config::sources::{Page, Source, Sources};
use crate::units::GoDuration;

/// The parameter of a detector that says from when on pages are stale.
const STALENESS: &str = "metricsStalenessThreshold";

/// Whatever that says, no page is stale before so many are missing.
const STALE_INTERVALS: u32 = 4;

/// What is read of endpoints.
pub(super) fn resolve(
    data: &DataLayer,
    instances: &Instances<'_>,
    problems: &mut Vec<Problem>,
) -> Sources {
    for (at, spec) in data.sources.iter() {
        wired(&format!("dataLayer.sources[{at}]"), spec, instances, problems);
    }
    let mut sources = Sources { metrics: None, models: None, engines: Engines::default() };
    let mut seen: Vec<(&str, &Instance<'_>)> = Vec::new();
    for instance in instances.iter() {
        let Some(source) = &instance.source else { continue };
        let path = format!("plugins[{}]", instance.at);
        if source.page().is_some() && !reads(data, instance.name) {
            let message =
                format!("`{}` has no effect: it is not in dataLayer.sources", instance.name);
            problems.push(Problem::warning(path, message).hint("name it there, or leave it out"));
            continue;
        }
        if let Some((_, first)) = seen.iter().find(|(name, _)| *name == instance.type_name()) {
            problems.push(again(path, first, instance));
            continue;
        }
        seen.push((instance.type_name(), instance));
        problems.extend(source.page().and_then(|page| without_effect(&path, page)));
        match source {
            Source::Metrics(page) => sources.metrics = Some(page.clone()),
            Source::Models(page) => sources.models = Some(page.clone()),
            Source::Engines(engines) => sources.engines = engines.clone(),
            Source::ModelsExtractor => {}
        }
    }
    if data.inject_defaults != Some(false) {
        sources.metrics.get_or_insert_default();
    }
    sources
}

/// Warns of detectors that would take a page for stale before the next one is due, and do not.
pub(super) fn check_staleness(
    instances: &Instances<'_>,
    sources: &Sources,
    problems: &mut Vec<Problem>,
) {
    let Some(interval) = sources.metrics.as_ref().and_then(Page::interval) else { return };
    let least = interval.saturating_mul(STALE_INTERVALS);
    for instance in instances.iter().filter(|instance| instance.plays(Role::Detector)) {
        let age = instance.parameters.get(STALENESS).cloned();
        let age = age.and_then(|age| serde_json::from_value::<GoDuration>(age).ok());
        if let Some(GoDuration(age)) = age.filter(|GoDuration(age)| *age < least) {
            let path = format!("plugins[{}].parameters.{STALENESS}", instance.at);
            let (age, least) = (GoDuration(age), GoDuration(least));
            let interval = GoDuration(interval);
            let message = format!("{age} has no effect: pages are read every {interval}");
            let hint = format!("give {least} or more, or the metrics source a shorter interval");
            problems.push(Problem::warning(path, message).hint(hint));
        }
    }
}

/// Whether the source of this name is read.
fn reads(data: &DataLayer, name: &str) -> bool {
    let mut listed = data.sources.iter().map(|(_, source)| source.plugin_ref.as_deref());
    data.inject_defaults != Some(false) || listed.any(|listed| listed == Some(name))
}

/// The problem of a second instance of a type.
fn again(path: String, first: &Instance<'_>, second: &Instance<'_>) -> Problem {
    if first.source == second.source {
        let message = format!("`{}` has no effect: `{}` says the same", second.name, first.name);
        return Problem::warning(path, message).hint("leave it out");
    }
    let message = format!("there is one `{}`, this is a second", second.type_name());
    Problem::error(path, message).hint(format!("leave it out, or `{}`", first.name))
}

fn without_effect(path: &str, page: &Page) -> Option<Problem> {
    let (field, why) = page.without_effect()?;
    Some(Problem::warning(format!("{path}.parameters.{field}"), why).hint("leave it out"))
}

/// Checks one entry of `dataLayer.sources`.
fn wired(path: &str, spec: &SourceSpec, instances: &Instances<'_>, problems: &mut Vec<Problem>) {
    let source = spec.plugin_ref.as_deref();
    let source = instances.referenced(source, &format!("{path}.pluginRef"), Role::Source, problems);
    let source = source.and_then(|source| source.source.as_ref());
    for (at, extractor) in spec.extractors.iter() {
        let path = format!("{path}.extractors[{at}].pluginRef");
        let name = extractor.plugin_ref.as_deref();
        let extractor = instances.referenced(name, &path, Role::Extractor, problems);
        if let (Some(source), Some(extractor)) = (source, extractor)
            && !fits(source, extractor)
        {
            let message = format!("`{}` does not read this source", extractor.name);
            problems.push(Problem::error(path, message).hint("leave it out here"));
        }
    }
}

/// Whether `extractor` reads `source`, or is a problem already.
fn fits(source: &Source, extractor: &Instance<'_>) -> bool {
    match (extractor.kind, &extractor.source) {
        (Kind::Later | Kind::Unknown, _) | (Kind::Source, None) => true,
        (_, read) => read.as_ref().is_some_and(|read| source.takes(read)),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use crate::config::sources::Page;
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
        let listed =
            "plugins: [{type: metrics-data-source}]\ndataLayer:\n  injectDefaults: false\n";
        assert!(!page(listed));
        assert!(page(&format!("{listed}  sources: [{{pluginRef: metrics-data-source}}]\n")));
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
            epp.yaml:4: warning: plugins[0].parameters.caCertPath: has no effect without scheme: https (leave it out)
            epp.yaml:5: error: plugins[1]: there is one `metrics-data-source`, this is a second (leave it out, or `metrics-data-source`)
            epp.yaml:7: error: plugins[3].parameters.defaultEngine: no engine is named `vlm` (give one of vllm, sglang, trtllm-serve, triton-tensorrt-llm, triton)
            epp.yaml:11: error: dataLayer.sources[0].pluginRef: is missing (name a plugin)
            epp.yaml:11: error: dataLayer.sources[0].extractors[0].pluginRef: is missing (name a plugin)
            epp.yaml:12: error: dataLayer.sources[1].pluginRef: `queue-scorer` is no data source (name a data source)
            epp.yaml:15: error: dataLayer.sources[2].extractors[0].pluginRef: `models-data-extractor` does not read this source (leave it out here)
            epp.yaml:17: error: dataLayer.sources[2].extractors[2].pluginRef: no plugin is named `core-metric-extractor` (did you mean `core-metrics-extractor`?)
        "]];
        told(&resolved(text).unwrap_err(), &expected);
    }

    #[test]
    fn a_source_that_is_not_read_or_says_the_same_again_is_a_warning() {
        let text = "plugins: [{type: metrics-data-source, parameters: {path: /x}}, {name: a, type: metrics-data-source}, \
                    {name: b, type: metrics-data-source}]\ndataLayer:\n  injectDefaults: false\n  sources: [{pluginRef: a}, \
                    {pluginRef: b}]\n";
        let Resolved { sources, warnings, .. } = resolved(text).unwrap();
        assert_eq!(sources.metrics, Some(Page::default()));
        let expected = expect![[r"
            epp.yaml:3: warning: plugins[0]: `metrics-data-source` has no effect: it is not in dataLayer.sources (name it there, or leave it out)
            epp.yaml:3: warning: plugins[2]: `b` has no effect: `a` says the same (leave it out)
        "]];
        told(&warnings, &expected);
    }
}
