//! Named tasks on two runtimes, and the order in which they stop.
//!
//! Streams run on the *data* runtime, all else on the *control* runtime with a thread of its own, so that scrapes and
//! pages do not delay decisions. A task that is to run for ever and ends stops the process.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Which runtime a task is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plane {
    /// Streams of gateways.
    Data,
    /// Everything else.
    Control,
}

/// The phases of a stop, each begun by a token.
#[derive(Clone, Debug, Default)]
pub struct Phases {
    /// Not ready any more; requests are served as before.
    pub drain: CancellationToken,
    /// No new streams; open ones go on.
    pub close: CancellationToken,
}

/// Runs tasks by name.
#[derive(Debug)]
pub struct Supervisor {
    tasks: JoinSet<Ended>,
    data: Handle,
    control: Handle,
}

/// A task that ended.
#[derive(Debug)]
pub struct Ended {
    /// Its name.
    pub name: &'static str,
    /// Why, when it failed.
    pub error: Option<Arc<anyhow::Error>>,
}

impl Supervisor {
    /// No tasks yet.
    pub fn new(data: Handle, control: Handle) -> Self {
        Self { tasks: JoinSet::new(), data, control }
    }

    /// Starts a task.
    pub fn spawn(
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
    pub fn run(
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
    pub async fn ended(&mut self) -> Option<Ended> {
        let ended = self.tasks.join_next().await?;
        Some(ended.unwrap_or_else(|error| Ended {
            name: "a task",
            error: Some(Arc::new(anyhow::Error::new(error))),
        }))
    }

    /// Waits until the named task has ended, at most for `limit`; true when it has.
    pub async fn wait_for(&mut self, name: &str, limit: Duration) -> bool {
        let wait = async {
            while let Some(ended) = self.ended().await {
                if ended.name == name {
                    return;
                }
            }
        };
        tokio::time::timeout(limit, wait).await.is_ok()
    }
}
