//! Random bytes and mutated seeds.

use std::path::Path;

use crate::targets::{TARGETS, Target};

/// Longest input of random bytes.
const LONGEST: usize = 300;

/// Words that make mutations meaningful.
const WORDS: [&str; 19] = [
    "\"model\"",
    "\"usage\":{",
    "data: ",
    "\n\n",
    "\r\n",
    "\\u006d",
    "null",
    "[",
    "}",
    "\"",
    "plugins:",
    "pluginRef",
    "vllm:num_requests_waiting 3\n",
    "10.0.0.1:80",
    "true",
    ",8001,",
    "2026-01-31T12:00:00+02:00",
    "NaN",
    "\u{0}",
];

/// Runs a target on its seeds and on so many inputs made from them.
fn run(name: &str, rounds: usize) {
    let (_, target) = TARGETS.iter().find(|(known, _)| *known == name).expect("a target");
    let seeds = seeds(name);
    assert!(!seeds.is_empty(), "a corpus");
    for seed in &seeds {
        try_one(*target, seed);
    }
    let mut rng = fastrand::Rng::with_seed(7);
    for round in 0..rounds {
        let input = match round % 4 {
            0 => random(&mut rng),
            _ => mutated(&seeds, &mut rng),
        };
        try_one(*target, &input);
    }
}

/// Runs a target once; a failure shows its input.
fn try_one(target: Target, input: &[u8]) {
    let passed = std::panic::catch_unwind(|| target(input));
    assert!(passed.is_ok(), "input: {}", input.escape_ascii());
}

fn seeds(name: &str) -> Vec<Vec<u8>> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus").join(name);
    let entries = std::fs::read_dir(&corpus).expect("a corpus");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort_unstable();
    paths.iter().map(|path| std::fs::read(path).expect("a seed")).collect()
}

fn random(rng: &mut fastrand::Rng) -> Vec<u8> {
    let length = rng.usize(..LONGEST);
    std::iter::repeat_with(|| rng.u8(..)).take(length).collect()
}

fn mutated(seeds: &[Vec<u8>], rng: &mut fastrand::Rng) -> Vec<u8> {
    let mut input = rng.choice(seeds).cloned().unwrap_or_default();
    for _ in 0..rng.usize(1..8) {
        let at = rng.usize(..=input.len());
        let until = at + rng.usize(..=(input.len() - at).min(20));
        match rng.u8(..6) {
            0 => input.insert(at, rng.u8(..)),
            1 => drop(input.drain(at..until)),
            2 => drop(input.splice(at..at, rng.choice(WORDS).unwrap_or_default().bytes())),
            3 => input[at..until].iter_mut().for_each(|byte| *byte ^= 1 << rng.u8(..8)),
            4 => {
                let other = rng.choice(seeds).cloned().unwrap_or_default();
                let from = rng.usize(..=other.len());
                drop(input.splice(at.., other[from..].iter().copied()));
            }
            _ => {
                let twice = input[at..until].to_vec();
                drop(input.splice(at..at, twice));
            }
        }
    }
    input
}

#[test]
fn every_target_has_a_corpus_and_a_fuzzer() {
    let fuzzers = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/fuzz_targets");
    for (name, _) in TARGETS {
        assert!(!seeds(name).is_empty(), "{name}");
        assert!(fuzzers.join(format!("{name}.rs")).is_file(), "{name}");
    }
}

#[test]
fn answers_say_the_same_however_they_are_cut() {
    run("answer_reader", 30_000);
}

#[test]
fn connections_say_the_same_however_they_are_cut() {
    run("authority", 40_000);
}

#[test]
fn configurations_are_resolved_or_refused() {
    run("configuration", 4_000);
}

#[test]
fn exchanges_are_legal_whatever_is_told() {
    run("exchange", 20_000);
}

#[test]
fn metrics_pages_say_the_same_however_they_are_cut() {
    run("exposition", 40_000);
}

#[test]
fn files_of_endpoints_list_each_once() {
    run("file_discovery", 5_000);
}

#[test]
fn request_bodies_say_what_a_json_library_says() {
    run("json_scan", 40_000);
}

#[test]
fn answers_change_in_nothing_but_the_model() {
    run("model_restorer", 30_000);
}

#[test]
fn pods_serve_at_the_ports_of_their_pool_whatever_they_say() {
    run("pod_annotations", 20_000);
}

#[test]
fn no_request_leaves_its_subset() {
    run("subset", 20_000);
}
