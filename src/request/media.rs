//! What an image, audio clip or video in a prompt stands for: a digest and an estimated number of tokens.
//!
//! The estimates are the defaults of the reference's token producer: an image of unknown size has 640 × 360 pixels
//! and a token per 1024 of them, a video is 10 s at 2 frames per second, audio has a token per 4 bytes.

use std::hash::{DefaultHasher, Hasher};

const IMAGE_TOKENS: u64 = 640 * 360 / 1024;
const VIDEO_TOKENS: u64 = 10 * 2 * IMAGE_TOKENS;
const AUDIO_BYTES_PER_TOKEN: u64 = 4;
/// Most tokens that one medium is taken for, so that a large upload stays cheap to stand in for.
const MAX_TOKENS: u64 = 32_768;

/// The kind of a medium.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Medium {
    Image,
    Video,
    Audio,
    /// Named by a hash, its tokens are given elsewhere.
    Hash,
}

/// Digest of one reference (URL or payload) as it arrives. Nothing of it is kept.
#[derive(Clone, Debug, Default)]
pub(super) struct Reference {
    hasher: DefaultHasher,
    length: u64,
}

impl Reference {
    pub(super) fn add(&mut self, part: &[u8]) {
        self.hasher.write(part);
        self.length += part.len() as u64;
    }

    /// Tokens that a medium of this kind costs, 1 at least.
    pub(super) fn tokens(&self, medium: Medium) -> u64 {
        match medium {
            Medium::Image => IMAGE_TOKENS,
            Medium::Video => VIDEO_TOKENS,
            Medium::Audio => (self.length / AUDIO_BYTES_PER_TOKEN).clamp(1, MAX_TOKENS),
            Medium::Hash => 1,
        }
    }

    /// Gives `emit` 4 bytes of digest per token, in few parts.
    pub(super) fn stand_in(&self, tokens: u64, mut emit: impl FnMut(&[u8])) {
        let [a, b, c, d, ..] = self.hasher.finish().to_le_bytes();
        let mut block = [0; 256];
        block.as_chunks_mut().0.fill([a, b, c, d]);
        let mut left = usize::try_from(tokens * 4).unwrap_or(usize::MAX);
        while left > 0 {
            let length = left.min(block.len());
            emit(block.get(..length).unwrap_or_default());
            left -= length;
        }
    }
}
