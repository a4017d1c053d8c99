//! The block hashes of a prompt that comes in pieces.

use lodesman::prefix::{Hashing, Settings};
use lodesman::request::PromptPart;

use crate::json::PIECE_BYTES;
use crate::measure::Bench;

pub(crate) fn run(bench: &mut Bench) {
    let settings = Settings { chain_limit: usize::MAX, ..Settings::default() };
    for (case, bytes) in [("hash of 32 kB", 32_000), ("hash of 1 MB", 1_000_000)] {
        let text = vec![b'x'; bytes];
        bench.case(case, || {
            let mut hashing = Hashing::new(&settings, 1);
            for piece in text.chunks(PIECE_BYTES) {
                hashing.feed(PromptPart::Text(piece));
            }
            hashing.end(Some("m"), None)
        });
    }
}
