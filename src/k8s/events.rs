//! Kubernetes Events: what a person should act on, where `kubectl describe` shows it.
//!
//! They are best effort: notices wait in a short queue, what is told again counts up the Event that told it, and where we
//! may not write Events there are none. Only the leader writes them, at most 5 a second.

use std::collections::HashMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use super::fault::{Fault, State};
use super::lease::{Leader, Leadership};
use super::verdict::shortened;
use crate::metrics::LeaderMetrics;

/// Notices that wait; what comes beyond is lost.
pub const QUEUE: usize = 64;

/// Who tells, as an Event has it.
const CONTROLLER: &str = "lodesman";

/// Why the Event is told, as it has to say.
const ACTION: &str = "Observe";

/// From one Event to the next.
const PACE: Duration = Duration::from_millis(200);

/// What a Role must have.
const RULE: &str = "{apiGroups: [events.k8s.io], resources: [events], verbs: [create, patch]}";

/// Time for an answer.
const ANSWER: Duration = Duration::from_secs(10);

/// Before Events are tried again where they were refused.
const REFUSED: Duration = Duration::from_mins(10);

/// So long the same notice counts up an Event; as Kubernetes' own clients have it.
const SERIES: Duration = Duration::from_mins(6);

/// So many Events can be counted up; what comes beyond is told anew each time.
const REMEMBERED: usize = 256;

/// Characters of an object's name in the name of an Event, which can have 253.
const LONGEST_NAME: usize = 200;

/// What a person should know of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    /// The object, in the namespace of the pool.
    pub regarding: ObjectReference,
    /// In one word, upper camel case.
    pub reason: &'static str,
    /// In a sentence; beyond 1,000 bytes it is cut off.
    pub note: String,
}

/// Writes Events.
#[derive(Debug)]
pub struct Publisher {
    events: Api<Event>,
    /// The replica, as an Event has it.
    instance: String,
    leadership: Leadership,
    metrics: LeaderMetrics,
    /// By what they tell; at most [`REMEMBERED`].
    told: HashMap<Told, Event>,
    /// The result of the last write.
    result: &'static str,
    /// No Event is written before.
    refused_until: Option<Instant>,
}

/// What makes two notices the same: object, reason and note.
type Told = (Option<String>, &'static str, String);

impl Publisher {
    /// A publisher in this namespace; `instance` is the name of our pod.
    pub fn new(
        (client, namespace): (Client, &str),
        instance: String,
        leadership: Leadership,
        metrics: LeaderMetrics,
    ) -> Self {
        Self {
            events: Api::namespaced(client, namespace),
            instance,
            leadership,
            metrics,
            told: HashMap::default(),
            result: "written",
            refused_until: None,
        }
    }

    /// Writes notices while this replica leads; they wait while it is not known who does. Ends when there will be no more.
    pub async fn run(mut self, mut notices: mpsc::Receiver<Notice>) {
        while let Some(notice) = notices.recv().await {
            let refused = self.refused_until.is_some_and(|at| Instant::now() < at);
            if refused || !self.leads().await {
                continue;
            }
            let outcome = timeout(ANSWER, self.publish(notice)).await;
            let outcome = outcome.unwrap_or_else(|_| Err(Fault::silent(ANSWER)));
            self.note(outcome);
            sleep(PACE).await;
        }
    }

    /// Whether this replica leads, once it is known who does.
    async fn leads(&mut self) -> bool {
        let leader = match self.leadership.leader() {
            Leader::Unknown => self.leadership.changed_from(Leader::Unknown).await,
            known @ (Leader::Us | Leader::Other | Leader::Forbidden) => known,
        };
        leader == Leader::Us
    }

    async fn publish(&mut self, notice: Notice) -> Result<(), Fault> {
        let now = Timestamp::now();
        self.told.retain(|_, event| last_told(event).is_some_and(|at| now < at + SERIES));
        let told = (notice.regarding.uid.clone(), notice.reason, notice.note.clone());
        let event = match self.told.remove(&told) {
            Some(event) => self.count_up(event, now).await?,
            None => self.events.create(&PostParams::default(), &self.event(notice, now)).await?,
        };
        if self.told.len() < REMEMBERED {
            self.told.insert(told, event);
        }
        Ok(())
    }

    async fn count_up(&self, mut event: Event, now: Timestamp) -> kube::Result<Event> {
        let count = event.series.as_ref().map_or(2, |series| series.count.saturating_add(1));
        let series = EventSeries { count, last_observed_time: MicroTime(now) };
        let patch = Patch::Merge(json!({"series": series}));
        let name = event.metadata.name.as_deref().unwrap_or_default();
        self.events.patch(name, &PatchParams::default(), &patch).await?;
        event.series = Some(series);
        Ok(event)
    }

    fn event(&self, notice: Notice, now: Timestamp) -> Event {
        let Notice { regarding, reason, note } = notice;
        let object: String =
            regarding.name.iter().flat_map(|name| name.chars()).take(LONGEST_NAME).collect();
        let object = object.trim_end_matches(['.', '-']);
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{object}.{:x}", now.as_nanosecond())),
                namespace: regarding.namespace.clone(),
                ..ObjectMeta::default()
            },
            action: Some(ACTION.to_owned()),
            event_time: Some(MicroTime(now)),
            note: Some(shortened(note)),
            reason: Some(reason.to_owned()),
            regarding: Some(regarding),
            reporting_controller: Some(CONTROLLER.to_owned()),
            reporting_instance: Some(self.instance.clone()),
            type_: Some("Warning".to_owned()),
            ..Event::default()
        }
    }

    /// Takes note of an outcome. A change is logged once.
    fn note(&mut self, outcome: Result<(), Fault>) {
        let result = outcome.as_ref().map_or_else(|fault| fault.reason, |()| "written");
        self.metrics.events.with_label_values(&[result]).inc();
        if outcome.as_ref().is_err_and(|fault| fault.state == State::Forbidden) {
            self.refused_until = Some(Instant::now() + REFUSED);
        }
        let changed = std::mem::replace(&mut self.result, result) != result;
        match outcome {
            Ok(()) if changed => tracing::info!("events written again"),
            Err(Fault { text, .. }) if changed => {
                tracing::warn!(result, error = &*text, rule = RULE, "event not written");
            }
            Ok(()) | Err(_) => {}
        }
    }
}

fn last_told(event: &Event) -> Option<Timestamp> {
    let series = event.series.as_ref().map(|series| series.last_observed_time.0);
    series.or_else(|| event.event_time.as_ref().map(|time| time.0))
}

#[cfg(test)]
mod tests;
