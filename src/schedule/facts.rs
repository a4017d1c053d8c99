//! What producers find out about a request from its body and its headers, as the configuration sets them.

use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_128;

use crate::prefix::Chain;
use crate::request::Parsed;
use crate::schedule::producer::mm_embeddings_cache::KEPT;
use crate::schedule::{Headers, Signals};
use crate::units::whole;

/// What is found out; nothing by default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// How much output a request is taken to generate; none where prompts alone count as load.
    pub output: Option<OutputEstimate>,
    /// What names a request's session; none where nobody asks.
    pub session: Option<SessionSource>,
    /// Headers that name the agent's session, the first that is not blank counts, in lower case; empty where nobody asks.
    pub agent: Vec<Arc<str>>,
    /// How many images, clips and videos an endpoint's encoder is taken to keep; 2,048 where none.
    pub media_kept: Option<usize>,
}

/// How much output a request is taken to generate: a multiple of its prompt, bounded by what the client allows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OutputEstimate {
    /// Tokens for each of the prompt, 0 or more.
    pub ratio: f64,
    /// The most tokens; none is no limit.
    pub most: Option<u64>,
}

/// Where the id of a session is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionSource {
    /// A request header, in lower case.
    Header(Arc<str>),
    /// A cookie.
    Cookie(Arc<str>),
}

/// The header of cookies.
const COOKIE: &str = "cookie";

impl Facts {
    /// The headers that are read, in lower case.
    pub fn headers(&self) -> impl Iterator<Item = &str> {
        let session = self.session.iter().map(SessionSource::header);
        session.chain(self.agent.iter().map(|name| &**name))
    }

    /// Finds out what there is to be known of a request; what its text is counted by must be known before.
    pub fn sense(
        &self,
        (request, chain): (&Parsed, &Chain),
        headers: &Headers,
        signals: &mut Signals,
    ) {
        let prompt_tokens = request.tokens(signals.bytes_per_token);
        let output = |estimate: OutputEstimate| estimate.tokens(prompt_tokens, request.output_cap);
        signals.output_tokens = self.output.map(output);
        let id = self.session.as_ref().and_then(|source| source.find(headers));
        signals.session = id.map(session_hash);
        signals.media.clone_from(chain.media());
        signals.media_kept = self.media_kept.unwrap_or(KEPT);
    }

    /// Whose request it is, by the headers of agents; none when they do not say.
    pub fn agent<'a>(&self, headers: &'a Headers) -> Option<&'a str> {
        self.agent.iter().find_map(|name| text(headers, name))
    }
}

impl OutputEstimate {
    fn tokens(self, prompt_tokens: u64, output_cap: Option<u64>) -> u64 {
        let expected = whole(prompt_tokens as f64 * self.ratio);
        let limits = [self.most, output_cap];
        limits.into_iter().flatten().fold(expected, u64::min)
    }
}

impl SessionSource {
    fn header(&self) -> &str {
        match self {
            Self::Header(name) => name,
            Self::Cookie(_) => COOKIE,
        }
    }

    /// The id; none when it is absent or blank.
    fn find<'a>(&self, headers: &'a Headers) -> Option<&'a str> {
        let value = text(headers, self.header())?;
        let Self::Cookie(name) = self else { return Some(value) };
        let mut pairs = value.split(';').filter_map(|pair| pair.split_once('='));
        let (_, id) = pairs.find(|(key, _)| key.trim() == &**name)?;
        Some(id.trim()).filter(|id| !id.is_empty())
    }
}

/// What stands for a session's id, which is not kept.
pub(in crate::schedule) fn session_hash(id: &str) -> u128 {
    xxh3_128(id.as_bytes())
}

/// A header that is not blank.
fn text<'a>(headers: &'a Headers, name: &str) -> Option<&'a str> {
    let value = std::str::from_utf8(headers.find(name)?).ok()?.trim();
    Some(value).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn headers(facts: &Facts, pairs: &[(&str, &'static str)]) -> Headers {
        let wanted: Vec<_> = facts.headers().map(Arc::from).collect();
        let mut headers = Headers::default();
        for (name, value) in pairs {
            headers.take(&wanted, name.as_bytes(), &Bytes::from_static(value.as_bytes()));
        }
        headers
    }

    fn session(source: SessionSource, name: &str, value: &'static str) -> Option<u128> {
        let (facts, mut signals) =
            (Facts { session: Some(source), ..Facts::default() }, Signals::default());
        facts.sense(
            (&Parsed::default(), &Chain::default()),
            &headers(&facts, &[(name, value)]),
            &mut signals,
        );
        signals.session
    }

    #[test]
    fn output_is_a_multiple_of_the_prompt_within_its_limits() {
        let tokens = |ratio, most, prompt, cap| OutputEstimate { ratio, most }.tokens(prompt, cap);
        assert_eq!(tokens(1.5, None, 101, None), 152, "rounded");
        assert_eq!(tokens(1.5, Some(100), 1000, None), 100);
        assert_eq!(tokens(1.5, Some(100), 1000, Some(7)), 7);
        assert_eq!(tokens(0.0, None, 1000, Some(7)), 0);
        assert_eq!(tokens(f64::MAX, None, u64::MAX, None), u64::MAX);
    }

    #[test]
    fn what_nobody_asks_for_is_not_found_out() {
        let mut signals =
            Signals { output_tokens: Some(1), session: Some(2), ..Signals::default() };
        Facts::default().sense(
            (&Parsed::default(), &Chain::default()),
            &Headers::default(),
            &mut signals,
        );
        assert_eq!((signals.output_tokens, signals.session), (None, None));
    }

    #[test]
    fn a_session_is_named_by_a_header_or_a_cookie() {
        let header = || SessionSource::Header("x-session".into());
        assert_eq!(session(header(), "x-session", " a "), Some(session_hash("a")));
        assert_eq!(session(header(), "x-session", "  "), None);
        assert_eq!(session(header(), "x-other", "a"), None);
        let cookie = || SessionSource::Cookie("sid".into());
        for (cookies, id) in [
            ("sid=a", Some("a")),
            ("x=1; sid=a=b ; y=2", Some("a=b")),
            ("asid=1; Sid=2; sid", None),
            ("sid=;x=1", None),
        ] {
            assert_eq!(session(cookie(), COOKIE, cookies), id.map(session_hash), "{cookies}");
        }
    }

    #[test]
    fn an_agent_is_named_by_the_first_header_that_is_not_blank() {
        let facts = Facts { agent: vec!["a".into(), "b".into()], ..Facts::default() };
        let agent = |pairs: &[(&str, &'static str)]| {
            facts.agent(&headers(&facts, pairs)).map(str::to_owned)
        };
        assert_eq!(agent(&[("b", "2"), ("a", "1")]).as_deref(), Some("1"));
        assert_eq!(agent(&[("b", "2"), ("a", " ")]).as_deref(), Some("2"));
        assert_eq!(agent(&[("c", "3")]), None);
    }
}
