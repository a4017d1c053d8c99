//! What is told of single requests: lines of the log, traces at a receiver.

use std::net::SocketAddr;
use std::process::Command;

use anyhow::ensure;
use http::Request;
use lodesman_e2e::client::Answer;
use lodesman_e2e::otlp::{Received, Receiver};
use lodesman_e2e::{Body, Client, Envoy, Lodesman, eventually};
use serde_json::{Value, json};

use super::stage::{
    CHAT, SOON, Stage, at_rest, binary, chat, duplex, ended, fleet, launched, requests_at, total,
};
use super::traffic::server_of;

/// What stands in the prompt of [`chat`].
const CANARY: &str = "harbor";

/// A trace, and the span of it that a client has.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";

/// A chat whose answer of three tokens comes as a stream, with its usage.
fn streamed() -> Value {
    let mut request = chat(3, true);
    request["stream_options"] = json!({"include_usage": true});
    request
}

/// The lines of requests.
fn lines(picker: &Lodesman) -> Vec<Value> {
    let output = picker.process.output();
    assert!(!output.contains(CANARY), "{output}");
    let lines = output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["target"] == "lodesman::requests").collect()
}

/// Waits for so many of them, and returns the last.
async fn line(picker: &Lodesman, count: usize) -> Value {
    let written = eventually(SOON, async || {
        let lines = lines(picker);
        ensure!(lines.len() == count, "{lines:#?}");
        Ok(lines.last().cloned().unwrap_or_default())
    });
    written.await.unwrap()
}

/// Sets of which requests the log tells; the status of the answer, and what it says.
async fn log(picker: &Lodesman, which: &str) -> (u16, String) {
    let page = "/debug/request-log";
    let request = Request::put(page).body(Body::full(which.to_owned())).unwrap();
    let client = Client::http1(picker.admin);
    let answer = client.send(request).await.unwrap().collect().await;
    let now = client.get(page).await.unwrap().text();
    (answer.status.as_u16(), answer.text() + &now)
}

#[tokio::test]
async fn requests_have_a_line_where_somebody_asks_for_it() {
    let stage = Stage::start(2).await;
    let (client, picker) = (stage.client(), &stage.picker);
    client.post(CHAT, &chat(3, false)).await.unwrap();
    ended(picker, "ok", 1).await;
    assert_eq!(log(picker, "1").await, (200, "1\n".to_owned()));
    let answer = client.post(CHAT, &streamed()).await.unwrap();
    let told = line(picker, 1).await;
    assert_eq!(told["endpoint"], server_of(&answer).to_string());
    assert_eq!((&told["model"], &told["served_model"]), (&json!("sim"), &json!("sim")));
    assert_eq!((&told["outcome"], &told["status"]), (&json!("ok"), &json!(200)));
    assert_eq!((&told["error"], &told["level"]), (&Value::Null, &json!("INFO")));
    assert_eq!((&told["generated_tokens"], &told["api"]), (&json!(3), &json!("chat_completions")));
    assert!(told["request_id"].as_str().unwrap().len() > 30, "{told:#}");
    assert!(told["first_token_ms"].as_f64() <= told["elapsed_ms"].as_f64(), "{told:#}");
    assert_eq!(log(picker, "errors").await, (200, "errors\n".to_owned()));
    client.post(CHAT, &chat(3, false)).await.unwrap();
    let refused = client.post(CHAT, &json!({"messages": [{"content": CANARY}]})).await.unwrap();
    assert_eq!(refused.status, 400);
    let told = line(picker, 2).await;
    assert_eq!((&told["outcome"], &told["error"]), (&json!("rejected"), &json!("BadRequest")));
    assert_eq!((&told["endpoint"], &told["status"]), (&Value::Null, &Value::Null));
    let (status, text) = log(picker, "sometimes").await;
    assert_eq!((status, text.ends_with("errors\n")), (400, true), "{text}");
    assert!(text.starts_with("give off, errors, or a share"), "{text}");
}

