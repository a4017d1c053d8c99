//! Which endpoint a session has, for the filter and the scorer of session affinity.
//!
//! By the strategy `encoded_endpoint_header` the client tells it: every answer carries a header with the standard
//! base64 of `namespace/name` of the endpoint that served, and the client sends it back. What does not decode, or names
//! no candidate, is as if it were not there. It is not signed: a client may choose its endpoint among those that the
//! filters leave.
//!
//! By `session_id` the client names its session, in the first of some headers that is not blank or where the
//! `session-id-producer` finds it, and this process remembers where it went. A session is bound to the endpoint that it
//! was placed on; it keeps that binding when it is placed elsewhere though the bound one was a candidate, and is bound
//! anew when that was none. A binding is forgotten when it was not used for a while, `evictionTtlSeconds`. The memory
//! is this replica's alone, and holds no ids, only hashes.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;

use crate::pool::{Endpoint, Slot};
use crate::schedule::PickContext;
use crate::schedule::facts::session_hash;
use crate::schedule::headers::header_name;
use crate::schedule::registry::{BadParameters, Parameters, parameters};

use self::bindings::Bindings;

mod bindings;

/// Longest header value that may name an endpoint: base64 of a namespace and a name, of 253 bytes at most each.
const LONGEST_TOKEN: usize = 1024;

/// What the producer of sessions calls what it finds, as in the reference.
const ATTRIBUTE: &str = "SessionID";

/// What tells the endpoint of a session.
#[derive(Debug)]
pub(in crate::schedule) enum Session {
    /// This header, by the client.
    Told(String),
    /// What is remembered of the session that the first of these names.
    Remembered { origins: Vec<Origin>, bindings: Bindings },
}

/// What names a session.
#[derive(Debug)]
pub(in crate::schedule) enum Origin {
    /// A request header, in lower case.
    Header(String),
    /// What the producer of sessions finds.
    Producer,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Settings {
    /// What tells the endpoint; default the header of the answer.
    strategy: Strategy,
    /// The profile whose choice counts: the one that lists the plugin, as a request runs one profile.
    #[serde(rename = "profileName")]
    _profile: Option<String>,
    encoded_endpoint_header_config: HeaderConfig,
    session_id_config: SessionIdConfig,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Strategy {
    #[default]
    EncodedEndpointHeader,
    SessionId,
}

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct HeaderConfig {
    /// The header of requests and answers, in any case.
    header: String,
}

impl Default for HeaderConfig {
    fn default() -> Self {
        Self { header: "x-session-token".to_owned() }
    }
}

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct SessionIdConfig {
    /// Where the session's id is looked for, in this order.
    sources: Vec<Source>,
    /// Seconds after which a binding that is not used is forgotten, more than 0; default 300.
    eviction_ttl_seconds: f64,
    /// Seconds between two looks for such bindings, more than 0; no effect, as they are forgotten in passing.
    eviction_sweep_seconds: f64,
}

impl Default for SessionIdConfig {
    fn default() -> Self {
        let header = Source { header: Some("x-session-id".to_owned()), ..Source::default() };
        Self { sources: vec![header], eviction_ttl_seconds: 300.0, eviction_sweep_seconds: 10.0 }
    }
}

/// A header, or what a producer tells.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Source {
    /// A request header, in any case.
    header: Option<String>,
    /// An attribute of the request; there is one, [`ATTRIBUTE`].
    attribute: Option<String>,
    /// Whose attribute it is; the configuration finds it.
    producer: Option<String>,
}

impl Session {
    /// Reads the parameters of the plugins.
    pub(in crate::schedule) fn read(raw: Parameters) -> Result<Self, BadParameters> {
        let Settings { strategy, encoded_endpoint_header_config, session_id_config, .. } =
            parameters(raw)?;
        let HeaderConfig { header } = encoded_endpoint_header_config;
        let token = header_name("encodedEndpointHeaderConfig.header", &header)?;
        let remembered = session_id_config.checked()?;
        Ok(match strategy {
            Strategy::EncodedEndpointHeader => Self::Told(token),
            Strategy::SessionId => remembered,
        })
    }

    /// The request headers that it reads.
    pub(in crate::schedule) fn headers(&self) -> Vec<&str> {
        match self {
            Self::Told(header) => vec![header],
            Self::Remembered { origins, .. } => origins.iter().filter_map(Origin::header).collect(),
        }
    }

