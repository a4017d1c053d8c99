//! Simulated model servers: one engine model in virtual time, and HTTP servers around it.
//!
//! [`engine`] is the model, without input, output or clock. [`Fleet`] runs one engine behind each
//! of a number of HTTP servers in this process, in real time: requests, tokens, usage, cache hits
//! and metrics are those of a real engine under the same load; only the text means nothing. Four
//! bytes of text are a token.
//!
//! `POST /sim/fault` with `{"kind": K}` breaks the server that is asked, with `"server": N`
//! another one, with `"all": true` the whole fleet. K is `slow` (with `"factor"`), `wedged`,
//! `metrics-frozen`, `metrics-hanging`, `metrics-error-500`, `metrics-garbage`, `metrics-endless`,
//! `error-500`, `down`, or `none` to repair. A server that is down is repaired through another one or through the port
//! of the fleet (`--admin-port`).
//!
//! `GET /sim/requests` lists the facts of the last 256 requests but for probes, scrapes and these
//! two; a request to a path that no engine has is answered with its own facts.

mod answer;
mod anthropic;
mod args;
mod ask;
mod denial;
mod driver;
pub mod engine;
mod fault;
mod http;
mod openai;
mod page;
mod prompt;
mod record;
mod server;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    io::{self, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use anyhow::Context;
use tokio::{net::TcpListener, sync::watch, task::JoinSet};

pub use self::{
    args::{EngineArgs, SimArgs, Slow},
    page::Dialect,
};
use self::{
    ask::Catalog,
    fault::Fault,
    server::{Server, Shared},
};

/// Attempts to find a port that is free at every address.
const PORT_ATTEMPTS: usize = 32;

/// Runs the servers until `shutdown`; prints `ready ADDRESS` for each once it listens, and
/// `admin ADDRESS` for the port of the fleet.
///
/// # Errors
/// When the arguments make no sense, an address cannot be had, or a server fails.
pub async fn run(args: SimArgs, shutdown: impl Future<Output = ()>) -> anyhow::Result<()> {
    let mut fleet = Fleet::start(&args).await?;
    announce(&fleet)?;
    tokio::select! {
        () = shutdown => Ok(()),
        failed = fleet.failed() => failed,
    }
}

/// Servers that run in this process; dropping it ends them at once.
pub struct Fleet {
    servers: Arc<[Arc<Server>]>,
    admin: Option<SocketAddr>,
    tasks: JoinSet<anyhow::Result<()>>,
}

impl Fleet {
    /// Binds and starts all servers; when it returns they accept connections.
    ///
    /// # Errors
    /// When the arguments make no sense, the page cannot be read or an address cannot be had.
    pub async fn start(args: &SimArgs) -> anyhow::Result<Self> {
        let specs = args.engine_specs()?;
        let listeners = bind(args).await?;
        let page = args.page.as_ref().map(std::fs::read_to_string).transpose();
        let shared = Arc::new(Shared {
            catalog: Catalog {
                models: args.models.clone(),
                loras: args.loras.clone(),
                seed: args.seed,
            },
            dialect: args.dialect,
            page: page.context("the recorded page cannot be read")?,
            faults: specs.iter().map(|_| watch::Sender::new(Fault::None)).collect(),
        });
        let mut tasks = JoinSet::new();
        let mut servers = Vec::with_capacity(specs.len());
        for (spec, (index, listener)) in specs.into_iter().zip(listeners.into_iter().enumerate()) {
            let place = (index, listener.local_addr()?);
            let server = Arc::new(Server::new(&shared, place, spec, args.time_scale)?);
            tasks.spawn(Arc::clone(&server).drive());
            tasks.spawn(Arc::clone(&server).serve(listener));
            servers.push(server);
        }
        let mut fleet = Self { servers: servers.into(), admin: None, tasks };
        if let Some(port) = args.admin_port {
            fleet.open_admin(port).await?;
        }
        Ok(fleet)
    }

    /// Addresses of the servers, in order.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.servers.iter().map(|server| server.address).collect()
    }

    /// Address of the port of the fleet, where there is one.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// Waits for a server to fail, and says why.
    async fn failed(&mut self) -> anyhow::Result<()> {
        self.tasks.join_next().await.context("no server")?.context("a server was ended")?
    }

    async fn open_admin(&mut self, port: u16) -> anyhow::Result<()> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        self.admin = Some(listener.local_addr()?);
        let servers = Arc::clone(&self.servers);
        self.tasks.spawn(async move {
            let healthy = watch::Sender::new(Fault::None);
            let handle = move |request| http::administer(Arc::clone(&servers), request);
            server::accept(listener, healthy.subscribe(), handle).await;
            Ok(())
        });
        Ok(())
    }
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fleet").field("addresses", &self.addresses()).finish_non_exhaustive()
    }
}

/// One line a server on standard output, for people and for scripts that wait for it.
fn announce(fleet: &Fleet) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for address in fleet.addresses() {
        writeln!(out, "ready {address}")?;
    }
    if let Some(address) = fleet.admin_address() {
        writeln!(out, "admin {address}")?;
    }
    out.flush()
}

/// Listeners at consecutive addresses on one port.
async fn bind(args: &SimArgs) -> anyhow::Result<Vec<TcpListener>> {
    let attempts = if args.port == 0 { PORT_ATTEMPTS } else { 1 };
    let mut last = None;
    for _ in 0..attempts {
        match bind_once(args).await {
            Ok(listeners) => return Ok(listeners),
            Err(error) => last = Some(error),
        }
    }
    Err(last.context("no attempt to bind")?)
}

async fn bind_once(args: &SimArgs) -> anyhow::Result<Vec<TcpListener>> {
    let mut port = args.port;
    let mut listeners = Vec::with_capacity(args.servers);
    for index in 0..args.servers {
        let address = SocketAddr::new(nth_address(args.address, index)?, port);
        let listener = TcpListener::bind(address).await;
        let listener = listener.with_context(|| format!("cannot listen at {address}"))?;
        port = listener.local_addr()?.port();
        listeners.push(listener);
    }
    Ok(listeners)
}

fn nth_address(first: IpAddr, index: usize) -> anyhow::Result<IpAddr> {
    let offset = u32::try_from(index)?;
    let next = match first {
        IpAddr::V4(ip) => {
            u32::from(ip).checked_add(offset).map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits)))
        }
        IpAddr::V6(ip) => u128::from(ip)
            .checked_add(u128::from(offset))
            .map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits))),
    };
    next.context("not so many addresses")
}
