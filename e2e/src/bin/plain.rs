//! The server that Lodesman's transport is measured against; see [`lodesman_e2e::plain`].
#![expect(clippy::print_stdout, reason = "a command-line program")]

use anyhow::Result;
use tokio::net::TcpListener;

/// Serves on a free port of loopback, which it prints, until it is killed.
#[tokio::main]
async fn main() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("ready {}", listener.local_addr()?);
    lodesman_e2e::plain::serve(listener).await
}
