//! Passes connections on to a server, and cuts them when that is wanted.

use std::io;
use std::net::SocketAddr;

use anyhow::Result;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// A way to a server that can be cut. Dropping it cuts it for good.
#[derive(Debug)]
pub struct Relay {
    /// Where it takes connections.
    pub address: SocketAddr,
    cut: watch::Sender<()>,
    _task: JoinSet<()>,
}

impl Relay {
    /// A way to `to` from an address of its own: port 0 is one of the kernel's choice.
    ///
    /// # Errors
    /// When it cannot listen there.
    pub async fn start(at: SocketAddr, to: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind(at).await?;
        let address = listener.local_addr()?;
        let (cut, cuts) = watch::channel(());
        let mut task = JoinSet::new();
        task.spawn(forward(listener, to, cuts));
        Ok(Self { address, cut, _task: task })
    }

    /// Ends all connections that are open; new ones are taken.
    pub fn cut(&self) {
        self.cut.send_replace(());
    }
}

async fn forward(listener: TcpListener, to: SocketAddr, cuts: watch::Receiver<()>) {
    let mut connections = JoinSet::new();
    while let Ok((near, _)) = listener.accept().await {
        let mut cut = cuts.clone();
        cut.mark_unchanged();
        connections.spawn(async move {
            tokio::select! {
                // That a connection breaks is seen at both of its ends.
                _broken = pass(near, to) => {}
                _cut = cut.changed() => {}
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn pass(mut near: TcpStream, to: SocketAddr) -> io::Result<()> {
    let mut far = TcpStream::connect(to).await?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    copy_bidirectional(&mut near, &mut far).await.map(drop)
}
