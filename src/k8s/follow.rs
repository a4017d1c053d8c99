//! Follows the objects of one kind: list them, watch them, and list them again now and then.
//!
//! Written over the list and watch calls of the `kube` client rather than over the watcher of `kube-runtime`, which keeps
//! to itself what is needed here: bookmarks as signs of life, and a pause between watches that a server ends at once.
//!
//! Whatever is unclear (an error in the watch, a line that cannot be read, an expired version) ends in a new list, so the
//! view equals the server's after every error; a delete that was lost nevertheless is found by the list that comes every
//! few minutes. Until a list is complete the last state stays. Events are applied once and in order: one whose version
//! is not newer than the last one's is left out.

use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use kube::api::{ListParams, WatchParams};
use kube::core::WatchEvent;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_stream::StreamExt;

pub(super) use self::listing::{Item, Listing};
use self::pace::Pace;
use super::fault::Fault;
use super::kind::Kind;

mod listing;
mod pace;

/// How much later than asked for the end of a watch may come.
const MARGIN: Duration = Duration::from_secs(5);

/// The label selector of the objects to follow, empty for all; none for no objects.
pub(super) type Labels = watch::Receiver<Option<Arc<str>>>;

/// Keeps the listing of one kind.
#[derive(Debug)]
pub(super) struct Follower<K, T> {
    /// Where the objects are.
    pub(super) api: Api<K>,
    /// Which they are.
    pub(super) kind: Arc<Kind>,
    /// A field selector.
    pub(super) fields: Option<String>,
    /// What is kept of an object; none when it does not count.
    pub(super) convert: fn(K) -> Option<T>,
    /// Where it is kept.
    pub(super) listing: watch::Sender<Listing<T>>,
    /// How long things take.
    pub(super) timing: Timing,
}

/// How long things take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    /// For the answer to a list, or to the start of a watch.
    pub(super) answer: Duration,
    /// How long the API server is to keep up a watch, in whole seconds. A connection that died in silence is noticed at
    /// its end.
    pub(super) watch: Duration,
    /// The least time between the beginnings of two watches.
    pub(super) least: Duration,
    /// A complete list is asked for at least so often.
    pub(super) relist: Duration,
    /// Between two looks for a kind that is absent or forbidden.
    pub(super) retry: Duration,
}

impl Timing {
    /// A dead connection is noticed within a minute or so, a delete that was lost within five.
    pub(super) fn new(retry: Duration) -> Self {
        Self {
            answer: Duration::from_secs(30),
            watch: Duration::from_secs(45),
            least: Duration::from_secs(1),
            relist: Duration::from_mins(5),
            retry,
        }
    }
}

