use expect_test::{Expect, expect};

use super::*;
use crate::schedule::Profile;
use crate::schedule::registry::PLUGINS;

mod detector;
mod errors;
mod profiles;

const HEADER: &str = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n";

fn with_header(text: &str) -> Result<Resolved, Vec<Problem>> {
    load(Some(&format!("{HEADER}{text}")), &[PLUGINS])
}

/// The first profile in a line.
fn profile(resolved: &Resolved) -> String {
    steps(resolved.profiles.iter().next().expect("one at least").1)
}

/// A profile in a line: filters, scorers with weights, picker.
fn steps(profile: &Profile) -> String {
    let filters = profile.filters.iter().map(|step| step.name.to_string());
    let scorers = profile.scorers.iter().map(|step| format!("{} {}", step.name, step.weight));
    let steps: Vec<_> = filters.chain(scorers).chain([profile.picker.name.to_string()]).collect();
    steps.join(", ")
}

fn resolved(text: &str) -> String {
    let resolved = with_header(text).unwrap_or_else(|problems| panic!("{}", rendered(&problems)));
    format!("{}\n{}", profile(&resolved), rendered(&resolved.warnings))
}

fn rendered(problems: &[Problem]) -> String {
    let lines: Vec<_> =
        problems.iter().map(|problem| problem.in_file("epp.yaml").to_string() + "\n").collect();
    lines.concat()
}

fn refused(text: &str, expected: &Expect) {
    expected.assert_eq(&rendered(&with_header(text).expect_err("has errors")));
}

// FR-074
#[test]
fn what_waits_is_bounded_though_nothing_is_said_of_it() {
    let resolved = with_header("lodesman: {hold: {}}\n").unwrap();
    let hold = resolved.hold.unwrap();
    assert_eq!((hold.max_wait.as_secs(), hold.max_requests), (120, 1_000));
    assert_eq!(hold.max_bytes, 64 << 20);
    assert_eq!(with_header("").unwrap().hold, None);
}

#[test]
fn without_a_file_or_without_plugins_the_default_policy_holds() {
    let default = "expected-ttft-scorer 1, max-score-picker";
    let none = load(None, &[PLUGINS]).unwrap();
    assert_eq!((profile(&none).as_str(), none.warnings), (default, vec![]));
    assert_eq!(
        (none.failure_mode, none.destinations, none.discovery),
        (None, Destinations::Single, None)
    );
    assert_eq!(resolved(""), format!("{default}\n"));
    assert_eq!(resolved("plugins: [{type: openai-parser}]\n"), format!("{default}\n"));
}

#[test]
fn listed_plugins_without_profiles_are_the_profile() {
    let text = "plugins:\n- type: running-requests-size-scorer\n- {name: q, type: queue-scorer}\n";
    assert_eq!(resolved(text), "running-requests-size-scorer 1, q 1, max-score-picker\n");
}

#[test]
fn a_profile_has_its_weights_and_the_picker_that_is_listed() {
    let text = "plugins:\n- type: queue-scorer\n- type: random-picker\n- type: single-profile-handler\n\
                schedulingProfiles:\n- name: default\n  plugins:\n  - {pluginRef: queue-scorer, weight: 2.5}\n";
    assert_eq!(resolved(text), "queue-scorer 2.5, random-picker\n");
}

#[test]
fn json_is_read_too() {
    let text = "{\"apiVersion\":\"llm-d.ai/v1alpha1\",\"kind\":\"EndpointPickerConfig\",\"plugins\":[{\"type\":\"queue-scorer\"}]}";
    assert_eq!(profile(&load(Some(text), &[PLUGINS]).unwrap()), "queue-scorer 1, max-score-picker");
}

#[test]
fn our_own_settings_are_read() {
    let text = "lodesman:\n  failureMode: FailOpen\n  destinationList: multi\n  limits:\n    maxRequestBody: 1MiB\n    \
                bodyReadTimeout: 5s\n    maxChunkBytes: 2048\n  hold: {maxRequests: 7}\n  \
                autoscaling: {targetTtft: 500ms, targetUtilization: 0.6}\n";
    let resolved = with_header(text).unwrap();
    assert_eq!(
        (resolved.failure_mode, resolved.destinations),
        (Some(crate::pool::FailureMode::FailOpen), Destinations::Multi)
    );
    let limits = resolved.limits.limits(None);
    assert_eq!((limits.max_request_body, limits.max_chunk_bytes.bytes()), (1 << 20, 2048));
    assert_eq!(limits.body_read_timeout, std::time::Duration::from_secs(5));
    let hold = resolved.hold.unwrap();
    assert_eq!((hold.max_requests, hold.max_bytes), (7, 64 << 20));
    let goal = crate::scale::Goal { ttft: 0.5, utilization: 0.6 };
    let lead = std::time::Duration::from_mins(1);
    assert_eq!(resolved.autoscaling, crate::scale::Aims { goal, lead });
}

