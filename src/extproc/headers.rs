//! The few headers that matter, found in one walk over a header map.
//!
//! Gateways put a value into `raw_value` or `value`, pseudo headers first, last or not at all, and some do not lower
//! the case of names.

use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

use crate::schedule::Headers;
use crate::wire;

/// Longest header name that is compared without regard to case.
const LONGEST_NAME: usize = 64;

/// Longest request id that is taken from a client.
const LONGEST_ID: usize = 256;

/// Headers that are ours to read or to write and never the model server's to see, or that steer routing behind us: they
/// are taken off the request unless we set them. A client could otherwise forge them.
const REMOVED: &[&str] = &[
    "x-data-parallel-host-port",
    "x-encoder-hosts-ports",
    "x-gateway-destination-endpoint-fallback",
    "x-gateway-destination-endpoint-served",
    "x-gateway-destination-endpoint-subset",
    "x-gateway-inference-fairness-id",
    "x-gateway-inference-objective",
    "x-gateway-model-name-rewrite",
    "x-kv-cache-source-host-port",
    "x-llm-d-inference-fairness-id",
    "x-llm-d-inference-objective",
    "x-llm-d-model-name-rewrite",
    "x-llm-d-request-dropped-reason",
    "x-llm-d-slo-tpot-ms",
    "x-llm-d-slo-ttft-ms",
    "x-llm-d-video-duration-seconds",
    "x-llm-d-video-fps",
    "x-llm-d-video-resolution",
    "x-prefiller-host-port",
    "x-slo-tpot-ms",
    "x-slo-ttft-ms",
];

/// What is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::extproc) struct Line<'a> {
    /// `:path`, else what a proxy in front kept of it.
    pub(in crate::extproc) path: Option<&'a [u8]>,
    pub(in crate::extproc) method: Option<&'a [u8]>,
    original_path: Option<&'a [u8]>,
    forwarded_path: Option<&'a [u8]>,
}

/// What a request's headers say beside. Values are copies: slices of a message would keep all of it, and what was received
/// with it, for as long as the request lasts.
#[derive(Clone, Debug, Default)]
pub(in crate::extproc) struct RequestHeaders {
    pub(in crate::extproc) request_id: Option<Bytes>,
    pub(in crate::extproc) content_length: bool,
    /// The body is compressed, so it is not read.
    pub(in crate::extproc) encoded: bool,
    /// The destination that stands there already: from our own answer on an observer stream, else a client's forgery.
    pub(in crate::extproc) destination: Option<Bytes>,
    pub(in crate::extproc) fairness_id: Aliased,
    pub(in crate::extproc) model_rewrite: Aliased,
    pub(in crate::extproc) objective: Aliased,
    /// Headers to take off, as far as the client sent them.
    pub(in crate::extproc) removed: SmallVec<[&'static str; 2]>,
    /// What plugins read.
    pub(in crate::extproc) asked: Headers,
}

/// A header with a deprecated name; the current one wins unless it is empty.
#[derive(Clone, Debug, Default)]
pub(in crate::extproc) struct Aliased {
    current: Option<Bytes>,
    deprecated: Option<Bytes>,
}

/// What an answer's headers say.
#[derive(Clone, Debug, Default)]
pub(in crate::extproc) struct ResponseHeaders {
    /// 0 when the proxy did not say.
    pub(in crate::extproc) status: u16,
    pub(in crate::extproc) content_type: Option<Bytes>,
    pub(in crate::extproc) content_length: bool,
    pub(in crate::extproc) encoded: bool,
}

impl RequestHeaders {
    /// Reads an encoded header map of at most `limit` bytes; what is beyond is not looked at. Those that are `wanted` are
    /// kept as they are.
    pub(in crate::extproc) fn read<'a>(
        headers: &'a [u8],
        limit: usize,
        wanted: &[Arc<str>],
    ) -> (Line<'a>, Self) {
        let (mut line, mut read) = (Line::default(), Self::default());
        let take = |name: &[u8], value| {
            read.asked.take(wanted, name, value);
            if !line.take(name, value) {
                read.take(name, value);
            }
        };
        if !for_each(headers, limit, take) {
            read.removed = SmallVec::from_slice(REMOVED);
        }
        line.path = line.path.or(line.original_path).or(line.forwarded_path);
        (line, read)
    }

    /// Whether a header stands there under its old name that counts, or would.
    pub(in crate::extproc) fn old_names(&self) -> bool {
        let aliased = [&self.fairness_id, &self.model_rewrite, &self.objective];
        aliased.into_iter().any(|header| header.deprecated.is_some())
    }

