//! What Istio does differently: cluster names as `:authority` and server name; and TLS.

use lodesman_e2e::envoy::{ExtProc, Tls};
use lodesman_e2e::{Client, Envoy, Lodesman};

use super::stage::{
    CHAT, SOON, at_rest, chat, fleet, is_whole, original_dst, outcomes, picker, total,
};

/// The name that istiod gives the picker's cluster.
const CLUSTER: &str = "outbound|9002||epp.default.svc.cluster.local";

async fn envoy(picker: &Lodesman, cluster: &str, tls: Option<Tls>) -> Envoy {
    let mut filter = ExtProc::full_duplex(picker.ext_proc);
    cluster.clone_into(&mut filter.picker.name);
    filter.picker.tls = tls;
    Envoy::start(&original_dst(filter)).await.unwrap()
}

fn sni(name: &str) -> Tls {
    Tls { sni: Some(name.to_owned()) }
}

async fn all_succeed(envoy: &Envoy, requests: usize) {
    for client in [Client::http1(envoy.address()), Client::http2(envoy.address())] {
        for _ in 0..requests / 2 {
            let answer = client.post(CHAT, &chat(1, false)).await.unwrap();
            assert!(is_whole(&answer), "{} {}", answer.status, answer.text());
        }
    }
}

#[tokio::test]
async fn cluster_name_as_authority_is_served() {
    let fleet = fleet(1, "--time-scale 100").await;
    let picker = picker(&fleet.servers, "").await;
    for tls in [None, Some(sni("epp.default.svc.cluster.local"))] {
        let envoy = envoy(&picker, CLUSTER, tls).await;
        all_succeed(&envoy, 50).await;
        let streams = format!("cluster.{CLUSTER}.upstream_cx_total");
        assert_eq!(envoy.stat(&streams).await.unwrap(), Some(1), "one connection carries all");
    }
    at_rest(&picker).await;
    assert_eq!(outcomes(&picker, "ok").await.unwrap(), 100);
}

#[tokio::test]
async fn cluster_name_as_server_name_is_refused_with_cause_and_cure() {
    let fleet = fleet(1, "").await;
    let mut picker = picker(&fleet.servers, "").await;
    let envoy = envoy(&picker, CLUSTER, Some(sni(CLUSTER))).await;
    let answer = envoy.client().post(CHAT, &chat(1, false)).await.unwrap();
    assert_eq!(answer.status, 500);
    let cure = |lines: &[&str]| {
        let told = |line: &&&str| line.contains("TLS server name") && line.contains("set `sni`");
        lines.iter().find(told).map(|line| (*line).to_owned())
    };
    let line = picker.process.find(SOON, cure).await.unwrap();
    assert!(line.contains("WARN") && line.contains("DestinationRule"), "{line}");
    let counter = "lodesman_refused_connections_total";
    assert!(total(&picker, counter, "reason=\"server_name\"").await.unwrap() >= 1);
}

// FR-124
#[tokio::test]
async fn tls_and_plaintext_share_the_port() {
    let fleet = fleet(1, "--time-scale 100").await;
    let picker = picker(&fleet.servers, "").await;
    for tls in [None, Some(Tls::default()), Some(sni("localhost")), None] {
        all_succeed(&envoy(&picker, "epp", tls).await, 4).await;
    }
    at_rest(&picker).await;
    assert_eq!(total(&picker, "lodesman_refused_connections_total", "").await.unwrap(), 0);
}

// FR-124
#[tokio::test]
async fn port_with_a_fixed_security_refuses_the_other_and_says_so() {
    let fleet = fleet(1, "--time-scale 100").await;
    for (flag, works, fails, reason) in [
        ("--secure-serving", Some(Tls::default()), None, "unexpected_plaintext"),
        ("--secure-serving=false", None, Some(Tls::default()), "unexpected_tls"),
    ] {
        let picker = picker(&fleet.servers, flag).await;
        all_succeed(&envoy(&picker, "epp", works).await, 2).await;
        let wrong = envoy(&picker, "epp", fails).await;
        assert_eq!(wrong.client().post(CHAT, &chat(1, false)).await.unwrap().status, 500);
        let label = format!("reason=\"{reason}\"");
        let refused = total(&picker, "lodesman_refused_connections_total", &label).await.unwrap();
        assert!(refused >= 1, "{flag}");
    }
}