#[test]
fn a_file_may_be_the_source_of_endpoints() {
    let text = "plugins:\n- name: f\n  type: file-discovery\n  parameters: {path: /etc/endpoints.yaml, watchFile: true}\n\
                dataLayer: {discovery: {pluginRef: f}}\n";
    let expected = FileDiscovery { path: "/etc/endpoints.yaml".into(), watch: true };
    assert_eq!(with_header(text).unwrap().discovery, Some(expected));
}

#[test]
fn what_has_no_effect_is_a_warning() {
    let text = "plugins:\n- type: queue-scorer\n- type: kv-cache-utilization-scorer\n- type: max-score-picker\n- type: openai-parser\n\
                parser: {pluginRef: openai-parser}\nfeatureGates: [flowControl=false, haPopulateNonLeaderDatastore]\n\
                schedulingProfiles:\n- name: p\n  plugins:\n  - {pluginRef: queue-scorer, weight: 0}\n  - {pluginRef: max-score-picker, weight: 3}\n  \
                - pluginRef: openai-parser\n";
    expect![[r"
        queue-scorer 0, max-score-picker
        epp.yaml:5: warning: plugins[1]: `kv-cache-utilization-scorer` is in no profile (name it in one, or leave it out)
        epp.yaml:8: warning: parser: is deprecated (write requestHandler.parsers)
        epp.yaml:13: warning: schedulingProfiles[0].plugins[0].weight: has no effect: a scorer of weight 0 changes nothing (leave the scorer out)
        epp.yaml:14: warning: schedulingProfiles[0].plugins[1].weight: has no effect: only scorers are weighted (leave the weight out)
        epp.yaml:15: warning: schedulingProfiles[0].plugins[2]: `openai-parser` has no effect in a profile (leave it out of the profile)
    "]]
    .assert_eq(&resolved(text));
    let old = load(
        Some("apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: EndpointPickerConfig\n"),
        &[PLUGINS],
    );
    assert_eq!(old.unwrap().warnings.len(), 1);
    let new = load(Some("apiVersion: llm-d.ai/v1\nkind: EndpointPickerConfig\n"), &[PLUGINS]);
    assert_eq!(new.unwrap().warnings, []);
}

const FULL_OF_MISTAKES: &str = "\
featureGates: [flowControl, dataLayer, flowControl=maybe]
pluginz: []
plugins:
- type: queue-scoer
- type: max-score-picker
  parameters: {maxNumOfEndpoints: 0, sort: true, by: age}
- type: latency-scorer
- {name: 7, type: queue-scorer}
- name: nameless
- {type: random-picker, weight: 2}
- type: max-score-picker
- {name: files, type: file-discovery, parameters: {watchFile: yes please}}
schedulingProfiles:
- plugins:
  - {pluginRef: max-score-picker}
  - {pluginRef: random-picker}
  - {pluginRef: queue-scorer, weight: much}
  - {pluginRef: queue-scorer, weight: .nan}
  - {weight: 2}
  - {pluginRef: random-pickr}
dataLayer:
  discovery: {pluginRef: random-picker}
  sources: [{pluginRef: random-picker, extractors: [{}, {pluginRef: nobody}]}]
  crossReplicaSyncInterval: often
requestHandler:
  parsers: [{pluginRef: openai-parsr}, {pluginRef: random-picker}, {}]
flowControl:
  maxBytes: -1
  saturationDetector: {pluginRef: random-picker}
  priorityBands: [{priority: 1}, {priority: 1, fairnessPolicyRef: fcfs-ordering-policy}, {maxRequests: 2k}]
lodesman:
  failureMode: FailClosed
  destinationList: several
  limits: {maxChunkBytes: 100, bodyReadTimeout: soon, bodyBuget: 1}
  autoscaling: {targetTtft: 0s, targetUtilization: 80, lead: 1}
";

#[test]
fn all_problems_are_reported_at_once_by_line() {
    refused(
        FULL_OF_MISTAKES,
        &expect![[r#"
            epp.yaml:3: error: featureGates[0]: feature gate `flowControl` is not supported yet (leave it out)
            epp.yaml:3: error: featureGates[1]: unknown feature gate `dataLayer` (known: flowControl, haPopulateNonLeaderDatastore)
            epp.yaml:3: error: featureGates[2]: `maybe` is neither true nor false (write flowControl=true or flowControl=false)
            epp.yaml:4: error: pluginz: unknown field `pluginz` (did you mean `plugins`?)
            epp.yaml:6: error: plugins[0].type: unknown plugin type `queue-scoer` (did you mean `queue-scorer`?)
            epp.yaml:8: warning: plugins[1].parameters.maxNumOfEndpoints: 0 is taken for 1 (give 1 or more)
            epp.yaml:8: error: plugins[1].parameters.by: unknown field `by` (known: `maxNumOfEndpoints`)
            epp.yaml:8: error: plugins[1].parameters.sort: unknown field `sort` (known: `maxNumOfEndpoints`)
            epp.yaml:9: error: plugins[2].type: plugin type `latency-scorer` is not supported yet (leave it out)
            epp.yaml:10: error: plugins[3].name: invalid type: integer `7` (give a text)
            epp.yaml:11: error: plugins[4].type: is missing (docs/plugins.md lists the types)
            epp.yaml:12: error: plugins[5].weight: unknown field `weight` (known: name, type, parameters)
            epp.yaml:13: error: plugins[6].name: another plugin is named `max-score-picker` (give one of them another name)
            epp.yaml:14: error: plugins[7].parameters.watchFile: invalid type: string "yes please" (give true or false)
            epp.yaml:14: warning: plugins[7]: `files` has no effect: it is not in dataLayer.discovery (name it there, or leave it out)
            epp.yaml:16: error: schedulingProfiles[0].name: is missing (give the profile a name)
            epp.yaml:19: error: schedulingProfiles[0].plugins[2].weight: invalid type: string "much" (give a number)
            epp.yaml:20: error: schedulingProfiles[0].plugins[3].weight: is not a finite number (give one)
            epp.yaml:21: error: schedulingProfiles[0].plugins[4].pluginRef: is missing (name a plugin)
            epp.yaml:22: error: schedulingProfiles[0].plugins[5].pluginRef: no plugin is named `random-pickr` (did you mean `random-picker`?)
            epp.yaml:24: error: dataLayer.discovery.pluginRef: `random-picker` is no source of endpoints (name a source of endpoints)
            epp.yaml:25: error: dataLayer.sources[0].pluginRef: `random-picker` is no data source (name a data source)
            epp.yaml:25: error: dataLayer.sources[0].extractors[0].pluginRef: is missing (name a plugin)
            epp.yaml:25: error: dataLayer.sources[0].extractors[1].pluginRef: no plugin is named `nobody` (list it under plugins)
            epp.yaml:26: error: dataLayer.crossReplicaSyncInterval: `often` is no duration (write for example 50ms, 2s or 1m30s)
            epp.yaml:28: error: requestHandler.parsers[0].pluginRef: unknown parser `openai-parsr` (did you mean `openai-parser`?)
            epp.yaml:28: error: requestHandler.parsers[1].pluginRef: `random-picker` is no parser (name a parser)
            epp.yaml:28: error: requestHandler.parsers[2].pluginRef: is missing (name a plugin)
            epp.yaml:30: error: flowControl.maxBytes: `-1` is no size (write for example 65536, 10MiB or 25MB)
            epp.yaml:31: error: flowControl.saturationDetector.pluginRef: `random-picker` is no saturation detector (name a saturation detector)
            epp.yaml:32: error: flowControl.priorityBands[1].priority: another band has priority 1 (give one of them another)
            epp.yaml:32: error: flowControl.priorityBands[1].fairnessPolicyRef: `fcfs-ordering-policy` is no fairness policy (name a fairness policy)
            epp.yaml:32: error: flowControl.priorityBands[2].priority: is missing (give a whole number)
            epp.yaml:34: error: lodesman.failureMode: `FailClosed` is unknown (did you mean `FailClose`?)
            epp.yaml:35: error: lodesman.destinationList: `several` is unknown (known: single, multi)
            epp.yaml:36: error: lodesman.limits.maxChunkBytes: 100 is too small or too large (give 1024 to 65536 bytes)
            epp.yaml:36: error: lodesman.limits.bodyReadTimeout: `soon` is no duration (write for example 50ms, 2s or 1m30s)
            epp.yaml:36: error: lodesman.limits.bodyBuget: unknown field `bodyBuget` (did you mean `bodyBudget`?)
            epp.yaml:37: error: lodesman.autoscaling.targetTtft: `0s` would leave nothing (give more than zero)
            epp.yaml:37: error: lodesman.autoscaling.targetUtilization: 80 is no share (give more than 0 and at most 1)
            epp.yaml:37: error: lodesman.autoscaling.lead: `1` is no duration (write for example 50ms, 2s or 1m30s)
        "#]],
    );
}

#[test]
fn handlers_and_profiles_have_to_match() {
    let profiles = "schedulingProfiles:\n- {name: a, plugins: [{pluginRef: queue-scorer}]}\n- {name: a, plugins: [{pluginRef: queue-scorer}]}\n";
    refused(
        &format!("plugins:\n- type: queue-scorer\n{profiles}"),
        &expect![[r"
            epp.yaml:5: error: schedulingProfiles: several profiles need a profile handler (list header-profile-handler under plugins)
            epp.yaml:7: error: schedulingProfiles[1].name: another profile is named `a` (give one of them another name)
        "]],
    );
    refused(
        &format!(
            "plugins:\n- type: queue-scorer\n- type: single-profile-handler\n- {{name: two, type: single-profile-handler}}\n{profiles}"
        ),
        &expect![[r"
            epp.yaml:6: error: plugins[2]: there is one profile handler, this is a second (leave one of them out)
            epp.yaml:7: error: schedulingProfiles: single-profile-handler runs one profile, there are 2 (leave the others out, or list header-profile-handler instead)
            epp.yaml:9: error: schedulingProfiles[1].name: another profile is named `a` (give one of them another name)
        "]],
    );
}

#[test]
fn a_document_that_is_none_has_one_problem_with_its_line() {
    let refusals = |text: &str| rendered(&load(Some(text), &[PLUGINS]).expect_err("has errors"));
    expect![[r"
        epp.yaml:2: error: unclosed bracket '['
    "]]
    .assert_eq(&refusals("a: 1\nb: [\n"));
    expect![[r"
        epp.yaml:1: error: is not a map of fields (give `name: value` pairs)
    "]]
    .assert_eq(&refusals("- a\n"));
    expect![[r"
        epp.yaml:4: error: `kind` stands twice
    "]]
    .assert_eq(&refusals(&format!("{HEADER}plugins: []\nkind: Twice\n")));
    expect![[r"
        epp.yaml:2: error: apiVersion: `v2` is unknown (write llm-d.ai/v1alpha1)
    "]]
    .assert_eq(&refusals("kind: EndpointPickerConfig\napiVersion: v2\n"));
}

#[test]
fn a_manifest_around_a_configuration_has_one_problem() {
    let text =
        "apiVersion: v1\nkind: ConfigMap\ndata:\n  epp.yaml: |\n    kind: EndpointPickerConfig\n";
    let problems = load(Some(text), &[PLUGINS]).expect_err("is no configuration");
    expect![[r"
        epp.yaml:2: error: kind: this is a ConfigMap, not a configuration (give the text under its data)
    "]]
    .assert_eq(&rendered(&problems));
}

#[test]
fn no_hint_leads_to_what_is_not_there() {
    refused(
        "plugins:\n- type: precise-prefix-cache-scorer\n- type: models-responder\n",
        &expect![[r"
            epp.yaml:4: error: plugins[0].type: plugin type `precise-prefix-cache-scorer` is not supported yet (leave it out)
            epp.yaml:5: error: plugins[1].type: unknown plugin type `models-responder` (docs/plugins.md lists the types)
        "]],
    );
}

#[test]
fn problems_are_data_for_a_machine() {
    let problems = with_header("plugins: [{type: queue-scoer}]\n").expect_err("has errors");
    expect![[r#"[{"severity":"error","path":"plugins[0].type","line":3,"message":"unknown plugin type `queue-scoer`","hint":"did you mean `queue-scorer`?"}]"#]].assert_eq(&serde_json::to_string(&problems).unwrap());
}

#[test]
fn a_document_that_is_deep_or_multiplies_itself_is_refused() {
    let deep = format!("{HEADER}plugins: {}", "[".repeat(100_000));
    let lines =
        (1..20).map(|n| format!("- &a{n} [{}]\n", vec![format!("*a{}", n - 1); 20].join(",")));
    let bomb = format!("{HEADER}plugins:\n- &a0 [x]\n{}", lines.collect::<String>());
    for text in [deep, bomb] {
        assert!(load(Some(&text), &[PLUGINS]).is_err());
    }
}

#[test]
fn a_thousand_plugins_are_no_document_too_large() {
    let plugin = |n: usize| {
        format!("- {{name: p{n}, type: active-request-scorer, parameters: {{maxBusyScore: 1}}}}\n")
    };
    let plugins: String = (0..1_000).map(plugin).collect();
    assert!(with_header(&format!("plugins:\n{plugins}")).is_ok());
}

#[test]
fn what_stands_in_the_place_of_parameters_is_told_as_it_is_written() {
    refused(
        "plugins:\n- {type: queue-scorer, parameters: 5}\n- {type: random-picker, parameters: [1]}\n\
         - {type: file-discovery, parameters: here}\n\
         - {type: session-affinity-scorer, parameters: {sessionIdConfig: true}}\n",
        &expect![[r#"
            epp.yaml:4: error: plugins[0].parameters: `5` is no map of parameters (give `name: value` pairs)
            epp.yaml:5: error: plugins[1].parameters: a list is no map of parameters (give `name: value` pairs)
            epp.yaml:6: error: plugins[2].parameters: "here" is no map of parameters (give `name: value` pairs)
            epp.yaml:6: warning: plugins[2]: `file-discovery` has no effect: it is not in dataLayer.discovery (name it there, or leave it out)
            epp.yaml:7: error: plugins[3].parameters.sessionIdConfig: `true` is no map of parameters (give `name: value` pairs)
            epp.yaml:7: warning: plugins[3].parameters.sessionIdConfig: has no effect with the strategy encoded_endpoint_header (write strategy: session_id)
        "#]],
    );
}

#[test]
fn an_entry_that_cannot_be_read_is_its_only_problem() {
    let profile = |step: &str| {
        format!(
            "plugins: [{{type: queue-scorer}}]\nschedulingProfiles:\n- name: a\n  plugins: [{step}]\n"
        )
    };
    let refusals = |step: &str| rendered(&with_header(&profile(step)).expect_err("has errors"));
    let place = "epp.yaml:6: error: schedulingProfiles[0].plugins[0]";
    for (step, expected) in [
        (
            "{pluginRef: queue-scorer, weight: \"2\"}",
            ".weight: invalid type: string \"2\" (give a number)",
        ),
        ("{pluginRef: queue-scorer, weight: .nan}", ".weight: is not a finite number (give one)"),
        ("{pluginRef: [queue-scorer]}", ".pluginRef: invalid type: sequence (give a text)"),
        ("queue-scorer", ": is not a map of fields (give `name: value` pairs)"),
    ] {
        assert_eq!(refusals(step), format!("{place}{expected}\n"));
    }
}

#[test]
fn a_near_name_is_searched_for_the_first_references_only() {
    let filter = |n: usize| {
        format!(
            "- {{name: p{n}, type: prefix-cache-scorer, parameters: {{prefixMatchInfoProducerName: tokns}}}}\n"
        )
    };
    let filters: String = (0..=problem::MOST_SEARCHES).map(filter).collect();
    let problems =
        with_header(&format!("plugins:\n- {{name: tokens, type: queue-scorer}}\n{filters}"));
    let told = rendered(&problems.expect_err("has errors"));
    let near = told.lines().filter(|line| line.contains("did you mean `tokens`?"));
    assert_eq!(near.count(), problem::MOST_SEARCHES);
}

// FR-126
#[test]
fn every_mistake_in_parameters_is_told_with_its_line() {
    refused(
        "plugins:\n- type: max-score-picker\n  parameters:\n    maxNumOfEndpoints: two\n    sort: true\n\
         - type: active-request-scorer\n  parameters:\n    requestTimeout: 5s\n    maxBusyScore: 3\n\
         - {type: file-discovery, parameters: {watchFile: true}}\n",
        &expect![[r#"
            epp.yaml:6: error: plugins[0].parameters.maxNumOfEndpoints: invalid type: string "two" (give a whole number)
            epp.yaml:7: error: plugins[0].parameters.sort: unknown field `sort` (known: `maxNumOfEndpoints`)
            epp.yaml:10: warning: plugins[1].parameters.requestTimeout: is deprecated (it has no effect, leave it out)
            epp.yaml:11: error: plugins[1].parameters.maxBusyScore: maxBusyScore is 3 (give a number from 0 to 1)
            epp.yaml:12: error: plugins[2].parameters: missing field `path` (give `path`)
            epp.yaml:12: warning: plugins[2]: `file-discovery` has no effect: it is not in dataLayer.discovery (name it there, or leave it out)
        "#]],
    );
}

#[test]
fn a_section_without_its_gate_is_warned_of() {
    let text = "plugins: [{type: queue-scorer}]\nflowControl:\n  maxBytes: 4Gi\n  priorityBands: [{fairnessPolicyRef: nobody}]\n";
    expect![[r"
        queue-scorer 1, max-score-picker
        epp.yaml:4: warning: flowControl: has no effect: its feature gate is off (leave it out: queues are not supported yet)
        epp.yaml:6: warning: flowControl.priorityBands[0].priority: is missing (give a whole number)
        epp.yaml:6: warning: flowControl.priorityBands[0].fairnessPolicyRef: no plugin is named `nobody` (list it under plugins)
    "]].assert_eq(&resolved(text));
    refused(
        "featureGates: [flowControl]\nflowControl: {priorityBands: [{}]}\n",
        &expect![[r"
            epp.yaml:3: error: featureGates[0]: feature gate `flowControl` is not supported yet (leave it out)
            epp.yaml:4: error: flowControl.priorityBands[0].priority: is missing (give a whole number)
        "]],
    );
}

#[test]
fn deprecated_types_are_named_with_what_to_write() {
    refused(
        "plugins: [{type: tokenizer}, {type: by-label}, {type: pd-profile-handler}]\n",
        &expect![[r"
            epp.yaml:3: warning: plugins[0].type: plugin type `tokenizer` is deprecated (write token-producer)
            epp.yaml:3: warning: plugins[1].type: plugin type `by-label` is deprecated (use label-selector-filter)
            epp.yaml:3: error: plugins[1].parameters: missing field `label` (give `label`)
            epp.yaml:3: error: plugins[2].type: plugin type `pd-profile-handler` is not supported yet (leave it out)
        "]],
    );
}

#[test]
fn instances_without_effect_are_warned_of() {
    let text = "plugins:\n- {type: vertexai-parser}\n- {type: file-discovery, parameters: {path: /x}}\n- type: random-picker\n\
                - {type: max-score-picker, parameters: {maxNumOfEndpoints: -1}}\n- type: queue-scorer\n\
                featureGates: [haPopulateNonLeaderDatastore=false]\n\
                requestHandler: {parsers: [{pluginRef: passthrough-parser}, {pluginRef: openai-parser}, {pluginRef: passthrough-parser}]}\n\
                schedulingProfiles: [{name: p, plugins: [{pluginRef: queue-scorer}]}]\n";
    expect![[r"
        queue-scorer 1, random-picker
        epp.yaml:4: warning: plugins[0]: `vertexai-parser` has no effect: it is not in requestHandler.parsers (name it there, or leave it out)
        epp.yaml:5: warning: plugins[1]: `file-discovery` has no effect: it is not in dataLayer.discovery (name it there, or leave it out)
        epp.yaml:7: warning: plugins[3].parameters.maxNumOfEndpoints: -1 is taken for 1 (give 1 or more)
        epp.yaml:7: warning: plugins[3]: `max-score-picker` is in no profile (name it in one, or leave it out)
        epp.yaml:9: warning: featureGates[0]: has no effect: a replica always keeps its view of the pool (leave it out)
        epp.yaml:10: warning: requestHandler.parsers[1].pluginRef: has no effect: `passthrough-parser` before it takes every request (list it last)
        epp.yaml:10: warning: requestHandler.parsers[2].pluginRef: has no effect: `passthrough-parser` is listed before (leave it out)
    "]].assert_eq(&resolved(text));
}

proptest::proptest! {
    #[test]
    fn any_damage_to_a_document_is_survived(
        damage in proptest::collection::vec((proptest::prelude::any::<proptest::sample::Index>(), "[-\\[\\]{}:,&*|>a0 \n'\"]{0,4}"), 1..6),
    ) {
        let mut text = format!("{HEADER}{FULL_OF_MISTAKES}");
        for (at, insert) in damage {
            let at = at.index(text.len());
            text.replace_range(at..=at, &insert);
        }
        proptest::prop_assert!(load(Some(&text), &[PLUGINS]).is_err(), "it has a mistake too many");
    }
}
