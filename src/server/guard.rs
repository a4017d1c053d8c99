//! Who may see the metrics page.

use std::sync::Arc;

use axum::http::header::{AUTHORIZATION, CACHE_CONTROL, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::future::BoxFuture;

/// The scheme of the credentials, whose case does not matter.
const BEARER: &str = "bearer ";

/// Longest token in bytes that is looked at; those of service accounts have about 1,000.
const LONGEST: usize = 8 * 1024;

/// Asks about the bearer of a token.
pub type Guard = Arc<dyn Fn(String) -> BoxFuture<'static, Result<(), Denial>> + Send + Sync>;

/// Why somebody may not see the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denial {
    /// There is no token, or it is nobody's.
    Unauthenticated,
    /// Its bearer has no right to, for this reason.
    Forbidden(String),
    /// It cannot be found out, for this reason.
    Unknown(String),
}

/// Why the sender of these headers is not let in; none where it is, or where everybody is.
pub(super) async fn refused(guard: Option<&Guard>, headers: &HeaderMap) -> Option<Denial> {
    let guard = guard?;
    match token(headers) {
        Some(token) => guard(token.to_owned()).await.err(),
        None => Some(Denial::Unauthenticated),
    }
}

fn token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_at_checked(BEARER.len())?;
    let token = token.trim();
    let good = scheme.eq_ignore_ascii_case(BEARER) && !token.is_empty() && token.len() <= LONGEST;
    good.then_some(token)
}

impl IntoResponse for Denial {
    fn into_response(self) -> Response {
        let (status, reason) = match self {
            Self::Unauthenticated => {
                let text = "send the token of a service account: Authorization: Bearer TOKEN\n";
                let asks = [(WWW_AUTHENTICATE, "Bearer"), (CACHE_CONTROL, "no-store")];
                return (StatusCode::UNAUTHORIZED, asks, text).into_response();
            }
            Self::Forbidden(reason) => (StatusCode::FORBIDDEN, reason),
            Self::Unknown(reason) => (StatusCode::SERVICE_UNAVAILABLE, reason),
        };
        (status, [(CACHE_CONTROL, "no-store")], format!("{reason}\n")).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn status(authorization: Option<&str>) -> u16 {
        let guard: Guard = Arc::new(|token| {
            Box::pin(async move {
                match token.as_str() {
                    "good" => Ok(()),
                    "poor" => Err(Denial::Forbidden("no right".to_owned())),
                    "late" => Err(Denial::Unknown("no answer".to_owned())),
                    _ => Err(Denial::Unauthenticated),
                }
            })
        });
        let mut headers = HeaderMap::new();
        if let Some(value) = authorization {
            headers.insert(AUTHORIZATION, value.parse().unwrap());
        }
        let denial = refused(Some(&guard), &headers).await;
        denial.map_or(200, |denial| denial.into_response().status().as_u16())
    }

    #[tokio::test]
    async fn the_bearer_of_a_good_token_is_let_in() {
        assert_eq!(status(Some("Bearer good")).await, 200);
        assert_eq!(status(Some("bearer  good ")).await, 200);
    }

    #[tokio::test]
    async fn others_are_told_what_they_lack() {
        for bad in [None, Some(""), Some("Bearer"), Some("Bearer "), Some("Basic good")] {
            assert_eq!(status(bad).await, 401, "{bad:?}");
        }
        assert_eq!(status(Some(&format!("Bearer {}", "x".repeat(LONGEST + 1)))).await, 401);
        assert_eq!(status(Some("Bearer nobody")).await, 401);
        assert_eq!(status(Some("Bearer poor")).await, 403);
        assert_eq!(status(Some("Bearer late")).await, 503);
    }

    #[tokio::test]
    async fn without_a_guard_everybody_is_let_in() {
        assert_eq!(refused(None, &HeaderMap::new()).await, None);
    }
}
