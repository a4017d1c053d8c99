//! Named tasks on two runtimes, and the order in which they stop.
//!
//! Streams run on the *data* runtime, all else on the *control* runtime with a thread of its own, so that scrapes and
//! pages do not delay decisions. A task that is to run for ever and ends stops the process.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinSet;

/// Which runtime a task is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plane {
    /// Streams of gateways.
    Data,
    /// Everything else.
    Control,
}

/// Runs tasks by name.
#[derive(Debug)]
pub(super) struct Supervisor {
    tasks: JoinSet<Ended>,
    data: Handle,
    control: Handle,
}

/// A task that ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// Its name.
    pub(super) name: &'static str,
    /// Why, when it failed.
    pub(super) error: Option<Arc<anyhow::Error>>,
}

impl Supervisor {
    /// No tasks yet.
    pub(super) fn new(data: Handle, control: Handle) -> Self {
        Self { tasks: JoinSet::new(), data, control }
    }

    /// Starts a task.
    pub(super) fn spawn(
        &mut self,
        plane: Plane,
        name: &'static str,
        task: impl Future<Output = anyhow::Result<()>> + Send + 'static,
    ) {
        let runtime = match plane {
            Plane::Data => &self.data,
            Plane::Control => &self.control,
        };
        let task = async move { Ended { name, error: task.await.err().map(Arc::new) } };
        self.tasks.spawn_on(task, runtime);
    }

    /// Starts a task that cannot fail.
    pub(super) fn run(
        &mut self,
        plane: Plane,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        self.spawn(plane, name, async move {
            task.await;
            Ok(())
        });
    }

    /// The next task to end; none when all have. A panic is an end without a name.
    pub(super) async fn ended(&mut self) -> Option<Ended> {
        let ended = self.tasks.join_next().await?;
        Some(ended.unwrap_or_else(|error| Ended {
            name: "a task",
            error: Some(Arc::new(anyhow::Error::new(error))),
        }))
    }

    /// Waits until the named task has ended, at most for `limit`; true when it has.
    pub(super) async fn wait_for(&mut self, name: &str, limit: Duration) -> bool {
        let wait = async { while self.ended().await.is_some_and(|ended| ended.name != name) {} };
        tokio::time::timeout(limit, wait).await.is_ok()
    }
}
