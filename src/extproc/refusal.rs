//! Answers of our own: why a request is refused, and how that is told to its client.
//!
//! The body is an error object of the API that the client speaks, so that its library shows the message. A refusal is
//! an answer, not a fault: the gateway passes it on whatever its failure mode.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;

use crate::director::Rejection;
use crate::extproc::reply::set;
use crate::flow::Unheld;
use crate::request::{BodyError, Dialect};
use crate::wire::processing_response::Response;
use crate::wire::{
    GrpcStatus, HeaderMutation, HeaderValueOption, HttpStatus, ImmediateResponse,
    ProcessingResponse,
};

/// When a refused client may try again, unless more is known.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Why a request is refused.
#[derive(Debug)]
pub(in crate::extproc) enum Refusal {
    /// The director has no place for it.
    Rejected(Rejection),
    /// There is no endpoint, and it may not wait for one; when to try again.
    Unheld(Unheld, Duration),
    /// It has waited for an endpoint, and this process is about to end.
    Stopping,
    /// The body cannot be what its path says.
    Malformed(BodyError),
    /// The API names its model, the body and the headers do not.
    NoModel,
    /// No parser of the configuration takes the path.
    NoParser,
    /// The body is longer than the limit in bytes.
    TooLarge(usize),
    /// All requests together hold as many bytes as they may.
    BudgetSpent,
    /// The body stopped coming.
    Stalled,
}

/// How a refusal is told.
struct Terms {
    status: u16,
    /// For `x-llm-d-request-dropped-reason`.
    reason: Option<&'static str>,
    /// For `llm_d_epp_request_error_total`.
    code: &'static str,
    /// For the gateway's access log.
    details: &'static str,
    message: Cow<'static, str>,
}

impl Refusal {
    fn terms(&self) -> Terms {
        let terms = |status, reason, details, message: &'static str| Terms {
            status,
            reason,
            code: code(status),
            details,
            message: Cow::Borrowed(message),
        };
        match self {
            Self::Rejected(rejection) => {
                let (status, reason, details) = rejected(rejection);
                terms(status, reason, details, rejection.reason())
            }
            Self::Unheld(Unheld::Full, _) => terms(
                503,
                Some("rejected-no-endpoints"),
                "hold_full",
                "no endpoint is there yet, and too many requests wait for one",
            ),
            Self::Unheld(Unheld::TooLong, _) => terms(
                503,
                Some("rejected-no-endpoints"),
                "hold_too_long",
                "no endpoint is there yet, and none is expected soon enough",
            ),
            Self::Stopping => terms(
                503,
                Some("rejected-no-endpoints"),
                "stopping",
                "no endpoint is there yet, and this picker is about to stop",
            ),
            Self::Malformed(error) => Terms {
                message: Cow::Owned(error.to_string()),
                ..terms(400, None, "malformed_body", "")
            },
            Self::NoModel => terms(400, None, "no_model", "model not found in request body"),
            Self::NoParser => {
                terms(400, None, "no_parser", "no parser is configured for the path of the request")
            }
            Self::TooLarge(limit) => Terms {
                message: Cow::Owned(format!("request body exceeds {limit} bytes")),
                ..terms(413, None, "body_too_large", "")
            },
            Self::BudgetSpent => terms(
                429,
                Some("rejected-saturated"),
                "body_budget_spent",
                "too many request bodies at once",
            ),
            Self::Stalled => terms(408, None, "body_stalled", "the request body stopped coming"),
        }
    }

    /// The value of the metric label `outcome`.
    pub(in crate::extproc) fn outcome(&self) -> &'static str {
        if matches!(self, Self::Rejected(Rejection::Internal(_))) {
            return "epp_error";
        }
        if self.terms().status == 429 { "shed" } else { "rejected" }
    }

    /// The value of the metric label `error_code`.
    pub(in crate::extproc) fn code(&self) -> &'static str {
        self.terms().code
    }

    /// When its client may try again.
    fn retry_after(&self) -> Duration {
        if let Self::Unheld(_, after) = self { *after } else { RETRY_AFTER }
    }

    /// The answer in the client's dialect, with these headers and its own.
    pub(in crate::extproc) fn reply(
        &self,
        dialect: Dialect,
        mut headers: Vec<HeaderValueOption>,
    ) -> ProcessingResponse {
        let terms = self.terms();
        headers.extend(terms.reason.map(|reason| set("x-llm-d-request-dropped-reason", reason)));
        if matches!(terms.status, 429 | 503) {
            headers.push(set("retry-after", self.retry_after().as_secs().to_string()));
        }
        let grpc = dialect == Dialect::Grpc;
        if !grpc {
            headers.push(set("content-type", "application/json"));
        }
        let immediate = ImmediateResponse {
            status: Some(HttpStatus { code: i32::from(terms.status) }),
            headers: Some(HeaderMutation { set_headers: headers, remove_headers: Vec::new() }),
            body: body(dialect, &terms),
            grpc_status: grpc.then(|| GrpcStatus { status: grpc_status(terms.status) }),
            details: format!("lodesman_{}", terms.details),
        };
        ProcessingResponse {
            response: Some(Response::ImmediateResponse(immediate)),
            dynamic_metadata: None,
        }
    }
}

