//! Block hashes of a prompt, made while its body arrives.
//!
//! Text is taken 4 bytes to the token, as the reference's estimate does. The hash of a block is the XXH3 of its bytes under
//! a secret, hashed again with the hash before it as the seed, so equal hashes mean equal beginnings. Tools, system text and instructions that
//! have a field of their own come first, as servers put them, wherever they stand in the body: clients mostly write
//! them last. Model and salt may stand behind the prompt too. So neither is part of the chain of the messages: their
//! hash is combined with every link at the end. Whole blocks count alone, other than in the reference: a rest saves
//! next to nothing, and as a block it would draw all requests of one short text to one endpoint.

use std::fmt;

use xxhash_rust::const_xxh3::const_custom_default_secret;
use xxhash_rust::xxh3::{xxh3_64_with_secret, xxh3_64_with_seed};

use crate::prefix::{Media, Settings};
use crate::request::PromptPart;

/// Bytes of text that count as a token.
const TOKEN_BYTES: usize = 4;

/// The hashes of a prompt's whole blocks, first block first; empty when there is none.
///
/// At most [`Settings::chain_limit`] long. `Debug` prints the length only.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Chain(Vec<u64>, Media);

impl Chain {
    /// The hashes.
    pub fn hashes(&self) -> &[u64] {
        &self.0
    }

    /// The media of the prompt; none where nobody asks for them.
    pub fn media(&self) -> &Media {
        &self.1
    }
}

/// Hashes that were made elsewhere, first block first, each of its block and all before it.
impl From<Vec<u64>> for Chain {
    fn from(hashes: Vec<u64>) -> Self {
        Self(hashes, Media::default())
    }
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Chain({} blocks)", self.0.len())
    }
}

/// A prompt that is being hashed. Holds less than two blocks of its text, and 8 bytes for each block.
pub struct Hashing {
    seed: u64,
    /// Made of the seed once: XXH3 makes one for each text of more than 240 bytes that it hashes under a seed, which costs
    /// half as much as the hash.
    secret: [u8; 192],
    /// What comes before the prompt.
    lead: Row,
    text: Row,
    /// Another prompt of the batch has begun.
    ended: bool,
    /// None where nobody asks for them.
    media: Option<Media>,
}

/// Blocks that depend on each other.
struct Row {
    seed: u64,
    block_bytes: usize,
    limit: usize,
    links: Vec<u64>,
    /// The block that is not yet full.
    open: Vec<u8>,
}

impl Hashing {
    /// A prompt of which nothing has come. Hashes of different seeds have nothing in common: a secret seed keeps
    /// clients from making up prompts whose hashes collide.
    pub fn new(settings: &Settings, seed: u64) -> Self {
        let block_tokens = usize::try_from(settings.block_tokens.get()).unwrap_or(usize::MAX);
        let row = |seed| Row {
            seed,
            block_bytes: block_tokens.saturating_mul(TOKEN_BYTES),
            limit: settings.chain_limit,
            links: Vec::new(),
            open: Vec::new(),
        };
        let (lead, text) = (row(keyed(seed, Some("lead"))), row(seed));
        let media = settings.media.then(Media::default);
        let secret = const_custom_default_secret(seed);
        Self { seed, secret, lead, text, ended: false, media }
    }

    /// Tokens of a block, and how many blocks are hashed at most.
    pub fn cut(&self) -> (u32, usize) {
        let tokens = self.text.block_bytes / TOKEN_BYTES;
        (u32::try_from(tokens).unwrap_or(u32::MAX), self.text.limit)
    }

    /// Takes the next part of the prompt. Of a batch only the first prompt counts.
    pub fn feed(&mut self, part: PromptPart<'_>) {
        if let (PromptPart::Media(stand_in), Some(media)) = (part, &mut self.media) {
            media.add(stand_in, self.seed);
        }
        match part {
            PromptPart::Lead(bytes) => self.lead.bytes(bytes, &self.secret),
            PromptPart::Next => self.ended |= !self.text.is_empty(),
            _ if self.ended => {}
            PromptPart::Text(bytes) | PromptPart::Media(bytes) => {
                self.text.bytes(bytes, &self.secret);
            }
            PromptPart::Token(id) => self.text.bytes(&id.to_le_bytes(), &self.secret),
        }
    }

