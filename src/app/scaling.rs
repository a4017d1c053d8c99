//! Looks at the pool once a second for autoscalers, and answers them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tonic::service::Routes;

use crate::app::Parts;
use crate::app::supervisor::{Plane, Supervisor};
use crate::flow::Flow;
use crate::metrics::{Metrics, ScaleMetrics};
use crate::pool::Snapshot;
use crate::pool::readiness::SCRAPE_GRACE;
use crate::scale::{Board, Signals, Unplaced};
use crate::server;
use crate::server::clock;
use crate::server::listener::{Incoming, Security};
use crate::server::scaler::Scaler;

/// Between two looks.
const LOOK: Duration = Duration::from_secs(1);

/// The least time between two words about requests without an endpoint: the first is told at once.
const PAUSE: Duration = Duration::from_millis(100);

/// Looks for ever, and answers KEDA at its port where there is one.
pub(super) fn run(parts: &Parts, keda: Option<TcpListener>, pool: &str, tasks: &mut Supervisor) {
    let (board, snapshot) = (Arc::clone(&parts.board), Arc::clone(&parts.pool));
    let (flow, metrics) = (Arc::clone(&parts.flow), Arc::clone(&parts.metrics));
    tasks.run(Plane::Control, "scaling", async move {
        tokio::select! {
            () = look(&board, &snapshot, &flow, &metrics) => {}
            () = listen(&board, &flow) => {}
            () = release(&snapshot, &flow) => {}
        }
    });
    let Some(port) = keda else { return };
    let (board, snapshot) = (Arc::clone(&parts.board), Arc::clone(&parts.pool));
    let scaler = Scaler { board, snapshot, pool: pool.into() };
    let mut routes = Routes::builder();
    routes.add_service(scaler.service());
    let refused = parts.metrics.connections.refused.clone();
    let serving = server::serve_grpc(
        Incoming::new(port, Security::PlainOnly, refused),
        TowerToHyperService::new(routes.routes()),
        server::Limits::default(),
        std::future::pending(),
    );
    tasks.run(Plane::Control, "keda port", serving);
}

/// How often it is looked whether requests that wait may go.
const RELEASE: Duration = Duration::from_millis(50);

async fn look(board: &Board, snapshot: &ArcSwap<Snapshot>, flow: &Flow, metrics: &Metrics) {
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        let counts = flow.counts();
        let unplaced =
            Unplaced { held: counts.held, lacked: counts.lacked, refused: counts.refused };
        metrics.hold.held.set(counts.held.into());
        show(&board.look(&snapshot.load(), unplaced, clock::now()), &metrics.scale);
    }
}

/// Tells at once of requests that find no endpoint.
async fn listen(board: &Board, flow: &Flow) {
    loop {
        flow.lacking().await;
        board.lack(flow.counts().lacked, clock::now());
        sleep(PAUSE).await;
    }
}

/// Lets requests go that wait for an endpoint, once there is one.
async fn release(snapshot: &ArcSwap<Snapshot>, flow: &Flow) {
    loop {
        flow.filled().await;
        let mut looks = interval(RELEASE);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut since = None;
        loop {
            looks.tick().await;
            let now = clock::now();
            if flow.release(usable(&snapshot.load(), &mut since, now), now) == 0 {
                break;
            }
        }
    }
}

/// The endpoints that may take requests: those whose page was read, or all when there were some for a while, since when is
/// kept in `since`.
fn usable(snapshot: &Snapshot, since: &mut Option<Instant>, now: Instant) -> u32 {
    let ready = snapshot.ready();
    if ready.is_empty() {
        *since = None;
        return 0;
    }
    let since = *since.get_or_insert(now);
    let read = ready.iter().filter(|slot| snapshot.scrape_age(**slot, now).is_some()).count();
    let late = now.saturating_duration_since(since) >= SCRAPE_GRACE;
    u32::try_from(if late { ready.len() } else { read }).unwrap_or(u32::MAX)
}

fn show(signals: &Signals, gauges: &ScaleMetrics) {
    let ready = f64::from(signals.ready.max(1));
    for (gauge, value) in [
        (&gauges.queue, signals.queue / ready),
        (&gauges.queue_time, signals.queue_time.unwrap_or_default()),
        (&gauges.kv_pressure, signals.kv_pressure),
        (&gauges.tokens, signals.tokens / ready),
        (&gauges.saturation, signals.saturation),
        (&gauges.running, signals.running / ready),
        (&gauges.requests, signals.requests),
        (&gauges.knee, signals.knee),
        (&gauges.ready, f64::from(signals.ready)),
        (&gauges.draining, f64::from(signals.draining)),
        (&gauges.unmeasured, f64::from(signals.unmeasured)),
        (&gauges.recommended, f64::from(signals.recommended)),
        (&gauges.to_saturation, signals.seconds_to_saturation),
    ] {
        gauge.set(value);
    }
}
