use std::num::NonZeroU32;

use proptest::prelude::*;

use super::*;
use crate::pool::{EndpointId, Slot, Snapshot};
use crate::request::PromptPart;
use crate::schedule::fixture;

mod bodies;

const BLOCK_BYTES: usize = 256;

/// A prompt of one block for each symbol.
fn chain(index: &Index, symbols: &[u8]) -> Chain {
    let mut hashing = index.hashing();
    for symbol in symbols {
        hashing.feed(PromptPart::Text(&[*symbol; BLOCK_BYTES]));
    }
    hashing.end(Some("m"), None)
}

fn blocks(index: &Index, symbols: &[u8], candidates: &[Slot]) -> Vec<u32> {
    let mut hits = Hits::default();
    index.longest(&chain(index, symbols), candidates, &mut hits);
    candidates.iter().map(|&slot| hits.blocks(slot)).collect()
}

fn ids(snapshot: &Snapshot) -> Vec<EndpointId> {
    snapshot.endpoints().map(|endpoint| endpoint.id).collect()
}

/// A cache of so many blocks.
#[expect(clippy::unnecessary_wraps, reason = "as it is handed on")]
fn tokens(blocks: usize) -> Option<u64> {
    Some(blocks as u64 * u64::from(BLOCK_TOKENS))
}

// FR-063, FR-143
#[test]
fn each_endpoint_has_what_it_was_given_up_to_the_first_difference() {
    let (snapshot, index) = (fixture::snapshot(130), Index::new(Settings::default(), 1));
    let ids = ids(&snapshot);
    index.record(ids[0], &chain(&index, b"abcdefgh"), None);
    index.record(ids[1], &chain(&index, b"abcdXfgh"), None);
    index.record(ids[129], &chain(&index, b"ab"), None);
    let found = blocks(&index, b"abcdefghij", snapshot.ready());
    assert_eq!((found[0], found[1], found[2], found[129]), (8, 4, 0, 2));
    assert_eq!(blocks(&index, b"zbc", snapshot.ready()), vec![0; 130]);
    assert_eq!(blocks(&index, b"", snapshot.ready()), vec![0; 130]);
}

#[test]
fn who_is_no_candidate_does_not_match() {
    let (snapshot, index) = (fixture::snapshot(3), Index::new(Settings::default(), 1));
    for id in ids(&snapshot) {
        index.record(id, &chain(&index, b"abc"), None);
    }
    let mut hits = Hits::default();
    index.longest(&chain(&index, b"abc"), &snapshot.ready()[1..2], &mut hits);
    let found: Vec<_> = snapshot.ready().iter().map(|&slot| hits.blocks(slot)).collect();
    assert_eq!((found, hits.total(), hits.tokens(snapshot.ready()[1])), (vec![0, 3, 0], 3, 192));
}

#[test]
fn the_end_of_the_oldest_prefix_is_evicted_first() {
    let (snapshot, index) = (fixture::snapshot(1), Index::new(Settings::default(), 1));
    let id = ids(&snapshot)[0];
    index.record(id, &chain(&index, b"abcd"), tokens(6));
    index.record(id, &chain(&index, b"xyz"), tokens(6));
    assert_eq!(blocks(&index, b"abcd", snapshot.ready()), [3]);
    assert_eq!(blocks(&index, b"xyz", snapshot.ready()), [3]);
    index.record(id, &chain(&index, b"ab"), tokens(6));
    index.record(id, &chain(&index, b"123"), tokens(6));
    assert_eq!(blocks(&index, b"abcd", snapshot.ready()), [2], "what was used stays");
    assert_eq!(blocks(&index, b"xyz", snapshot.ready()), [1]);
    assert_eq!(index.len(), 6);
}

#[test]
fn of_a_prompt_longer_than_the_cache_the_beginning_stays() {
    let (snapshot, index) = (fixture::snapshot(1), Index::new(Settings::default(), 1));
    let id = ids(&snapshot)[0];
    index.record(id, &chain(&index, b"abcdefgh"), tokens(3));
    assert_eq!((blocks(&index, b"abcdefgh", snapshot.ready()), index.len()), (vec![3], 3));
}

#[test]
fn the_capacity_follows_the_endpoint_unless_it_is_fixed() {
    let snapshot = fixture::snapshot(1);
    for (auto_tune, want) in [(true, 2), (false, 4)] {
        let settings = Settings { auto_tune, capacity_tokens: 4 * 64, ..Settings::default() };
        let index = Index::new(settings, 1);
        index.record(ids(&snapshot)[0], &chain(&index, b"abcdefgh"), tokens(2));
        assert_eq!(index.len(), want);
    }
}

