//! What a fault of ours means for a request.

use std::str::FromStr;

/// What a fault of ours means for a request that a filter should have guarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub enum FailureMode {
    /// Availability first: a failed filter is left out.
    FailOpen,
    /// Boundaries first: a failed filter refuses the request.
    #[default]
    FailClose,
}

impl FromStr for FailureMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "FailOpen" => Ok(Self::FailOpen),
            "FailClose" => Ok(Self::FailClose),
            _ => Err("give FailOpen or FailClose".to_owned()),
        }
    }
}