    /// The candidate that the request's session has; none where it names none, has none, or has one that is no candidate.
    pub(in crate::schedule) fn endpoint(
        &self,
        cx: PickContext<'_>,
        candidates: &[Slot],
    ) -> Option<Slot> {
        let is = |slot: Slot, wanted: &dyn Fn(&Endpoint) -> bool| {
            cx.snapshot.endpoint(slot).is_some_and(|endpoint| wanted(endpoint))
        };
        let find = |wanted: &dyn Fn(&Endpoint) -> bool| {
            candidates.iter().copied().find(|&slot| is(slot, wanted))
        };
        match self {
            Self::Told(header) => {
                let token = cx.header(header).filter(|token| token.len() <= LONGEST_TOKEN)?;
                let name = String::from_utf8(STANDARD.decode(token.trim()).ok()?).ok()?;
                let (namespace, name) = name.split_once('/')?;
                find(&|endpoint| {
                    (&*endpoint.spec.namespace, &*endpoint.spec.name) == (namespace, name)
                })
            }
            Self::Remembered { origins, bindings } => {
                let bound = bindings.find(session(cx, origins)?, cx.now)?;
                find(&|endpoint| endpoint.id == bound)
            }
        }
    }

    /// The request goes to this endpoint, which was chosen among these candidates.
    pub(in crate::schedule) fn placed(
        &self,
        cx: PickContext<'_>,
        candidates: &[Slot],
        endpoint: &Endpoint,
    ) {
        let Self::Remembered { origins, bindings } = self else { return };
        let Some(session) = session(cx, origins) else { return };
        let could_have_gone =
            self.endpoint(cx, candidates).is_some_and(|bound| bound != endpoint.id.slot);
        if !could_have_gone {
            bindings.bind(session, endpoint.id, cx.now);
        }
    }

    /// What the client is to send back with its next request.
    pub(in crate::schedule) fn answer_header(&self, endpoint: &Endpoint) -> Option<(&str, Bytes)> {
        let Self::Told(header) = self else { return None };
        let name = format!("{}/{}", endpoint.spec.namespace, endpoint.spec.name);
        Some((header, Bytes::from(STANDARD.encode(name))))
    }
}

impl Origin {
    fn header(&self) -> Option<&str> {
        let Self::Header(name) = self else { return None };
        Some(name)
    }
}

impl SessionIdConfig {
    fn checked(self) -> Result<Session, BadParameters> {
        let refused = |text: String| Err(BadParameters(format!("sessionIdConfig: {text}")));
        let Self { sources, eviction_ttl_seconds, eviction_sweep_seconds } = self;
        if sources.is_empty() {
            return refused("sources is empty, give one at least".to_owned());
        }
        for (name, seconds) in [
            ("evictionTtlSeconds", eviction_ttl_seconds),
            ("evictionSweepSeconds", eviction_sweep_seconds),
        ] {
            if seconds <= 0.0 {
                return refused(format!("{name} is {seconds}, give more than 0"));
            }
        }
        let Ok(unused_for) = Duration::try_from_secs_f64(eviction_ttl_seconds) else {
            return refused(format!("evictionTtlSeconds is {eviction_ttl_seconds}, give less"));
        };
        let origins = sources.iter().map(Source::checked).collect::<Result<_, _>>()?;
        Ok(Session::Remembered { origins, bindings: Bindings::new(unused_for) })
    }
}

impl Source {
    fn checked(&self) -> Result<Origin, BadParameters> {
        let refused = |text: &str| Err(BadParameters(format!("sessionIdConfig.sources: {text}")));
        match self {
            Self { header: Some(header), attribute: None, producer: None } => {
                header_name("sessionIdConfig.sources", header).map(Origin::Header)
            }
            Self { header: None, attribute: Some(attribute), .. } if attribute == ATTRIBUTE => {
                Ok(Origin::Producer)
            }
            Self { header: None, attribute: Some(_), .. } => {
                refused("there is one attribute, SessionID of session-id-producer")
            }
            _ => refused("give each a header, or an attribute with its producer"),
        }
    }
}

/// A hash of the session's id, which is the first value that is not blank.
fn session(cx: PickContext<'_>, origins: &[Origin]) -> Option<u128> {
    origins.iter().find_map(|origin| match origin {
        Origin::Header(name) => {
            cx.header(name).map(str::trim).filter(|id| !id.is_empty()).map(session_hash)
        }
        Origin::Producer => cx.signals.session,
    })
}

#[cfg(test)]
mod tests;