// FR-138, FR-164
#[test]
fn an_endpoint_that_left_is_forgotten_and_its_late_records_are_ignored() {
    let (snapshot, index) = (fixture::snapshot(2), Index::new(Settings::default(), 1));
    let (ids, prompt) = (ids(&snapshot), chain(&index, b"abc"));
    for id in &ids {
        index.record(*id, &prompt, None);
    }
    index.keep(|id| id != ids[0]);
    assert_eq!((blocks(&index, b"abc", snapshot.ready()), index.len()), (vec![0, 3], 3));
    index.record(ids[0], &prompt, None);
    assert_eq!(index.len(), 3);
    let next = EndpointId { slot: ids[0].slot, epoch: ids[1].epoch + 1 };
    index.record(next, &chain(&index, b"ab"), None);
    assert_eq!(blocks(&index, b"abc", snapshot.ready()), [2, 3]);
    index.record(ids[0], &prompt, None);
    assert_eq!(blocks(&index, b"abc", snapshot.ready()), [2, 3]);
}

#[test]
fn an_endpoint_that_takes_a_slot_over_begins_with_nothing() {
    let (snapshot, index) = (fixture::snapshot(1), Index::new(Settings::default(), 1));
    let old = ids(&snapshot)[0];
    index.record(old, &chain(&index, b"abc"), None);
    let new = EndpointId { slot: old.slot, epoch: old.epoch + 1 };
    index.record(new, &chain(&index, b"x"), None);
    assert_eq!((blocks(&index, b"abc", snapshot.ready()), index.len()), (vec![0], 1));
}

// FR-129
#[test]
fn all_endpoints_share_the_limit() {
    let settings = Settings { block_limit: 8, ..Settings::default() };
    let (snapshot, index) = (fixture::snapshot(4), Index::new(settings, 1));
    let ids = ids(&snapshot);
    index.record(ids[0], &chain(&index, b"abcdefghij"), None);
    assert_eq!(index.len(), 8);
    for id in &ids[1..] {
        index.record(*id, &chain(&index, b"abcdefghij"), None);
    }
    index.keep(|_| true);
    assert_eq!(blocks(&index, b"abcdefghij", snapshot.ready()), [2; 4]);
    index.keep(|id| id == ids[3]);
    index.record(ids[3], &chain(&index, b"abcdefghij"), None);
    assert_eq!(index.len(), 8);
}

// FR-133
#[test]
fn prompts_that_are_used_stay_while_others_without_end_pass_within_the_limit() {
    let settings = Settings { block_limit: 1_000, ..Settings::default() };
    let (snapshot, index) = (fixture::snapshot(1), Index::new(settings, 1));
    let id = ids(&snapshot)[0];
    let hot: Vec<_> = (0..10_u8).map(|n| [n; 8]).collect();
    for round in 0..200_u8 {
        for prompt in &hot {
            if round > 0 {
                assert_eq!(blocks(&index, prompt, snapshot.ready()), [8], "{round}");
            }
            index.record(id, &chain(&index, prompt), None);
        }
        for other in 10..20_u8 {
            let once: Vec<_> = [other, round].into_iter().cycle().take(20).collect();
            index.record(id, &chain(&index, &once), None);
        }
        assert!(index.len() <= 1_000, "{}", index.len());
    }
}

#[test]
fn larger_blocks_cut_prompts_coarser() {
    let block_tokens = NonZeroU32::new(128).unwrap();
    let index = Index::new(Settings { block_tokens, ..Settings::default() }, 1);
    assert_eq!(chain(&index, b"abcd").hashes().len(), 2);
}

// FR-162
#[test]
fn threads_that_record_search_and_leave_at_once_leave_nothing_behind() {
    let (snapshot, index) = (fixture::snapshot(8), Index::new(Settings::default(), 1));
    let ids = ids(&snapshot);
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (index, snapshot, ids) = (&index, &snapshot, &ids);
            scope.spawn(move || disturb(index, snapshot, ids, fastrand::Rng::with_seed(seed)));
        }
    });
    assert!(index.len() <= 8 * 20);
    index.keep(|_| false);
    assert_eq!(blocks(&index, &[0, 1, 2], snapshot.ready()), [0; 8]);
    assert!(index.is_empty());
}

