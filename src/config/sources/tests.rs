use serde_json::json;

use super::*;

fn read(type_name: &str, raw: Parameters) -> Result<Source, String> {
    Source::read(type_name, raw).expect("a source").map_err(|BadParameters(message)| message)
}

fn page(raw: Parameters) -> Page {
    match read("metrics-data-source", raw) {
        Ok(Source::Metrics(page)) => page,
        other => panic!("{other:?}"),
    }
}

fn engines(raw: Parameters) -> Engines {
    match read("core-metrics-extractor", raw) {
        Ok(Source::Engines(engines)) => engines,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_page_has_the_defaults_of_the_reference() {
    let page = page(Parameters::Null);
    assert_eq!(page, Page::default());
    assert_eq!((page.scheme, page.path("/metrics"), page.port), (Scheme::Http, "/metrics", None));
    assert_eq!((page.interval(), page.verified()), (None, false));
}

#[test]
fn a_page_is_read_as_given() {
    let given = page(json!({
        "scheme": "https", "path": "/m?x=1", "port": 9400, "insecureSkipVerify": false, "interval": "100ms",
    }));
    assert_eq!((given.scheme, given.path("/metrics")), (Scheme::Https, "/m?x=1"));
    assert_eq!(given.port.map(NonZeroU16::get), Some(9400));
    assert_eq!((given.interval(), given.verified()), (Some(Duration::from_millis(100)), true));
    assert_eq!(page(json!({"interval": "1ms"})).interval(), Some(MIN_INTERVAL));
}

#[test]
fn a_ca_is_there_to_verify() {
    let ca = |skip: Option<bool>| {
        page(json!({"scheme": "https", "caCertPath": "/ca", "insecureSkipVerify": skip}))
    };
    assert!(ca(None).verified() && ca(Some(false)).verified());
    assert_eq!((ca(None).without_effect(), ca(Some(true)).verified()), (None, false));
    assert_eq!(ca(Some(true)).without_effect().map(|(field, _)| field), Some("caCertPath"));
    let http = page(json!({"caCertPath": "/ca"}));
    assert!(http.without_effect().is_some_and(|(_, why)| why.contains("https")));
}

#[test]
fn mistakes_are_refused_by_name() {
    for (type_name, raw, named) in [
        ("metrics-data-source", json!({"port": 0}), "nonzero"),
        ("metrics-data-source", json!({"port": 70_000}), "70000"),
        ("metrics-data-source", json!({"path": "metrics"}), "metrics"),
        ("metrics-data-source", json!({"scheme": "ftp"}), "ftp"),
        ("metrics-data-source", json!({"clientCertPath": "/c"}), "clientKeyPath"),
        ("models-data-source", json!({"interval": "-1s"}), "-1s"),
        ("models-data-extractor", json!({"x": 1}), "x"),
        ("core-metrics-extractor", json!({"engineConfigs": [{}]}), "engineConfigs[0].name"),
        ("core-metrics-extractor", json!({"engineConfigs": [{"name": "default"}]}), "reserved"),
        ("core-metrics-extractor", json!({"engineConfigs": [{"name": "a"}, {"name": "a"}]}), "[1]"),
        (
            "core-metrics-extractor",
            json!({"engineConfigs": [{"name": "a", "loraSpec": "a b"}]}),
            "loraSpec",
        ),
        ("core-metrics-extractor", json!({"defaultEngine": "vlm"}), "vllm, sglang"),
        (
            "core-metrics-extractor",
            json!({"engineConfigs": [{"name": "a", "customMetrics": [
                {"attributeKey": "x", "metricSpec": "x"}, {"attributeKey": "x", "metricSpec": "y"},
            ]}]}),
            "engineConfigs[0].customMetrics[1].attributeKey",
        ),
        (
            "core-metrics-extractor",
            json!({"engineConfigs": [{"name": "a", "customMetrics": [
                {"attributeKey": " ", "metricSpec": "x"},
            ]}]}),
            "attributeKey is missing",
        ),
        (
            "core-metrics-extractor",
            json!({"engineConfigs": [{"name": "a", "customMetrics": [
                {"attributeKey": "x", "metricSpec": ""},
            ]}]}),
            "customMetrics[0].metricSpec",
        ),
        (
            "core-metrics-extractor",
            json!({"engineConfigs": [{"name": "a", "customMetrics": [{"x": 1}]}]}),
            "unknown field `x`",
        ),
    ] {
        let error = read(type_name, raw).expect_err(named);
        assert!(error.contains(named), "{error}");
    }
    assert!(Source::read("queue-scorer", Parameters::Null).is_none());
}

#[test]
fn a_configured_engine_has_the_metrics_that_are_given() {
    let engines = engines(json!({
        "engineLabelKey": "engine", "defaultEngine": "mine",
        "engineConfigs": [{
            "name": "mine", "queuedRequestsSpec": "q{kind=waiting}", "runningRequestsSpec": "",
            "cacheInfoSpec": "cache", "cacheNumBlocksLabelName": "n",
            "customMetrics": [{"attributeKey": "depth", "metricSpec": "depth{rank=0}"}],
        }],
    }));
    assert_eq!(engines.default.as_deref(), Some("mine"));
    assert_eq!(&*engines.labels[0], "engine");
    let mine = &engines.list[0];
    let metrics: Vec<_> = mine
        .metrics
        .iter()
        .map(|metric| (metric.signal.clone(), metric.label.as_deref()))
        .collect();
    let expected = [
        (Signal::Waiting, None),
        (Signal::BlockSize, Some("block_size")),
        (Signal::Blocks, Some("n")),
        (Signal::Attribute("depth".into()), None),
    ];
    assert_eq!(metrics, expected);
    assert_eq!(engines.list.len(), Engines::default().list.len() + 1);
}

#[test]
fn an_engine_has_sixteen_attributes_at_most() {
    let engine = |count: usize| {
        let custom = |n| json!({"attributeKey": format!("a{n}"), "metricSpec": "x"});
        let custom: Vec<_> = (0..count).map(custom).collect();
        json!({"engineConfigs": [{"name": "a", "customMetrics": custom}]})
    };
    assert!(read("core-metrics-extractor", engine(16)).is_ok());
    let error = read("core-metrics-extractor", engine(17)).unwrap_err();
    assert!(error.ends_with("there are 17, give 16 or fewer"), "{error}");
}
