use std::cell::RefCell;
use std::collections::BTreeSet;

use super::*;

fn read(variables: &[(&str, &str)]) -> Result<Option<Traces>, BadVariable> {
    let value = |name: &str| variables.iter().find(|(known, _)| *known == name);
    Traces::read(|name| value(name).map(|(_, value)| (*value).to_owned()))
}

fn endpoint(variables: &[(&str, &str)]) -> Option<String> {
    read(variables).unwrap().map(|traces| traces.endpoint)
}

const OTLP: (&str, &str) = ("OTEL_TRACES_EXPORTER", "otlp");
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

#[test]
fn there_are_traces_where_somebody_wants_them() {
    let local = "http://localhost:4317";
    assert_eq!(endpoint(&[]), None);
    assert_eq!(endpoint(&[OTLP]).as_deref(), Some(local));
    assert_eq!(endpoint(&[(ENDPOINT, "http://otel:4317")]).as_deref(), Some("http://otel:4317"));
    assert_eq!(endpoint(&[(ENDPOINT, "http://otel"), ("OTEL_TRACES_EXPORTER", "none")]), None);
    assert_eq!(endpoint(&[OTLP, ("OTEL_SDK_DISABLED", "true")]), None);
    assert_eq!(endpoint(&[OTLP, (ENDPOINT, " ")]).as_deref(), Some(local));
}

#[test]
fn a_receiver_elsewhere_is_spoken_to_by_tls_unless_told_otherwise() {
    let at = |value| endpoint(&[(ENDPOINT, value)]).unwrap();
    assert_eq!(at("otel.example:4317"), "https://otel.example:4317");
    assert_eq!(at("127.0.0.1:4317"), "http://127.0.0.1:4317");
    let told = [(ENDPOINT, "otel:4317"), ("OTEL_EXPORTER_OTLP_INSECURE", "true")];
    assert_eq!(endpoint(&told).as_deref(), Some("http://otel:4317"));
    let both = [(ENDPOINT, "http://all:1"), ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t:2")];
    assert_eq!(endpoint(&both).as_deref(), Some("http://t:2"));
}

#[test]
fn a_tenth_is_sampled_and_a_parent_decides_unless_told_otherwise() {
    let sampler = |more: &[(&str, &str)]| read(&[&[OTLP], more].concat()).unwrap().unwrap().sampler;
    let (how, share) = ("OTEL_TRACES_SAMPLER", ("OTEL_TRACES_SAMPLER_ARG", "0.5"));
    assert_eq!(sampler(&[]), Sampler::new(0.1, true));
    assert_eq!(sampler(&[share]), Sampler::new(0.5, true));
    assert_eq!(sampler(&[(how, "traceidratio"), share]), Sampler::new(0.5, false));
    assert_eq!(sampler(&[(how, "always_on"), share]), Sampler::new(1.0, false));
    assert_eq!(sampler(&[(how, "parentbased_always_off")]), Sampler::new(0.0, true));
}

#[test]
fn headers_and_attributes_are_decoded_and_the_service_has_a_name() {
    let traces = read(&[
        OTLP,
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20t0ken, x-scope = a "),
        ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,zone=b"),
    ]);
    let traces = traces.unwrap().unwrap();
    let pairs = |pairs: &[(&str, &str)]| -> Pairs {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    assert_eq!(traces.headers, pairs(&[("authorization", "Bearer t0ken"), ("x-scope", "a")]));
    assert_eq!(traces.resource, pairs(&[("service.name", "other"), ("zone", "b")]));
    assert!(!format!("{traces:?}").contains("t0ken"), "{traces:?}");
    let unnamed = read(&[OTLP]).unwrap().unwrap().resource;
    assert_eq!(unnamed, pairs(&[("service.name", "llm-d-epp")]));
}

#[test]
fn what_cannot_be_done_is_told_with_what_to_give() {
    let told = |name, value| read(&[OTLP, (name, value)]).unwrap_err().to_string();
    assert_eq!(
        told("OTEL_EXPORTER_OTLP_TIMEOUT", "0"),
        "OTEL_EXPORTER_OTLP_TIMEOUT=0: give milliseconds, such as 10000"
    );
    let bad = [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
        ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
        ("OTEL_TRACES_SAMPLER_ARG", "10%"),
        (ENDPOINT, "unix:///run/otel.sock"),
    ];
    for (name, value) in bad {
        assert!(told(name, value).starts_with(&format!("{name}={value}: give ")), "{name}");
    }
    assert!(!told("OTEL_EXPORTER_OTLP_HEADERS", "s3cret").contains("s3cret"));
    let console = read(&[("OTEL_TRACES_EXPORTER", "console")]).unwrap_err();
    assert_eq!(console.to_string(), "OTEL_TRACES_EXPORTER=console: give otlp or none");
}

#[test]
fn the_table_has_every_variable_that_is_read() {
    let asked = RefCell::new(BTreeSet::new());
    let listed: BTreeSet<String> =
        VARIABLES.iter().flat_map(|(names, ..)| names.split(", ")).map(str::to_owned).collect();
    let value = |name: &str| {
        asked.borrow_mut().insert(name.to_owned());
        (name == "OTEL_TRACES_EXPORTER").then(|| "otlp".to_owned())
    };
    Traces::read(value).unwrap();
    let told = |name: &str| {
        asked.borrow_mut().insert(name.to_owned());
        (name == ENDPOINT).then(|| "otel:4317".to_owned())
    };
    Traces::read(told).unwrap();
    assert_eq!(*asked.borrow(), listed);
}