fn disturb(index: &Index, snapshot: &Snapshot, ids: &[EndpointId], mut rng: fastrand::Rng) {
    for _ in 0..2_000 {
        let prompt: Vec<u8> = (0..rng.usize(1..12)).map(|_| rng.u8(0..3)).collect();
        index.record(ids[rng.usize(..8)], &chain(index, &prompt), tokens(20));
        let found = blocks(index, &prompt, snapshot.ready());
        assert!(found.iter().all(|&blocks| blocks as usize <= prompt.len()));
        if rng.u8(..) == 0 {
            let leaves = ids[rng.usize(..4)];
            index.keep(|id| id != leaves);
        }
    }
}

#[test]
fn a_cache_is_counted_in_tokens_of_its_model_and_follows_what_is_known_of_it() {
    let (snapshot, index) = (fixture::snapshot(1), Index::new(Settings::default(), 1));
    let (id, prompt) = (ids(&snapshot)[0], chain(&index, b"abcdefgh"));
    let held = |capacity| {
        index.record(id, &prompt, capacity);
        index.len()
    };
    assert_eq!(
        (held(None), held(tokens(4)), held(tokens(6))),
        (8, 4, 6),
        "before and after it is known"
    );
    index.scale(2.0);
    assert_eq!(held(tokens(6)), 3, "128 tokens a block");
    index.scale(0.5);
    assert_eq!(held(tokens(3)), 6);
}

#[test]
fn what_was_missing_is_made_room_for_by_the_oldest() {
    let (snapshot, index) = (fixture::snapshot(1), Index::new(Settings::default(), 1));
    let id = ids(&snapshot)[0];
    for prompt in [&b"abcd"[..], b"xyz", b"123"] {
        index.record(id, &chain(&index, prompt), None);
    }
    let left = || [&b"abcd"[..], b"xyz", b"123"].map(|it| blocks(&index, it, snapshot.ready())[0]);
    let missed = |blocks| index.missed(id, &chain(&index, b"123"), blocks);
    missed(2);
    assert_eq!(left(), [2, 3, 3]);
    missed(3);
    assert_eq!(left(), [0, 2, 3]);
    missed(usize::MAX);
    assert_eq!((left(), index.len()), ([0, 0, 3], 3), "it has what it computed");
}

#[test]
fn what_was_found_is_known_up_to_there_and_within_the_cache() {
    let (snapshot, index) = (fixture::snapshot(1), Index::new(Settings::default(), 1));
    let (id, prompt) = (ids(&snapshot)[0], chain(&index, b"abcdef"));
    index.found(id, &prompt, 4, tokens(4));
    assert!(index.is_empty(), "who was given nothing is not known");
    index.record(id, &chain(&index, b"xyz"), tokens(5));
    index.found(id, &prompt, 4, tokens(5));
    let left = |it| blocks(&index, it, snapshot.ready())[0];
    assert_eq!((left(b"abcdef"), left(b"xyz")), (4, 1));
    index.keep(|_| false);
    index.found(id, &prompt, 4, None);
    index.missed(id, &prompt, 1);
    assert!(index.is_empty(), "who has left has nothing");
}

#[test]
fn what_the_last_prompts_brought_is_not_settled() {
    let (snapshot, index) = (fixture::snapshot(1), Index::new(Settings::default(), 1));
    let id = ids(&snapshot)[0];
    for prompt in [&b"ab"[..], b"abcd", b"x", b"abcdef"] {
        index.record(id, &chain(&index, prompt), None);
    }
    let settled = |prompts| index.settled(id, &chain(&index, b"abcdefgh"), 6, prompts);
    assert_eq!([0, 1, 2, 3, 4].map(settled), [6, 4, 4, 2, 0]);
    assert_eq!(index.settled(id, &chain(&index, b"abcdefgh"), 3, 0), 3, "no more than is believed");
}

#[test]
fn hits_are_believed_in_as_far_as_the_endpoint_was_right() {
    let (snapshot, index) = (fixture::snapshot(2), Index::new(Settings::default(), 1));
    let (ids, prompt) = (ids(&snapshot), chain(&index, b"abcd"));
    for id in &ids {
        index.record(*id, &prompt, None);
    }
    let tokens = || {
        let mut hits = Hits::default();
        index.longest(&prompt, snapshot.ready(), &mut hits);
        snapshot.ready().iter().map(|&slot| hits.tokens(slot)).collect::<Vec<_>>()
    };
    assert_eq!(tokens(), [256, 256]);
    (0..100).for_each(|_| index.judge(ids[0], 0.6, 1.0));
    assert_eq!(tokens(), [256, 256], "most of it is right");
    (0..100).for_each(|_| index.judge(ids[0], 0.25, 1.0));
    assert_eq!(tokens(), [128, 256]);
    index.keep(|id| id != ids[0]);
    let next = EndpointId { slot: ids[0].slot, epoch: ids[1].epoch + 1 };
    index.record(next, &prompt, None);
    index.judge(ids[0], 0.0, 1.0);
    assert_eq!(tokens(), [256, 256], "who takes the slot over is another");
}

