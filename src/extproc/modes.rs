//! How a gateway sends bodies.

use crate::wire::ProtocolConfiguration;

/// How bodies of one direction are sent to us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyMode {
    /// Not at all.
    None,
    /// Piece by piece, each waiting for its answer; headers have gone on by then.
    Streamed,
    /// Whole, in one message, after the headers were answered.
    Buffered,
    /// The beginning, in one message, after the headers were answered.
    BufferedPartial,
    /// Piece by piece without waiting; what we do not send back does not reach the other side.
    #[default]
    FullDuplex,
}

/// The modes of both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::extproc) struct Modes {
    pub(in crate::extproc) request: BodyMode,
    pub(in crate::extproc) response: BodyMode,
}

impl Modes {
    /// As the gateway says; full duplex where it says nothing, or a mode that did not exist when this was written.
    pub(in crate::extproc) fn told(config: ProtocolConfiguration) -> Self {
        Self {
            request: BodyMode::of(config.request_body_mode),
            response: BodyMode::of(config.response_body_mode),
        }
    }
}

impl BodyMode {
    fn of(number: i32) -> Self {
        match number {
            0 => Self::None,
            1 => Self::Streamed,
            2 => Self::Buffered,
            3 => Self::BufferedPartial,
            _ => Self::FullDuplex,
        }
    }

    /// The value of the metric label `body_mode`.
    pub(in crate::extproc) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Streamed => "streamed",
            Self::Buffered => "buffered",
            Self::BufferedPartial => "buffered_partial",
            Self::FullDuplex => "full_duplex",
        }
    }

    /// Whether the headers wait for the body: then the answer to the body carries the decision.
    pub(in crate::extproc) fn holds_headers(self) -> bool {
        matches!(self, Self::Buffered | Self::BufferedPartial)
    }
}
