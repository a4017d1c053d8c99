//! What a client gets when the picker is not well: asserted, and shown in docs/gateways.md.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use http::Request;
use lodesman_e2e::envoy::{BodyMode, Destination, ExtProc, HealthCheck, Mode, Picker, Pool};
use lodesman_e2e::kube::objects::{self, ROLE};
use lodesman_e2e::{Body, Client, Envoy, EnvoyConfig, Lodesman, eventually};
use serde_json::{Value, json};

use super::site::{POOL, Site, cluster, until_ready, until_unready};
use super::stage::{CHAT, SOON, chat};

const BEGIN: &str = "<!-- failure-table:begin -->\n";
const END: &str = "<!-- failure-table:end -->";
/// After so long without an answer a client is taken to wait for ever.
const PATIENCE: Duration = Duration::from_secs(4);
/// How long Envoy waits for the answer to a message, where it minds.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(1);

/// How the gateway asks the picker.
#[derive(Clone, Copy)]
enum Asking {
    /// In full duplex, at any address that the Service has.
    Duplex,
    /// In full duplex, where a health check finds a picker, and nowhere when it finds none.
    Checked,
    /// With the request's body in one message.
    Buffered,
}

/// How the picker is.
#[derive(Clone, Copy)]
enum Picking {
    Healthy,
    /// Its pods are not known yet.
    Unsynced,
    /// It accepts connections and says nothing.
    Hung,
    /// Its address refuses connections.
    Killed,
    /// The gateway knows of no picker.
    Gone,
}

const ASKING: [(Asking, &str); 3] = [
    (Asking::Duplex, "full duplex"),
    (Asking::Checked, "full duplex, health check, no panic"),
    (Asking::Buffered, "buffered"),
];

/// In the order in which one picker can be in them.
const PICKING: [(Picking, &str); 5] = [
    (Picking::Unsynced, "not synced"),
    (Picking::Healthy, "healthy"),
    (Picking::Hung, "hung"),
    (Picking::Killed, "killed"),
    (Picking::Gone, "none in its Service"),
];

/// What `GET` and `POST` get with each mode, in the order of the two lists above.
const EXPECTED: [[[&str; 4]; 5]; 3] = [
    [
        ["503", "503", "200", "503"],
        ["200", "200", "200", "200"],
        ["waits", "waits", "waits", "waits"],
        ["500", "500", "200", "500"],
        ["500", "500", "200", "200"],
    ],
    [
        ["500", "500", "200", "200"],
        ["200", "200", "200", "200"],
        ["500", "500", "200", "200"],
        ["500", "500", "200", "200"],
        ["500", "500", "200", "200"],
    ],
    [
        ["503", "503", "200", "200"],
        ["200", "200", "200", "200"],
        ["504", "504", "200", "200"],
        ["500", "500", "200", "200"],
        ["500", "500", "200", "200"],
    ],
];

/// A picker, the gateway in front of it, and one that knows no picker.
struct Scene {
    site: Site<'static>,
    picker: Lodesman,
    envoy: Envoy,
    alone: Envoy,
    asking: Asking,
}

impl Scene {
    /// A picker that may not see pods, in a pool of this mode.
    async fn new(asking: Asking, mode: &str) -> Self {
        let cluster = cluster().await.unwrap();
        let site = Site::with_pods(cluster, 2).await;
        let rules =
            json!({"rules": site.namespace.read(ROLE, "lodesman").await.unwrap().data["rules"]});
        let failure_mode = json!({"spec": {"endpointPickerRef": {"failureMode": mode}}});
        site.namespace.merge(objects::POOL, POOL, &failure_mode).await.unwrap();
        let mut blind = rules.clone();
        blind["rules"].as_array_mut().unwrap().retain(|rule| rule["resources"] != json!(["pods"]));
        site.namespace.merge(ROLE, "lodesman", &blind).await.unwrap();
        let picker = site.picker("").await;
        until_unready(&picker, "pods").await;
        site.namespace.apply(&pods_may_be_read()).await.unwrap();
        let open = mode == "FailOpen";
        let of = |picker| gateway(&site, asking, picker, open);
        let envoy = Envoy::start(&of(Picker::new([picker.ext_proc]))).await.unwrap();
        let alone = Envoy::start(&of(Picker::new([]))).await.unwrap();
        Self { site, picker, envoy, alone, asking }
    }