/// The status, the reason and the details of what the director has no place for.
fn rejected(rejection: &Rejection) -> (u16, Option<&'static str>, &'static str) {
    match rejection {
        Rejection::NotSynced => (503, Some("rejected-no-endpoints"), "not_synced"),
        Rejection::NoEndpoints => (503, Some("rejected-no-endpoints"), "no_endpoints"),
        Rejection::NoneAllowed => (503, Some("rejected-no-endpoints"), "none_allowed"),
        Rejection::Saturated => (429, Some("rejected-saturated"), "saturated"),
        Rejection::Shed => (429, Some("rejected-saturated"), "shed"),
        Rejection::NoProfile => (400, None, "no_profile"),
        Rejection::Internal(_) => (503, Some("rejected-internal"), "filter_failed"),
    }
}

fn body(dialect: Dialect, terms: &Terms) -> Bytes {
    let (kind, message) = (kind(dialect, terms.status), &terms.message);
    let body = match dialect {
        Dialect::OpenAi => {
            json!({"error": {"message": message, "type": kind, "param": null, "code": terms.details}})
        }
        Dialect::Anthropic => json!({"type": "error", "error": {"type": kind, "message": message}}),
        Dialect::Grpc => return Bytes::new(),
    };
    Bytes::from(body.to_string())
}

/// The error type that the API uses for a status.
fn kind(dialect: Dialect, status: u16) -> &'static str {
    match (dialect, status) {
        (Dialect::Anthropic, 413) => "request_too_large",
        (Dialect::Anthropic, 408) => "timeout_error",
        (_, 400 | 408 | 413) => "invalid_request_error",
        (_, 429) => "rate_limit_error",
        (Dialect::Anthropic, 503) => "overloaded_error",
        (Dialect::Anthropic, _) => "api_error",
        (_, _) => "server_error",
    }
}

/// The reference's name of an error class.
fn code(status: u16) -> &'static str {
    match status {
        400 | 408 | 413 => "BadRequest",
        429 => "ResourceExhausted",
        503 => "ServiceUnavailable",
        _ => "Internal",
    }
}

/// The gRPC status for an HTTP status.
fn grpc_status(status: u16) -> u32 {
    match status {
        400 => 3,
        408 => 4,
        413 | 429 => 8,
        503 => 14,
        _ => 13,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(refusal: &Refusal, dialect: Dialect) -> ImmediateResponse {
        let id = Bytes::from_static(b"id-1");
        match refusal.reply(dialect, vec![set("x-request-id", id)]).response {
            Some(Response::ImmediateResponse(immediate)) => immediate,
            other => panic!("{other:?}"),
        }
    }

    fn header(immediate: &ImmediateResponse, name: &str) -> Option<String> {
        let headers = immediate
            .headers
            .as_ref()?
            .set_headers
            .iter()
            .filter_map(|option| option.header.as_ref());
        headers
            .filter(|header| header.key == name)
            .map(|h| String::from_utf8_lossy(&h.raw_value).into_owned())
            .next()
    }

    #[test]
    fn a_rejection_names_its_reason_and_when_to_retry() {
        let immediate = told(&Refusal::Rejected(Rejection::NoEndpoints), Dialect::OpenAi);
        assert_eq!(immediate.status.unwrap().code, 503);
        assert_eq!(
            header(&immediate, "x-llm-d-request-dropped-reason").unwrap(),
            "rejected-no-endpoints"
        );
        assert_eq!(header(&immediate, "retry-after").unwrap(), "1");
        assert_eq!(header(&immediate, "x-request-id").unwrap(), "id-1");
    }

    #[test]
    fn the_body_is_an_error_of_the_clients_api() {
        let json = |dialect| -> serde_json::Value {
            serde_json::from_slice(&told(&Refusal::TooLarge(10), dialect).body).unwrap()
        };
        assert_eq!(json(Dialect::OpenAi)["error"]["type"], "invalid_request_error");
        assert_eq!(json(Dialect::OpenAi)["error"]["message"], "request body exceeds 10 bytes");
        assert_eq!(json(Dialect::Anthropic)["error"]["type"], "request_too_large");
    }

    #[test]
    fn a_grpc_client_gets_a_grpc_status_and_no_body() {
        let immediate = told(&Refusal::BudgetSpent, Dialect::Grpc);
        assert_eq!((immediate.grpc_status.unwrap().status, immediate.body.len()), (8, 0));
    }

    #[test]
    fn the_page_of_refusals_has_each_with_its_status_header_and_code() {
        let page = include_str!("../../docs/gateway-policies.md");
        let of = [
            Rejection::NotSynced,
            Rejection::NoEndpoints,
            Rejection::NoneAllowed,
            Rejection::Saturated,
            Rejection::Shed,
            Rejection::NoProfile,
        ];
        let second = Duration::from_secs(1);
        let others = [
            Refusal::Unheld(Unheld::Full, second),
            Refusal::Unheld(Unheld::TooLong, second),
            Refusal::Stopping,
            Refusal::NoModel,
            Refusal::NoParser,
            Refusal::TooLarge(1),
            Refusal::BudgetSpent,
            Refusal::Stalled,
        ];
        for refusal in of.into_iter().map(Refusal::Rejected).chain(others) {
            let Terms { status, reason, code, details, .. } = refusal.terms();
            let begin = format!("| {status} |");
            let header = format!("| {} |", reason.map_or(String::new(), |it| format!("`{it}`")));
            let row = page.lines().find(|line| line.contains(&format!("`lodesman_{details}`")));
            let row = row.expect(details).replace("| | `", "|  | `");
            assert!(row.starts_with(&begin) && row.contains(&header), "{row}");
            assert!(row.ends_with(&format!("`{code}` |")), "{row}");
        }
    }
}
