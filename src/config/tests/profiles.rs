//! Several profiles and their handler.

use super::*;

const TWO: &str = "schedulingProfiles:\n- {name: chat, plugins: [{pluginRef: queue-scorer, weight: 2}, {pluginRef: session-affinity-filter}]}\n\
                   - {name: batch, plugins: [{pluginRef: random-picker}, {pluginRef: context-length-aware, weight: 3}]}\n";
const PLUGINS_OF_TWO: &str = "- type: queue-scorer\n- type: session-affinity-filter\n- type: random-picker\n\
                              - {type: context-length-aware, parameters: {enableFiltering: true}}\n";

fn profiles(resolved: &Resolved) -> Vec<String> {
    let profiles = resolved.profiles.iter();
    profiles.map(|(name, profile)| format!("{name}: {}", steps(profile))).collect()
}

#[test]
fn a_handler_has_all_profiles_in_their_order() {
    let text = format!(
        "plugins:\n- {{type: header-profile-handler, parameters: {{defaultProfile: chat}}}}\n{PLUGINS_OF_TWO}{TWO}"
    );
    let resolved = with_header(&text).unwrap();
    assert_eq!(rendered(&resolved.warnings), "");
    assert_eq!(
        profiles(&resolved),
        [
            "chat: session-affinity-filter, queue-scorer 2, random-picker",
            "batch: context-length-aware, context-length-aware 3, random-picker",
        ]
    );
    let written: Vec<_> = resolved.document.scheduling_profiles.iter().map(|it| &it.name).collect();
    assert_eq!(written, ["chat", "batch"]);
    let batch: Vec<_> = resolved.document.scheduling_profiles[1].plugins.iter().collect();
    assert_eq!((batch.len(), batch[0].weight), (2, Some(3.0)), "what plays two roles stands once");
}

#[test]
fn an_instance_that_two_profiles_name_is_one() {
    let text = "plugins: [{type: header-profile-handler}, {type: session-affinity-scorer}]\nschedulingProfiles:\n\
                - {name: decode, plugins: [{pluginRef: session-affinity-scorer}]}\n\
                - {name: batch, plugins: [{pluginRef: session-affinity-scorer, weight: 9}]}\n";
    let resolved = with_header(text).unwrap();
    let scorers: Vec<_> =
        resolved.profiles.iter().flat_map(|(_, profile)| &profile.scorers).collect();
    assert!(std::sync::Arc::ptr_eq(&scorers[0].scorer, &scorers[1].scorer));
    let steps: Vec<_> = resolved.profiles.iter().map(|(_, profile)| steps(profile)).collect();
    assert!(steps[0].contains("scorer 1,") && steps[1].contains("scorer 9,"), "{steps:?}");
}

