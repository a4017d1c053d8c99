//! What `manifests/monitoring` asks for is told by a picker with traffic: by its page, and by a real Prometheus that reads it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lodesman_e2e::chat;
use lodesman_e2e::envoy::{Destination, ExtProc, Pool};
use lodesman_e2e::{
    Client, Envoy, EnvoyConfig, Fleet, Lodesman, Process, eventually, free_address,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::autoscaling::page as manual;
use super::monitoring::{Asked, asked, rules};
use super::promql::{Selector, groups, selectors};

/// Enough for anything that happens at all, on a busy machine too.
const SOON: Duration = Duration::from_mins(1);

/// Series that are told only after an event, or in Kubernetes alone: for these the table of families answers.
const RARE: [&str; 4] = [
    "lodesman_control_plane_connected",
    "lodesman_held_requests_total",
    "lodesman_status_blocked",
    "lodesman_watch_state",
];

/// Labels that Prometheus itself gives to whatever it reads from a pod.
const TARGET: [&str; 3] = ["namespace", "job", "instance"];

type Labels = BTreeMap<String, String>;

/// A picker behind Envoy, in front of simulated servers.
struct Site {
    _fleet: Fleet,
    picker: Lodesman,
    envoy: Envoy,
}

impl Site {
    async fn start() -> Self {
        let binary = Path::new(env!("CARGO_BIN_EXE_lodesman"));
        let fleet = Fleet::start(binary, 2, ["--time-scale", "50"]).await.unwrap();
        let servers: Vec<_> = fleet.servers.iter().map(SocketAddr::to_string).collect();
        let picker = Lodesman::start(binary, ["--endpoints", &servers.join(",")]).await.unwrap();
        let filter = ExtProc::full_duplex(picker.ext_proc);
        let config = EnvoyConfig::picked(filter, Pool::OriginalDst(Destination::Header));
        let envoy = Envoy::start(&config).await.unwrap();
        let ready = eventually(SOON, async || {
            let answer = Client::http1(picker.metrics).get("/readyz").await?;
            ensure!(answer.status == 200, "{}", answer.text());
            Ok(())
        });
        ready.await.unwrap();
        Self { _fleet: fleet, picker, envoy }
    }

    /// A streamed chat request of which the server tells the tokens.
    async fn chat(&self) -> Result<()> {
        let mut request = chat::request("sim", 1, 4);
        request["stream_options"] = json!({"include_usage": true});
        let answer = self.envoy.client().post(chat::PATH, &request).await?;
        ensure!(answer.status == 200, "{} {}", answer.status, answer.text());
        Ok(())
    }
}

/// The series of a metrics page by name.
fn series(page: &str) -> BTreeMap<String, Vec<Labels>> {
    let mut all = BTreeMap::<_, Vec<_>>::new();
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let (series, _) = line.rsplit_once(' ').unwrap();
        let (name, inside) = series.split_once('{').unwrap_or((series, "}"));
        let pairs = inside.trim_end_matches('}').split(',').filter(|pair| !pair.is_empty());
        let pair = |pair: &str| {
            let (label, value) = pair.split_once('=').unwrap();
            (label.to_owned(), value.trim_matches('"').to_owned())
        };
        all.entry(name.to_owned()).or_default().push(pairs.map(pair).collect());
    }
    all
}

/// The labels of a family by the table of families.
fn documented(family: &str) -> Vec<String> {
    let manual = manual("metrics.md");
    let start = format!("| `{family}` | ");
    let row = manual.lines().find_map(|line| line.strip_prefix(&start));
    let labels = row.unwrap_or_else(|| panic!("no family {family}")).split_once('|').unwrap().0;
    let labels = labels.split(',').map(|label| label.trim().trim_matches('`').to_owned());
    labels.chain(["namespace".to_owned(), "pool".to_owned()]).collect()
}

/// What a picker does not tell of what is asked for.
fn missing(place: &Asked, told: &BTreeMap<String, Vec<Labels>>) -> Vec<String> {
    let mut problems = Vec::new();
    let groups = groups(&place.expression);
    for selector in selectors(&place.expression) {
        let seen = told.get(selector.name).map_or(&[][..], Vec::as_slice);
        let labels: Vec<String> = match seen.first() {
            Some(labels) => labels.keys().cloned().collect(),
            None if RARE.contains(&selector.name) => documented(selector.name),
            None => {
                problems.push(format!("{}: no {}", place.place, selector.name));
                continue;
            }
        };
        let grouped = groups.iter().filter(|label| !selector.joined && !TARGET.contains(label));
        let wanted = grouped.copied().chain(selector.matchers.iter().map(|(label, _)| *label));
        let unknown = wanted.filter(|label| !labels.iter().any(|known| known == label));
        problems.extend(unknown.map(|l| format!("{}: no {l} of {}", place.place, selector.name)));
        problems.extend(unheard(&selector, seen).map(|v| format!("{}: no {v}", place.place)));
    }
    problems
}

/// Values that a selector looks for, which neither the page nor the manual has.
fn unheard<'a>(
    selector: &'a Selector<'_>,
    seen: &'a [Labels],
) -> impl Iterator<Item = String> + 'a {
    let manual = manual("metrics.md");
    let word = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    let fixed = selector.matchers.iter().filter(|(_, value)| !value.starts_with('$'));
    let values = fixed.flat_map(|(label, values)| values.split('|').map(move |v| (*label, v)));
    let here = |(label, value): (&str, &str)| {
        seen.iter().any(|labels| labels.get(label).is_some_and(|seen| seen == value))
    };
    values
        .filter(move |pair| !here(*pair) && !manual.split(word).any(|word| word == pair.1))
        .map(|(label, value)| format!("{label}={value} of {}", selector.name))
}

