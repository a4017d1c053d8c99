//! Where endpoints are, as it is written.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// The longest name of the domain name system, in bytes.
const LONGEST_NAME: usize = 253;

/// An address, or a name that stands for any number of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// `10.0.0.1:8000` or `[fd00::1]:8000`.
    Ip(SocketAddr),
    /// To be resolved.
    Name(Name),
}

/// A name of the domain name system.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Name {
    /// `host:port`: its A records, or its AAAA records when it has none.
    Host {
        /// The name, without a dot at its end.
        host: String,
        /// The port of all its addresses.
        port: u16,
    },
    /// `_name._tcp.domain`, also after `srv+`: its SRV records, which name hosts and ports.
    Service(String),
}

/// Why a text is no address.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAddress {
    /// It is a host that needs a port.
    #[error("`{0}` has no port, give one as in host:8000 or [fd00::1]:8000")]
    Portless(String),
    /// Its port is none that can be asked.
    #[error("`{0}` has a port that is not between 1 and 65535")]
    Port(String),
    /// It is neither.
    #[error(
        "`{0}` is neither an IP address nor a host name nor a service such as _http._tcp.example"
    )]
    Neither(String),
}

impl Address {
    /// The address of a host or IP address (IPv6 in brackets or not) at a port, which a service does not need.
    ///
    /// # Errors
    /// When it is none, or lacks its port.
    pub fn at(host: &str, port: Option<u16>) -> Result<Self, BadAddress> {
        let neither = || BadAddress::Neither(host.to_owned());
        let service = host.strip_prefix("srv+").or_else(|| host.starts_with('_').then_some(host));
        if let Some(service) = service {
            let name = domain(service).filter(|name| name.starts_with('_')).ok_or_else(neither)?;
            return Ok(Self::Name(Name::Service(name)));
        }
        let port = port.ok_or_else(|| BadAddress::Portless(host.to_owned()));
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        if let Ok(ip) = bare.parse::<IpAddr>() {
            return Ok(Self::Ip(SocketAddr::new(ip, port?)));
        }
        let host = domain(host).ok_or_else(neither)?;
        Ok(Self::Name(Name::Host { host, port: port? }))
    }
}

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        if let Ok(address) = text.parse::<SocketAddr>()
            && address.port() > 0
        {
            return Ok(Self::Ip(address));
        }
        match text.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                Self::at(host, Some(self::port(port).map_err(|bad| bad(text.to_owned()))?))
            }
            _ => Self::at(text, None),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host { host, port } => write!(f, "{host}:{port}"),
            Self::Service(name) => f.write_str(name),
        }
    }
}

/// A port; else what an address with it is.
fn port(text: &str) -> Result<u16, fn(String) -> BadAddress> {
    match text.parse() {
        Ok(port @ 1..) => Ok(port),
        _ if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Err(BadAddress::Port)
        }
        _ => Err(BadAddress::Portless),
    }
}

/// A name in lower case and without the dot at its end; none when it is no name. One whose last label is a number is
/// an IP address with a mistake.
fn domain(text: &str) -> Option<String> {
    let name = text.strip_suffix('.').unwrap_or(text);
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last = name.rsplit('.').next().unwrap_or_default();
    let good = name.len() <= LONGEST_NAME
        && name.split('.').all(label)
        && !last.bytes().all(|byte| byte.is_ascii_digit());
    good.then(|| name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Address, BadAddress> {
        text.parse()
    }

    #[test]
    fn addresses_hosts_and_services_are_told_apart() {
        for text in ["10.0.0.1:8000", "[fd00::1]:8000"] {
            assert_eq!(read(text), Ok(Address::Ip(text.parse().unwrap())));
        }
        let host = Name::Host { host: "engines.prod.svc".to_owned(), port: 80 };
        assert_eq!(read("Engines.prod.svc.:80"), Ok(Address::Name(host)));
        let service = Address::Name(Name::Service("_http._tcp.engines".to_owned()));
        for text in ["_http._tcp.engines", "srv+_http._tcp.engines."] {
            assert_eq!(read(text).as_ref(), Ok(&service), "{text}");
        }
        assert_eq!(service.to_string(), "_http._tcp.engines");
    }

    #[test]
    fn what_is_none_is_refused() {
        for text in ["10.0.0.1", "engines", "[fd00::1]", "fd00::1", "host:http", "host:"] {
            assert!(matches!(read(text), Err(BadAddress::Portless(_))), "{text}: {:?}", read(text));
        }
        for text in
            ["host:0", "host:70000", "1.2.3.4:0", "1.2.3.4:99999", "[fd00::1]:0", "[fd00::1]:65536"]
        {
            assert_eq!(read(text), Err(BadAddress::Port(text.to_owned())));
        }
        for text in ["", "10.0.0.300:80", "a..b:80", "-a:80", "a b:80", "srv+engines", "fd00::g:80"]
        {
            assert!(matches!(read(text), Err(BadAddress::Neither(_))), "{text}: {:?}", read(text));
        }
        assert!(read(&format!("{}:80", "a.".repeat(127) + "a")).is_err());
    }

    #[test]
    fn a_host_of_a_file_may_be_an_address_in_brackets_or_not() {
        let expected = Ok(Address::Ip("[fd00::1]:80".parse().unwrap()));
        assert_eq!(Address::at("fd00::1", Some(80)), expected);
        assert_eq!(Address::at("[fd00::1]", Some(80)), expected);
    }
}
