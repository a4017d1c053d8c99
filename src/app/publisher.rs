//! The pool's only writer: takes events in, publishes snapshots.
//!
//! A change of membership is published at once, changes of load at most every 10 ms. Publishing also tells readiness. Four
//! times a second it is judged where endpoints stand.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, sleep_until};

use crate::metrics::LifeMetrics;
use crate::pool::readiness::{Readiness, SCRAPE_GRACE, Stage};
use crate::pool::{Change, Event, Phase, Snapshot, State, Transition};
use crate::prefix::Index;
use crate::server::clock;

/// Events that may wait: when it is full, scrapes are dropped and sources wait.
pub(super) const QUEUE: usize = 4096;

/// Between two publications of mere load.
const PAUSE: Duration = Duration::from_millis(10);

/// Between two looks at where endpoints stand.
const LOOK: Duration = Duration::from_millis(250);

/// Where snapshots go.
#[derive(Debug)]
pub(super) struct Published {
    /// For decisions: the newest.
    pub(super) snapshot: Arc<ArcSwap<Snapshot>>,
    /// For the scraper: the newest after a change of membership.
    pub(super) members: watch::Sender<Arc<Snapshot>>,
    /// How far the view of the pool has come.
    pub(super) readiness: watch::Sender<Readiness>,
    /// Forgets the endpoints that leave.
    pub(super) prefix: Arc<ArcSwapOption<Index>>,
    /// Where endpoints stand.
    pub(super) life: LifeMetrics,
}

/// Applies events until their senders are gone.
pub(super) async fn publish(
    mut state: State,
    mut events: mpsc::Receiver<Event>,
    published: Published,
) {
    let (mut listed, mut left_out) = (None, 0);
    // When to publish what was applied and not published, and when to look at readiness without an event.
    let mut due: Option<Instant> = None;
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let turn = tokio::select! {
            biased;
            _ = looks.tick() => Turn::Look,
            event = events.recv() => match event {
                Some(event) => Turn::Event(event),
                None => return,
            },
            () = until(due) => Turn::Due,
        };
        let now = clock::now();
        let change = match turn {
            Turn::Look => {
                published.count();
                state.watch(now)
            }
            Turn::Event(event) => state.apply(event, now),
            Turn::Due => Change::Nothing,
        };
        published.tell(&state.transitions());
        if std::mem::replace(&mut left_out, state.left_out()) != left_out {
            tell_left_out(left_out);
        }
        let late = due.is_some_and(|due| due <= now);
        if change == Change::Load && !late {
            due = Some(due.map_or(now + PAUSE, |due| due.min(now + PAUSE)));
        } else if change != Change::Nothing || late {
            let snapshot = Arc::new(state.snapshot());
            listed = listed.or_else(|| snapshot.synced().then_some(now));
            due = published.publish(snapshot, change, listed, now);
        }
    }
}

/// Says for how many endpoints there is no room.
fn tell_left_out(left_out: usize) {
    if left_out == 0 {
        tracing::info!("no endpoint is left out any more");
    } else {
        tracing::error!(left_out, "more endpoints than there is room for");
    }
}

/// What the writer does next.
enum Turn {
    Look,
    Event(Event),
    Due,
}

impl Published {
    /// Counts and logs where endpoints went.
    fn tell(&self, transitions: &[Transition]) {
        for Transition { endpoint, from, to, reason } in transitions {
            let (from, to, reason) = (from.name(), to.name(), reason.name());
            self.life.transitions.with_label_values(&[from, to, reason]).inc();
            match to {
                "quarantined" => tracing::warn!(endpoint, from, reason, "endpoint quarantined"),
                "draining" => tracing::info!(endpoint, from, reason, "endpoint drains"),
                _ => tracing::debug!(endpoint, from, to, reason, "endpoint changed its state"),
            }
        }
    }

