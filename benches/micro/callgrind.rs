//! Runs this program under callgrind and reads how many instructions each case took.
//!
//! Callgrind counts within [`counted`] only, and writes what it has whenever that returns: a file for each case, in the
//! order in which the cases are announced on standard output.

use std::collections::HashMap;
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::measure::say;

/// The name of [`counted`] to callgrind, which takes no pattern for some of its options.
const COUNTED: &str = concat!(module_path!(), "::counted");

/// Between the names of a bench and of a case.
const SEPARATOR: char = '\t';

/// Calls so many times, and all that this costs is counted. Takes the number from where the compiler cannot see it, or it
/// would make one of this function and another.
#[inline(never)]
pub(crate) fn counted(rounds: u64, call: &mut dyn FnMut()) {
    for _ in 0..black_box(rounds) {
        call();
    }
    black_box(());
}

/// Tells which case is counted next.
pub(crate) fn announce(bench: &str, case: &str) {
    say(&format!("{bench}{SEPARATOR}{case}"));
}

/// The instructions of all counted calls of each case, by the names of bench and case.
///
/// # Errors
/// When valgrind is not installed, or something about its run is not as expected.
pub(crate) fn instructions(benches: &[String]) -> Result<HashMap<(String, String), u64>> {
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("out");
    let ran = Command::new("valgrind")
        .args(["--tool=callgrind", &format!("--toggle-collect={COUNTED}")])
        .arg(format!("--dump-after={COUNTED}"))
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(std::env::current_exe()?)
        .arg("--counted")
        .args(benches)
        .stderr(Stdio::piped())
        .output()
        .context("valgrind cannot be run")?;
    let said = String::from_utf8_lossy(&ran.stderr);
    ensure!(ran.status.success(), "valgrind ended with {}: {said}", ran.status);
    let cases = String::from_utf8(ran.stdout)?;
    let cases = cases.lines().filter_map(|line| line.split_once(SEPARATOR)).enumerate();
    let count = |(at, (bench, case)): (usize, (&str, &str))| {
        let count = total(&out.with_extension((at + 1).to_string()));
        let count = count.with_context(|| format!("{bench}, {case}"))?;
        Ok(((bench.to_owned(), case.to_owned()), count))
    };
    cases.map(count).collect()
}

/// The sum of a file of callgrind.
fn total(path: &Path) -> Result<u64> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("totals: "));
    let total = lines.next().context("no total")?.trim().parse()?;
    ensure!(total > 0, "nothing was counted");
    Ok(total)
}
