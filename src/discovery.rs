//! Endpoint sources without Kubernetes: a list on the command line, or a watched file; both may hold names.
//!
//! The file is the reference's: `endpoints` with `name`, `namespace`, `address`, `port` and `labels`. An entry that
//! cannot be used is left out; a file that cannot be used at all, or of whose entries none can, leaves the list as it
//! was. A name stands for one endpoint at each of its addresses.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use crate::config::{Address, FileDiscovery, Name, Problem, Severity};
use crate::pool::{EndpointSpec, Event};

pub use self::file::{Listing, parse};
pub use self::watched::{POLL, Watched};

use self::names::Names;

mod file;
mod names;
mod watched;

/// The longest file, as in the reference.
const LONGEST_FILE: u64 = 1 << 20;

/// So many unusable entries are logged of one version of a file; their number is logged in any case.
const LOGGED_PROBLEMS: usize = 5;

/// The namespace of an endpoint that names none.
const NAMESPACE: &str = "default";

/// Where a list of endpoints comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// The list itself.
    List(Vec<Address>),
    /// A file.
    File(FileDiscovery),
}

/// Endpoints as a source lists them: one where there is an address, any number where there is a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The endpoint's name; where there are several, each has `-` and its IP address after it.
    pub name: String,
    /// Namespace of the endpoints.
    pub namespace: String,
    /// Where they are.
    pub address: Address,
    /// Labels of the endpoints.
    pub labels: BTreeMap<String, String>,
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
    /// It is no document, or none of its entries can be used; the text says which, where and why.
    #[error("{0}")]
    Unusable(String),
}

/// Sends the endpoints of a source to the pool, at every change of what can change.
///
/// A change of a watched file is sent within 500 ms. The first list waits until each of its names was asked for once.
/// When the pool's queue is full, this waits. It ends when nothing can change any more.
///
/// # Errors
/// When a file that is not watched gives no list. A watched one is waited for.
pub async fn follow(source: Source, events: mpsc::Sender<Event>) -> Result<(), DiscoveryError> {
    Follower::new(source, Names::system()).run(events).await
}

/// A source, and what was seen of it.
#[derive(Debug)]
struct Follower {
    /// None where it will not be looked at again.
    file: Option<Watched>,
    watch: bool,
    /// None until there is a list.
    members: Option<Vec<Member>>,
    names: Names,
    /// What was sent last.
    sent: Option<Vec<EndpointSpec>>,
}

impl Follower {
    fn new(source: Source, names: Names) -> Self {
        let (file, watch, members) = match source {
            Source::List(addresses) => (None, false, Some(listed(&addresses))),
            Source::File(file) => (Some(Watched::new(file.path)), file.watch, None),
        };
        Self { file, watch, members, names, sent: None }
    }

    async fn run(mut self, events: mpsc::Sender<Event>) -> Result<(), DiscoveryError> {
        let mut looks = interval(POLL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if let Some(endpoints) = self.due()
                && events.send(Event::Endpoints(endpoints)).await.is_err()
            {
                return Ok(());
            }
            if self.file.is_none() && !self.names.any() {
                return Ok(());
            }
            tokio::select! {
                _ = looks.tick(), if self.file.is_some() => self.look().await?,
                () = self.names.changed(), if self.names.any() => (),
                () = events.closed() => return Ok(()),
            }
        }
    }

    /// The list, when it is complete and was not sent.
    fn due(&mut self) -> Option<Vec<EndpointSpec>> {
        let members = self.members.as_ref()?;
        let names = members.iter().filter_map(|member| match &member.address {
            Address::Name(name) => Some(name),
            Address::Ip(_) => None,
        });
        self.names.follow(&names.collect::<BTreeSet<&Name>>());
        if self.sent.is_none() && !self.names.settled() {
            return None;
        }
        let endpoints = expanded(members, &self.names);
        if self.sent.as_ref() == Some(&endpoints) {
            return None;
        }
        self.sent = Some(endpoints.clone());
        Some(endpoints)
    }