    /// Shows how many stand where, and what is left on those that drain.
    fn count(&self) {
        let snapshot = self.snapshot.load();
        let phases =
            || snapshot.endpoints().filter_map(|it| Some((it, snapshot.life(it.id.slot)?)));
        for phase in Phase::ALL.into_iter().filter(|phase| *phase != Phase::Gone) {
            let count = phases().filter(|(_, life)| life.phase == phase).count();
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.life.endpoints.with_label_values(&[phase.name()]).set(count);
        }
        let draining = phases().filter(|(_, life)| life.phase == Phase::Draining);
        let left = draining.map(|(endpoint, _)| i64::from(endpoint.live.requests())).sum();
        self.life.draining_in_flight.set(left);
    }

    /// Publishes; returns when to look again although nothing has changed.
    fn publish(
        &self,
        snapshot: Arc<Snapshot>,
        change: Change,
        listed: Option<Instant>,
        now: Instant,
    ) -> Option<Instant> {
        let scraped = snapshot.ready().iter().all(|&slot| snapshot.scrape_age(slot, now).is_some());
        self.snapshot.store(Arc::clone(&snapshot));
        if change == Change::Members {
            if let Some(prefix) = &*self.prefix.load() {
                prefix.keep(|id| snapshot.by_id(id).is_some());
            }
            self.members.send_replace(snapshot);
        }
        let listed = listed?;
        let stage = Stage::listed(listed, scraped, now);
        self.readiness.send_if_modified(|readiness| {
            let further = stage > readiness.stage;
            readiness.stage = readiness.stage.max(stage);
            further
        });
        (stage < Stage::Synced).then_some(listed + SCRAPE_GRACE)
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::metrics::Metrics;
    use crate::pool::{EndpointSpec, Sample};

    fn endpoint(n: u8) -> EndpointSpec {
        let address = ([10, 0, 0, n], 80).into();
        EndpointSpec {
            name: n.to_string(),
            namespace: String::new(),
            address,
            labels: BTreeMap::new(),
            uid: String::new(),
            other_ips: Vec::new(),
        }
    }

    struct Rig {
        events: mpsc::Sender<Event>,
        snapshot: Arc<ArcSwap<Snapshot>>,
        readiness: watch::Receiver<Readiness>,
        members: watch::Receiver<Arc<Snapshot>>,
    }

    fn rig() -> (Rig, impl Future<Output = ()>) {
        let (events, queue) = mpsc::channel(QUEUE);
        let snapshot = Arc::new(ArcSwap::from_pointee(Snapshot::default()));
        let (ready, readiness) = watch::channel(Readiness::default());
        let (sender, members) = watch::channel(Arc::new(Snapshot::default()));
        let published = Published {
            snapshot: Arc::clone(&snapshot),
            members: sender,
            readiness: ready,
            prefix: Arc::default(),
            life: Metrics::new("", "", false).unwrap().life.clone(),
        };
        let task = publish(State::new(Duration::from_secs(2)), queue, published);
        (Rig { events, snapshot, readiness, members }, task)
    }

    // FR-119
    #[tokio::test(start_paused = true)]
    async fn an_empty_pool_is_ready_at_once_and_a_scraped_one_with_its_first_round() {
        let (mut rig, task) = rig();
        let steps = async {
            rig.events.send(Event::Endpoints(vec![endpoint(1)])).await.unwrap();
            rig.members.changed().await.unwrap();
            assert_eq!(rig.readiness.borrow().stage, Stage::Scraping);
            let id = rig.snapshot.load().endpoints().next().unwrap().id;
            let interval = Duration::from_millis(50);
            rig.events
                .send(Event::Scraped { id, sample: Sample::default(), at: clock::now(), interval })
                .await
                .unwrap();
            rig.readiness.wait_for(|readiness| readiness.stage == Stage::Synced).await.unwrap();
        };
        tokio::select! { () = task => panic!("ended"), () = steps => {} }
    }

    // FR-119
    #[tokio::test]
    async fn a_pool_that_cannot_be_scraped_is_ready_after_two_seconds() {
        let (mut rig, task) = rig();
        let steps = async {
            let began = clock::now();
            rig.events.send(Event::Endpoints(vec![endpoint(1)])).await.unwrap();
            rig.readiness.wait_for(|readiness| readiness.stage == Stage::Synced).await.unwrap();
            assert!(clock::now() - began >= SCRAPE_GRACE);
        };
        tokio::select! { () = task => panic!("ended"), () = steps => {} }
    }
}
