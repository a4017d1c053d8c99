//! Which endpoint was given which images, clips and videos: its encoder may have their embeddings in its cache.
//!
//! A medium is known by the digest of its reference (URL or payload) that stands for it in the prompt, hashed under the
//! secret seed of the prompts. The same reference is the same medium; one that is twice in a prompt counts once.

use parking_lot::Mutex;
use smallvec::SmallVec;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::pool::EndpointId;
use crate::prefix::lru::Lru;

/// Media of a prompt that are looked at.
const MOST: usize = 64;

/// Bytes of a digest, repeated for every token that its medium is taken to cost.
const DIGEST: usize = 4;

/// Sets the hashes of media apart from those of text.
const MEDIA: u64 = 0x006d_6564_6961;

/// The distinct media of a prompt by their hashes, in the order in which they come; the first 64 of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Media(SmallVec<[u64; 4]>);

impl Media {
    /// The hashes.
    pub fn hashes(&self) -> &[u64] {
        &self.0
    }

    /// Takes a part of a medium's stand-in, which is its digest over and over.
    pub(super) fn add(&mut self, stand_in: &[u8], seed: u64) {
        let Some(digest) = stand_in.get(..DIGEST) else { return };
        let hash = xxh3_64_with_seed(digest, seed ^ MEDIA);
        if self.0.len() < MOST && !self.0.contains(&hash) {
            self.0.push(hash);
        }
    }
}

impl<const N: usize> From<[u64; N]> for Media {
    fn from(hashes: [u64; N]) -> Self {
        Self(hashes.into_iter().collect())
    }
}

/// The media that endpoints were given, as their caches keep them: those that were used last.
#[derive(Debug, Default)]
pub struct Encoded {
    /// By slot, of the endpoint that had it last; as many as the pool has slots. Locked for a few looks.
    caches: Mutex<Vec<Option<(EndpointId, Lru)>>>,
}

impl Encoded {
    /// Writes which share of the media each endpoint has; nothing where there are none.
    pub fn shares(&self, media: &Media, endpoints: &[Option<EndpointId>], shares: &mut [f32]) {
        let (hashes, caches) = (media.hashes(), self.caches.lock());
        let has = |id: &EndpointId| {
            let (of, cache) = caches.get(id.slot.index())?.as_ref()?;
            (of == id).then(|| hashes.iter().filter(|&&hash| cache.has(hash)).count())
        };
        for (share, id) in shares.iter_mut().zip(endpoints) {
            let has = id.as_ref().and_then(has).unwrap_or(0);
            *share = has as f32 / hashes.len().max(1) as f32;
        }
    }

    /// An endpoint, which keeps at most `most` media, is given these.
    pub fn record(&self, id: EndpointId, media: &Media, most: usize) {
        if media.hashes().is_empty() {
            return;
        }
        let mut caches = self.caches.lock();
        let at = id.slot.index();
        if caches.len() <= at {
            caches.resize_with(at + 1, || None);
        }
        let Some(place) = caches.get_mut(at) else { return };
        if place.as_ref().is_none_or(|(of, _)| *of != id) {
            *place = Some((id, Lru::new()));
        }
        let Some((_, cache)) = place else { return };
        for &hash in media.hashes() {
            cache.touch(hash);
        }
        while cache.len() > most {
            cache.pop_oldest();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prefix::{Chain, Hashing, Settings};
    use crate::request::{Api, Scan};

    fn hashed(body: &str, seed: u64, media: bool) -> Chain {
        let settings = Settings { media, ..Settings::default() };
        let mut hashing = Hashing::new(&settings, seed);
        let mut scan = Scan::new(Some(Api::ChatCompletions));
        for piece in body.as_bytes().chunks(7) {
            scan.feed(piece, &mut |part| hashing.feed(part));
        }
        hashing.end(Some("llama"), None)
    }

    fn media(urls: &[&str]) -> Media {
        hashed(&body(urls), 7, true).media().clone()
    }

    fn body(urls: &[&str]) -> String {
        let part = |url: &&str| format!(r#"{{"type":"image_url","image_url":{{"url":"{url}"}}}}"#);
        let parts: Vec<_> = urls.iter().map(part).collect();
        format!(r#"{{"messages":[{{"role":"user","content":[{}]}}]}}"#, parts.join(","))
    }

    #[test]
    fn media_are_told_apart_wherever_they_stand_and_counted_once() {
        let (a, b) = (media(&["https://a/1.png"]), media(&["https://a/2.png"]));
        assert_eq!((a.hashes().len(), b.hashes().len()), (1, 1));
        assert_ne!(a, b);
        let both = media(&["https://a/1.png", "https://a/2.png", "https://a/1.png"]);
        assert_eq!(both.hashes(), [a.hashes(), b.hashes()].concat());
    }

    #[test]
    fn they_are_hashed_under_the_seed_and_only_when_asked_for() {
        let body = body(&["https://a/1.png"]);
        assert_ne!(hashed(&body, 7, true).media(), hashed(&body, 8, true).media());
        assert_eq!(hashed(&body, 7, false).media(), &Media::default());
        assert_eq!(hashed(&body, 7, true).hashes(), hashed(&body, 7, false).hashes());
        assert_eq!(media(&[]), Media::default());
    }

    #[test]
    fn of_many_the_first_count() {
        let urls: Vec<_> = (0..100).map(|n| format!("https://a/{n}.png")).collect();
        let urls: Vec<_> = urls.iter().map(String::as_str).collect();
        assert_eq!(media(&urls), media(&urls[..MOST]));
        assert_eq!(media(&urls).hashes().len(), MOST);
    }

    #[test]
    fn a_slot_that_another_endpoint_has_now_knows_nothing() {
        let snapshot = crate::schedule::fixture::snapshot(1);
        let id = snapshot.endpoints().next().unwrap().id;
        let (encoded, media, mut shares) = (Encoded::default(), Media::from([1, 2]), [0.0; 2]);
        encoded.record(id, &media, 10);
        let later = EndpointId { epoch: id.epoch + 1, ..id };
        encoded.shares(&media, &[Some(id), Some(later)], &mut shares);
        assert_eq!(shares.map(f32::to_bits), [1.0_f32, 0.0].map(f32::to_bits));
        encoded.record(later, &Media::from([2]), 10);
        encoded.shares(&media, &[Some(id), Some(later)], &mut shares);
        assert_eq!(shares.map(f32::to_bits), [0.0_f32, 0.5].map(f32::to_bits));
    }
}
