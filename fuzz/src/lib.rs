//! The targets of `tests/fuzz` for libFuzzer: `cargo +nightly fuzz run NAME fuzz/corpus/NAME tests/fuzz/corpus/NAME`.

#[path = "../../tests/fuzz/targets.rs"]
mod targets;

/// Runs the named target.
pub fn run(name: &str, data: &[u8]) {
    let (_, target) = targets::TARGETS.iter().find(|(known, _)| *known == name).expect("a target");
    target(data);
}
