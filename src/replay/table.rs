//! A report as a table for people.

use std::fmt;

use crate::replay::{Figures, Report, Row};

/// A line of groups, a line of names, and one for each row; columns that say nothing are left out.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<Vec<String>> =
            COLUMNS.iter().filter(|column| (column.shown)(self)).map(|it| it.cells(self)).collect();
        for line in 0..self.runs.len() + 2 {
            let mut text = String::new();
            for (at, cells) in columns.iter().enumerate() {
                let width = cells.iter().map(|cell| cell.chars().count()).max().unwrap_or_default();
                let cell = cells.get(line).map(String::as_str).unwrap_or_default();
                // The first column is words, the others are numbers.
                text +=
                    &if at == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") };
                text += "  ";
            }
            writeln!(f, "{}", text.trim_end())?;
        }
        let lost = |of: fn(&Row) -> f64| self.runs.iter().map(of).fold(0.0, f64::max);
        let (left_out, refused) =
            (lost(|row| row.figures.left_out), lost(|row| row.figures.refused));
        if left_out > 0.0 {
            writeln!(f, "{left_out} requests are larger than a cache and left out.")?;
        }
        if refused > 0.0 {
            writeln!(f, "Up to {refused} requests were refused.")?;
        }
        Ok(())
    }
}

struct Column {
    group: &'static str,
    name: &'static str,
    cell: fn(&Row) -> String,
    /// Whether it says anything.
    shown: fn(&Report) -> bool,
}

const COLUMNS: &[Column] = &[
    column("", "policy", |row| row.policy.clone()),
    Column { shown: differs_in_pods, ..column("", "pods", |row| row.pods.to_string()) },
    column("", "load", |row| row.load.map_or_else(|| "-".to_owned(), |load| format!("{load:.2}"))),
    column("TTFT", "ms p50", |row| with_spread(row, |figures| figures.ttft_ms.p50)),
    column("", "p90", |row| with_spread(row, |figures| figures.ttft_ms.p90)),
    column("", "p99", |row| with_spread(row, |figures| figures.ttft_ms.p99)),
    column("TPOT", "ms p50", |row| short(row.figures.tpot_ms.p50)),
    column("", "p90", |row| short(row.figures.tpot_ms.p90)),
    column("", "p99", |row| short(row.figures.tpot_ms.p99)),
    column("to end", "ms p50", |row| short(row.figures.end_to_end_ms.p50)),
    column("", "p90", |row| short(row.figures.end_to_end_ms.p90)),
    column("", "p99", |row| short(row.figures.end_to_end_ms.p99)),
    column("token", "hits", |row| percent(row.figures.hit_ratio)),
    column("request", "hits", |row| percent(row.figures.request_hit_ratio)),
    column("max /", "mean", |row| format!("{:.2}", row.figures.max_over_mean)),
    column("tokens", "recomputed", |row| format!("{:.0}", row.figures.recomputed_tokens)),
    Column {
        shown: |report| report.runs.iter().any(|row| row.figures.adapter_loads > 0.0),
        ..column("adapter", "loads", |row| format!("{:.0}", row.figures.adapter_loads))
    },
];

const fn column(group: &'static str, name: &'static str, cell: fn(&Row) -> String) -> Column {
    Column { group, name, cell, shown: |_| true }
}

impl Column {
    fn cells(&self, report: &Report) -> Vec<String> {
        let heading = [self.group.to_owned(), self.name.to_owned()];
        heading.into_iter().chain(report.runs.iter().map(self.cell)).collect()
    }
}

fn differs_in_pods(report: &Report) -> bool {
    let mut pods = report.runs.iter().map(|row| row.pods);
    let first = pods.next();
    pods.any(|pods| Some(pods) != first)
}

/// A figure and how far up or down the runs lie, if there are several.
fn with_spread(row: &Row, figure: fn(&Figures) -> f64) -> String {
    let mean = short(figure(&row.figures));
    if row.seeds < 2 { mean } else { format!("{mean} ±{}", short(figure(&row.spread) / 2.0)) }
}

/// Three digits at least, none that says nothing.
fn short(milliseconds: f64) -> String {
    if milliseconds.is_nan() {
        "-".to_owned()
    } else if milliseconds < 100.0 {
        format!("{milliseconds:.1}")
    } else {
        format!("{milliseconds:.0}")
    }
}

fn percent(ratio: f64) -> String {
    if ratio.is_nan() { "-".to_owned() } else { format!("{:.1}%", ratio * 100.0) }
}
