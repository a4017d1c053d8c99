use expect_test::expect;

use super::*;

/// The name of the detector and how it is built.
fn detector(text: &str) -> String {
    let resolved = with_header(text).unwrap_or_else(|problems| panic!("{}", rendered(&problems)));
    let detector = resolved.detector;
    format!("{}: {:?}\n{}", detector.name, detector.detector, rendered(&resolved.warnings))
}

#[test]
fn the_default_detector_is_there_whatever_is_written() {
    let default =
        "utilization-detector: Utilization { queue: 5.0, kv: 0.8, staleness: None, limit: 1.0 }\n";
    assert_eq!(detector(""), default);
    let flow = "flowControl: {saturationDetector: {pluginRef: utilization-detector}}\n";
    assert_eq!(detector(flow), default);
    let none = load(None, &[PLUGINS]).unwrap().detector;
    assert_eq!(&*none.name, "utilization-detector");
}

#[test]
fn an_instance_of_the_default_name_sets_its_thresholds_and_is_no_filter() {
    let text = "plugins: [{type: utilization-detector, parameters: {queueDepthThreshold: 20, metricsStalenessThreshold: 200ms}}]\n";
    assert_eq!(
        detector(text),
        "utilization-detector: Utilization { queue: 20.0, kv: 0.8, staleness: Some(200ms), limit: 1.0 }\n"
    );
    assert!(resolved(text).starts_with("expected-ttft-scorer 1"), "the default policy holds");
}

#[test]
fn a_detector_is_named_by_the_section_or_by_the_deprecated_field() {
    let plugins = "plugins:\n- {name: few, type: concurrency-detector, parameters: {maxConcurrency: 8}}\n- type: queue-scorer\n";
    let few = "few: Concurrency { mode: Requests, requests: 8.0, tokens: 1000000.0, limit: 1.0 }\n";
    let new = "flowControl: {saturationDetector: {pluginRef: few}}\n";
    assert_eq!(detector(&format!("{plugins}{new}")), few);
    assert_eq!(resolved(&format!("{plugins}{new}")), "queue-scorer 1, max-score-picker\n");
    let old = "saturationDetector: {pluginRef: few}\n";
    let warning =
        "warning: saturationDetector: is deprecated (write flowControl.saturationDetector)";
    assert_eq!(detector(&format!("{plugins}{old}")), format!("{few}epp.yaml:6: {warning}\n"));
    let both = format!("{plugins}{new}saturationDetector: {{pluginRef: utilization-detector}}\n");
    assert!(detector(&both).starts_with(few));
}

#[test]
fn a_detector_that_nothing_names_is_no_filter_without_profiles() {
    let text = "plugins: [{type: concurrency-detector}, {type: queue-scorer}]\n";
    expect![[r"
        queue-scorer 1, max-score-picker
        epp.yaml:3: warning: plugins[0]: `concurrency-detector` has no effect: nothing asks it (name it in flowControl.saturationDetector or a profile)
    "]].assert_eq(&resolved(text));
}

#[test]
fn a_detector_in_a_profile_is_a_filter() {
    let text = "plugins:\n- {type: utilization-detector}\n- {type: concurrency-detector}\n- {name: spare, type: concurrency-detector}\n- type: queue-scorer\n\
                schedulingProfiles:\n- name: p\n  plugins: [{pluginRef: concurrency-detector}, {pluginRef: utilization-detector}, {pluginRef: queue-scorer}]\n";
    expect![[r"
        concurrency-detector, utilization-detector, queue-scorer 1, max-score-picker
        epp.yaml:6: warning: plugins[2]: `spare` has no effect: nothing asks it (name it in flowControl.saturationDetector or a profile)
    "]]
    .assert_eq(&resolved(text));
}

#[test]
fn a_detector_that_is_none_or_badly_set_is_refused() {
    refused(
        "plugins:\n- type: queue-scorer\n- {type: utilization-detector, parameters: {kvCacheUtilThreshold: 80, metricsStalenessThreshold: soon}}\n\
         flowControl: {saturationDetector: {pluginRef: concurrency-detector}}\n",
        &expect![[r"
            epp.yaml:5: error: plugins[1].parameters.metricsStalenessThreshold: `soon` is no duration (write for example 50ms, 2s or 1m30s)
            epp.yaml:5: error: plugins[1].parameters.kvCacheUtilThreshold: kvCacheUtilThreshold is 80 (give at most 1)
            epp.yaml:5: warning: plugins[1]: `utilization-detector` has no effect: nothing asks it (name it in flowControl.saturationDetector or a profile)
            epp.yaml:6: error: flowControl.saturationDetector.pluginRef: no plugin is named `concurrency-detector` (list it under plugins)
        "]],
    );
    refused(
        "saturationDetector: {pluginRef: queue-scorer}\n",
        &expect![[r"
            epp.yaml:3: warning: saturationDetector: is deprecated (write flowControl.saturationDetector)
            epp.yaml:3: error: saturationDetector.pluginRef: no plugin is named `queue-scorer` (list it under plugins)
        "]],
    );
    refused(
        "plugins: [{type: queue-scorer}]\nsaturationDetector: {pluginRef: queue-scorer}\n",
        &expect![[r"
            epp.yaml:4: warning: saturationDetector: is deprecated (write flowControl.saturationDetector)
            epp.yaml:4: error: saturationDetector.pluginRef: `queue-scorer` is no saturation detector (name a saturation detector)
        "]],
    );
    refused(
        "flowControl: {saturationDetector: {}}\n",
        &expect![[r"
            epp.yaml:3: error: flowControl.saturationDetector.pluginRef: is missing (name a plugin)
        "]],
    );
}

#[test]
fn a_detector_counts_by_a_producer_that_counts() {
    let counts = |name: &str| {
        format!(
            "plugins:\n- {{type: concurrency-detector, parameters: {{inFlightLoadProducerName: {name}}}}}\n\
             - {{name: load, type: inflight-load-producer}}\n- type: token-producer\n\
             flowControl: {{saturationDetector: {{pluginRef: concurrency-detector}}}}\n"
        )
    };
    for name in ["load", "inflight-load-producer", "''"] {
        assert!(with_header(&counts(name)).is_ok(), "{name}");
    }
    refused(
        &counts("token-producer"),
        &expect![[r"
            epp.yaml:4: error: plugins[0].parameters.inFlightLoadProducerName: `token-producer` does not count what is in flight (name inflight-load-producer)
        "]],
    );
    refused(
        &counts("laod"),
        &expect![[r"
            epp.yaml:4: error: plugins[0].parameters.inFlightLoadProducerName: no plugin is named `laod` (did you mean `load`?)
        "]],
    );
}

#[test]
fn served_endpoints_are_told_only_where_the_test_aid_is_listed() {
    assert!(!with_header("").unwrap().report_served);
    let text = "plugins:\n- type: destination-endpoint-served-verifier\n- type: header-based-testing-filter\n- type: random-picker\n";
    let resolved = with_header(text).unwrap();
    assert!(resolved.report_served);
    assert_eq!(profile(&resolved), "header-based-testing-filter, random-picker");
    assert_eq!(rendered(&resolved.warnings), "");
}
