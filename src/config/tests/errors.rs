//! Every error that stops the reference's start-up stops ours, with its place and what to write instead.

use super::*;

/// Area and cause; the document after its header; what its first error says after the file's name.
const ERRORS: &[(&str, &str, &str)] = &[
    ("document: undecodable", "plugins: [\n", "3: error: unclosed bracket '['"),
    ("document: unknown field", "plugin: []\n", "3: error: plugin: unknown field `plugin`"),
    ("document: duplicate field", "kind: X\n", "3: error: `kind` stands twice"),
    (
        "gates: unknown",
        "featureGates: [dataLayer]\n",
        "3: error: featureGates[0]: unknown feature gate",
    ),
    (
        "gates: no boolean",
        "featureGates: [flowControl=perhaps]\n",
        "3: error: featureGates[0]: `perhaps` is neither true nor false",
    ),
    ("plugins: no type", "plugins: [{name: a}]\n", "3: error: plugins[0].type: is missing"),
    (
        "plugins: duplicate name",
        "plugins:\n- type: queue-scorer\n- type: queue-scorer\n",
        "5: error: plugins[1].name: another plugin is named `queue-scorer`",
    ),
    (
        "plugins: unregistered type",
        "plugins: [{type: frob-scorer}]\n",
        "3: error: plugins[0].type: unknown plugin type `frob-scorer`",
    ),
    (
        "plugins: type of the reference that is not here",
        "plugins: [{type: latency-scorer}]\n",
        "3: error: plugins[0].type: plugin type `latency-scorer` is not supported yet",
    ),
    (
        "plugins: unknown parameter",
        "plugins:\n- type: random-picker\n  parameters:\n    seed: 1\n",
        "6: error: plugins[0].parameters.seed: unknown field `seed`",
    ),
    (
        "plugins: parameter of another type",
        "plugins: [{type: random-picker, parameters: {maxNumOfEndpoints: many}}]\n",
        "3: error: plugins[0].parameters.maxNumOfEndpoints: invalid type: string \"many\"",
    ),
    (
        "plugins: parameter out of range",
        "plugins: [{type: active-request-scorer, parameters: {maxBusyScore: 2}}]\n",
        "3: error: plugins[0].parameters.maxBusyScore: maxBusyScore is 2",
    ),
    (
        "plugins: dependency that is not listed",
        "plugins: [{type: prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: exact}}]\n",
        "3: error: plugins[0].parameters.prefixMatchInfoProducerName: no plugin is named `exact`",
    ),
    (
        "plugins: syntax of a header's name",
        "plugins: [{type: header-profile-handler, parameters: {headerName: a b}}]\n",
        "3: error: plugins[0].parameters.headerName: headerName: `a b` is no name of a header",
    ),
    (
        "plugins: syntax of a label",
        "plugins: [{type: label-selector-filter, parameters: {matchLabels: {a b: c}}}]\n",
        "3: error: plugins[0].parameters.matchLabels: matchLabels: `a b` is no key of a label",
    ),
    (
        "plugins: syntax of the engines' label",
        "plugins: [{type: core-metrics-extractor, parameters: {engineLabelKey: a/b/c}}]\n",
        "3: error: plugins[0].parameters.engineLabelKey: `a/b/c` is no key of a label",
    ),
    (
        "profiles: no name",
        "plugins: [{type: queue-scorer}]\nschedulingProfiles: [{plugins: [{pluginRef: queue-scorer}]}]\n",
        "4: error: schedulingProfiles[0].name: is missing",
    ),
    (
        "profiles: duplicate name",
        "plugins: [{type: queue-scorer}, {type: header-profile-handler, parameters: {defaultProfile: a}}]\n\
         schedulingProfiles:\n- {name: a, plugins: [{pluginRef: queue-scorer}]}\n\
         - {name: a, plugins: [{pluginRef: queue-scorer}]}\n",
        "6: error: schedulingProfiles[1].name: another profile is named `a`",
    ),
    (
        "profiles: entry without a reference",
        "schedulingProfiles: [{name: a, plugins: [{weight: 1}]}]\n",
        "3: error: schedulingProfiles[0].plugins[0].pluginRef: is missing",
    ),
    (
        "profiles: undefined instance",
        "plugins: [{type: queue-scorer}]\nschedulingProfiles: [{name: a, plugins: [{pluginRef: queue}]}]\n",
        "4: error: schedulingProfiles[0].plugins[0].pluginRef: no plugin is named `queue`",
    ),
    (
        "profiles: two pickers",
        "plugins: [{type: random-picker}, {type: max-score-picker}]\nschedulingProfiles:\n\
         - {name: a, plugins: [{pluginRef: random-picker}, {pluginRef: max-score-picker}]}\n",
        "5: error: schedulingProfiles[0].plugins[1]: a profile has one picker",
    ),
    (
        "profiles: weight that is no number",
        "plugins: [{type: queue-scorer}]\nschedulingProfiles: [{name: a, plugins: [{pluginRef: queue-scorer, weight: .nan}]}]\n",
        "4: error: schedulingProfiles[0].plugins[0].weight: is not a finite number",
    ),
    (
        "handlers: two",
        "plugins: [{type: single-profile-handler}, {type: header-profile-handler}]\n",
        "3: error: plugins[1]: there is one profile handler",
    ),
    (
        "handlers: none for two profiles",
        "plugins: [{type: queue-scorer}]\nschedulingProfiles:\n- {name: a, plugins: [{pluginRef: queue-scorer}]}\n\
         - {name: b, plugins: [{pluginRef: queue-scorer}]}\n",
        "4: error: schedulingProfiles: several profiles need a profile handler",
    ),
    (
        "handlers: the single one for two profiles",
        "plugins: [{type: queue-scorer}, {type: single-profile-handler}]\nschedulingProfiles:\n\
         - {name: a, plugins: [{pluginRef: queue-scorer}]}\n- {name: b, plugins: [{pluginRef: queue-scorer}]}\n",
        "4: error: schedulingProfiles: single-profile-handler runs one profile, there are 2",
    ),
    (
        "detector: empty reference",
        "flowControl: {saturationDetector: {pluginRef: \"\"}}\n",
        "3: error: flowControl.saturationDetector.pluginRef: is missing",
    ),
    (
        "detector: undefined",
        "saturationDetector: {pluginRef: full}\n",
        "3: error: saturationDetector.pluginRef: no plugin is named `full`",
    ),
    (
        "detector: none",
        "plugins: [{type: queue-scorer}]\nflowControl: {saturationDetector: {pluginRef: queue-scorer}}\n",
        "4: error: flowControl.saturationDetector.pluginRef: `queue-scorer` is no saturation detector",
    ),
    (
        "parsers: undefined",
        "requestHandler: {parsers: [{pluginRef: my-format}]}\n",
        "3: error: requestHandler.parsers[0].pluginRef: unknown parser `my-format`",
    ),
    (
        "parsers: none",
        "plugins: [{type: queue-scorer}]\nrequestHandler: {parsers: [{pluginRef: queue-scorer}]}\n",
        "4: error: requestHandler.parsers[0].pluginRef: `queue-scorer` is no parser",
    ),
    (
        "flow control: its gate",
        "featureGates: [flowControl]\n",
        "3: error: featureGates[0]: feature gate `flowControl` is not supported yet",
    ),
    (
        "flow control: negative",
        "flowControl: {maxBytes: -1}\n",
        "3: error: flowControl.maxBytes: `-1` is no size",
    ),
    (
        "flow control: duplicate priority",
        "featureGates: [flowControl]\nflowControl: {priorityBands: [{priority: 1}, {priority: 1}]}\n",
        "4: error: flowControl.priorityBands[1].priority: another band has priority 1",
    ),
    (
        "flow control: undefined policy",
        "featureGates: [flowControl]\nflowControl: {defaultPriorityBand: {orderingPolicyRef: mine}}\n",
        "4: error: flowControl.defaultPriorityBand.orderingPolicyRef: no plugin is named `mine`",
    ),
    (
        "flow control: policy of another kind",
        "featureGates: [flowControl]\nflowControl: {usageLimitPolicyPluginRef: fcfs-ordering-policy}\n",
        "4: error: flowControl.usageLimitPolicyPluginRef: `fcfs-ordering-policy` is no",
    ),
    (
        "data layer: source of another kind",
        "plugins: [{type: queue-scorer}]\ndataLayer: {sources: [{pluginRef: queue-scorer}]}\n",
        "4: error: dataLayer.sources[0].pluginRef: `queue-scorer` is no data source",
    ),
    (
        "data layer: undefined extractor",
        "plugins: [{type: metrics-data-source}]\ndataLayer: {sources: [{pluginRef: metrics-data-source, extractors: [{pluginRef: x}]}]}\n",
        "4: error: dataLayer.sources[0].extractors[0].pluginRef: no plugin is named `x`",
    ),
    (
        "data layer: syncer",
        "dataLayer: {crossReplicaSyncerPluginRef: x}\n",
        "3: error: dataLayer.crossReplicaSyncerPluginRef: is not supported yet",
    ),
    (
        "data layer: discovery without a reference",
        "dataLayer: {discovery: {}}\n",
        "3: error: dataLayer.discovery.pluginRef: is missing",
    ),
    (
        "data layer: discovery of another kind",
        "plugins: [{type: queue-scorer}]\ndataLayer: {discovery: {pluginRef: queue-scorer}}\n",
        "4: error: dataLayer.discovery.pluginRef: `queue-scorer` is no source of endpoints",
    ),
    (
        "data graph: a producer of something else",
        "plugins:\n- {type: prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: inflight-load-producer}}\n\
         - type: inflight-load-producer\n",
        "4: error: plugins[0].parameters.prefixMatchInfoProducerName: `inflight-load-producer` tells nothing of prefixes",
    ),
];

