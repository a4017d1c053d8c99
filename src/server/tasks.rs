//! A bounded set of tasks in which the oldest makes room.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Context, Poll};

use tokio::task::{AbortHandle, JoinError, JoinSet};

/// At most `limit` tasks; one more ends the oldest, so that slow peers cannot keep others out.
///
/// Dropping the set ends all of them.
#[derive(Debug)]
pub(super) struct Tasks<T> {
    running: JoinSet<T>,
    /// Oldest first; tasks that have ended stay until room is needed, so at most `limit` entries.
    oldest: VecDeque<AbortHandle>,
    limit: usize,
}

impl<T: Send + 'static> Tasks<T> {
    pub(super) fn new(limit: usize) -> Self {
        Self { running: JoinSet::new(), oldest: VecDeque::new(), limit }
    }

    pub(super) fn spawn(&mut self, task: impl Future<Output = T> + Send + 'static) {
        if self.oldest.len() >= self.limit {
            self.oldest.retain(|task| !task.is_finished());
        }
        if self.oldest.len() >= self.limit
            && let Some(oldest) = self.oldest.pop_front()
        {
            oldest.abort();
        }
        self.oldest.push_back(self.running.spawn(task));
    }

    /// The next task that ended; an evicted one is a [`JoinError`] that is cancelled.
    ///
    /// [`Poll::Pending`] also while there is no task: poll again after [`Tasks::spawn`].
    pub(super) fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, JoinError>> {
        match self.running.poll_join_next(cx) {
            Poll::Ready(Some(ended)) => Poll::Ready(ended),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
    /// As [`Tasks::poll_ended`].
    pub(super) async fn ended(&mut self) -> Result<T, JoinError> {
        poll_fn(|cx| self.poll_ended(cx)).await
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn one_task_too_many_ends_the_oldest() {
        let mut tasks = Tasks::new(2);
        let (first_alive, mut first) = oneshot::channel::<()>();
        tasks.spawn(async move {
            let _alive = first_alive;
            pending().await
        });
        tasks.spawn(async { 2 });
        assert_eq!(tasks.ended().await.unwrap(), 2);
        tasks.spawn(pending());
        assert!(first.try_recv().is_err_and(|e| e == oneshot::error::TryRecvError::Empty));
        tasks.spawn(async { 4 });
        assert!(tasks.ended().await.is_err_and(|error| error.is_cancelled()));
        assert!(first.await.is_err(), "the first task is gone");
        assert_eq!(tasks.ended().await.unwrap(), 4);
    }
}
