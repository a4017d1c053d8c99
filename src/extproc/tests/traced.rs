//! The traces of requests.

use super::*;
use crate::spans::Sampler;
use crate::wire::HeaderMutation;

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// A chat whose headers are these besides, sampled where its parent is; what becomes of its headers.
fn chat(rig: &mut Rig, headers: &[(&str, &str)]) -> HeaderMutation {
    rig.exchange.track(Sampler::new(0.0, true));
    let line = [(":path", "/v1/chat/completions"), (":method", "POST")];
    rig.headers(&[&line[..], headers].concat(), false).body(CHAT, true);
    let Some(Response::RequestHeaders(reply)) = rig.replies.drain(..).next() else {
        return HeaderMutation::default();
    };
    reply.response.unwrap().header_mutation.unwrap()
}

/// The value that a header is set to.
fn set(change: &HeaderMutation, name: &str) -> Option<String> {
    let headers = change.set_headers.iter().filter_map(|option| option.header.as_ref());
    let value = headers.filter(|header| header.key == name).map(|header| &header.raw_value).next();
    value.map(|value| String::from_utf8_lossy(value).into_owned())
}

// FR-144
#[test]
fn a_request_of_a_trace_goes_on_in_it() {
    let mut rig = Rig::new(4, 4);
    let change = chat(&mut rig, &[("traceparent", PARENT), ("tracestate", "v=1")]);
    assert_eq!(change.remove_headers, [""; 0]);
    let told = set(&change, "traceparent").unwrap();
    let tree = rig.spans().unwrap();
    let span = &tree.spans[0];
    let (trace_id, id) = (tree.trace_id, span.id);
    assert_eq!(told, format!("00-{trace_id:032x}-{id:016x}-01"));
    assert_eq!((told.split_at(36).0, &*tree.state), (PARENT.split_at(36).0, "v=1"));
    assert_eq!((span.parent, span.error.as_deref()), (0xb7ad_6b71_6920_3331, None));
}

// FR-144
#[test]
fn a_context_that_is_none_is_replaced_with_all_that_came_with_it() {
    let mut rig = Rig::new(4, 4);
    let change = chat(&mut rig, &[("traceparent", "what"), ("tracestate", "v=1")]);
    let told = set(&change, "traceparent").unwrap();
    assert!(told.starts_with("00-00000000000000000000000000000005-") && told.ends_with("-00"));
    assert_eq!(change.remove_headers, ["tracestate"]);
    assert_eq!(rig.spans(), None, "nobody samples it");
}

#[test]
fn without_tracing_a_context_is_left_as_it_came() {
    let mut rig = Rig::new(4, 4);
    let line = [(":path", "/v1/chat/completions"), ("traceparent", PARENT)];
    assert_eq!(rig.headers(&line, false).body(CHAT, true).said()[0], PICKED);
    assert_eq!(rig.spans(), None);
}

#[test]
fn what_another_stream_tells_of_is_not_told_twice() {
    let mut rig = Rig::new(4, 4);
    rig.observed = true;
    chat(&mut rig, &[("traceparent", PARENT)]);
    assert!(!rig.exchange.sampled());
    assert_eq!(rig.spans(), None);
}