/// What is legal, but for a reader who thinks that it has an effect.
const WARNINGS: &[(&str, &str, &str)] = &[
    (
        "a weight of zero",
        "plugins: [{type: queue-scorer}]\nschedulingProfiles: [{name: a, plugins: [{pluginRef: queue-scorer, weight: 0}]}]\n",
        "4: warning: schedulingProfiles[0].plugins[0].weight: has no effect",
    ),
    (
        "a negative weight",
        "plugins: [{type: queue-scorer}]\nschedulingProfiles: [{name: a, plugins: [{pluginRef: queue-scorer, weight: -1}]}]\n",
        "4: warning: schedulingProfiles[0].plugins[0].weight: is negative",
    ),
    (
        "a profile without scorers",
        "plugins: [{type: max-score-picker}]\nschedulingProfiles: [{name: a, plugins: [{pluginRef: max-score-picker}]}]\n",
        "4: warning: schedulingProfiles[0]: has no scorer",
    ),
    (
        "a handler's profile that is not there",
        "plugins: [{type: queue-scorer}, {type: header-profile-handler}]\nschedulingProfiles:\n\
         - {name: a, plugins: [{pluginRef: queue-scorer}]}\n- {name: b, plugins: [{pluginRef: queue-scorer}]}\n",
        "3: warning: plugins[1].parameters.defaultProfile: no profile is named `decode`",
    ),
    (
        "pages that are stale before the next one",
        "plugins:\n- {type: metrics-data-source, parameters: {interval: 1s}}\n\
         - {type: utilization-detector, parameters: {metricsStalenessThreshold: 3s}}\n",
        "5: warning: plugins[1].parameters.metricsStalenessThreshold: 3s has no effect: pages are read every 1s",
    ),
    (
        "a plugin that nothing uses",
        "plugins: [{type: queue-scorer}, {type: random-picker}, {type: kv-cache-utilization-scorer}]\n\
         schedulingProfiles: [{name: a, plugins: [{pluginRef: queue-scorer}]}]\n",
        "3: warning: plugins[2]: `kv-cache-utilization-scorer` is in no profile",
    ),
    (
        "flow control while its gate is off",
        "flowControl: {maxRequests: 10}\n",
        "3: warning: flowControl: has no effect: its feature gate is off",
    ),
];