#[test]
fn a_default_profile_that_is_not_there_is_warned_of_where_there_are_several() {
    let text = |profiles: &str| {
        format!(
            "plugins:\n- type: header-profile-handler\n- type: queue-scorer\nschedulingProfiles:\n{profiles}"
        )
    };
    let one = "- {name: only, plugins: [{pluginRef: queue-scorer}]}\n";
    assert_eq!(rendered(&with_header(&text(one)).unwrap().warnings), "");
    let two = format!("{one}- {{name: decod, plugins: [{{pluginRef: queue-scorer}}]}}\n");
    expect![[r"
        epp.yaml:4: warning: plugins[0].parameters.defaultProfile: no profile is named `decode`: a request that names none is refused (did you mean `decod`?)
    "]]
    .assert_eq(&rendered(&with_header(&text(&two)).unwrap().warnings));
}

#[test]
fn a_handler_of_one_profile_is_refused_several() {
    let plugins = format!("plugins:\n- type: data-parallel-profile-handler\n{PLUGINS_OF_TWO}{TWO}");
    refused(
        &plugins,
        &expect![[r"
            epp.yaml:4: warning: plugins[0].type: plugin type `data-parallel-profile-handler` is deprecated (give the pool several target ports)
            epp.yaml:9: error: schedulingProfiles: data-parallel-profile-handler runs one profile, there are 2 (leave the others out, or list header-profile-handler instead)
        "]],
    );
    let both = "plugins: [{type: data-parallel-profile-handler, parameters: {primaryPort: 70000}}, {type: header-profile-handler}]\n";
    refused(
        both,
        &expect![[r"
            epp.yaml:3: warning: plugins[0].type: plugin type `data-parallel-profile-handler` is deprecated (give the pool several target ports)
            epp.yaml:3: error: plugins[0].parameters.primaryPort: primaryPort is 70000 (give 0 to 65535)
            epp.yaml:3: error: plugins[1]: there is one profile handler, this is a second (leave one of them out)
        "]],
    );
}

#[test]
fn each_profile_has_one_picker_and_problems_of_its_own() {
    let text = "plugins: [{type: header-profile-handler, parameters: {defaultProfile: a}}, {type: queue-scorer}, {type: random-picker}, {type: max-score-picker}]\n\
                schedulingProfiles:\n- {name: a, plugins: [{pluginRef: random-picker}, {pluginRef: max-score-picker}, {pluginRef: queue-scorer}]}\n\
                - {name: b, plugins: [{pluginRef: max-score-picker}]}\n- {plugins: [{pluginRef: queue-scorer}, {pluginRef: nobody}]}\n";
    refused(
        text,
        &expect![[r"
            epp.yaml:5: error: schedulingProfiles[0].plugins[1]: a profile has one picker, this is a second (leave one of them out)
            epp.yaml:6: warning: schedulingProfiles[1]: has no scorer: all endpoints are equal to its picker (name a scorer, or random-picker to say that it is meant)
            epp.yaml:7: error: schedulingProfiles[2].name: is missing (give the profile a name)
            epp.yaml:7: error: schedulingProfiles[2].plugins[1].pluginRef: no plugin is named `nobody` (list it under plugins)
        "]],
    );
}

#[test]
fn what_is_said_of_sessions_without_effect_is_warned_of() {
    let text = "plugins:\n- {type: session-affinity-filter, parameters: {sessionIdConfig: {evictionTtlSeconds: 60}}}\n\
                - {type: session-affinity-scorer, parameters: {profileName: prefill, strategy: session_id}}\n\
                schedulingProfiles: [{name: p, plugins: [{pluginRef: session-affinity-filter}, {pluginRef: session-affinity-scorer}]}]\n";
    expect![[r"
        session-affinity-filter, session-affinity-scorer 1, max-score-picker
        epp.yaml:4: warning: plugins[0].parameters.sessionIdConfig: has no effect with the strategy encoded_endpoint_header (write strategy: session_id)
        epp.yaml:5: warning: plugins[1].parameters.profileName: no profile `prefill` lists `session-affinity-scorer`: it holds the endpoints of those that do (name a profile that lists it)
    "]]
    .assert_eq(&resolved(text));
}

#[test]
fn a_metric_that_is_asked_for_by_name_has_who_tells_it() {
    let filter = |name: &str, more: &str, attribute: &str| {
        format!(
            "- {{name: {name}, type: endpoint-attribute-filter, parameters: {{attribute: {attribute}{more}, \
             algorithm: {{type: threshold, threshold: {{operator: LessThan, value: 1}}}}}}}}\n"
        )
    };
    let text = format!(
        "plugins:\n{}{}{}{}{}- name: engines\n  type: core-metrics-extractor\n  parameters:\n    engineConfigs:\n    - name: vllm\n      \
         customMetrics: [{{attributeKey: depth, metricSpec: my_depth}}]\n",
        filter("a", "", "WaitingQueueSiz"),
        filter("b", ", producer: engines", "depth"),
        filter("c", ", producer: nobody", "KVCacheUsagePercent"),
        filter("d", ", producer: a", "depth"),
        filter("e", ", producer: \"\"", "height"),
    );
    refused(
        &text,
        &expect![[r"
            epp.yaml:4: warning: plugins[0].parameters.attribute: no engine tells `WaitingQueueSiz` (did you mean `WaitingQueueSize`?)
            epp.yaml:6: error: plugins[2].parameters.producer: no plugin is named `nobody` (list it under plugins)
            epp.yaml:7: error: plugins[3].parameters.producer: `a` tells nothing of endpoints (name a core-metrics-extractor)
            epp.yaml:8: warning: plugins[4].parameters.attribute: no engine tells `height` (add it to customMetrics of core-metrics-extractor)
        "]],
    );
}