/// One step of a history: an endpoint is given a prompt with so many blocks of cache, had so many blocks of one, lacked so
/// many, or is replaced.
#[derive(Clone, Debug)]
enum Step {
    Record(usize, Vec<u8>, usize),
    Found(usize, Vec<u8>, usize),
    Missed(usize, Vec<u8>, usize),
    Replace(usize),
}

fn prompt() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(0..3_u8, 0..14)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        9 => (0..4_usize, prompt(), 1..24_usize).prop_map(|(at, prompt, room)| Step::Record(at, prompt, room)),
        2 => (0..4_usize, prompt(), 0..14_usize).prop_map(|(at, prompt, had)| Step::Found(at, prompt, had)),
        2 => (0..4_usize, prompt(), 0..8_usize).prop_map(|(at, prompt, lacked)| Step::Missed(at, prompt, lacked)),
        1 => (0..4_usize).prop_map(Step::Replace),
    ]
}

/// Beginnings of prompts, least recently used first; none before the first.
type Model = [Option<Vec<Vec<u8>>>; 4];

fn play(model: &mut Model, step: &Step) {
    match step {
        Step::Record(at, prompt, room) if !prompt.is_empty() => {
            let has = model[*at].get_or_insert_default();
            touch(has, prompt, *room);
            has.drain(..has.len().saturating_sub(*room));
        }
        Step::Record(..) => {}
        Step::Found(at, prompt, had) => {
            if let Some(has) = &mut model[*at] {
                touch(has, prompt, *had);
            }
        }
        Step::Missed(at, prompt, lacked) => {
            if let Some(has) = &mut model[*at] {
                has.drain(..has.len().saturating_sub(prompt.len()).min(*lacked));
            }
        }
        Step::Replace(at) => model[*at] = None,
    }
}

fn touch(has: &mut Vec<Vec<u8>>, prompt: &[u8], room: usize) {
    for end in (1..=prompt.len().min(room)).rev() {
        has.retain(|beginning| beginning[..] != prompt[..end]);
        has.push(prompt[..end].to_vec());
    }
}

proptest! {
    // FR-133
    #[test]
    fn the_index_equals_a_naive_model(
        steps in proptest::collection::vec(step(), 0..60),
        asked in proptest::collection::vec(prompt(), 1..6),
    ) {
        let (snapshot, index) = (fixture::snapshot(4), Index::new(Settings::default(), 1));
        let (mut ids, mut model) = (ids(&snapshot), Model::default());
        for step in &steps {
            play(&mut model, step);
            match step {
                Step::Record(at, prompt, room) => index.record(ids[*at], &chain(&index, prompt), tokens(*room)),
                Step::Found(at, prompt, had) => {
                    index.found(ids[*at], &chain(&index, prompt), *had, None);
                }
                Step::Missed(at, prompt, lacked) => {
                    index.missed(ids[*at], &chain(&index, prompt), *lacked);
                }
                Step::Replace(at) => {
                    let gone = ids[*at];
                    index.keep(|id| id != gone);
                    ids[*at].epoch += 100;
                }
            }
        }
        let model = model.map(Option::unwrap_or_default);
        prop_assert_eq!(index.len(), model.iter().map(Vec::len).sum::<usize>());
        for prompt in &asked {
            let contiguous = |has: &Vec<Vec<u8>>| {
                (1..=prompt.len()).take_while(|&end| has.iter().any(|b| b[..] == prompt[..end])).count()
            };
            let want: Vec<_> = model.iter().map(|has| u32::try_from(contiguous(has)).unwrap()).collect();
            prop_assert_eq!(blocks(&index, prompt, snapshot.ready()), want);
        }
        for has in &model {
            for beginning in has {
                let root = &beginning[..beginning.len() - 1];
                prop_assert!(root.is_empty() || has.iter().any(|b| b == root), "closed towards the root");
            }
        }
    }
}
