//! The same in plain text, once.

use std::fmt::Write;

use crate::server::overview::Overview;

use super::columns::Column;
use super::state::shown;
use super::words::{age, count};

/// Decisions that are printed.
const DECISIONS: usize = 20;

/// A line on the picker, and a table each of endpoints and decisions.
pub(super) fn page(overview: &Overview, filter: &str, sort: Column) -> String {
    let Overview { namespace, pool, uptime_seconds, streams, decisions_made, .. } = overview;
    let ready = if overview.ready { "ready" } else { "not ready" };
    let mut text = format!(
        "{namespace}/{pool}  {ready}  {} endpoints  {streams} streams  {decisions_made} decisions  up {}\n",
        overview.endpoints_total,
        age(*uptime_seconds)
    );
    for note in &overview.notes {
        line(&mut text, format_args!("{note}"));
    }
    let endpoints = shown(&overview.endpoints, filter, (sort, sort.falls()));
    let rows = endpoints.iter().map(|of| Column::ALL.map(|column| column.cell(of)).to_vec());
    let left = Column::ALL.map(Column::is_text).to_vec();
    grid(&mut text, Column::ALL.map(Column::title).to_vec(), rows.collect(), &left);
    let decisions = overview.decisions.iter().take(DECISIONS);
    let rows: Vec<_> = decisions
        .map(|of| {
            vec![
                age(of.seconds_ago),
                of.id.clone(),
                of.endpoint.clone().unwrap_or_else(|| "refused".to_owned()),
                of.model.clone().unwrap_or_else(|| "-".to_owned()),
                count(of.prompt_tokens as f64),
                count(f64::from(of.cached_tokens)),
                of.why.clone(),
            ]
        })
        .collect();
    if !rows.is_empty() {
        let head = ["AGO", "DECISION", "ENDPOINT", "MODEL", "PROMPT", "CACHED", "WHY"].to_vec();
        grid(&mut text, head, rows, &[false, true, true, true, false, false, true]);
    }
    text
}

/// A blank line, a head and rows, each column as wide as it needs; those in `left` begin at the same place.
fn grid(text: &mut String, head: Vec<&str>, rows: Vec<Vec<String>>, left: &[bool]) {
    let head = head.into_iter().map(str::to_owned).collect();
    let lines: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    let width = |at: usize| {
        let cells = lines.iter().filter_map(|cells| cells.get(at));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let columns: Vec<_> = left.iter().enumerate().map(|(at, left)| (width(at), *left)).collect();
    text.push('\n');
    for cells in &lines {
        let cell = |(cell, &(width, left)): (&String, &(usize, bool))| {
            if left { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        };
        let cells: Vec<_> = cells.iter().zip(&columns).map(cell).collect();
        line(text, format_args!("{}", cells.join("  ").trim_end()));
    }
}

fn line(text: &mut String, told: std::fmt::Arguments<'_>) {
    let written = writeln!(text, "{told}");
    debug_assert!(written.is_ok(), "a string takes everything");
}
