//! Names of the domain name system, resolved again and again.
//!
//! A name is asked for again when the answer's time to live is over, within 1 s ..= 30 s, and every 5 s while that
//! fails. The last good answer stays while the resolver fails; an answer that there are no addresses must come three
//! times in a row, as one name server that has just started may say so of every name.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::time::Duration;

use hickory_resolver::config::LookupIpStrategy;
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::{RData, RecordType};
use hickory_resolver::{ResolverBuilder, TokioResolver};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use crate::config::Name;

/// When to ask again.
const PACE: Pace = Pace {
    retry: Duration::from_secs(5),
    soonest: Duration::from_secs(1),
    latest: Duration::from_secs(30),
};

/// The longest wait for one answer of a name server; it is asked twice.
const TIMEOUT: Duration = Duration::from_secs(2);

/// So many answers without an address are believed.
const BELIEVED: u32 = 3;

/// Answers that may wait to be taken; when it is full, lookups wait.
const QUEUE: usize = 64;

/// Names with their newest addresses.
#[derive(Debug)]
pub(super) struct Names {
    resolver: Result<TokioResolver, String>,
    pace: Pace,
    watches: HashMap<Name, Watch>,
    tasks: JoinSet<()>,
    sender: mpsc::Sender<Answer>,
    answers: mpsc::Receiver<Answer>,
}

type Answer = (Name, BTreeSet<SocketAddr>);

#[derive(Debug)]
struct Watch {
    task: AbortHandle,
    /// None until the first answer or failure.
    found: Option<BTreeSet<SocketAddr>>,
}

/// When to ask again.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// After a failure, and where an answer has no time to live.
    retry: Duration,
    /// After an answer, however short its time to live is.
    soonest: Duration,
    /// The same, however long.
    latest: Duration,
}

/// What was learnt of a name.
#[derive(Debug, Default)]
struct Known {
    addresses: BTreeSet<SocketAddr>,
    /// Something was told, be it that there is nothing.
    told: bool,
    /// Answers without an address since the last with one.
    empty: u32,
    failed: bool,
}

/// One answer: addresses, and for how long they hold.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    addresses: BTreeSet<SocketAddr>,
    holds: Option<Duration>,
}

impl Names {
    /// Asks the name servers of this machine's configuration.
    pub(super) fn system() -> Self {
        let resolver = TokioResolver::builder_tokio().map_err(Box::new).and_then(build);
        Self::by(resolver.map_err(|error| error.to_string()), PACE)
    }

    fn by(resolver: Result<TokioResolver, String>, pace: Pace) -> Self {
        let (sender, answers) = mpsc::channel(QUEUE);
        let (watches, tasks) = (HashMap::new(), JoinSet::new());
        Self { resolver, pace, watches, tasks, sender, answers }
    }

    /// Resolves these names from now on, and no others.
    pub(super) fn follow(&mut self, names: &BTreeSet<&Name>) {
        self.watches.retain(|name, watch| {
            let stays = names.contains(name);
            if !stays {
                watch.task.abort();
            }
            stays
        });
        while self.tasks.try_join_next().is_some() {}
        for name in names {
            if !self.watches.contains_key(*name) {
                let asked = (self.resolver.clone(), self.pace);
                let task = watch((*name).clone(), asked, self.sender.clone());
                let watch = Watch { task: self.tasks.spawn(task), found: None };
                self.watches.insert((*name).clone(), watch);
            }
        }
    }

    /// Whether there are names to resolve.
    pub(super) fn any(&self) -> bool {
        !self.watches.is_empty()
    }

    /// Whether each name was answered, or failed, once.
    pub(super) fn settled(&self) -> bool {
        self.watches.values().all(|watch| watch.found.is_some())
    }

    /// The addresses of a name, in their order.
    pub(super) fn addresses(&self, name: &Name) -> impl Iterator<Item = SocketAddr> {
        self.watches.get(name).and_then(|watch| watch.found.as_ref()).into_iter().flatten().copied()
    }

    /// Waits for the next answer and takes it.
    pub(super) async fn changed(&mut self) {
        // One sender is ours, so that this is never the end.
        if let Some((name, addresses)) = self.answers.recv().await
            && let Some(watch) = self.watches.get_mut(&name)
        {
            watch.found = Some(addresses);
        }
    }
}

