//! How the watches go, as metrics.

use std::sync::Arc;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, IntCounterVec, IntGauge, IntGaugeVec, Opts};

use super::fault::State;
use super::kind::{Kind, Progress};

/// Families whose values are read when the page is asked for.
pub struct Watches {
    kinds: Vec<Arc<Kind>>,
    states: IntGaugeVec,
    restarts: IntCounterVec,
    ages: GaugeVec,
    connected: IntGauge,
}

impl Watches {
    /// The families of the watches of some kinds.
    ///
    /// # Errors
    /// When a family is malformed, which a test excludes.
    pub(crate) fn new(
        kinds: Vec<Arc<Kind>>,
        namespace: &str,
        pool: &str,
    ) -> prometheus::Result<Self> {
        let ours = |name: &str, help: &str| {
            Opts::new(name, help).const_label("namespace", namespace).const_label("pool", pool)
        };
        Ok(Self {
            kinds,
            states: IntGaugeVec::new(
                ours(
                    "lodesman_watch_state",
                    "1 for the state in which the watch of a kind of objects is: starting, following, absent, \
                     forbidden, unreachable or failing.",
                ),
                &["kind", "state"],
            )?,
            restarts: IntCounterVec::new(
                ours(
                    "lodesman_watch_restarts_total",
                    "Faults after which the objects of a kind were listed anew.",
                ),
                &["kind", "reason"],
            )?,
            ages: GaugeVec::new(
                ours(
                    "lodesman_watch_last_event_age_seconds",
                    "Time since the API server last said something of a kind.",
                ),
                &["kind"],
            )?,
            connected: IntGauge::with_opts(ours(
                "lodesman_control_plane_connected",
                "1 while the API server answers.",
            ))?,
        })
    }

    fn vectors(&self) -> [&dyn Collector; 4] {
        [&self.states, &self.restarts, &self.ages, &self.connected]
    }

    fn show(&self, kind: &Kind, progress: &Progress) {
        for state in State::ALL {
            let shown = i64::from(state == progress.state);
            self.states.with_label_values(&[kind.name.as_str(), state.label()]).set(shown);
        }
        for (reason, count) in &progress.restarts {
            self.restarts.with_label_values(&[kind.name.as_str(), *reason]).inc_by(*count);
        }
        if let Some(heard) = progress.heard {
            let age = heard.elapsed().as_secs_f64();
            self.ages.with_label_values(&[kind.name.as_str()]).set(age);
        }
    }
}

impl Collector for Watches {
    fn desc(&self) -> Vec<&Desc> {
        self.vectors().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.restarts.reset();
        let mut states = Vec::with_capacity(self.kinds.len());
        for kind in &self.kinds {
            let progress = kind.progress();
            self.show(kind, &progress);
            states.push(progress.state);
        }
        let answered = states.iter().any(|state| *state != State::Starting);
        let silent = states.contains(&State::Unreachable);
        self.connected.set(i64::from(answered && !silent));
        self.vectors().into_iter().flat_map(Collector::collect).collect()
    }
}

impl std::fmt::Debug for Watches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watches").field("kinds", &self.kinds.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use prometheus::{Registry, TextEncoder};

    use super::*;
    use crate::k8s::fault::Fault;
    use crate::k8s::kind::Place;

    fn page(registry: &Registry) -> String {
        let page = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        page.replace(r#"namespace="prod",pool="p","#, "")
            .replace(r#"{namespace="prod",pool="p"}"#, "")
    }

    #[test]
    fn the_page_tells_states_faults_and_whether_there_is_an_api_server() {
        let place = Place { server: "".into(), namespace: "prod".into() };
        let kinds = ["pods", "others"].map(|plural| Kind::new(("", plural), None, &place, ""));
        let (watches, registry) = (Watches::new(kinds.to_vec(), "prod", "p"), Registry::new());
        registry.register(Box::new(watches.unwrap())).unwrap();
        let connected = |page: &str| page.contains("plane_connected 1\n");
        let before = page(&registry);
        assert!(before.contains(r#"watch_state{kind="pods",state="starting"} 1"#), "{before}");
        assert!(!connected(&before) && !before.contains("age_seconds{"), "{before}");
        kinds[0].following();
        kinds[1].failed(&Fault::malformed("x"));
        let after = page(&registry);
        assert!(after.contains(r#"watch_state{kind="pods",state="following"} 1"#), "{after}");
        assert!(after.contains(r#"watch_state{kind="pods",state="starting"} 0"#), "{after}");
        assert!(after.contains(r#"restarts_total{kind="others",reason="malformed"} 1"#), "{after}");
        assert!(connected(&after) && after.contains(r#"age_seconds{kind="pods","#), "{after}");
        kinds[0].failed(&Fault::silent(std::time::Duration::ZERO));
        assert!(!connected(&page(&registry)));
    }
}
