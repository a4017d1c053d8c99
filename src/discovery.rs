//! Endpoint sources without Kubernetes: a list on the command line, or a watched file.
//!
//! The file is the reference's: `endpoints` with `name`, `namespace`, `address`, `port` and `labels`. An entry that
//! cannot be used is left out; a file that cannot be used at all leaves the list as it was.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use tokio::sync::mpsc;

use crate::config::reader::{Readable, read};
use crate::config::{FileDiscovery, Problem, Severity, problem, tree};
use crate::pool::{EndpointSpec, Event};

use self::watched::{POLL, Watched};

mod watched;

/// The longest file, as in the reference.
const LONGEST_FILE: u64 = 1 << 20;

/// So many unusable entries are logged of one version of a file; their number is logged in any case.
const LOGGED_PROBLEMS: usize = 5;

/// The namespace of an endpoint that names none.
const NAMESPACE: &str = "default";

/// What a file says.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The usable entries, in their order.
    pub endpoints: Vec<EndpointSpec>,
    /// One for each entry that is left out, and for each unknown field.
    pub problems: Vec<Problem>,
}

/// Why a file gave no list.
#[derive(Debug, thiserror::Error)]
pub enum DiscoveryError {
    /// It cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// It is no document; the text says which, where and why.
    #[error("{0}")]
    Unusable(String),
}

/// The endpoints of a list of addresses; each is named by its address.
pub fn listed(addresses: &[SocketAddr]) -> Vec<EndpointSpec> {
    let spec = |address: &SocketAddr| EndpointSpec {
        name: address.to_string(),
        namespace: NAMESPACE.to_owned(),
        address: *address,
        labels: BTreeMap::new(),
    };
    addresses.iter().map(spec).collect()
}

/// Reads the text of a file.
///
/// # Errors
/// When it is no YAML, or no map with `endpoints`: what is wrong with it, by line.
pub fn parse(text: &str) -> Result<Listing, Vec<Problem>> {
    let tree = tree::parse(text)?;
    let (document, mut problems) = read::<Document>(&tree);
    let unusable = problems.iter().any(|problem| matches!(problem.path.as_str(), "" | "endpoints"));
    let mut listing = Listing::default();
    let mut taken = Taken::default();
    for (at, entry) in document.endpoints.iter() {
        match entry.spec().and_then(|spec| taken.take(spec)) {
            Ok(spec) => listing.endpoints.push(spec),
            Err((field, message)) => {
                problems.push(Problem::error(format!("endpoints[{at}].{field}"), message));
            }
        }
    }
    problem::locate(&mut problems, &tree.lines());
    problems.sort_by_key(|problem| problem.line);
    if unusable {
        return Err(problems);
    }
    Ok(Listing { problems, ..listing })
}

/// Sends the endpoints of a file to the pool: once, or at every change when it is watched.
///
/// A change is sent within 500 ms. When the pool's queue is full, this waits.
///
/// # Errors
/// When the file is not watched and gives no list. A watched one is waited for.
pub async fn follow(
    file: FileDiscovery,
    events: mpsc::Sender<Event>,
) -> Result<(), DiscoveryError> {
    let mut watched = Watched::new(file.path);
    loop {
        let text = watched.poll().await;
        let listing =
            text.and_then(|text| text.map(|text| usable(watched.path(), &text)).transpose());
        match listing {
            Ok(None) => (),
            Ok(Some(listing)) => {
                log(watched.path(), &listing);
                if events.send(Event::Endpoints(listing.endpoints)).await.is_err() {
                    return Ok(());
                }
            }
            Err(error) if !file.watch => return Err(error),
            Err(error) => {
                let error = error.to_string();
                tracing::warn!(error, "endpoint file not usable, the last list stays");
            }
        }
        if !file.watch {
            return Ok(());
        }
        tokio::select! {
            () = tokio::time::sleep(POLL) => (),
            () = events.closed() => return Ok(()),
        }
    }
}

fn usable(path: &Path, text: &str) -> Result<Listing, DiscoveryError> {
    parse(text).map_err(|problems| {
        let path = path.display().to_string();
        let first = problems.iter().find(|problem| problem.severity == Severity::Error);
        DiscoveryError::Unusable(
            first.map_or_else(String::new, |first| first.in_file(&path).to_string()),
        )
    })
}

fn log(path: &Path, listing: &Listing) {
    let (endpoints, problems) = (listing.endpoints.len(), listing.problems.len());
    tracing::info!(endpoints, problems, "endpoints read from file");
    let path = path.display().to_string();
    for problem in listing.problems.iter().take(LOGGED_PROBLEMS) {
        let error = problem.in_file(&path).to_string();
        tracing::warn!(error, "endpoint entry not usable");
    }
}

/// The file as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Document {
    endpoints: Readable<Entry>,
}

#[derive(Debug, Deserialize)]
struct Entry {
    name: String,
    #[serde(default)]
    namespace: String,
    address: String,
    port: Port,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
}

impl Entry {
    /// The endpoint; else the field that is wrong, and why.
    fn spec(&self) -> Result<EndpointSpec, (&'static str, String)> {
        if self.name.is_empty() {
            return Err(("name", "is empty".to_owned()));
        }
        let address = &self.address;
        let bare =
            address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(address);
        let Ok(ip) = bare.parse::<IpAddr>() else {
            let message = format!("`{address}` is no IP address; host names are not supported yet");
            return Err(("address", message));
        };
        let namespace = if self.namespace.is_empty() { NAMESPACE } else { &self.namespace };
        Ok(EndpointSpec {
            name: self.name.clone(),
            namespace: namespace.to_owned(),
            address: SocketAddr::new(ip, self.port.0),
            labels: self.labels.clone().unwrap_or_default(),
        })
    }
}

/// Names and addresses that are in the list already.
#[derive(Debug, Default)]
struct Taken {
    names: HashSet<(String, String)>,
    addresses: HashSet<SocketAddr>,
}

impl Taken {
    fn take(&mut self, spec: EndpointSpec) -> Result<EndpointSpec, (&'static str, String)> {
        if !self.names.insert((spec.namespace.clone(), spec.name.clone())) {
            return Err(("name", format!("another endpoint is named `{}`", spec.name)));
        }
        if !self.addresses.insert(spec.address) {
            return Err(("address", format!("another endpoint is at {}", spec.address)));
        }
        Ok(spec)
    }
}

/// A port, 1 ..= 65535, as a number or a text.
#[derive(Debug)]
struct Port(u16);

impl<'de> Deserialize<'de> for Port {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number;

        impl Visitor<'_> for Number {
            type Value = Port;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a port, 1 to 65535")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Port, E> {
                let port = u16::try_from(number).ok().filter(|port| *port > 0);
                port.map(Port).ok_or_else(|| E::custom("is not between 1 and 65535"))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Port, E> {
                // What is no number is no port either.
                self.visit_u64(text.parse().unwrap_or_default())
            }
        }

        deserializer.deserialize_any(Number)
    }
}

#[cfg(test)]
mod tests;
