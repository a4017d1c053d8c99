//! On which ports pods serve: as an InferencePool and the command line say it.

use std::collections::BTreeSet;
use std::str::FromStr;

/// The most ports of a pod, as the InferencePool has it.
const MOST_PORTS: usize = 8;

/// Ports of a pod, one endpoint for each: 1 to 8, none twice. Their order gives the endpoints their ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetPorts {
    ports: Vec<u16>,
    repeated: Option<u16>,
}

/// Why something is no list of ports.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// Too few or too many.
    #[error("{0} ports, give 1 to 8")]
    PortCount(usize),
    /// No number, or not of a port.
    #[error("{0:?} is no port, give 1 to 65535")]
    Port(String),
    /// The port is there already.
    #[error("port {0} is given twice")]
    Repeated(u16),
}

impl TargetPorts {
    /// The ports, each checked.
    ///
    /// # Errors
    /// When there are too few or too many, or one is out of range or there twice.
    pub fn new(numbers: &[i64]) -> Result<Self, TargetError> {
        let ports = Self::without_repeats(numbers)?;
        ports.repeated.map_or(Ok(ports), |port| Err(TargetError::Repeated(port)))
    }

    /// In order of rank.
    pub fn as_slice(&self) -> &[u16] {
        &self.ports
    }

    /// A port that a text gave twice and that counts once; none in those of a pool.
    pub fn repeated(&self) -> Option<u16> {
        self.repeated
    }

    fn without_repeats(numbers: &[i64]) -> Result<Self, TargetError> {
        let (mut ports, mut seen) = (Vec::with_capacity(numbers.len()), BTreeSet::new());
        let mut repeated = None;
        for number in numbers {
            let port = u16::try_from(*number).ok().filter(|port| *port > 0);
            let port = port.ok_or_else(|| TargetError::Port(number.to_string()))?;
            if seen.insert(port) {
                ports.push(port);
            } else {
                repeated = Some(port);
            }
        }
        if !(1..=MOST_PORTS).contains(&ports.len()) {
            return Err(TargetError::PortCount(ports.len()));
        }
        Ok(Self { ports, repeated })
    }
}

impl FromStr for TargetPorts {
    type Err = TargetError;

    /// Reads numbers with commas; one that is there twice counts once.
    fn from_str(text: &str) -> Result<Self, TargetError> {
        let number =
            |text: &str| text.trim().parse().ok().ok_or_else(|| TargetError::Port(text.to_owned()));
        Self::without_repeats(&text.split(',').map(number).collect::<Result<Vec<_>, _>>()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_keep_their_order_and_are_one_to_eight() {
        assert_eq!("8001, 8000".parse::<TargetPorts>().unwrap().as_slice(), [8001, 8000]);
        let refused = |numbers: &[i64]| TargetPorts::new(numbers).unwrap_err();
        assert_eq!(refused(&[]), TargetError::PortCount(0));
        assert_eq!(refused(&[1, 2, 3, 4, 5, 6, 7, 8, 9]), TargetError::PortCount(9));
        assert_eq!(refused(&[0]), TargetError::Port("0".to_owned()));
        assert_eq!(refused(&[65_536]), TargetError::Port("65536".to_owned()));
        assert_eq!(refused(&[80, 81, 80]), TargetError::Repeated(80));
        assert!("80,".parse::<TargetPorts>().is_err());
    }

    #[test]
    fn a_port_that_a_text_repeats_counts_once() {
        let ports: TargetPorts = "80,81,80".parse().unwrap();
        assert_eq!((ports.as_slice(), ports.repeated()), (&[80, 81][..], Some(80)));
        assert_eq!("80".parse::<TargetPorts>().unwrap().repeated(), None);
    }
}
