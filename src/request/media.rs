//! What an image, audio clip or video in a prompt stands for: a digest and an estimated number of tokens.
//!
//! The estimates are the defaults of the reference's token producer: an image has a token per 1024 pixels, 640 × 360
//! of them if its size is not known; a video is 10 s at 2 such images per second; audio has a token per 4 bytes.

use std::hash::{DefaultHasher, Hasher};

use base64::{Engine, engine::general_purpose::STANDARD};
use smallvec::SmallVec;

const PIXELS_PER_TOKEN: u64 = 1024;
const DEFAULT_PIXELS: u64 = 640 * 360;
const VIDEO_IMAGES: u64 = 10 * 2;
const AUDIO_BYTES_PER_TOKEN: u64 = 4;
/// Most tokens that one medium is taken for, so that a large upload stays cheap to stand in for.
const MAX_TOKENS: u64 = 32_768;
/// The beginning of a reference that is kept: enough for the head of a PNG or GIF, and of a JPEG without metadata.
const HEAD: usize = 512;

/// The kind of a medium.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Medium {
    Image,
    Video,
    Audio,
    /// Named by a hash, its tokens are given elsewhere.
    Hash,
}

/// Digest of one reference (URL or payload) as it arrives.
#[derive(Clone, Default)]
pub(super) struct Reference {
    hasher: DefaultHasher,
    length: u64,
    head: SmallVec<[u8; 32]>,
}

impl Reference {
    pub(super) fn add(&mut self, part: &[u8]) {
        self.hasher.write(part);
        self.length += part.len() as u64;
        let room = HEAD - self.head.len().min(HEAD);
        self.head.extend_from_slice(part.get(..room).unwrap_or(part));
    }

    /// Tokens that a medium of this kind costs, 1 at least.
    pub(super) fn tokens(&self, medium: Medium) -> u64 {
        let tokens = match medium {
            Medium::Image => self.pixels().unwrap_or(DEFAULT_PIXELS) / PIXELS_PER_TOKEN,
            Medium::Video => VIDEO_IMAGES * (DEFAULT_PIXELS / PIXELS_PER_TOKEN),
            Medium::Audio => self.length / AUDIO_BYTES_PER_TOKEN,
            Medium::Hash => 1,
        };
        tokens.clamp(1, MAX_TOKENS)
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

    /// Size of an image that is given in place, as base64 with or without `data:…;base64,` before it.
    fn pixels(&self) -> Option<u64> {
        let comma = self.head.iter().position(|byte| *byte == b',');
        let text = self.head.get(comma.map_or(0, |comma| comma + 1)..)?;
        let text = text.get(..text.len() / 4 * 4)?;
        let (width, height) = dimensions(&STANDARD.decode(text).ok()?)?;
        Some(u64::from(width) * u64::from(height))
    }
}

/// Width and height from the head of a PNG, GIF or JPEG file.
fn dimensions(file: &[u8]) -> Option<(u32, u32)> {
    let le16 = |at: usize| Some(u16::from_le_bytes(*file.get(at..)?.first_chunk()?).into());
    let be32 = |at: usize| Some(u32::from_be_bytes(*file.get(at..)?.first_chunk()?));
    match file {
        [0x89, b'P', b'N', b'G', ..] => Some((be32(16)?, be32(20)?)),
        [b'G', b'I', b'F', b'8', ..] => Some((le16(6)?, le16(8)?)),
        [0xff, 0xd8, segments @ ..] => jpeg_dimensions(segments),
        _ => None,
    }
}

/// Looks for the frame header among the segments: `ff`, marker, length (with itself), then precision, height, width.
fn jpeg_dimensions(mut segments: &[u8]) -> Option<(u32, u32)> {
    loop {
        let be16 = |at: usize| Some(u16::from_be_bytes(*segments.get(at..)?.first_chunk()?));
        let &[0xff, marker, ..] = segments else { return None };
        // The start-of-frame markers; c4, c8 and cc are tables.
        if matches!(marker, 0xc0..=0xcf) && !matches!(marker, 0xc4 | 0xc8 | 0xcc) {
            return Some((be16(7)?.into(), be16(5)?.into()));
        }
        segments = segments.get(2 + usize::from(be16(2)?.max(2))..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(prefix: &str, file: &[u8]) -> u64 {
        let mut reference = Reference::default();
        let text = format!("{prefix}{}", STANDARD.encode([file, &[0; 900]].concat()));
        for part in text.as_bytes().chunks(7) {
            reference.add(part);
        }
        reference.tokens(Medium::Image)
    }

    #[test]
    fn size_of_an_image_in_place_is_read() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x04\0\0\0\x02\0";
        assert_eq!(tokens("data:image/png;base64,", png), 512);
        assert_eq!(tokens("", png), 512);
        let gif = b"GIF89a\0\x04\0\x01";
        assert_eq!(tokens("data:image/gif;base64,", gif), 256);
        let jpeg = b"\xff\xd8\xff\xe0\0\x04JF\xff\xdb\0\x03q\xff\xc0\0\x11\x08\x02\0\x04\0";
        assert_eq!(tokens("data:image/jpeg;base64,", jpeg), 512);
    }

    #[test]
    fn unknown_or_absurd_sizes_are_estimated_within_bounds() {
        assert_eq!(tokens("data:image/webp;base64,", b"RIFF"), 225);
        assert_eq!(
            tokens("", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\xff\xff\xff\xff\xff\xff\xff\xff"),
            32_768
        );
        assert_eq!(tokens("", b"GIF89a\x01\0\x01\0"), 1);
        assert_eq!(tokens("", b"\xff\xd8\xff\xe0\0\0"), 225);
        let mut url = Reference::default();
        url.add(b"https://example.com/a,b.png");
        assert_eq!(url.tokens(Medium::Image), 225);
        assert_eq!((url.tokens(Medium::Video), url.tokens(Medium::Audio)), (4500, 6));
    }

    #[test]
    fn stand_in_has_four_bytes_per_token_and_tells_references_apart() {
        let stand_in = |reference: &str| {
            let mut digest = Reference::default();
            digest.add(reference.as_bytes());
            let mut bytes = Vec::new();
            digest.stand_in(225, |part| bytes.extend_from_slice(part));
            bytes
        };
        assert_eq!(stand_in("a").len(), 900);
        assert_eq!(stand_in("a"), stand_in("a"));
        assert_ne!(stand_in("a"), stand_in("b"));
    }
}