    /// The chain of a prompt for `model` (an adapter is asked for as a model) and `salt`: prompts that differ in either
    /// have no hash in common. Nothing else separates tenants, as nothing else does in an engine's cache: the fairness id
    /// and the objective do not.
    pub fn end(self, model: Option<&str>, salt: Option<&str>) -> Chain {
        let Self { seed, secret, lead, text, ended: _, media } = self;
        let key = keyed(keyed(seed, model), salt);
        let behind = if lead.is_empty() { key } else { key ^ lead.digest(&secret) };
        let limit = lead.limit;
        let mut links = lead.links;
        for link in &mut links {
            *link ^= key;
        }
        links.extend(text.links.into_iter().map(|link| link ^ behind).take(limit - links.len()));
        Chain(links, media.unwrap_or_default())
    }
}

impl Row {
    fn is_empty(&self) -> bool {
        self.links.is_empty() && self.open.is_empty()
    }

    /// Stands for all that was hashed, but for what is beyond the limit.
    fn digest(&self, secret: &[u8]) -> u64 {
        self.link(&self.open, secret)
    }

    fn bytes(&mut self, mut bytes: &[u8], secret: &[u8]) {
        while !bytes.is_empty() && self.links.len() < self.limit {
            let room = self.block_bytes - self.open.len();
            let (part, rest) = bytes.split_at_checked(room).unwrap_or((bytes, &[]));
            bytes = rest;
            if part.len() == self.block_bytes {
                self.links.push(self.link(part, secret));
                continue;
            }
            self.open.extend_from_slice(part);
            if self.open.len() == self.block_bytes {
                self.links.push(self.link(&self.open, secret));
                self.open.clear();
            }
        }
    }

    fn link(&self, block: &[u8], secret: &[u8]) -> u64 {
        let before = self.links.last().copied().unwrap_or(self.seed);
        xxh3_64_with_seed(&xxh3_64_with_secret(block, secret).to_le_bytes(), before)
    }
}

impl fmt::Debug for Hashing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let links = self.lead.links.len() + self.text.links.len();
        f.debug_struct("Hashing").field("links", &links).finish_non_exhaustive()
    }
}

