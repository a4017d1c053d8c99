//! The task that judges objectives, rewrites and models: sees what is listed, tells what it means.
//!
//! Objects live on their own: they are known before the pool is, and stay when it goes.

use std::sync::Arc;

use kube::core::Object;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};

use super::follow::{Item, Listing, changed};
use super::keep::BURST;
use super::objects::{self, Entry, Judged, Kind, Spec};
use super::types::Status;
use super::verdict::Verdict;
use crate::pool::Event;

/// After a judgment follows a pause of so many times its length, so that objects that change all the time, each over
/// thousands of others, leave the processor to others.
const REST: u32 = 9;

/// An object as it is kept.
#[derive(Clone, Debug)]
pub(super) struct Kept(Entry);

/// The same object is the same while its version is.
impl PartialEq for Kept {
    fn eq(&self, other: &Self) -> bool {
        (&self.0.uid, &self.0.version) == (&other.0.uid, &other.0.version)
    }
}

impl Item for Kept {
    const PAGE: u32 = 50;
    const ROOM: usize = 16 << 20;

    fn size(&self) -> usize {
        self.0.size()
    }
}

/// What is kept of an object; none when it is being deleted.
pub(super) fn kept<S: Into<Spec> + Clone>(object: Object<S, Status>) -> Option<Kept> {
    let ending = object.metadata.deletion_timestamp.is_some();
    (!ending).then(|| Kept(object.into()))
}

/// A kind, and what is listed of it.
pub(super) type Listed = (Kind, watch::Receiver<Listing<Kept>>);

/// What is judged.
#[derive(Debug)]
pub(super) struct Judge {
    /// The name that objects refer to.
    pub(super) pool: String,
    /// One for each kind.
    pub(super) listed: [Listed; Kind::ALL.len()],
}

impl Judge {
    /// Tells what the objects mean, at every change, until nobody listens.
    pub(super) async fn run(
        mut self,
        events: mpsc::Sender<Event>,
        verdicts: watch::Sender<Arc<[Verdict]>>,
    ) {
        loop {
            let began = Instant::now();
            let judged = self.look();
            let pause = BURST.max(began.elapsed() * REST);
            verdicts.send_replace(judged.verdicts.into());
            if events.send(Event::Routes(judged.routes)).await.is_err() {
                return;
            }
            let [(_, first), (_, second), (_, third), (_, fourth), (_, fifth)] = &mut self.listed;
            tokio::select! {
                () = changed(first) => {}
                () = changed(second) => {}
                () = changed(third) => {}
                () = changed(fourth) => {}
                () = changed(fifth) => {}
                () = events.closed() => return,
            }
            sleep(pause).await;
        }
    }

    fn look(&mut self) -> Judged {
        let Self { pool, listed } = self;
        let listed = listed.each_mut().map(|(kind, listing)| (*kind, listing.borrow_and_update()));
        let objects = listed
            .iter()
            .flat_map(|(kind, listing)| listing.items().values().map(|Kept(entry)| (*kind, entry)));
        objects::judged(pool, objects)
    }
}
