//! One simulated server: its parts, its listener, its connections.

use std::{collections::VecDeque, convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context;
use axum::body::Body;
use http::{Request, Response};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::sleep,
};

use super::{
    ask::Catalog, driver::Driver, engine::EngineSpec, fault::Fault, page::Dialect, record::Record,
};

/// Connections to one server at once; at the bound new ones wait in the listener's queue.
const MAX_CONNECTIONS: usize = 8_192;

/// Bytes of a request head; larger ones are refused.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// Requests that are remembered; the oldest goes first.
const MAX_RECORDS: usize = 256;

/// What all servers of a fleet have in common.
pub(super) struct Shared {
    pub(super) catalog: Catalog,
    pub(super) dialect: Dialect,
    /// A recorded metrics page.
    pub(super) page: Option<String>,
    /// What is wrong with each server.
    pub(super) faults: Vec<watch::Sender<Fault>>,
}

/// One server.
pub(super) struct Server {
    pub(super) index: usize,
    pub(super) address: SocketAddr,
    pub(super) shared: Arc<Shared>,
    pub(super) driver: Driver,
    fault: watch::Receiver<Fault>,
    records: Mutex<VecDeque<Record>>,
    /// The metrics page as it was when frozen.
    pub(super) frozen: Mutex<Option<String>>,
}

impl Server {
    /// The server `index` of a fleet, not yet listening.
    pub(super) fn new(
        shared: &Arc<Shared>,
        (index, address): (usize, SocketAddr),
        spec: EngineSpec,
        time_scale: f64,
    ) -> anyhow::Result<Self> {
        let fault = shared.faults.get(index).context("a server has its fault")?.subscribe();
        Ok(Self {
            index,
            address,
            shared: Arc::clone(shared),
            driver: Driver::new(spec, time_scale),
            fault,
            records: Mutex::default(),
            frozen: Mutex::default(),
        })
    }

    pub(super) fn fault(&self) -> Fault {
        *self.fault.borrow()
    }

    pub(super) fn record(&self, record: Record) {
        let mut records = self.records.lock();
        if records.len() >= MAX_RECORDS {
            records.pop_front();
        }
        records.push_back(record);
    }

    /// The latest requests, oldest first.
    pub(super) fn records(&self) -> Vec<Record> {
        self.records.lock().iter().cloned().collect()
    }

    /// Steps the engine.
    pub(super) async fn drive(self: Arc<Self>) -> anyhow::Result<()> {
        self.driver.run(self.fault.clone()).await
    }

    /// Serves until dropped; while the server is down nothing listens at its address.
    pub(super) async fn serve(self: Arc<Self>, mut listener: TcpListener) -> anyhow::Result<()> {
        let mut fault = self.fault.clone();
        loop {
            let server = Arc::clone(&self);
            let handle = move |request| super::http::respond(Arc::clone(&server), request);
            accept(listener, self.fault.clone(), handle).await;
            self.driver.restart();
            fault.wait_for(|fault| *fault != Fault::Down).await?;
            listener = TcpListener::bind(self.address).await?;
        }
    }
}

/// Accepts and serves connections until `fault` is [`Fault::Down`]; then closes the listener and
/// resets the connections.
pub(super) async fn accept<H, F>(
    listener: TcpListener,
    mut fault: watch::Receiver<Fault>,
    handle: H,
) where
    H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let mut connections = JoinSet::new();
    let down = fault.clone();
    loop {
        tokio::select! {
            () = is_down(&mut fault) => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                Ok((tcp, _)) => {
                    connections.spawn(connection(tcp, down.clone(), handle.clone()));
                }
                // Out of descriptors: some connection will give one back.
                Err(_) => sleep(Duration::from_millis(10)).await,
            },
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn connection<H, F>(tcp: TcpStream, mut fault: watch::Receiver<Fault>, handle: H)
where
    H: Fn(Request<Incoming>) -> F + Send + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    // Without it the tokens of a stream would wait for one another.
    tcp.set_nodelay(true).unwrap_or_default();
    let service = service_fn(move |request| {
        let response = handle(request);
        async move { Ok::<_, Infallible>(response.await) }
    });
    let mut serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(tcp), service);
    tokio::select! {
        // How a connection ends is the client's matter.
        _ = &mut serving => {}
        () = is_down(&mut fault) => {
            let tcp = serving.into_parts().io.into_inner();
            tcp.set_zero_linger().unwrap_or_default();
        }
    }
}

/// Returns once the server is down; never, once the fleet is gone.
async fn is_down(fault: &mut watch::Receiver<Fault>) {
    if fault.wait_for(|fault| *fault == Fault::Down).await.is_err() {
        std::future::pending::<()>().await;
    }
}