impl Known {
    /// Takes an answer in; returns the addresses when they are to be told.
    fn take(&mut self, found: Result<BTreeSet<SocketAddr>, ()>) -> Option<BTreeSet<SocketAddr>> {
        self.failed = found.is_err();
        let first = !std::mem::replace(&mut self.told, true);
        let Ok(addresses) = found else { return first.then(BTreeSet::new) };
        self.empty = if addresses.is_empty() { self.empty.saturating_add(1) } else { 0 };
        let believed = !addresses.is_empty() || self.empty >= BELIEVED;
        if believed && addresses != self.addresses {
            self.addresses.clone_from(&addresses);
            return Some(addresses);
        }
        first.then(BTreeSet::new)
    }
}

/// Resolves a name for ever, and tells what changes.
async fn watch(
    name: Name,
    (resolver, pace): (Result<TokioResolver, String>, Pace),
    answers: mpsc::Sender<Answer>,
) {
    let mut known = Known::default();
    loop {
        let found = match &resolver {
            Ok(resolver) => lookup(resolver, &name).await.map_err(|error| error.to_string()),
            Err(error) => Err(error.clone()),
        };
        if let Err(error) = &found
            && !known.failed
        {
            tracing::warn!(name = %name, error, "name not resolved, its last addresses stay");
        }
        let holds = found.as_ref().ok().and_then(|found| found.holds);
        if let Some(addresses) = known.take(found.map(|found| found.addresses).map_err(drop)) {
            tracing::info!(name = %name, addresses = addresses.len(), "name resolved");
            if answers.send((name.clone(), addresses)).await.is_err() {
                return;
            }
        }
        let pause = holds.map_or(pace.retry, |holds| holds.clamp(pace.soonest, pace.latest));
        tokio::time::sleep(pause).await;
    }
}

fn build(
    mut builder: ResolverBuilder<TokioRuntimeProvider>,
) -> Result<TokioResolver, Box<NetError>> {
    let options = builder.options_mut();
    // How long an answer holds is decided here; a server with both kinds of addresses is one endpoint.
    options.cache_size = 0;
    options.ip_strategy = LookupIpStrategy::Ipv4thenIpv6;
    options.timeout = options.timeout.min(TIMEOUT);
    builder.build().map_err(Box::new)
}

async fn lookup(resolver: &TokioResolver, name: &Name) -> Result<Found, Box<NetError>> {
    match name {
        Name::Host { host, port } => addresses(resolver, host, *port).await,
        Name::Service(service) => {
            // A dot at the end: a service is not looked for in the search domains.
            let lookup = resolver.lookup(format!("{service}."), RecordType::SRV).await;
            let Some(lookup) = some(lookup)? else { return Ok(Found::nothing()) };
            let mut found = Found { addresses: BTreeSet::new(), holds: holds(&lookup) };
            for record in lookup.answers() {
                let RData::SRV(service) = &record.data else { continue };
                let target = addresses(resolver, &service.target.to_ascii(), service.port).await?;
                found.addresses.extend(target.addresses);
                found.holds = found.holds.into_iter().chain(target.holds).min();
            }
            Ok(found)
        }
    }
}

async fn addresses(
    resolver: &TokioResolver,
    host: &str,
    port: u16,
) -> Result<Found, Box<NetError>> {
    let Some(lookup) = some(resolver.lookup_ip(host).await)? else { return Ok(Found::nothing()) };
    let addresses = lookup.iter().map(|ip| SocketAddr::new(ip, port)).collect();
    Ok(Found { addresses, holds: holds(lookup.as_lookup()) })
}

impl Found {
    fn nothing() -> Self {
        Self { addresses: BTreeSet::new(), holds: None }
    }
}

/// The answer; none where it is that there are no records.
fn some<T>(answer: Result<T, NetError>) -> Result<Option<T>, Box<NetError>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.is_no_records_found() => Ok(None),
        Err(error) => Err(Box::new(error)),
    }
}

fn holds(lookup: &Lookup) -> Option<Duration> {
    let seconds = lookup.answers().iter().map(|record| record.ttl).min()?;
    Some(Duration::from_secs(u64::from(seconds)))
}

#[cfg(test)]
mod tests;
