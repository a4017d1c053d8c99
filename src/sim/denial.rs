//! Answers that say no, and JSON answers in general.

use axum::body::Body;
use http::{HeaderValue, Response, StatusCode, header::CONTENT_TYPE};
use serde_json::Value;

use super::driver::SubmitError;

/// Why the API gives no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Denial {
    #[error("{0}")]
    BadRequest(String),
    #[error("The model `{0}` does not exist.")]
    UnknownModel(String),
    #[error(transparent)]
    NotTaken(#[from] SubmitError),
    #[error("the job was dropped")]
    Dropped,
    #[error("Internal server error")]
    Ordered,
}

impl Denial {
    /// Names the place and the class of the error; its message might quote the body.
    pub(super) fn malformed(error: &serde_json::Error) -> Self {
        let (line, column) = (error.line(), error.column());
        Self::BadRequest(format!("malformed body at line {line}, column {column}"))
    }

    /// The answer in vLLM's shape.
    pub(super) fn response(&self) -> Response<Body> {
        let (status, kind, param) = match self {
            Self::BadRequest(_) | Self::NotTaken(SubmitError::Refused(_)) => {
                (StatusCode::BAD_REQUEST, "BadRequestError", None)
            }
            Self::UnknownModel(_) => (StatusCode::NOT_FOUND, "NotFoundError", Some("model")),
            Self::NotTaken(SubmitError::Full) => {
                (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailableError", None)
            }
            Self::Dropped | Self::Ordered => {
                (StatusCode::INTERNAL_SERVER_ERROR, "InternalServerError", None)
            }
        };
        let message = self.to_string();
        let code = status.as_u16();
        let error =
            serde_json::json!({"message": message, "type": kind, "param": param, "code": code});
        json(status, &serde_json::json!({ "error": error }))
    }
}

/// A response with a JSON body.
pub(super) fn json(status: StatusCode, body: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
