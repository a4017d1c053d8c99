//! The web page at `/` of the admin port: what `lodesman top` shows, read-only, in a browser.
//!
//! One document without any other file, so that it works through every way to the port, also below a path of a proxy. It
//! asks for `/debug/overview` each second while it is seen. The policy in its header lets nothing run but what is in it,
//! by the hashes, and lets it talk to nobody but us: names that it shows come from clients.

use axum::Router;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::response::IntoResponse;
use axum::routing::get;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use sha2::{Digest, Sha256};

const PAGE: &str = include_str!("web/page.html");
const STYLE: &str = include_str!("web/style.css");
const SCRIPT: &str = include_str!("web/page.js");

/// The route `/`.
pub fn router() -> Router {
    let page = Bytes::from(page());
    let policy = policy();
    let show = async move || {
        let headers = [
            (CONTENT_TYPE, "text/html; charset=utf-8"),
            (CONTENT_SECURITY_POLICY, policy.as_str()),
            (CACHE_CONTROL, "no-cache"),
            (REFERRER_POLICY, "no-referrer"),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        ];
        (headers, page).into_response()
    };
    Router::new().route("/", get(show))
}

fn page() -> String {
    PAGE.replacen("{{style}}", STYLE, 1).replacen("{{script}}", SCRIPT, 1)
}

fn policy() -> String {
    let [style, script] = [STYLE, SCRIPT].map(|text| STANDARD.encode(Sha256::digest(text)));
    format!(
        "default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; connect-src 'self'; \
         img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use axum::http::Request;
    use tower::ServiceExt;

    use super::*;

    /// The most that the page may weigh.
    const MOST_BYTES: usize = 200_000;

    #[tokio::test]
    async fn the_page_is_whole_small_and_has_a_policy() {
        let request = Request::get("/").body(axum::body::Body::empty()).unwrap();
        let answer = router().oneshot(request).await.unwrap();
        let policy = answer.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap().to_owned();
        assert!(
            policy.starts_with("default-src 'none';") && !policy.contains("unsafe"),
            "{policy}"
        );
        let body = to_bytes(answer.into_body(), MOST_BYTES).await.unwrap();
        let body = std::str::from_utf8(&body).unwrap();
        assert!(body.contains(STYLE) && body.contains(SCRIPT) && !body.contains("{{"));
        assert!(!STYLE.contains("</") && !SCRIPT.contains("</"), "nothing ends its element early");
    }

    #[test]
    fn the_page_names_no_other_place() {
        let foreign = |text: &str| {
            let links = text
                .split("http")
                .skip(1)
                .filter(|rest| rest.starts_with("://") || rest.starts_with("s://"));
            links.filter(|rest| !rest.starts_with("://www.w3.org/2000/svg")).count()
        };
        assert_eq!(foreign(&page()), 0);
        assert!(!SCRIPT.contains("innerHTML"), "names that clients choose are text");
    }
}