/// A picker with a filter and a scorer that sends traces to `receiver`, those of the requests whose parents are sampled.
async fn traced(endpoints: &[SocketAddr], receiver: SocketAddr) -> Lodesman {
    let mut command = Command::new(binary());
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{receiver}"));
    command.env("OTEL_TRACES_SAMPLER_ARG", "0");
    let endpoints = endpoints.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let profile = json!({
        "apiVersion": "llm-d.ai/v1alpha1",
        "kind": "EndpointPickerConfig",
        "plugins": [{"type": "decode-filter"}, {"type": "queue-scorer"}],
    });
    let profile = profile.to_string();
    launched(command, ["--endpoints", &endpoints, "--config-text", &profile].map(str::to_owned))
        .await
}

/// Sends a request of this context.
async fn ask(client: Client, body: String, parent: Option<&str>) -> Answer {
    let mut request = Request::post(CHAT).header("content-type", "application/json");
    if let Some(parent) = parent {
        request = request.header("traceparent", parent);
    }
    let request = request.header("tracestate", "v=1").body(Body::full(body)).unwrap();
    client.send(request).await.unwrap().collect().await
}

/// Waits for so many spans of a name.
async fn named(receiver: &Receiver, name: &str, count: usize) -> Vec<Received> {
    let come = eventually(SOON, async || {
        let all = receiver.spans();
        let spans: Vec<_> = all.iter().filter(|it| it.span.name == name).cloned().collect();
        ensure!(spans.len() == count, "{name}: {all:#?}");
        Ok(spans)
    });
    come.await.unwrap()
}

