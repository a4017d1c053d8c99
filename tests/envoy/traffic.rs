//! Clients that ask a gateway.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use http::Request;
use lodesman_e2e::client::Answer;
use lodesman_e2e::{Body, Client};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::stage::{CHAT, SOON, chat, is_whole};

/// The header in which [`send_all`] repeats the model, since servers remember no bodies.
pub(super) const MODEL: &str = "x-model";

/// Clients that send one chat request after the other until stopped.
pub(super) struct Load {
    answers: watch::Receiver<Vec<Answer>>,
    stop: watch::Sender<bool>,
    workers: JoinSet<()>,
}

impl Load {
    pub(super) fn start(client: Client, workers: usize) -> Self {
        Self::of(client, workers, &chat(4, true))
    }

    /// Clients that send this request.
    pub(super) fn of(client: Client, workers: usize, request: &Value) -> Self {
        let (sender, answers) = watch::channel(Vec::new());
        let (stop, stopped) = watch::channel(false);
        let mut set = JoinSet::new();
        for _ in 0..workers {
            set.spawn(ask(client, request.clone(), sender.clone(), stopped.clone()));
        }
        Self { answers, stop, workers: set }
    }

    /// Waits until `more` further requests were answered.
    pub(super) async fn pass(&mut self, more: usize) {
        let enough = self.answers.borrow().len() + more;
        self.until(|answers| answers.len() >= enough).await;
    }

    /// Waits until `count` answers in a row, all from now on, are whole.
    pub(super) async fn recover(&mut self, count: usize) {
        let begun = self.answers.borrow().len();
        self.until(|answers| {
            let row = answers[begun..].iter().rev().take_while(|answer| is_whole(answer));
            row.count() >= count
        })
        .await;
    }

    async fn until(&mut self, condition: impl Fn(&[Answer]) -> bool) {
        let met = self.answers.wait_for(|answers| condition(answers));
        drop(tokio::time::timeout(SOON, met).await.unwrap().unwrap());
    }

    /// Stops, and gives all answers.
    pub(super) async fn stop(mut self) -> Vec<Answer> {
        self.stop.send_replace(true);
        while let Some(worker) = self.workers.join_next().await {
            worker.unwrap();
        }
        self.answers.borrow().clone()
    }
}

async fn ask(
    client: Client,
    request: Value,
    answers: watch::Sender<Vec<Answer>>,
    stopped: watch::Receiver<bool>,
) {
    while !*stopped.borrow() {
        let answer = client.post(CHAT, &request).await.unwrap();
        answers.send_modify(|answers| answers.push(answer));
    }
}

/// Sends chat requests, so many at a time, and gives the answers in any order.
pub(super) async fn send_all(client: Client, workers: usize, bodies: Vec<Value>) -> Vec<Answer> {
    let mut shares = vec![Vec::new(); workers];
    for (at, body) in bodies.into_iter().enumerate() {
        shares[at % workers].push(body);
    }
    let mut set = JoinSet::new();
    for share in shares {
        set.spawn(async move {
            let mut answers = Vec::new();
            for body in share {
                let request = Request::post(CHAT).header(MODEL, body["model"].as_str().unwrap());
                let request = request.body(Body::full(body.to_string())).unwrap();
                answers.push(client.send(request).await.unwrap().collect().await);
            }
            answers
        });
    }
    set.join_all().await.concat()
}

/// The simulated server that answered, whole.
pub(super) fn server_of(answer: &Answer) -> SocketAddr {
    assert!(is_whole(answer), "{} {}", answer.status, answer.text());
    answer.header("x-sim-server").unwrap().parse().unwrap()
}

/// How many requests each simulated server answered, all of them whole; servers without any are left out.
pub(super) fn tally(answers: &[Answer]) -> BTreeMap<SocketAddr, usize> {
    answers.iter().fold(BTreeMap::new(), |mut tally, answer| {
        *tally.entry(server_of(answer)).or_default() += 1;
        tally
    })
}
