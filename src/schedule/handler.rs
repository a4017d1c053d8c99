//! Profile handlers, one file each: which profile a request runs, and what stands before the endpoint it chooses.
//!
//! A configuration has one handler, and each of these runs one profile for a request.

use std::fmt::Debug;
use std::net::SocketAddr;

use crate::pool::Endpoint;
use crate::schedule::PickContext;

pub(in crate::schedule) mod data_parallel;
pub(in crate::schedule) mod header_profile;
pub(in crate::schedule) mod single_profile;

/// Chooses among profiles.
pub trait Handler: Debug + Send + Sync {
    /// The position of the profile that the request runs, by the names of all; none where it asks for one that is not
    /// there.
    fn choose(&self, cx: PickContext<'_>, names: &[Box<str>]) -> Option<usize>;

    /// Whether it can choose among several.
    fn chooses(&self) -> bool {
        false
    }

    /// The profile of requests that ask for none, which the configuration should have; none where it has not to have one.
    fn fallback(&self) -> Option<&str> {
        None
    }

    /// What stands between the gateway and the endpoints; none where the gateway reaches them itself.
    fn relay(&self) -> Option<Relay> {
        None
    }

    /// The headers that it reads, in lower case.
    fn headers(&self) -> Vec<&str> {
        Vec::new()
    }
}

/// A side car on each host, which sends a request on to the endpoint that the header [`Relay::HEADER`] names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relay {
    /// Its port.
    pub port: u16,
}

impl Relay {
    /// The request header that names the endpoint, `ip:port`.
    pub const HEADER: &str = "x-data-parallel-host-port";

    /// Where the gateway sends a request for this endpoint.
    pub fn address(self, endpoint: &Endpoint) -> SocketAddr {
        SocketAddr::new(endpoint.spec.address.ip(), self.port)
    }
}
