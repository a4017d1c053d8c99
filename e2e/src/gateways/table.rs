//! The results, and the page on which they stand.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::cases::Case;
use super::gateway::{Gateway, Mode};

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
    columns: Vec<Column>,
    cells: BTreeMap<(Case, usize), Cell>,
}

/// A gateway in one failure mode.
pub(super) type Column = (Gateway, Mode);

/// A result.
#[derive(Debug)]
struct Cell {
    expected: &'static str,
    seen: String,
}

impl Table {
    /// Adds what was seen of a case.
    pub(super) fn add(&mut self, column: Column, case: Case, expected: &'static str, seen: String) {
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
            let at = self.columns.get(*column).copied().map(title).unwrap_or_default();
            format!("{at}, {}: {}, expected: {}", case.title(), cell.seen, cell.expected)
        };
        deviating.map(line).collect()
    }

    /// Compares the table with the one on `page`, or writes it there if it is to be updated.
    ///
    /// # Errors
    /// When they differ by more than the provenance, or the page has no place for a table.
    pub(super) fn settle(&self, page: &Path, provenance: &str, update: bool) -> Result<()> {
        let text = fs::read_to_string(page).with_context(|| page.display().to_string())?;
        let place = || format!("{} lacks {BEGIN} or {END}", page.display());
        let (before, rest) = text.split_once(BEGIN).with_context(place)?;
        let (old, after) = rest.split_once(END).with_context(place)?;
        let new = format!("\n{PROVENANCE}{provenance}\n\n{self}");
        if update {
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
        let titles: Vec<String> = self.columns.iter().copied().map(title).collect();
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

fn title((gateway, mode): Column) -> String {
    format!("{}, {}", gateway.title(), mode.name())
}

/// All but the provenance.
fn comparable(text: &str) -> Vec<&str> {
    let lines = text.lines().map(str::trim_end);
    lines.filter(|line| !line.is_empty() && !line.starts_with(PROVENANCE)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(seen: &str) -> Table {
        let mut table = Table::default();
        table.add((Gateway::Istio, Mode::FailOpen), Case::Get, "as picked", seen.to_owned());
        table
    }

    fn page() -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(&file, format!("# Page\n{BEGIN}\n{END}\nrest\n")).unwrap();
        file
    }

    #[test]
    fn what_is_not_as_expected_is_named() {
        assert!(table("as picked").deviations().is_empty());
        let deviation = "Istio, FailOpen, GET: 500, expected: as picked";
        assert_eq!(table("500").deviations(), [deviation]);
    }

    #[test]
    fn page_is_compared_but_for_the_day_and_the_versions() {
        let page = page();
        table("as picked").settle(page.path(), "Monday", true).unwrap();
        table("as picked").settle(page.path(), "Tuesday", false).unwrap();
        assert!(table("500").settle(page.path(), "Tuesday", false).is_err());
        let text = fs::read_to_string(&page).unwrap();
        assert!(text.contains("Seen on Monday\n\n| | Istio, FailOpen |\n"), "{text}");
        assert!(
            text.contains("| GET | as picked |\n") && text.ends_with(&format!("{END}\nrest\n"))
        );
    }
}
