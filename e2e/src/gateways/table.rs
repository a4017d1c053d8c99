//! The results, and the page on which they stand.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::cases::Case;
use super::site::{Gateway, Mode, Site};

/// The table stands between these lines.
const BEGIN: &str = "<!-- results:begin -->";
const END: &str = "<!-- results:end -->";
/// Begins the line that says when and with what; it is not compared.
const PROVENANCE: &str = "Seen on ";
/// What stands where a case does not apply.
const NONE: &str = "–";

/// Results by case and column.
#[derive(Debug, Default)]
pub(super) struct Table {
    columns: Vec<(Gateway, Mode)>,
    cells: BTreeMap<(Case, usize), Cell>,
}

/// A result.
#[derive(Debug)]
struct Cell {
    expected: &'static str,
    seen: String,
}

impl Table {
    /// Adds what was seen of a case.
    pub(super) fn add(&mut self, site: &Site, case: Case, expected: &'static str, seen: String) {
        let column = (site.gateway, site.mode);
        let known = self.columns.iter().position(|known| *known == column);
        let index = known.unwrap_or_else(|| {
            self.columns.push(column);
            self.columns.len() - 1
        });
        self.cells.insert((case, index), Cell { expected, seen });
    }

    /// What is not as expected, a line each.
    pub(super) fn deviations(&self) -> Vec<String> {
        let deviating = self.cells.iter().filter(|(_, cell)| cell.seen != cell.expected);
        let line = |((case, column), cell): (&(Case, usize), &Cell)| {
            let at = self.columns.get(*column).map(title).unwrap_or_default();
            format!("{at}, {}: {}, expected: {}", case.title(), cell.seen, cell.expected)
        };
        deviating.map(line).collect()
    }

    /// Compares the table with the one on `page`, or writes it there if UPDATE_EXPECT is 1.
    ///
    /// # Errors
    /// When they differ by more than the provenance, or the page has no place for a table.
    pub(super) fn settle(&self, page: &Path, provenance: &str) -> Result<()> {
        let text = fs::read_to_string(page).with_context(|| page.display().to_string())?;
        let place = || format!("{} lacks {BEGIN} or {END}", page.display());
        let (before, rest) = text.split_once(BEGIN).with_context(place)?;
        let (old, after) = rest.split_once(END).with_context(place)?;
        let new = format!("\n{PROVENANCE}{provenance}\n\n{self}");
        if std::env::var("UPDATE_EXPECT").is_ok_and(|update| update == "1") {
            return Ok(fs::write(page, [before, BEGIN, &new, END, after].concat())?);
        }
        ensure!(
            comparable(old) == comparable(&new),
            "{} does not show these results: write them by UPDATE_EXPECT=1",
            page.display()
        );
        Ok(())
    }
}

/// Markdown.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let titles: Vec<String> = self.columns.iter().map(title).collect();
        writeln!(f, "| | {} |", titles.join(" | "))?;
        writeln!(f, "|---|{}", "---|".repeat(titles.len()))?;
        for case in Case::ALL {
            let cell = |column| self.cells.get(&(case, column)).map(|cell| cell.seen.as_str());
            let row: Vec<&str> =
                (0..titles.len()).map(|column| cell(column).unwrap_or(NONE)).collect();
            writeln!(f, "| {} | {} |", case.title(), row.join(" | "))?;
        }
        Ok(())
    }
}

fn title((gateway, mode): &(Gateway, Mode)) -> String {
    format!("{}, {}", gateway.title(), mode.name())
}

/// All but the provenance.
fn comparable(text: &str) -> Vec<&str> {
    let lines = text.lines().map(str::trim_end);
    lines.filter(|line| !line.is_empty() && !line.starts_with(PROVENANCE)).collect()
}