fn hexadecimal(id: &[u8]) -> String {
    id.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

/// The spans, each as its name and that of its parent.
fn parents(spans: &[Received]) -> Vec<(&str, &str)> {
    let name = |id: &[u8]| {
        let parent = spans.iter().find(|it| it.span.span_id == id);
        parent.map_or("", |it| it.span.name.as_str())
    };
    let mut parents: Vec<_> =
        spans.iter().map(|it| (it.span.name.as_str(), name(&it.span.parent_span_id))).collect();
    parents.sort_unstable();
    parents
}

/// What the spans below that of a request say of its decision, which took `server`.
fn check_children(spans: &[Received], request: &Received, server: &str) {
    assert_eq!(
        parents(spans),
        [
            ("filter_endpoints", "run_scheduler_profile"),
            ("gateway.request", ""),
            ("gateway.request_orchestration", "gateway.request"),
            ("llm_d.epp.scorer.queue-scorer", "llm_d.epp.scoring"),
            ("llm_d.epp.scoring", "run_scheduler_profile"),
            ("pick_endpoints", "run_scheduler_profile"),
            ("run_scheduler_profile", "gateway.request_orchestration"),
        ]
    );
    let find = |name: &str| spans.iter().find(|it| it.span.name == name).unwrap();
    let decision = find("gateway.request_orchestration");
    assert_eq!(decision.attribute("llm_d.epp.decision.endpoint"), json!(server));
    assert_eq!(decision.attribute("llm_d.epp.decision.candidates"), json!(2));
    let scorer = find("llm_d.epp.scorer.queue-scorer");
    assert_eq!(scorer.attribute("llm_d.epp.scorer.endpoints_scored"), json!(2));
    let best = find("pick_endpoints").attribute("llm_d.epp.picker.top_endpoints");
    assert_eq!(best.as_array().map(Vec::len), Some(2));
    for Received { span, .. } in spans {
        let within = span.start_time_unix_nano >= request.span.start_time_unix_nano
            && span.end_time_unix_nano <= request.span.end_time_unix_nano;
        assert!(within, "{span:#?}");
    }
}

// FR-144
#[tokio::test]
async fn a_sampled_request_is_traced_and_its_context_reaches_the_server() {
    let (receiver, fleet) = (Receiver::start().await.unwrap(), fleet(2, "--time-scale 50").await);
    let picker = traced(&fleet.servers, receiver.address).await;
    let envoy = Envoy::start(&duplex(&picker, &fleet)).await.unwrap();
    let seen = async |answer: &Answer| {
        requests_at(server_of(answer)).await.pop().unwrap()["headers"].clone()
    };
    let (body, silent) = (streamed().to_string(), format!("00-{TRACE}-{SPAN}-00"));
    let unsampled = ask(envoy.client(), body.clone(), Some(&silent)).await;
    let told = seen(&unsampled).await["traceparent"].as_str().unwrap().to_owned();
    assert!(told.starts_with(&format!("00-{TRACE}-")) && told.ends_with("-00"), "{told}");
    assert_ne!(told, silent, "it names our span");
    let alone = ask(envoy.client(), body.clone(), None).await;
    let alone = seen(&alone).await;
    assert!(alone["traceparent"].as_str().unwrap().ends_with("-00"), "{alone:#}");
    assert_eq!(alone["tracestate"], Value::Null, "of a trace that nobody names");

    let answer = ask(envoy.client(), body, Some(&format!("00-{TRACE}-{SPAN}-01"))).await;
    let request = named(&receiver, "gateway.request", 1).await.remove(0);
    let (headers, server) = (seen(&answer).await, server_of(&answer).to_string());
    let id = hexadecimal(&request.span.span_id);
    assert_eq!(headers["traceparent"], format!("00-{TRACE}-{id}-01"));
    assert_eq!(headers["tracestate"], "v=1");
    assert_eq!(hexadecimal(&request.span.trace_id), TRACE);
    assert_eq!(hexadecimal(&request.span.parent_span_id), SPAN);
    assert_eq!(request.resource["service.name"], "llm-d-epp");
    let spans = receiver.spans();
    assert!(!format!("{spans:?}").contains(CANARY), "{spans:#?}");
    for (name, of) in [
        ("gen_ai.request.model", json!("sim")),
        ("gen_ai.request.id", headers["x-request-id"].clone()),
        ("gen_ai.usage.output_tokens", json!(3)),
        ("http.response.status_code", json!(200)),
        ("lodesman.outcome", json!("ok")),
        ("lodesman.endpoint", json!(server)),
    ] {
        assert_eq!(request.attribute(name), of, "{name}");
    }
    let events = request.events();
    assert_eq!(
        events.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        ["first_token", "complete"]
    );
    assert_eq!(events[1].1["gen_ai.usage.output_tokens"], json!(3));
    assert_eq!((request.span.kind, request.span.status.is_some()), (2, false));
    check_children(&spans, &request, &server);

    let refused = ask(envoy.client(), "{".to_owned(), Some(&format!("00-{TRACE}-{SPAN}-01"))).await;
    assert_eq!(refused.status, 400);
    let request = named(&receiver, "gateway.request", 2).await.remove(1);
    assert_eq!(request.span.status.as_ref().unwrap().message, "BadRequest");
    assert_eq!(request.span.status.as_ref().unwrap().code, 2);
    named(&receiver, "gateway.request_orchestration", 1).await;
}

#[tokio::test]
async fn a_receiver_that_is_not_there_disturbs_nobody() {
    let fleet = fleet(1, "--time-scale 50").await;
    // Bound for the test, and nobody listens.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind((std::net::Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let picker = traced(&fleet.servers, socket.local_addr().unwrap()).await;
    let envoy = Envoy::start(&duplex(&picker, &fleet)).await.unwrap();
    let parent = format!("00-{TRACE}-{SPAN}-01");
    let answer = ask(envoy.client(), chat(3, false).to_string(), Some(&parent)).await;
    assert_eq!(answer.status, 200);
    let failed = eventually(SOON, async || {
        let failed = total(&picker, "lodesman_traced_requests_total", "failed").await?;
        ensure!(failed == 1, "{failed}");
        Ok(())
    });
    failed.await.unwrap();
    at_rest(&picker).await;
}
