//! Messages in a line each.

use envoy_types::pb::envoy::config::core::v3::{HeaderMap, HeaderValue};
use envoy_types::pb::envoy::service::ext_proc::v3::body_mutation::Mutation;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response;
use envoy_types::pb::envoy::service::ext_proc::v3::{
    CommonResponse, HeaderMutation, HttpBody, HttpHeaders, ImmediateResponse, ProcessingRequest,
    ProcessingResponse,
};
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{Struct, Value};

/// Longest body that is shown; of a longer one the length is.
const LONGEST: usize = 150;

/// A message of the gateway: its kind, headers, body, `end` and what it tells of the endpoints.
pub(crate) fn request(message: &ProcessingRequest) -> String {
    let metadata = message.metadata_context.iter().flat_map(|context| &context.filter_metadata);
    let mut words = vec![match &message.request {
        Some(Request::RequestHeaders(message)) => format!("RH{}", headers(message)),
        Some(Request::ResponseHeaders(message)) => format!("SH{}", headers(message)),
        Some(Request::RequestBody(message)) => format!("RB{}", body(message)),
        Some(Request::ResponseBody(message)) => format!("SB{}", body(message)),
        Some(Request::RequestTrailers(_)) => "RT".to_owned(),
        Some(Request::ResponseTrailers(_)) => "ST".to_owned(),
        None => "nothing".to_owned(),
    }];
    words.extend(metadata.map(|(namespace, fields)| format!(" {namespace}{}", structure(fields))));
    words.concat()
}

/// A reply: its kind, `+` and `-` for headers set and removed, body, `end`, and what the load balancer is told.
pub(crate) fn response(reply: &ProcessingResponse) -> String {
    let metadata = reply.dynamic_metadata.as_ref();
    let line = match &reply.response {
        Some(Response::RequestHeaders(reply)) => format!("RH{}", common(reply.response.as_ref())),
        Some(Response::ResponseHeaders(reply)) => format!("SH{}", common(reply.response.as_ref())),
        Some(Response::RequestBody(reply)) => format!("RB{}", common(reply.response.as_ref())),
        Some(Response::ResponseBody(reply)) => format!("SB{}", common(reply.response.as_ref())),
        Some(Response::RequestTrailers(reply)) => {
            format!("RT{}", mutation(reply.header_mutation.as_ref()))
        }
        Some(Response::ResponseTrailers(reply)) => {
            format!("ST{}", mutation(reply.header_mutation.as_ref()))
        }
        Some(Response::ImmediateResponse(reply)) => immediate(reply),
        other => format!("{other:?}"),
    };
    line + &metadata.map_or_else(String::new, |told| format!(" metadata{}", structure(told)))
}

/// The piece of a body that a reply sends on, and whether it is the last.
pub(crate) fn streamed(reply: &ProcessingResponse) -> Option<(&[u8], bool)> {
    let (Response::RequestBody(body) | Response::ResponseBody(body)) = reply.response.as_ref()?
    else {
        return None;
    };
    let common = body.response.as_ref()?;
    match common.body_mutation.as_ref()?.mutation.as_ref()? {
        Mutation::StreamedResponse(piece) => Some((&piece.body, piece.end_of_stream)),
        Mutation::Body(_) | Mutation::ClearBody(_) => None,
    }
}

/// The destination header that a reply sets.
pub(crate) fn destination(reply: &ProcessingResponse) -> Option<String> {
    let response = reply.response.as_ref()?;
    let common = if let Response::RequestHeaders(headers) = response {
        headers.response.as_ref()?
    } else if let Response::RequestBody(body) = response {
        body.response.as_ref()?
    } else {
        return None;
    };
    let mut set = common.header_mutation.as_ref()?.set_headers.iter();
    let header = set.find_map(|option| {
        option.header.as_ref().filter(|header| header.key == "x-gateway-destination-endpoint")
    })?;
    String::from_utf8(header.raw_value.clone()).ok()
}

fn headers(message: &HttpHeaders) -> String {
    let pairs = message.headers.iter().flat_map(|HeaderMap { headers }| headers);
    let word = |header: &HeaderValue| {
        format!(" {}={}{}", header.key, header.value, shown(&header.raw_value))
    };
    let words: Vec<String> = pairs.map(word).collect();
    words.concat() + end(message.end_of_stream)
}

fn body(message: &HttpBody) -> String {
    format!(" {}{}", quoted(&message.body), end(message.end_of_stream))
}

fn common(common: Option<&CommonResponse>) -> String {
    let Some(common) = common else { return String::new() };
    let mut words = vec![mutation(common.header_mutation.as_ref())];
    if common.clear_route_cache {
        words.push(" clear-route".to_owned());
    }
    if common.status != 0 {
        words.push(format!(" status={}", common.status));
    }
    match common.body_mutation.as_ref().and_then(|mutation| mutation.mutation.as_ref()) {
        Some(Mutation::StreamedResponse(piece)) => {
            words.push(format!(" {}{}", quoted(&piece.body), end(piece.end_of_stream)));
        }
        Some(Mutation::Body(bytes)) => words.push(format!(" body={}", quoted(bytes))),
        Some(Mutation::ClearBody(clear)) => words.push(format!(" clear-body={clear}")),
        None => {}
    }
    words.concat()
}

fn mutation(mutation: Option<&HeaderMutation>) -> String {
    let Some(mutation) = mutation else { return String::new() };
    let mut words: Vec<String> = mutation
        .set_headers
        .iter()
        .filter_map(|option| option.header.as_ref())
        .map(|header| format!(" +{}={}{}", header.key, header.value, shown(&header.raw_value)))
        .collect();
    words.extend(mutation.remove_headers.iter().map(|name| format!(" -{name}")));
    words.sort_unstable();
    words.concat()
}

fn immediate(reply: &ImmediateResponse) -> String {
    let status = reply.status.as_ref().map_or(0, |status| status.code);
    let headers = mutation(reply.headers.as_ref());
    let grpc = reply.grpc_status.as_ref();
    let grpc = grpc.map_or_else(String::new, |grpc| format!(" grpc-status={}", grpc.status));
    format!("IM {status}{headers}{grpc} details={} {}", reply.details, quoted(&reply.body))
}

fn structure(fields: &Struct) -> String {
    let mut words: Vec<String> =
        fields.fields.iter().map(|(key, field)| format!("{key}: {}", value(field))).collect();
    words.sort_unstable();
    format!("{{{}}}", words.join(", "))
}

fn value(value: &Value) -> String {
    match &value.kind {
        Some(Kind::StringValue(text)) => text.clone(),
        Some(Kind::NumberValue(number)) => number.to_string(),
        Some(Kind::StructValue(fields)) => structure(fields),
        Some(Kind::ListValue(list)) => {
            let items: Vec<String> = list.values.iter().map(self::value).collect();
            format!("[{}]", items.join(", "))
        }
        other => format!("{other:?}"),
    }
}

fn end(end_of_stream: bool) -> &'static str {
    if end_of_stream { " end" } else { "" }
}

/// A body between quotes, or its length.
fn quoted(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if bytes.len() <= LONGEST => {
            format!("`{}`", text.escape_debug().to_string().replace("\\\"", "\""))
        }
        _ => format!("({} bytes)", bytes.len()),
    }
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