#[tokio::test]
async fn every_series_and_label_that_is_asked_for_is_told() {
    let site = Site::start().await;
    let told = eventually(SOON, async || {
        site.chat().await?;
        let page = Client::http1(site.picker.metrics).get("/metrics").await?.text();
        let told = series(&page);
        let problems: Vec<_> = asked().iter().flat_map(|asked| missing(asked, &told)).collect();
        ensure!(problems.is_empty(), "{problems:#?}");
        Ok(told)
    });
    let told = told.await.unwrap();
    let asked = asked();
    for rare in RARE {
        assert!(!told.contains_key(rare), "{rare} is told at once: it is not rare");
        assert!(
            asked.iter().any(|asked| asked.expression.contains(rare)),
            "nobody asks for {rare}"
        );
    }
}

/// The folder of a real Prometheus; none where there is none, which is said, and an error under `CI=true`.
fn programs() -> Option<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/prometheus.sh");
    let output = Command::new(script).stderr(Stdio::inherit()).output().unwrap();
    if output.status.success() {
        return Some(String::from_utf8(output.stdout).unwrap().trim_end().into());
    }
    assert!(!std::env::var("CI").is_ok_and(|ci| ci == "true"), "Prometheus cannot be had");
    // A line that the test harness does not capture.
    std::io::stderr()
        .write_all(b"NOT RUN, no Prometheus: tests of manifests/monitoring\n")
        .unwrap();
    None
}

/// A folder with our rules as Prometheus reads them, and what is to become of made-up series by them.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("rules.yaml"), rules().to_string()).unwrap();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/alerts.yaml");
    fs::copy(data, folder.path().join("alerts.yaml")).unwrap();
    folder
}

#[test]
fn promtool_finds_the_alerts_good_and_they_come_when_they_should() {
    let Some(programs) = programs() else { return };
    let folder = folder();
    for what in [
        ["check", "rules", "--lint-fatal", "rules.yaml"].as_slice(),
        &["test", "rules", "alerts.yaml"],
    ] {
        let mut promtool = Command::new(programs.join("promtool"));
        let output = promtool.args(what).current_dir(folder.path()).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{what:?}: {}", String::from_utf8_lossy(&said));
    }
    let tests = fs::read_to_string(folder.path().join("alerts.yaml")).unwrap();
    for alert in asked().iter().filter(|asked| asked.alert) {
        let fires = format!("alertname=\"{}\"", alert.place);
        assert!(tests.contains(&fires), "{} is not shown to come", alert.place);
    }
}

/// A real Prometheus that reads the page of a picker.
struct Prometheus {
    _process: Process,
    address: SocketAddr,
}

impl Prometheus {
    fn start(programs: &Path, folder: &Path, page: SocketAddr) -> Self {
        let configuration = json!({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.yaml"],
            "scrape_configs": [{"job_name": "lodesman", "honor_labels": true, "static_configs":
                [{"targets": [page.to_string()], "labels": {"namespace": "default"}}]}],
        });
        fs::write(folder.join("prometheus.yml"), configuration.to_string()).unwrap();
        let address = free_address().unwrap();
        let mut command = Command::new(programs.join("prometheus"));
        command
            .current_dir(folder)
            .args(["--storage.tsdb.path=data", "--config.file=prometheus.yml"]);
        command.arg(format!("--web.listen-address={address}"));
        Self { _process: Process::spawn(command).unwrap(), address }
    }

    async fn ask(&self, path: &str) -> Result<Value> {
        let answer = Client::http1(self.address).get(path).await?;
        let json = answer.json().with_context(|| answer.text())?;
        ensure!(json["status"] == "success", "{path}: {json}");
        Ok(json["data"].clone())
    }

    /// How many series with a number answer an expression.
    async fn count(&self, expression: &str) -> Result<usize> {
        let mut encoded = String::new();
        for byte in expression.bytes() {
            write!(encoded, "%{byte:02X}")?;
        }
        let data = self.ask(&format!("/api/v1/query?query={encoded}")).await?;
        let series = data["result"].as_array().context("no list")?;
        Ok(series.iter().filter(|series| series["value"][1] != "NaN").count())
    }
}

// FR-149
#[tokio::test]
async fn every_panel_has_something_to_show_in_a_real_prometheus() {
    let Some(programs) = programs() else { return };
    let (folder, site) = (folder(), Site::start().await);
    let prometheus = Prometheus::start(&programs, folder.path(), site.picker.metrics);
    let of_panels = asked().into_iter().filter(|asked| !asked.alert);
    let expressions = of_panels.filter(|a| !RARE.iter().any(|rare| a.expression.contains(rare)));
    let chosen = [("$namespace", "default"), ("$pool", "epp"), ("$__rate_interval", "30s")];
    let mut count = 0;
    for Asked { place, expression, .. } in expressions {
        let filled =
            chosen.iter().fold(expression, |text, (name, value)| text.replace(name, value));
        let shows = eventually(SOON, async || {
            site.chat().await?;
            ensure!(prometheus.count(&filled).await? > 0, "{place}: nothing for {filled}");
            Ok(())
        });
        shows.await.unwrap();
        count += 1;
    }
    assert!(count > 40, "{count} expressions");
    let healthy = eventually(SOON, async || {
        let groups = prometheus.ask("/api/v1/rules").await?["groups"].clone();
        let rules = groups[0]["rules"].as_array().context("no rules")?;
        ensure!(rules.iter().all(|rule| rule["health"] == "ok"), "{rules:#?}");
        Ok(rules.len())
    });
    let alerts = asked().into_iter().filter(|asked| asked.alert).count();
    assert_eq!(healthy.await.unwrap(), alerts);
}
