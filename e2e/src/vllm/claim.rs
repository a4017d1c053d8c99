//! What was seen: a table of both ways, and claims that hold or do not.

use std::fmt;

/// Collects what the parts show, in their order.
#[derive(Debug, Default)]
pub(super) struct Report {
    rows: Vec<Row>,
    claims: Vec<Claim>,
}

#[derive(Debug)]
struct Row {
    name: String,
    round_robin: String,
    lodesman: String,
}

#[derive(Debug)]
struct Claim {
    held: bool,
    what: String,
    seen: String,
}

impl Report {
    /// Adds a figure of round robin and of Lodesman.
    pub(super) fn row(&mut self, name: &str, [round_robin, lodesman]: [String; 2]) {
        self.rows.push(Row { name: name.to_owned(), round_robin, lodesman });
    }

    /// Adds a claim and what was seen.
    pub(super) fn claim(&mut self, held: bool, what: &str, seen: impl Into<String>) {
        self.claims.push(Claim { held, what: what.to_owned(), seen: seen.into() });
    }

    /// Claims that do not hold.
    pub(super) fn broken(&self) -> usize {
        self.claims.iter().filter(|claim| !claim.held).count()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n{:<44}{:>14}{:>14}", "", "round robin", "Lodesman")?;
        for Row { name, round_robin, lodesman } in &self.rows {
            let line = format!("{name:<44}{round_robin:>14}{lodesman:>14}");
            writeln!(f, "{}", line.trim_end())?;
        }
        writeln!(f)?;
        for Claim { held, what, seen } in &self.claims {
            writeln!(f, "{}  {what}\n       {seen}", if *held { "holds" } else { "FAILS" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_that_do_not_hold_are_counted_and_marked() {
        let mut report = Report::default();
        report.row("  hits", ["40 %".to_owned(), "3".to_owned()]);
        report.claim(true, "more hits", "3 against 2");
        report.claim(false, "fewer loads", "4 against 4");
        assert_eq!(report.broken(), 1);
        let text = report.to_string();
        let lines: Vec<String> = text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        for line in ["hits 40 % 3", "holds more hits", "FAILS fewer loads", "4 against 4"] {
            assert!(lines.iter().any(|it| it == line), "{line} is missing in {text}");
        }
    }
}
