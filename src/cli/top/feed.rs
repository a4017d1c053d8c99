//! Asks the picker again and again, on a thread of its own, so that a picker that does not answer holds up no key.

use std::thread::JoinHandle;
use std::time::Duration;

use reqwest::{Client, Url};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::cli::control_runtime;
use crate::cli::failure::{Failure, fault, usage};
use crate::cli::remote::{answer, client, page};
use crate::director::Explanation;
use crate::server::overview::Overview;

use super::{PATIENCE, ask};

/// Answers that wait to be shown; more make the feed wait.
const QUEUE: usize = 8;

/// What came.
#[derive(Debug)]
pub(super) enum Heard {
    /// An overview, or why there is none.
    Overview(Result<Box<Overview>, String>),
    /// The decision of this id, or why it is not told.
    Decision(String, Result<Box<Explanation>, String>),
}

/// What asks; it ends with this value.
#[derive(Debug)]
pub(super) struct Feed {
    heard: mpsc::Receiver<Heard>,
    wishes: mpsc::Sender<String>,
    over: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Feed {
    /// Begins to ask.
    ///
    /// # Errors
    /// When the address is none, or the machine does not let us.
    pub(super) fn start(at: Url, interval: Duration) -> Result<Self, Failure> {
        page(&at, ["debug", "overview"], [])?;
        let client = client(&at, PATIENCE)?;
        let failed = |error: std::io::Error| fault(error.to_string());
        let runtime = control_runtime().map_err(failed)?;
        let (tell, heard) = mpsc::channel(QUEUE);
        let (wishes, asked) = mpsc::channel(QUEUE);
        let over = CancellationToken::new();
        let until = over.clone();
        let asking = async move {
            tokio::select! {
                () = until.cancelled() => {}
                () = follow((&client, &at), interval, (tell, asked)) => {}
            }
        };
        let thread = std::thread::Builder::new().name("feed".to_owned());
        let thread = thread.spawn(move || runtime.block_on(asking)).map_err(failed)?;
        Ok(Self { heard, wishes, over, thread: Some(thread) })
    }

    /// What came since the last call, one by one.
    pub(super) fn next(&mut self) -> Option<Heard> {
        self.heard.try_recv().ok()
    }

    /// Asks for a decision. One of so many that are waited for already is forgotten.
    pub(super) fn explain(&self, id: String) {
        let _full = self.wishes.try_send(id);
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.over.cancel();
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

async fn follow(
    (client, at): (&Client, &Url),
    interval: Duration,
    (tell, mut asked): (mpsc::Sender<Heard>, mpsc::Receiver<String>),
) {
    loop {
        let next = Instant::now() + interval;
        let overview =
            ask(client, at).await.map(Box::new).map_err(|failure| failure.message().to_owned());
        if tell.send(Heard::Overview(overview)).await.is_err() {
            return;
        }
        loop {
            let id = tokio::select! {
                () = sleep_until(next) => break,
                id = asked.recv() => id,
            };
            let Some(id) = id else { return };
            let decision = decision(client, at, &id).await;
            let decision = decision.map(Box::new).map_err(|failure| failure.message().to_owned());
            if tell.send(Heard::Decision(id, decision)).await.is_err() {
                return;
            }
        }
    }
}

async fn decision(client: &Client, at: &Url, id: &str) -> Result<Explanation, Failure> {
    let (id, one) = (id.to_owned(), "1".to_owned());
    let fields = [("id", Some(&id)), ("limit", Some(&one))];
    let page = page(at, ["debug", "decisions"], fields)?;
    let found: Result<Vec<Explanation>, _> = answer(client.get(page)).await?;
    let found = found.map_err(|refused| fault(refused.message))?;
    found.into_iter().next().ok_or_else(|| usage("the picker has forgotten this decision by now"))
}
