//! Prefers endpoints whose encoder has the request's images, clips and videos in its cache, as far as our own decisions
//! tell.
//!
//! `score = media that the endpoint was given / media of the request`, each counted once; 0.0 for all where the request has
//! none. An endpoint remembers as many as the `mm-embeddings-cache-producer` says, those that were used last. Own decisions
//! are never missing and never stale.

use serde::Deserialize;
use smallvec::SmallVec;

use crate::pool::{Endpoint, EndpointId, Slot};
use crate::prefix::Encoded;
use crate::schedule::registry::{Build, Plugin, parameters};
use crate::schedule::{Needs, PickContext, Scorer};

/// Candidates whose names are kept on the stack.
const USUAL_POOL: usize = 64;

pub(in crate::schedule) const PLUGIN: Plugin = Plugin {
    name: "mm-embeddings-cache-scorer",
    summary: "Prefers endpoints that were given the images, clips and videos of the request before.",
    needs: Needs::MEDIA,
    build: Build::Scorer(|raw| {
        parameters::<Parameters>(raw)?;
        Ok(Box::new(MmEmbeddingsCache::default()))
    }),
};

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Parameters {
    /// Name of the producer that says how much is remembered; the configuration finds it. Default: the listed one.
    #[serde(rename = "producerName")]
    _producer: Option<String>,
}

#[derive(Debug, Default)]
struct MmEmbeddingsCache {
    /// Bounded by the producer's settings for each slot of the pool.
    encoded: Encoded,
}

impl Scorer for MmEmbeddingsCache {
    fn score(&self, cx: PickContext<'_>, candidates: &[Slot], scores: &mut [f32]) {
        let media = &cx.signals.media;
        if media.hashes().is_empty() {
            return;
        }
        let id = |&slot: &Slot| cx.snapshot.endpoint(slot).map(|endpoint| endpoint.id);
        let ids: SmallVec<[Option<EndpointId>; USUAL_POOL]> = candidates.iter().map(id).collect();
        self.encoded.shares(media, &ids, scores);
    }

    fn placed(&self, cx: PickContext<'_>, _candidates: &[Slot], endpoint: &Endpoint) {
        self.encoded.record(endpoint.id, &cx.signals.media, cx.signals.media_kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Snapshot;
    use crate::prefix::Media;
    use crate::schedule::{Signals, fixture};
    use crate::server::clock;

    fn signals<const N: usize>(media: [u64; N]) -> Signals {
        Signals { media: Media::from(media), media_kept: 3, ..Signals::default() }
    }

    fn place<const N: usize>(
        scorer: &MmEmbeddingsCache,
        pool: &Snapshot,
        at: usize,
        media: [u64; N],
    ) {
        let (asked, signals) = (fixture::Asked::of(pool), signals(media));
        let cx = PickContext { signals: &signals, ..asked.cx(clock::now()) };
        scorer.placed(cx, pool.ready(), pool.endpoint(pool.ready()[at]).unwrap());
    }

    fn scores<const N: usize>(
        scorer: &MmEmbeddingsCache,
        pool: &Snapshot,
        media: [u64; N],
    ) -> Vec<f32> {
        let (asked, signals) = (fixture::Asked::of(pool), signals(media));
        let cx = PickContext { signals: &signals, ..asked.cx(clock::now()) };
        let mut rated = vec![0.0; pool.ready().len()];
        scorer.score(cx, pool.ready(), &mut rated);
        rated
    }

    #[test]
    fn the_score_is_the_share_of_the_media_that_the_endpoint_was_given() {
        let (scorer, pool) = (MmEmbeddingsCache::default(), fixture::snapshot(3));
        place(&scorer, &pool, 0, [1, 2]);
        place(&scorer, &pool, 1, [2]);
        assert_eq!(scores(&scorer, &pool, [1, 2]), [1.0, 0.5, 0.0]);
        assert_eq!(scores(&scorer, &pool, [2, 3, 4, 5]), [0.25, 0.25, 0.0]);
        assert_eq!(scores(&scorer, &pool, []), [0.0; 3]);
    }

    #[test]
    fn those_that_were_used_last_are_remembered() {
        let (scorer, pool) = (MmEmbeddingsCache::default(), fixture::snapshot(1));
        place(&scorer, &pool, 0, [1, 2, 3]);
        place(&scorer, &pool, 0, [1]);
        place(&scorer, &pool, 0, [4]);
        let has = [1, 2, 3, 4].map(|medium| scores(&scorer, &pool, [medium])[0] > 0.5);
        assert_eq!(has, [true, false, true, true]);
    }

    #[test]
    fn a_thousand_endpoints_and_none_are_scored() {
        let scorer = MmEmbeddingsCache::default();
        let pool = fixture::snapshot(1000);
        place(&scorer, &pool, 999, [7]);
        let rated = scores(&scorer, &pool, [7]);
        assert!(rated[999] > 0.5 && rated[..999].iter().all(|score| *score < 0.5));
        assert!(scores(&scorer, &fixture::snapshot(0), [7]).is_empty());
    }
}
