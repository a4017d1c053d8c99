//! What is found out about a request once, before its pass, for all plugins.
//!
//! A plugin's row says what it [`Needs`]; what no configured plugin needs is not computed.

use std::ops::BitOr;

use crate::prefix::{Hits, Media};
use crate::request::BytesPerToken;

/// Which signals a plugin reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs(u8);

impl Needs {
    /// None: the pool and the request are enough.
    pub const NONE: Self = Self(0);
    /// [`Signals::prefix`].
    pub const PREFIX: Self = Self(1);
    /// [`Signals::media`], which are found where prompts are hashed for [`Signals::prefix`].
    pub const MEDIA: Self = Self(2 | Self::PREFIX.0);

    /// Whether all of `others` are among them.
    pub fn contain(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }
}

impl BitOr for Needs {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The signals of one decision; their buffers stay from one to the next. What is not computed is empty.
#[derive(Debug, Default)]
pub struct Signals {
    /// How much of the prompt each endpoint has in its cache.
    pub prefix: Hits,
    /// Output tokens that the request is expected to generate; none where prompts alone count as load.
    pub output_tokens: Option<u64>,
    /// What stands for the session of the request; none where nothing names it.
    pub session: Option<u128>,
    /// The images, clips and videos of the prompt.
    pub media: Media,
    /// How many of them an endpoint's encoder is taken to keep.
    pub media_kept: usize,
    /// What text of the model is counted by; always there.
    pub bytes_per_token: BytesPerToken,
}
