//! A running picker, asked on its admin port.

use std::sync::Arc;
use std::time::Duration;

use reqwest::{Client, RequestBuilder, Url};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;

use crate::cli::failure::{Failure, fault, usage};
use crate::extproc::Refused;

/// The address of an admin port.
///
/// # Errors
/// When nobody can be asked there by HTTP; says why.
pub(super) fn admin_port(text: &str) -> Result<Url, String> {
    let at: Url = text.parse().map_err(|error| format!("{error}"))?;
    let http = matches!(at.scheme(), "http" | "https");
    if http {
        Ok(at)
    } else {
        Err("expected an address that begins with http:// or https://".to_owned())
    }
}

/// A client that trusts whom the system trusts, and waits for an answer no longer than that; a system that trusts nobody can
/// still ask by plain HTTP.
pub(super) fn client(at: &Url, patience: Duration) -> Result<Client, Failure> {
    trusting(at, patience).map_err(|error| fault(format!("{error:#}")))
}

fn trusting(at: &Url, patience: Duration) -> anyhow::Result<Client> {
    let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?;
    let tls = match at.scheme() {
        "https" => tls.with_platform_verifier()?,
        _ => tls.with_root_certificates(RootCertStore::empty()),
    };
    let client = Client::builder().tls_backend_preconfigured(tls.with_no_client_auth());
    Ok(client.no_proxy().timeout(patience).build()?)
}

/// A page below `at`, which may have a path itself when a proxy stands in between.
pub(super) fn page<'a, const N: usize>(
    at: &Url,
    path: [&str; N],
    fields: impl IntoIterator<Item = (&'static str, Option<&'a String>)>,
) -> Result<Url, Failure> {
    let mut page = at.clone();
    page.set_query(None);
    let base = page.path_segments_mut();
    base.map_err(|()| usage(format!("--at {at}: not an HTTP address")))?
        .pop_if_empty()
        .extend(path);
    let given = fields.into_iter().filter_map(|(name, value)| Some((name, value?)));
    page.query_pairs_mut().extend_pairs(given);
    Ok(page)
}

/// The answer, which is what was asked for or why the request would be refused.
pub(super) async fn answer<T: serde::de::DeserializeOwned>(
    request: RequestBuilder,
) -> Result<Result<T, Refused>, Failure> {
    let failed = |error: reqwest::Error| fault(format!("{:#}", anyhow::Error::new(error)));
    let answer = request.send().await.map_err(failed)?;
    let status = answer.status();
    let body = answer.bytes().await.map_err(failed)?;
    let read = match status.as_u16() {
        200 => serde_json::from_slice(&body).map(Ok),
        422 => serde_json::from_slice(&body).map(Err),
        _ => {
            let told = String::from_utf8_lossy(&body);
            return Err(fault(format!("the picker answers {status}: {}", told.trim_end())));
        }
    };
    read.map_err(|error| fault(format!("the answer is not what a picker says: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_below_the_path_of_a_proxy() {
        let page = |at: &str| {
            let id = "4 2".to_owned();
            let fields = [("id", Some(&id)), ("dice", None)];
            page(&at.parse().unwrap(), ["debug", "decisions"], fields).ok().map(String::from)
        };
        for at in ["http://h:1", "http://h:1/", "http://h:1/?x=y"] {
            assert_eq!(page(at).unwrap(), "http://h:1/debug/decisions?id=4+2", "{at}");
        }
        for at in ["http://h/api/pods/p/proxy", "http://h/api/pods/p/proxy/"] {
            assert_eq!(page(at).unwrap(), "http://h/api/pods/p/proxy/debug/decisions?id=4+2");
        }
        assert_eq!(page("mailto:someone"), None);
    }
}