    fn take(&mut self, name: &[u8], value: &[u8]) {
        match name {
            b"content-encoding" => self.encoded = !value.eq_ignore_ascii_case(b"identity"),
            b"content-length" => self.content_length = true,
            b"x-request-id" => self.request_id = filled(value).filter(|id| printable(id)),
            b"x-gateway-destination-endpoint" => {
                self.destination = Some(Bytes::copy_from_slice(value));
            }
            _ if name.starts_with(b"x-") => self.take_control(name, value),
            _ => {}
        }
    }

    fn take_control(&mut self, name: &[u8], value: &[u8]) {
        let Ok(at) = REMOVED.binary_search_by(|known| known.as_bytes().cmp(name)) else { return };
        let Some(&name) = REMOVED.get(at) else { return };
        if !self.removed.contains(&name) {
            self.removed.push(name);
        }
        match name {
            "x-llm-d-inference-fairness-id" => self.fairness_id.current = filled(value),
            "x-gateway-inference-fairness-id" => self.fairness_id.deprecated = filled(value),
            "x-llm-d-inference-objective" => self.objective.current = filled(value),
            "x-gateway-inference-objective" => self.objective.deprecated = filled(value),
            "x-llm-d-model-name-rewrite" => self.model_rewrite.current = filled(value),
            "x-gateway-model-name-rewrite" => self.model_rewrite.deprecated = filled(value),
            _ => {}
        }
    }
}

impl<'a> Line<'a> {
    /// Takes a header in if it is one of the line's.
    fn take(&mut self, name: &[u8], value: &'a [u8]) -> bool {
        let part = match name {
            b":path" => &mut self.path,
            b":method" => &mut self.method,
            b"x-original-path" => &mut self.original_path,
            b"x-forwarded-path" => &mut self.forwarded_path,
            _ => return false,
        };
        *part = Some(value).filter(|value| !value.is_empty());
        true
    }
}

impl Aliased {
    /// The value as text; none when it is absent, empty or no UTF-8.
    pub(in crate::extproc) fn text(&self) -> Option<&str> {
        std::str::from_utf8(self.current.as_ref().or(self.deprecated.as_ref())?).ok()
    }
}

impl ResponseHeaders {
    /// Reads an encoded header map of at most `limit` bytes; what is beyond is not looked at.
    pub(in crate::extproc) fn read(headers: &[u8], limit: usize) -> Self {
        let mut read = Self::default();
        for_each(headers, limit, |name, value| match name {
            b":status" | b"status" => read.status = number(value).unwrap_or(read.status),
            b"content-encoding" => read.encoded = !value.eq_ignore_ascii_case(b"identity"),
            b"content-length" => read.content_length = true,
            b"content-type" => read.content_type = Some(Bytes::copy_from_slice(value)),
            _ => {}
        });
        read
    }
}

/// Calls `take` with each name in lower case and its value; false when there are more than the limit lets be seen, or more
/// than can be read.
pub(in crate::extproc) fn for_each<'a>(
    headers: &'a [u8],
    limit: usize,
    mut take: impl FnMut(&[u8], &'a [u8]),
) -> bool {
    let mut seen = 0;
    for header in wire::Headers::of(headers) {
        let Ok((key, value)) = header else { return false };
        seen += key.len() + value.len();
        if seen > limit {
            return false;
        }
        if !key.iter().any(u8::is_ascii_uppercase) {
            take(key, value);
        } else if key.len() <= LONGEST_NAME {
            take(&key.to_ascii_lowercase(), value);
        }
    }
    true
}

/// Whether an id may be given back in a header.
fn printable(id: &[u8]) -> bool {
    id.len() <= LONGEST_ID && id.iter().all(u8::is_ascii_graphic)
}

fn filled(value: &[u8]) -> Option<Bytes> {
    (!value.is_empty()).then(|| Bytes::copy_from_slice(value))
}

