//! A report as a table for people.

use std::fmt;

use crate::replay::{Figures, Report, Row};

/// A line of groups, a line of names, and one for each row; columns that say nothing are left out.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<Vec<String>> =
            COLUMNS.iter().filter(|column| (column.shown)(self)).map(|it| it.cells(self)).collect();
        for line in 0..self.runs.len() + 2 {
            let cells = columns.iter().enumerate().map(|(at, cells)| padded(cells, line, at == 0));
            writeln!(f, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
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
    column("TTFT ms", "p50", |row| with_spread(row, |figures| figures.ttft_ms.p50)),
    column("", "p90", |row| with_spread(row, |figures| figures.ttft_ms.p90)),
    column("", "p99", |row| with_spread(row, |figures| figures.ttft_ms.p99)),
    column("TPOT ms", "p50", |row| short(row.figures.tpot_ms.p50)),
    column("", "p90", |row| short(row.figures.tpot_ms.p90)),
    column("", "p99", |row| short(row.figures.tpot_ms.p99)),
    column("to end ms", "p50", |row| short(row.figures.end_to_end_ms.p50)),
    column("", "p90", |row| short(row.figures.end_to_end_ms.p90)),
    column("", "p99", |row| short(row.figures.end_to_end_ms.p99)),
    column("token", "hits", |row| percent(row.figures.hit_ratio)),
    column("request", "hits", |row| percent(row.figures.request_hit_ratio)),
    column("max /", "mean", |row| times(row.figures.max_over_mean)),
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

/// A cell of a column, as wide as the widest: words to the left, numbers to the right.
fn padded(cells: &[String], line: usize, words: bool) -> String {
    let width = cells.iter().map(|cell| cell.chars().count()).max().unwrap_or_default();
    let cell = cells.get(line).map(String::as_str).unwrap_or_default();
    if words { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
}

/// A figure and how far up or down the runs lie, if there are several.
fn with_spread(row: &Row, figure: fn(&Figures) -> f64) -> String {
    let mean = figure(&row.figures);
    let apart = figure(&row.spread) / 2.0;
    if row.seeds < 2 || mean.is_nan() || apart.is_nan() {
        return short(mean);
    }
    format!("{} ±{apart:.*}", short(mean), places(mean))
}

/// Three digits at least, none that says nothing.
fn short(milliseconds: f64) -> String {
    if milliseconds.is_nan() {
        return "-".to_owned();
    }
    format!("{milliseconds:.*}", places(milliseconds))
}

fn places(milliseconds: f64) -> usize {
    usize::from(milliseconds < 100.0)
}

fn percent(ratio: f64) -> String {
    if ratio.is_nan() { "-".to_owned() } else { format!("{:.1}%", ratio * 100.0) }
}

fn times(mean: f64) -> String {
    if mean.is_nan() { "-".to_owned() } else { format!("{mean:.2}") }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::replay::Percentiles;

    fn row(policy: &str, scale: f64) -> Row {
        let percentiles =
            Percentiles { p50: 12.34 * scale, p90: 456.7 * scale, p99: 7_890.0 * scale };
        let figures = Figures {
            ttft_ms: percentiles,
            tpot_ms: percentiles,
            end_to_end_ms: Percentiles { p50: f64::NAN, ..percentiles },
            hit_ratio: 0.123,
            request_hit_ratio: f64::NAN,
            max_over_mean: 1.25,
            adapter_loads: 0.0,
            recomputed_tokens: 1_000.0,
            requests: 100.0,
            left_out: 0.0,
            refused: 0.0,
            recommended_replicas: f64::NAN,
        };
        Row {
            policy: policy.to_owned(),
            load: Some(0.7),
            pods: 16,
            seeds: 3,
            figures,
            spread: figures,
        }
    }

    #[test]
    fn rows_are_aligned_and_say_how_sure_they_are() {
        let report = Report { runs: vec![row("default", 1.0), row("round-robin", 10.0)] };
        expect![[r"
                                 TTFT ms                            TPOT ms               to end ms               token  request  max /      tokens
            policy       load        p50         p90           p99      p50   p90    p99        p50   p90    p99   hits     hits   mean  recomputed
            default      0.70  12.3 ±6.2    457 ±228    7890 ±3945     12.3   457   7890          -   457   7890  12.3%        -   1.25        1000
            round-robin  0.70    123 ±62  4567 ±2284  78900 ±39450      123  4567  78900          -  4567  78900  12.3%        -   1.25        1000
        "]].assert_eq(&report.to_string());
    }

    #[test]
    fn figures_that_do_not_exist_have_no_spread() {
        let mut none = row("default", 1.0);
        none.figures.ttft_ms = Percentiles { p50: f64::NAN, p90: f64::NAN, p99: f64::NAN };
        none.spread.ttft_ms = none.figures.ttft_ms;
        let table = Report { runs: vec![none] }.to_string();
        assert!(!table.contains("NaN") && !table.contains('±'), "{table}");
        assert!(
            table.lines().next_back().unwrap().starts_with("default  0.70        -    -    -"),
            "{table}"
        );
    }

    #[test]
    fn what_is_the_same_everywhere_or_nowhere_is_left_out() {
        let mut report = Report { runs: vec![row("a", 1.0), row("b", 1.0)] };
        let plain = report.to_string();
        assert!(!plain.contains("pods") && !plain.contains("adapter"));
        report.runs[1].pods = 8;
        report.runs[1].seeds = 1;
        report.runs[1].figures.adapter_loads = 2.5;
        report.runs[1].figures.left_out = 7.0;
        let full = report.to_string();
        assert!(full.contains("pods") && full.contains("adapter"));
        assert!(full.ends_with("7 requests are larger than a cache and left out.\n"), "{full}");
    }
}