/// Adds one part to a key. Each is hashed by itself under the key before it, so no two lists of parts run together;
/// absence is another byte than emptiness.
fn keyed(key: u64, part: Option<&str>) -> u64 {
    let presence = xxh3_64_with_seed(&[u8::from(part.is_some())], key);
    xxh3_64_with_seed(part.unwrap_or_default().as_bytes(), presence)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hashing() -> Hashing {
        Hashing::new(&Settings::default(), 7)
    }

    fn chain(text: &[u8], model: Option<&str>, salt: Option<&str>) -> Chain {
        let mut hashing = hashing();
        hashing.feed(PromptPart::Text(text));
        hashing.end(model, salt)
    }

    #[test]
    fn a_common_beginning_gives_common_hashes_up_to_the_first_difference() {
        let (a, b) = ("x".repeat(600), "x".repeat(300) + &"y".repeat(300));
        let (a, b) = (chain(a.as_bytes(), None, None), chain(b.as_bytes(), None, None));
        assert_eq!((a.hashes().len(), b.hashes().len()), (2, 2), "256 bytes a block");
        let equal: Vec<_> = a.hashes().iter().zip(b.hashes()).map(|(a, b)| a == b).collect();
        assert_eq!(equal, [true, false]);
    }

    #[test]
    fn equal_blocks_at_different_places_differ() {
        let chain = chain("x".repeat(512).as_bytes(), None, None);
        assert_ne!(chain.hashes()[0], chain.hashes()[1]);
    }

    #[test]
    fn no_two_keys_run_together() {
        let keys = [None, Some(""), Some("a"), Some("b"), Some("ab"), Some("a\0"), Some("\0")];
        let mut seen = std::collections::HashSet::new();
        for model in keys {
            for salt in keys {
                assert!(seen.insert(chain(&[b'x'; 256], model, salt).0), "{model:?} {salt:?}");
            }
        }
    }

    #[test]
    fn a_seed_separates_all_hashes() {
        let chains = [7, 8].map(|seed| {
            let mut hashing = Hashing::new(&Settings::default(), seed);
            hashing.feed(PromptPart::Text(&[1; 300]));
            hashing.end(None, None).0
        });
        assert!(chains[0].iter().all(|hash| !chains[1].contains(hash)));
    }

    // FR-031
    #[test]
    fn of_a_batch_the_first_prompt_counts_and_of_a_long_one_its_beginning() {
        let [one, two] = [[1; 256], [2; 256]];
        let mut hashing = hashing();
        for part in [PromptPart::Next, PromptPart::Text(&one), PromptPart::Next] {
            hashing.feed(part);
        }
        hashing.feed(PromptPart::Text(&two));
        assert_eq!(hashing.end(None, None), chain(&one, None, None));
        let settings = Settings { chain_limit: 2, ..Settings::default() };
        let mut short = Hashing::new(&settings, 7);
        short.feed(PromptPart::Text(&[b'x'; 1000]));
        let long = chain(&[b'x'; 1000], None, None);
        assert_eq!(short.end(None, None).hashes(), &long.hashes()[..2]);
    }

    // FR-061
    #[test]
    fn what_servers_put_first_comes_first_wherever_it_stands() {
        let (long, short, text) = ([b't'; 600], [b't'; 100], [b'x'; 600]);
        let chain = |parts: &[PromptPart<'_>]| {
            let mut hashing = hashing();
            for &part in parts {
                hashing.feed(part);
            }
            hashing.end(None, None).0
        };
        let (lead, text) = (PromptPart::Lead(&long), PromptPart::Text(&text));
        let before = chain(&[lead, text]);
        assert_eq!((before.len(), &before), (4, &chain(&[text, lead])));
        let other = chain(&[lead, PromptPart::Text(&[b'y'; 600])]);
        assert_eq!((&before[..2], before[2] == other[2]), (&other[..2], false));
        let brief = chain(&[PromptPart::Lead(&short), text]);
        let bare = chain(&[text]);
        assert_eq!((brief.len(), bare.len()), (2, 2));
        assert!(brief.iter().all(|hash| !bare.contains(hash) && !before.contains(hash)));
        let as_text = chain(&[PromptPart::Text(&long)]);
        assert!(as_text.iter().all(|hash| !before.contains(hash)));
    }

    #[test]
    fn a_prompt_shorter_than_a_block_has_no_hashes() {
        assert_eq!(chain(&[b'x'; 255], None, None), Chain::default());
    }

    #[test]
    fn debug_output_holds_no_text() {
        let mut hashing = hashing();
        hashing.feed(PromptPart::Text(b"secret"));
        assert_eq!(format!("{hashing:?}"), "Hashing { links: 0, .. }");
        assert_eq!(format!("{:?}", hashing.end(None, None)), "Chain(0 blocks)");
    }

    proptest! {
        #[test]
        fn any_cut_of_a_prompt_gives_the_same_chain(
            text in proptest::collection::vec(any::<u8>(), 0..2000),
            cuts in proptest::collection::vec(0..2000_usize, 0..20),
        ) {
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let mut hashing = hashing();
            for cut in cuts.windows(2) {
                hashing.feed(PromptPart::Text(&text[cut[0]..cut[1]]));
            }
            prop_assert_eq!(hashing.end(Some("m"), None), chain(&text, Some("m"), None));
        }
    }
}