    /// Brings the picker into a state, and the gateway to know what it can know of it.
    async fn turn(&mut self, picking: Picking) {
        match picking {
            Picking::Unsynced => {}
            Picking::Healthy => {
                self.site.bind("pods").await;
                until_ready(&self.picker).await;
            }
            Picking::Hung => self.picker.process.freeze().unwrap(),
            Picking::Killed => drop(self.picker.process.kill().unwrap()),
            Picking::Gone => return,
        }
        if let Asking::Checked = self.asking {
            let healthy = u64::from(matches!(picking, Picking::Healthy));
            let known = eventually(SOON, async || {
                let seen = self.envoy.stat("cluster.epp.membership_healthy").await?;
                ensure!(seen == Some(healthy), "{seen:?} healthy pickers");
                Ok(())
            });
            known.await.unwrap();
        }
    }

    /// What `GET` and `POST` get.
    async fn answers(&self, picking: Picking) -> [String; 2] {
        let envoy = if let Picking::Gone = picking { &self.alone } else { &self.envoy };
        let get = Request::get("/v1/models").body(Body::default()).unwrap();
        let post = Request::post(CHAT).body(Body::full(chat(1, false).to_string())).unwrap();
        let (get, post) = tokio::join!(outcome(envoy.client(), get), outcome(envoy.client(), post));
        [get, post]
    }
}

fn pods_may_be_read() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "pods"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}],
    })
}

/// A gateway that obeys the pool's mode, as its controller would, over the pool's members.
fn gateway(site: &Site<'_>, asking: Asking, picker: Picker, open: bool) -> EnvoyConfig {
    let duplex = Mode::with_body(BodyMode::FullDuplexStreamed);
    let mut filter = match asking {
        Asking::Buffered => {
            let streamed = Mode::with_body(BodyMode::Streamed);
            ExtProc::new(picker, Mode::with_body(BodyMode::Buffered), streamed)
        }
        Asking::Duplex | Asking::Checked => ExtProc::new(picker, duplex, duplex),
    };
    filter.failure_mode_allow = open;
    filter.message_timeout = Some(MESSAGE_TIMEOUT);
    if let Asking::Checked = asking {
        filter.picker.health_check = Some(HealthCheck { interval: Duration::from_millis(200) });
    }
    let endpoints = site.fleet.servers.clone();
    let destinations = vec![Destination::Metadata];
    EnvoyConfig::picked(filter, Pool::OverrideHost { endpoints, destinations })
}

/// The status, or that there is none.
async fn outcome(client: Client, request: Request<Body>) -> String {
    match tokio::time::timeout(PATIENCE, client.send(request)).await {
        Ok(response) => response.unwrap().status.as_u16().to_string(),
        Err(_) => "waits".to_owned(),
    }
}

/// The rows of one way of asking: what all states of the picker give, the closed mode first.
async fn rows(asking: Asking) -> Vec<Vec<String>> {
    let mut rows = vec![Vec::new(); PICKING.len()];
    for mode in ["FailClose", "FailOpen"] {
        let mut scene = Scene::new(asking, mode).await;
        for (row, (picking, _)) in rows.iter_mut().zip(PICKING) {
            scene.turn(picking).await;
            row.extend(scene.answers(picking).await);
        }
    }
    rows
}

/// The table as a page has it.
fn table(all: &[Vec<Vec<String>>]) -> String {
    let mut text = "| body to the picker | picker | FailClose, GET | FailClose, POST | FailOpen, GET | FailOpen, POST |\n\
                    |---|---|---|---|---|---|\n"
        .to_owned();
    for ((_, asking), rows) in ASKING.iter().zip(all) {
        for ((_, picking), row) in PICKING.iter().zip(rows) {
            writeln!(text, "| {asking} | {picking} | {} |", row.join(" | ")).unwrap();
        }
    }
    text
}

#[tokio::test]
async fn failures_are_what_the_table_in_the_documents_says() {
    if cluster().await.is_none() {
        return;
    }
    let (duplex, checked, buffered) =
        tokio::join!(rows(Asking::Duplex), rows(Asking::Checked), rows(Asking::Buffered));
    let seen = [duplex, checked, buffered];
    let expected = EXPECTED.map(|rows| rows.map(|row| row.map(str::to_owned).to_vec()).to_vec());
    assert_eq!(table(&seen), table(&expected));
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/gateways.md");
    let text = fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("a place for the table");
    let (old, after) = rest.split_once(END).expect("the end of the table");
    if std::env::var("UPDATE_EXPECT").is_ok_and(|update| update == "1") {
        fs::write(page, [before, BEGIN, &table(&seen), END, after].concat()).unwrap();
    } else {
        assert_eq!(old, table(&seen), "UPDATE_EXPECT=1 writes it");
    }
}
