use hyper_util::service::TowerToHyperService;
use tonic::Code;
use tonic::service::Routes;
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus as Wire;
use tonic_health::pb::health_client::HealthClient;

use super::super::Limits;
use super::super::serve_grpc;
use super::super::testing::plain_port;
use super::*;
use crate::pool::readiness::Stage;

const SYNCED: Readiness = Readiness {
    missing: None,
    warning: None,
    stage: Stage::Synced,
    standby: None,
    draining: false,
};
const STARTING: Readiness = Readiness { stage: Stage::Listing, ..SYNCED };
const DRAINING: Readiness = Readiness { draining: true, ..SYNCED };

/// The answer of the latch after each state, at the given seconds after the start.
fn latched(history: &[(Readiness, u64)]) -> Vec<bool> {
    let mut verdict = Verdict::default();
    let step = |(readiness, seconds): &(Readiness, u64)| {
        verdict = verdict.next(readiness, true, Duration::from_secs(*seconds));
        verdict.latched == Latch::Serving
    };
    history.iter().map(step).collect()
}

#[test]
fn the_latch_holds_from_the_first_readiness_to_the_drain() {
    let standby = Readiness { standby: Some("not the leader".into()), ..SYNCED };
    let history = [(STARTING, 1), (SYNCED, 2), (standby, 3), (STARTING, 4), (DRAINING, 5)];
    assert_eq!(latched(&history), [false, true, true, true, false]);
}

#[test]
fn the_latch_opens_without_a_pool_after_a_minute_but_not_in_a_drain() {
    assert_eq!(latched(&[(STARTING, 59), (STARTING, 60)]), [false, true]);
    assert_eq!(latched(&[(DRAINING, 59), (DRAINING, 61)]), [false, false]);
}

#[test]
fn liveness_depends_on_the_event_loops_alone() {
    let up = Duration::from_secs(1);
    assert!(Verdict::default().next(&STARTING, true, up).alive);
    assert!(!Verdict::default().next(&SYNCED, false, up).alive);
    assert!(Verdict::default().next(&SYNCED, false, up).ready);
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_stops_beating_is_dead_after_ten_seconds() {
    let pulse = Pulse::new();
    tokio::select! {
        () = pulse.beat() => {}
        () = tokio::time::sleep(Duration::from_mins(1)) => assert!(pulse.alive()),
    }
    tokio::time::advance(Duration::from_secs(8)).await;
    assert!(pulse.alive());
    tokio::time::advance(Duration::from_secs(3)).await;
    assert!(!pulse.alive());
}

/// Runs `script` against a real health port whose readiness is given by the sender.
async fn with_port<F>(script: impl FnOnce(HealthClient<Channel>, watch::Sender<Readiness>) -> F)
where
    F: Future<Output = ()>,
{
    let (sender, receiver) = watch::channel(STARTING);
    let health = Health::new(receiver, &[Arc::new(Pulse::new())]).await;
    let (address, incoming) = plain_port();
    let routes = TowerToHyperService::new(Routes::new(health.service()));
    let channel = Channel::from_shared(format!("http://{address}")).unwrap().connect_lazy();
    let script =
        tokio::time::timeout(Duration::from_secs(20), script(HealthClient::new(channel), sender));
    tokio::select! {
        () = serve_grpc(incoming, routes, Limits::default(), std::future::pending()) => panic!("ended"),
        ended = script => ended.expect("done in time"),
        () = async { health.follow().await; std::future::pending().await } => {}
    }
}

fn named(service: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: service.to_owned() }
}

/// The first status of `service` from now on that is `wanted`.
async fn watched(client: &mut HealthClient<Channel>, service: &str, wanted: Wire) {
    let mut statuses = client.watch(named(service)).await.unwrap().into_inner();
    while let Some(status) = statuses.message().await.unwrap() {
        if status.status() == wanted {
            return;
        }
    }
    panic!("watch of {service:?} ended before {wanted:?}");
}

// FR-118
#[tokio::test]
async fn every_name_answers_for_what_it_stands_for() {
    with_port(|mut client, readiness| async move {
        watched(&mut client, LIVENESS, Wire::Serving).await;
        for name in [&READINESS[..], &[LATCHED]].concat() {
            watched(&mut client, name, Wire::NotServing).await;
        }
        readiness.send_replace(SYNCED);
        for name in [&READINESS[..], &[LATCHED, LIVENESS]].concat() {
            watched(&mut client, name, Wire::Serving).await;
        }
        readiness.send_replace(DRAINING);
        for name in [&READINESS[..], &[LATCHED]].concat() {
            watched(&mut client, name, Wire::NotServing).await;
        }
        let live = client.check(named(LIVENESS)).await.unwrap().into_inner();
        assert_eq!(live.status(), Wire::Serving);
    })
    .await;
}

// FR-118
#[tokio::test]
async fn an_unknown_name_is_not_found_and_who_watches_it_is_told_so() {
    with_port(|mut client, _readiness| async move {
        let refused = client.check(named("anything else")).await.unwrap_err();
        assert_eq!(refused.code(), Code::NotFound);
        let mut watch = client.watch(named("x")).await.unwrap().into_inner();
        let told = watch.message().await.unwrap().map(|told| told.status());
        assert_eq!(told, Some(Wire::ServiceUnknown));
        let more = tokio::time::timeout(Duration::from_millis(50), watch.message()).await;
        assert!(more.is_err(), "the watch goes on: {more:?}");
    })
    .await;
}