    /// Takes the file's list when it is new.
    async fn look(&mut self) -> Result<(), DiscoveryError> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let listing = match file.poll().await {
            Ok(Some(text)) => read(file.path().to_owned(), text).await.map(Some),
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        match listing {
            Ok(None) => (),
            Ok(Some(listing)) => {
                log(file.path(), &listing);
                self.members = Some(listing.members);
            }
            Err(error) if !self.watch => return Err(error),
            Err(error) => {
                let error = error.to_string();
                tracing::warn!(error, "endpoint file not usable, the last list stays");
            }
        }
        if !self.watch {
            self.file = None;
        }
        Ok(())
    }
}

/// The members of a list of addresses; each is named by its address.
fn listed(addresses: &[Address]) -> Vec<Member> {
    let name = |address: &Address| match address {
        Address::Name(Name::Host { host, .. }) => host.clone(),
        Address::Name(Name::Service(_)) | Address::Ip(_) => address.to_string(),
    };
    let member = |address: &Address| Member {
        name: name(address),
        namespace: NAMESPACE.to_owned(),
        address: address.clone(),
        labels: BTreeMap::new(),
    };
    addresses.iter().map(member).collect()
}

/// One endpoint for each address; of several with one address or name the first counts.
fn expanded(members: &[Member], names: &Names) -> Vec<EndpointSpec> {
    let (mut taken, mut used) = (HashSet::new(), HashSet::new());
    let mut endpoints = Vec::with_capacity(members.len());
    for member in members {
        for (name, address) in places(member, names) {
            let unused = used.insert((member.namespace.as_str(), name.clone()));
            if unused && taken.insert(address) {
                endpoints.push(EndpointSpec {
                    name,
                    namespace: member.namespace.clone(),
                    address,
                    labels: member.labels.clone(),
                    uid: String::new(),
                    other_ips: Vec::new(),
                });
            }
        }
    }
    endpoints
}

/// The names and addresses of a member's endpoints. Servers of a service may differ in their ports alone.
fn places(member: &Member, names: &Names) -> Vec<(String, SocketAddr)> {
    let Member { name, address, .. } = member;
    match address {
        Address::Ip(address) => vec![(name.clone(), *address)],
        Address::Name(host @ Name::Host { .. }) => {
            names.addresses(host).map(|at| (format!("{name}-{}", at.ip()), at)).collect()
        }
        Address::Name(service @ Name::Service(_)) => names
            .addresses(service)
            .map(|at| (format!("{name}-{}-{}", at.ip(), at.port()), at))
            .collect(),
    }
}

/// Reads the text of a file on the blocking pool: a large one takes long.
async fn read(path: PathBuf, text: String) -> Result<Listing, DiscoveryError> {
    let parsed = tokio::task::spawn_blocking(move || parse(&text)).await;
    let parsed = parsed.map_err(|error| DiscoveryError::Unusable(error.to_string()))?;
    parsed.map_err(|problems| unusable(&path, &problems))
}

/// The first error, and how many problems there are besides.
fn unusable(path: &Path, problems: &[Problem]) -> DiscoveryError {
    let path = path.display().to_string();
    let first = problems.iter().find(|problem| problem.severity == Severity::Error);
    let first = first.map_or_else(String::new, |first| first.in_file(&path).to_string());
    DiscoveryError::Unusable(match problems.len() {
        0 | 1 => first,
        more => format!("{first}, and {} more", more - 1),
    })
}

fn log(path: &Path, listing: &Listing) {
    let (endpoints, problems) = (listing.members.len(), listing.problems.len());
    tracing::info!(endpoints, problems, "endpoints read from file");
    let path = path.display().to_string();
    for problem in listing.problems.iter().take(LOGGED_PROBLEMS) {
        let error = problem.in_file(&path).to_string();
        tracing::warn!(error, "endpoint entry not usable");
    }
}

#[cfg(test)]
mod tests;