impl<K, T> Follower<K, T>
where
    K: Resource + Clone + DeserializeOwned + Debug,
    T: Item,
{
    /// Follows for ever the objects that the newest of `labels` selects; none while that is none.
    pub(super) async fn run(self, mut labels: Labels) {
        loop {
            let now = labels.borrow_and_update().clone();
            let follow = async {
                match &now {
                    Some(labels) => self.follow(labels).await,
                    None => self.empty(None),
                }
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = follow => {}
                () = changed(&mut labels) => {}
            }
        }
    }

    async fn follow(&self, labels: &Arc<str>) {
        let mut pace = Pace::new(self.timing.retry);
        loop {
            let began = Instant::now();
            let Err(fault) = self.round(labels).await else {
                pace = Pace::new(self.timing.retry);
                continue;
            };
            self.kind.failed(&fault);
            if pace.absent_again(fault.state) && self.is_api_server().await {
                self.empty(Some(labels));
            }
            self.listing.send_if_modified(|listing| {
                let trouble = Some(self.kind.explained(&fault));
                let changed = listing.trouble != trouble;
                listing.trouble = trouble;
                changed
            });
            sleep(pace.after(&fault, began.elapsed(), fastrand::f64())).await;
        }
    }

    /// Whether it is an API server that says that a kind is absent, and not something before it.
    async fn is_api_server(&self) -> bool {
        let client = self.api.clone().into_client();
        timeout(self.timing.answer, client.apiserver_version()).await.is_ok_and(|said| said.is_ok())
    }

    /// There are no objects; `complete` says for which selector that is known.
    fn empty(&self, complete: Option<&Arc<str>>) {
        self.listing.send_if_modified(|listing| {
            let changed = listing.complete.as_ref() != complete || !listing.items().is_empty();
            *listing = Listing::empty(complete.cloned());
            changed
        });
    }

    /// Lists, then watches until it is time to list again.
    async fn round(&self, labels: &Arc<str>) -> Result<(), Fault> {
        let mut version = self.list(labels).await?;
        self.kind.following();
        // Spread, so that the replicas of a fleet do not list in step.
        let again = Instant::now() + self.timing.relist.mul_f64(0.8 + 0.2 * fastrand::f64());
        while Instant::now() < again {
            let began = Instant::now();
            self.watch(labels, &mut version).await?;
            sleep_until(began + self.timing.least).await;
        }
        Ok(())
    }

    /// Takes a complete list; gives its version.
    async fn list(&self, labels: &Arc<str>) -> Result<String, Fault> {
        let mut listing = Listing::default();
        let mut params = ListParams {
            label_selector: selector(labels),
            field_selector: self.fields.clone(),
            limit: Some(T::PAGE),
            ..ListParams::default()
        };
        let version = loop {
            let page = timeout(self.timing.answer, self.api.list(&params)).await;
            let page = page.map_err(|_elapsed| Fault::silent(self.timing.answer))??;
            self.kind.heard();
            for object in page.items {
                listing.put(object.name_any(), (self.convert)(object));
            }
            params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                break page.metadata.resource_version;
            }
        };
        let version = version.filter(|version| !version.is_empty());
        let version = version.ok_or_else(|| Fault::malformed("a list without resourceVersion"))?;
        listing.complete = Some(Arc::clone(labels));
        self.kind.left_out(listing.full());
        self.listing.send_if_modified(|known| {
            let changed = *known != listing;
            *known = listing;
            changed
        });
        Ok(version)
    }

    /// Takes events from `version` on, which it moves forward, until the watch ends.
    async fn watch(&self, labels: &str, version: &mut String) -> Result<(), Fault> {
        let params = WatchParams {
            label_selector: selector(labels),
            field_selector: self.fields.clone(),
            timeout: u32::try_from(self.timing.watch.as_secs()).ok(),
            ..WatchParams::default()
        };
        let events = timeout(self.timing.answer, self.api.watch(&params, version)).await;
        let mut events = pin!(events.map_err(|_elapsed| Fault::silent(self.timing.answer))??);
        self.kind.heard();
        let end = Instant::now() + self.timing.watch + MARGIN;
        // A watch that does not end in time may be dead; whether it is shows in the next one.
        while let Ok(Some(event)) = timeout_at(end, events.next()).await {
            let event = event?;
            self.kind.heard();
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    self.apply(object, version, self.convert)?;
                }
                WatchEvent::Deleted(object) => self.apply(object, version, |_| None)?,
                WatchEvent::Bookmark(bookmark) => *version = bookmark.metadata.resource_version,
                WatchEvent::Error(status) => return Err(Fault::refused(&status)),
            }
        }
        Ok(())
    }

    /// Takes what an event says of an object, unless it is not newer than what is known.
    fn apply(
        &self,
        object: K,
        version: &mut String,
        convert: fn(K) -> Option<T>,
    ) -> Result<(), Fault> {
        let new = object.resource_version().filter(|version| !version.is_empty());
        let new = new.ok_or_else(|| Fault::malformed("an object without resourceVersion"))?;
        if !newer(&new, version) {
            return Ok(());
        }
        *version = new;
        let name = object.name_any();
        let item = convert(object);
        self.listing.send_if_modified(|listing| {
            let changed = listing.put(name, item);
            self.kind.left_out(listing.full());
            changed
        });
        Ok(())
    }
}

/// Waits for a change; for ever where there is none to come.
pub(super) async fn changed<T>(value: &mut watch::Receiver<T>) {
    if value.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn selector(labels: &str) -> Option<String> {
    Some(labels.to_owned()).filter(|labels| !labels.is_empty())
}

/// Versions are numbers that grow; two that are not cannot be compared, and the later word counts.
fn newer(new: &str, old: &str) -> bool {
    match (new.parse::<u64>(), old.parse::<u64>()) {
        (Ok(new), Ok(old)) => new > old,
        _ => true,
    }
}
