//! Whether clocks agree.

use crate::cli::doctor::facts::Facts;
use crate::cli::doctor::finding::{Check, Finding, Outcome};

pub(in crate::cli::doctor) const CHECK: Check =
    Check { name: "clocks", good: "the clocks that were read agree with ours", run };

/// Seconds that clocks may differ: their dates are told in whole seconds, and answers take a time.
const ALLOWED: i64 = 5;

fn run(facts: &Facts) -> Outcome {
    if facts.clocks.is_empty() {
        return Err("no clock was read");
    }
    let wrong = facts.clocks.iter().filter(|clock| clock.ahead.abs() > ALLOWED);
    let told = wrong.map(|clock| {
        let (seconds, side) =
            (clock.ahead.abs(), if clock.ahead > 0 { "ahead of" } else { "behind" });
        Finding::problem(
            CHECK,
            format!("the clock of {} is {seconds} s {side} ours", clock.whose),
            "certificates may not be valid yet or any more, leases change hands, and times in logs do not fit together",
            "let all machines keep time by NTP",
        )
    });
    Ok(told.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::checks::fixture::told;
    use crate::cli::doctor::facts::Clock;

    #[test]
    fn clocks_that_differ_by_more_than_seconds_are_told() {
        let clock = |whose: &str, ahead| Clock { whose: whose.to_owned(), ahead };
        let clocks = vec![clock("the API server", 5), clock("a:8000", -61), clock("b:8000", 7)];
        let facts = Facts { clocks, ..Facts::default() };
        assert_eq!(
            told(CHECK, &facts),
            [
                "problem: the clock of a:8000 is 61 s behind ours",
                "problem: the clock of b:8000 is 7 s ahead of ours"
            ]
        );
    }
}
