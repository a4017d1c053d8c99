use std::convert::Infallible;
use std::sync::Arc;

use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::advance;
use tower::service_fn;

use super::*;

/// An API server that knows the tokens `reader` and `other`, of which the first may read `/metrics`.
#[derive(Clone, Default)]
struct Server {
    asked: Arc<Mutex<Vec<Value>>>,
    /// What it answers to everything; none where it is well.
    fault: Arc<Mutex<Option<StatusCode>>>,
}

impl Server {
    fn reviews(&self) -> Reviews {
        let server = self.clone();
        let serve = move |request: Request<Body>| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.serve(request).await) }
        };
        Reviews::new(Client::new(service_fn(serve), "ns"), "/metrics")
    }

    async fn serve(&self, request: Request<Body>) -> Response<Body> {
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let mut review: Value = serde_json::from_slice(&body).unwrap();
        self.asked.lock().push(review.clone());
        let fault = *self.fault.lock();
        let spec = &review["spec"];
        let (code, answer) = match (fault, spec["token"].as_str()) {
            (Some(code), _) => {
                let status = json!({"kind": "Status", "status": "Failure", "code": code.as_u16(), "message": "no"});
                (code, status)
            }
            (None, Some(token)) => {
                let user =
                    json!({"username": token, "groups": ["g"], "uid": "7", "extra": {"k": ["v"]}});
                let known = token == "reader" || token == "other";
                review["status"] = json!({"authenticated": known, "user": user});
                (StatusCode::CREATED, review)
            }
            (None, None) => {
                let reads = json!({"path": "/metrics", "verb": "get"});
                let allowed = spec["user"] == "reader" && spec["nonResourceAttributes"] == reads;
                review["status"] = json!({"allowed": allowed});
                (StatusCode::CREATED, review)
            }
        };
        let body = serde_json::to_vec(&answer).unwrap();
        Response::builder().status(code).body(Body::from(body)).unwrap()
    }

    /// How many questions there were since this was last asked.
    fn questions(&self) -> usize {
        std::mem::take(&mut *self.asked.lock()).len()
    }
}

#[tokio::test]
async fn all_that_is_known_of_the_user_is_asked_about() {
    let server = Server::default();
    assert_eq!(server.reviews().judge("reader").await, Judged::Allowed);
    let asked = server.asked.lock();
    let spec = json!({
        "user": "reader", "groups": ["g"], "uid": "7", "extra": {"k": ["v"]},
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    });
    assert_eq!(asked[1]["spec"], spec);
}

#[tokio::test]
async fn who_has_no_right_or_no_name_is_not_let_in() {
    let reviews = Server::default().reviews();
    assert_eq!(reviews.judge("stranger").await, Judged::Nobody);
    let Judged::Forbidden(why) = reviews.judge("other").await else { panic!("was let in") };
    assert!(why.starts_with("other may not get /metrics") && why.contains("nonResourceURLs"));
}

#[tokio::test(start_paused = true)]
async fn a_verdict_is_asked_for_once_in_a_while() {
    let server = Server::default();
    let reviews = server.reviews();
    for (token, questions, holds) in
        [("reader", 2, GOOD_FOR), ("other", 2, BAD_FOR), ("x", 1, BAD_FOR)]
    {
        for _ in 0..3 {
            reviews.judge(token).await;
        }
        assert_eq!(server.questions(), questions, "{token}");
        advance(holds).await;
        reviews.judge(token).await;
        assert_eq!(server.questions(), questions, "{token} later");
    }
}

#[tokio::test(start_paused = true)]
async fn while_there_is_no_answer_who_was_let_in_still_is() {
    let server = Server::default();
    let reviews = server.reviews();
    reviews.judge("reader").await;
    reviews.judge("other").await;
    *server.fault.lock() = Some(StatusCode::INTERNAL_SERVER_ERROR);
    advance(GOOD_FOR * 2).await;
    assert_eq!(reviews.judge("reader").await, Judged::Allowed);
    for token in ["other", "new"] {
        assert!(matches!(reviews.judge(token).await, Judged::Unknown(_)), "{token}");
    }
    advance(BRIDGED).await;
    assert!(matches!(reviews.judge("reader").await, Judged::Unknown(_)));
    *server.fault.lock() = None;
    assert_eq!(reviews.judge("reader").await, Judged::Allowed, "nothing of that is kept");
}

#[tokio::test]
async fn a_missing_right_of_ours_is_said_with_the_rules_that_help() {
    let server = Server::default();
    *server.fault.lock() = Some(StatusCode::FORBIDDEN);
    let Judged::Unknown(why) = server.reviews().judge("reader").await else { panic!("judged") };
    for word in ["tokenreviews", "subjectaccessreviews", "--metrics-endpoint-auth=false"] {
        assert!(why.contains(word), "{why}");
    }
}

#[tokio::test(start_paused = true)]
async fn verdicts_are_bounded() {
    let reviews = Server::default().reviews();
    for number in 0..2 * KEPT {
        reviews.judge(&number.to_string()).await;
    }
    assert_eq!(reviews.verdicts.lock().len(), KEPT);
}