/// The problems of a document, each with its line.
fn problems(text: &str) -> Vec<Problem> {
    with_header(text).map_or_else(|problems| problems, |resolved| resolved.warnings)
}

// FR-070
#[test]
fn every_error_is_told_with_its_place_and_a_fix() {
    for (cause, text, expected) in ERRORS.iter().chain(WARNINGS) {
        let problems = problems(text);
        let told = rendered(&problems);
        let at = format!("epp.yaml:{expected}");
        assert!(told.lines().any(|line| line.starts_with(&at)), "{cause}: {expected}\n{told}");
        for problem in problems.iter().filter(|problem| !problem.path.is_empty()) {
            assert!(problem.hint.is_some(), "{cause}: {problem:?}");
        }
        let refused = expected.contains(": error: ");
        assert_eq!(with_header(text).is_err(), refused, "{cause}: {told}");
    }
}

#[test]
fn a_document_full_of_mistakes_has_a_fix_for_each() {
    for problem in problems(FULL_OF_MISTAKES) {
        assert!(problem.hint.is_some() && problem.line.is_some(), "{problem:?}");
    }
}

#[test]
fn a_random_picker_needs_no_scorer() {
    let text = "plugins: [{type: random-picker}]\nschedulingProfiles: [{name: a, plugins: [{pluginRef: random-picker}]}]\n";
    assert_eq!(problems(text), []);
}
