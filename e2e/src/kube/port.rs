//! A loopback port that stays ours while its server comes and goes.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context, Result};
use socket2::{Domain, Socket, Type};

/// A port bound for life. The socket shares the port (`SO_REUSEPORT`) with the server that will have
/// it and never listens: no other program can be given the port, and while the server is down,
/// connections are refused.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) address: SocketAddr,
    _socket: Socket,
}

impl Port {
    /// Takes a port of the kernel's choice.
    pub(super) fn reserve() -> Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.set_reuse_port(true)?;
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
        let address = socket.local_addr()?.as_socket().context("no address")?;
        Ok(Self { address, _socket: socket })
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn reserved_port_refuses_until_a_server_shares_it() {
        let port = Port::reserve().unwrap();
        assert!(TcpStream::connect(port.address).is_err());
        let server = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        server.set_reuse_port(true).unwrap();
        server.bind(&port.address.into()).unwrap();
        server.listen(1).unwrap();
        TcpStream::connect(port.address).unwrap();
    }
}
