//! What reached a server: the facts of requests, never their text.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{HeaderMap, request::Parts};
use serde::Serialize;
use sha2::{Digest, Sha256};

/// One request as the server got it. Headers and trailers of the same name are joined by commas.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Record {
    /// Address of the server.
    server: String,
    method: String,
    /// With the query.
    path: String,
    headers: BTreeMap<String, String>,
    body_length: usize,
    /// SHA-256 of the body, hexadecimal.
    body_sha256: String,
    trailers: BTreeMap<String, String>,
}

impl Record {
    pub(super) fn new(server: &str, parts: &Parts, body: &Bytes, trailers: &HeaderMap) -> Self {
        Self {
            server: server.to_owned(),
            method: parts.method.to_string(),
            path: parts.uri.to_string(),
            headers: joined(&parts.headers),
            body_length: body.len(),
            body_sha256: format!("{:x}", Bytes::copy_from_slice(&Sha256::digest(body))),
            trailers: joined(trailers),
        }
    }
}

fn joined(headers: &HeaderMap) -> BTreeMap<String, String> {
    let mut joined = BTreeMap::<String, String>::new();
    for (name, value) in headers {
        let value = String::from_utf8_lossy(value.as_bytes());
        let entry = joined.entry(name.to_string()).or_default();
        if !entry.is_empty() {
            entry.push_str(", ");
        }
        entry.push_str(&value);
    }
    joined
}