fn number(text: &[u8]) -> Option<u16> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::wire::{HeaderMap, HeaderValue};

    fn map(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let header = |&(key, value): &(&'static str, &'static str)| HeaderValue {
            key: Bytes::from_static(key.as_bytes()),
            value: Bytes::new(),
            raw_value: Bytes::from_static(value.as_bytes()),
        };
        HeaderMap { headers: pairs.iter().map(header).collect() }
    }

    fn read(pairs: &[(&'static str, &'static str)]) -> RequestHeaders {
        RequestHeaders::read(&map(pairs).encode_to_vec(), 1 << 17, &[]).1
    }

    fn path(pairs: &[(&'static str, &'static str)]) -> Option<String> {
        let encoded = map(pairs).encode_to_vec();
        let (line, _) = RequestHeaders::read(&encoded, 1 << 17, &[]);
        line.path.map(|path| String::from_utf8(path.to_owned()).unwrap())
    }

    #[test]
    fn the_table_of_removed_headers_is_sorted() {
        assert!(REMOVED.windows(2).all(|pair| pair[0] < pair[1]));
    }

    // FR-014
    #[test]
    fn values_are_read_from_either_field_and_names_in_any_case() {
        let mut headers = map(&[("X-Request-ID", "raw")]);
        let id = |headers: &HeaderMap| {
            RequestHeaders::read(&headers.encode_to_vec(), 1000, &[]).1.request_id.unwrap()
        };
        assert_eq!(id(&headers), "raw");
        headers.headers[0].value = Bytes::from_static(b"text");
        assert_eq!(id(&headers), "raw", "of two values the raw one counts");
        headers.headers[0].raw_value.clear();
        assert_eq!(id(&headers), "text");
    }

    #[test]
    fn the_path_falls_back_to_what_a_proxy_kept() {
        let (old, newer) = (("x-forwarded-path", "/f"), ("x-original-path", "/o"));
        assert_eq!(path(&[old, newer]).unwrap(), "/o");
        assert_eq!(path(&[newer, (":path", "/p")]).unwrap(), "/p");
        assert_eq!(path(&[(":path", ""), old]).unwrap(), "/f");
    }

    #[test]
    fn the_current_name_wins_over_the_deprecated_one_unless_it_is_empty() {
        let (old, new) = ("x-gateway-model-name-rewrite", "x-llm-d-model-name-rewrite");
        assert_eq!(read(&[(new, "a"), (old, "b")]).model_rewrite.text(), Some("a"));
        assert_eq!(read(&[(new, ""), (old, "b")]).model_rewrite.text(), Some("b"));
        assert_eq!(read(&[(old, "b")]).removed.as_slice(), [old]);
        assert_eq!(read(&[]).model_rewrite.text(), None);
    }

    // FR-029
    #[test]
    fn control_headers_that_the_client_sent_are_removed_once_each() {
        let forged = [
            ("x-prefiller-host-port", "6.6.6.6:1"),
            ("X-Prefiller-Host-Port", "6.6.6.6:2"),
            ("accept", "*/*"),
        ];
        assert_eq!(read(&forged).removed.as_slice(), ["x-prefiller-host-port"]);
    }

    #[test]
    fn a_header_flood_is_read_up_to_the_limit() {
        let mut headers = map(&[(":path", "/v1/models")]);
        headers.headers.extend(std::iter::repeat_n(headers.headers[0].clone(), 100_000));
        headers.headers.push(map(&[("x-request-id", "late")]).headers.remove(0));
        let (_, read) = RequestHeaders::read(&headers.encode_to_vec(), 1 << 10, &[]);
        assert_eq!(read.request_id, None);
        assert_eq!(read.removed.len(), REMOVED.len(), "what was not seen may be forged");
    }

    #[test]
    fn a_header_map_that_cannot_be_read_is_read_as_far_as_it_can() {
        let mut headers = map(&[("x-request-id", "early"), ("accept", "*/*")]).encode_to_vec();
        headers.pop();
        let (_, read) = RequestHeaders::read(&headers, 1 << 10, &[]);
        assert_eq!(read.request_id.unwrap(), "early");
        assert_eq!(read.removed.len(), REMOVED.len(), "what was not read may be forged");
    }

    #[test]
    fn what_plugins_read_is_kept_and_nothing_else() {
        let sent = [("X-Session", "s"), ("x-slo-ttft-ms", "20"), ("accept", "*/*")];
        let encoded = map(&sent).encode_to_vec();
        let asked = |wanted: &[Arc<str>]| RequestHeaders::read(&encoded, 1000, wanted).1.asked;
        let headers = asked(&["x-session".into(), "x-slo-ttft-ms".into()]);
        assert_eq!(headers.find("x-session"), Some(&b"s"[..]));
        assert_eq!(headers.find("x-slo-ttft-ms"), Some(&b"20"[..]), "though it is taken off");
        assert_eq!(headers.find("accept"), None);
        assert_eq!(asked(&[]).find("x-session"), None);
    }

    #[test]
    fn the_status_of_an_answer_is_read_under_either_name() {
        let status =
            |name, value| ResponseHeaders::read(&map(&[(name, value)]).encode_to_vec(), 100).status;
        assert_eq!(status(":status", "503"), 503);
        assert_eq!(status("status", "200"), 200);
        assert_eq!(status(":status", "x"), 0);
    }
}
