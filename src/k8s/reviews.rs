//! Who may read a page of ours, as the API server judges it.
//!
//! As in Kubernetes' own components: a `TokenReview` says who the bearer of a token is, a `SubjectAccessReview` whether that
//! user may `get` the path. Verdicts are kept for a short while, so that a scraper costs two questions a minute; while the
//! API server gives no answer, a user that was let in lately still is. Tokens are not kept, only their hashes.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::fault::{Fault, State};

/// How long a verdict is taken as it is: one that lets somebody in, and another.
const GOOD_FOR: Duration = Duration::from_mins(1);
const BAD_FOR: Duration = Duration::from_secs(10);

/// How long somebody is still let in while the API server gives no answer.
const BRIDGED: Duration = Duration::from_mins(10);

/// Verdicts that are kept; one more drives out the oldest.
const KEPT: usize = 256;

/// Questions to the API server at a time; more wait.
const AT_ONCE: usize = 4;

/// Time for both answers, the wait for others included.
const ANSWER: Duration = Duration::from_secs(5);

/// What a `ClusterRole` must have.
const RULES: &str = "{apiGroups: [authentication.k8s.io], resources: [tokenreviews], verbs: [create]} and {apiGroups: \
                     [authorization.k8s.io], resources: [subjectaccessreviews], verbs: [create]}";

/// What the API server says of the bearer of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judged {
    /// It may read the page.
    Allowed,
    /// The token is nobody's.
    Nobody,
    /// This user may not.
    Forbidden(String),
    /// There was no answer, for this reason.
    Unknown(String),
}

/// Asks the API server about tokens.
pub struct Reviews {
    client: Client,
    path: &'static str,
    /// By the hashes of tokens.
    verdicts: Mutex<HashMap<[u8; 32], Verdict>>,
    places: Semaphore,
    /// The last question had no answer, and that was logged.
    silent: AtomicBool,
}

#[derive(Clone, Debug)]
struct Verdict {
    judged: Judged,
    at: Instant,
}

impl Verdict {
    fn holds(&self, now: Instant) -> bool {
        let limit = if self.judged == Judged::Allowed { GOOD_FOR } else { BAD_FOR };
        now.saturating_duration_since(self.at) < limit
    }

    fn bridges(&self, now: Instant) -> bool {
        self.judged == Judged::Allowed && now.saturating_duration_since(self.at) < BRIDGED
    }
}

impl Reviews {
    /// Asks who may `get` this path.
    pub fn new(client: Client, path: &'static str) -> Self {
        Self {
            client,
            path,
            verdicts: Mutex::default(),
            places: Semaphore::new(AT_ONCE),
            silent: AtomicBool::new(false),
        }
    }

    /// Judges the bearer of a token.
    pub async fn judge(&self, token: &str) -> Judged {
        let key: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let known = self.verdicts.lock().get(&key).cloned();
        if let Some(verdict) = known.as_ref().filter(|verdict| verdict.holds(Instant::now())) {
            return verdict.judged.clone();
        }
        let asked = timeout(ANSWER, self.ask(token)).await;
        match asked.unwrap_or_else(|_| Err(Fault::silent(ANSWER))) {
            Ok(judged) => {
                if self.silent.swap(false, Ordering::Relaxed) {
                    tracing::info!("reviews of tokens are answered again");
                }
                self.keep(key, judged.clone());
                judged
            }
            Err(fault) => {
                let reason = reason(&fault);
                if !self.silent.swap(true, Ordering::Relaxed) {
                    tracing::warn!(reason, "the API server does not say who may read metrics");
                }
                let bridged = known.filter(|verdict| verdict.bridges(Instant::now()));
                bridged.map_or(Judged::Unknown(reason), |verdict| verdict.judged)
            }
        }
    }

    async fn ask(&self, token: &str) -> Result<Judged, Fault> {
        let Ok(_place) = self.places.acquire().await else {
            return Err(Fault::silent(ANSWER));
        };
        let Some(user) = self.user(token).await? else { return Ok(Judged::Nobody) };
        let name = user.username.clone().unwrap_or_default();
        let allowed = self.allowed(user).await?;
        Ok(if allowed { Judged::Allowed } else { Judged::Forbidden(self.refusal(&name)) })
    }

    /// Whose token it is; none where it is nobody's.
    async fn user(&self, token: &str) -> Result<Option<UserInfo>, Fault> {
        let spec = TokenReviewSpec { token: Some(token.to_owned()), ..TokenReviewSpec::default() };
        let review = TokenReview { spec, ..TokenReview::default() };
        let reviews = Api::all(self.client.clone());
        let answer = reviews.create(&PostParams::default(), &review).await?;
        let status =
            answer.status.ok_or_else(|| Fault::malformed("a TokenReview has no status"))?;
        Ok(status.user.filter(|_| status.authenticated == Some(true)))
    }

    async fn allowed(&self, user: UserInfo) -> Result<bool, Fault> {
        let UserInfo { username, groups, uid, extra } = user;
        let non_resource_attributes = Some(NonResourceAttributes {
            path: Some(self.path.to_owned()),
            verb: Some("get".to_owned()),
        });
        let spec = SubjectAccessReviewSpec {
            user: username,
            groups,
            uid,
            extra,
            non_resource_attributes,
            ..SubjectAccessReviewSpec::default()
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let reviews = Api::all(self.client.clone());
        let answer = reviews.create(&PostParams::default(), &review).await?;
        let malformed = || Fault::malformed("a SubjectAccessReview has no status");
        Ok(answer.status.ok_or_else(malformed)?.allowed)
    }

    fn refusal(&self, user: &str) -> String {
        format!(
            "{user} may not get {}: bind it to a ClusterRole with the rule {{nonResourceURLs: [{}], verbs: [get]}}",
            self.path, self.path
        )
    }

    fn keep(&self, key: [u8; 32], judged: Judged) {
        let mut verdicts = self.verdicts.lock();
        if verdicts.len() >= KEPT && !verdicts.contains_key(&key) {
            let oldest = verdicts.iter().min_by_key(|(_, verdict)| verdict.at);
            if let Some(oldest) = oldest.map(|(key, _)| *key) {
                verdicts.remove(&oldest);
            }
        }
        verdicts.insert(key, Verdict { judged, at: Instant::now() });
    }
}

/// Why there was no answer, and what helps.
fn reason(fault: &Fault) -> String {
    match fault.state {
        State::Forbidden => format!(
            "Lodesman may not ask the API server who reads metrics ({}): bind its service account to a ClusterRole with \
             the rules {RULES}, such as system:auth-delegator, or start it with --metrics-endpoint-auth=false",
            fault.text
        ),
        State::Starting
        | State::Following
        | State::Absent
        | State::Unreachable
        | State::Failing => {
            format!("the API server does not say who may read metrics: {}", fault.text)
        }
    }
}

impl fmt::Debug for Reviews {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reviews").field("path", &self.path).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
