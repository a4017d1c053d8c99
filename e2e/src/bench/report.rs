//! What a run of the bench has measured, as a table for the terminal, as Markdown and as JSON.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use super::figure::Figure;

/// A run of the bench.
#[derive(Debug)]
pub struct Report {
    /// The rows in their order.
    pub rows: Vec<Measured>,
    /// Requests that failed or came back with other bytes, by reason.
    pub failures: BTreeMap<String, usize>,
    /// How long it took, in whole seconds.
    pub elapsed: Duration,
}

/// A measured row.
#[derive(Debug)]
pub struct Measured {
    /// Its number.
    pub number: u8,
    /// What was done.
    pub title: &'static str,
    /// What it cost.
    pub figures: Vec<Figure>,
}

impl Report {
    /// How many requests failed.
    pub fn failed(&self) -> usize {
        self.failures.values().sum()
    }

    /// All figures, for scripts.
    pub fn json(&self) -> Value {
        let row = |row: &Measured| {
            let figures: Vec<Value> = row.figures.iter().map(Figure::json).collect();
            json!({ "number": row.number, "title": row.title, "figures": figures })
        };
        json!({
            "machine": machine(),
            "elapsed_s": self.elapsed.as_secs(),
            "failed": self.failed(),
            "failures": self.failures,
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
        })
    }

    /// The table for a page of documentation.
    pub fn markdown(&self) -> String {
        let mut text = String::from(
            "| # | work | figure | median | from to | at most | |\n|--:|---|---|--:|--:|--:|---|\n",
        );
        for row in &self.rows {
            let (mut number, mut title) = (row.number.to_string(), row.title);
            for figure in &row.figures {
                let Cells { median, range, goal, remark } = Cells::of(figure);
                let name = &figure.name;
                let line = format!(
                    "| {number} | {title} | {name} | {median} | {range} | {goal} | {remark} |"
                );
                text.push_str(&line);
                text.push('\n');
                (number, title) = (String::new(), "");
            }
        }
        let (machine, seconds) = (machine(), self.elapsed.as_secs());
        let written =
            writeln!(text, "\n{machine}; {seconds} s, {} failed requests.", self.failed());
        debug_assert!(written.is_ok(), "writing to a string");
        text
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in &self.rows {
            writeln!(f, "\n{:>2}  {}", row.number, row.title)?;
            for figure in &row.figures {
                let Cells { median, range, goal, remark } = Cells::of(figure);
                let name = &figure.name;
                let line = format!("    {name:<40} {median:>10}  {range:<20} {goal:>9}  {remark}");
                writeln!(f, "{}", line.trim_end())?;
            }
        }
        writeln!(f, "\n{}; {} s", machine(), self.elapsed.as_secs())?;
        for (reason, count) in &self.failures {
            writeln!(f, "{count} failed: {reason}")?;
        }
        Ok(())
    }
}

/// A figure as text.
struct Cells {
    median: String,
    range: String,
    goal: String,
    remark: String,
}

impl Cells {
    fn of(figure: &Figure) -> Self {
        let show = |value| figure.unit.show(value);
        let met = match (figure.met(), figure.goal) {
            (Some(true), _) => "met",
            (Some(false), _) => "MISSED",
            (None, Some(_)) => "not measured",
            (None, None) => "",
        };
        let remark = match (met, figure.note.as_str()) {
            (met, "") => met.to_owned(),
            ("", note) => note.to_owned(),
            (met, note) => format!("{met}; {note}"),
        };
        let range = figure.range().filter(|(least, most)| least < most);
        Self {
            median: figure.median().map_or_else(|| "-".to_owned(), show),
            range: range.map_or_else(String::new, |(least, most)| {
                format!("{} .. {}", show(least), show(most))
            }),
            goal: figure.goal.map_or_else(String::new, show),
            remark,
        }
    }
}

/// Processor and cores, for whoever reads the figures later.
fn machine() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown processor", |(_, model)| model);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{model}, {cores} cores")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Unit;

    fn report() -> Report {
        let mut ratio = Figure::new("real / null", Unit::Ratio, [1.25, 1.5, 1.75]);
        ratio.goal = Some(1.3);
        let cost = Figure::new("CPU null", Unit::Us, [40.0]).with_note("30 % in the kernel".into());
        let rows = vec![Measured { number: 1, title: "work", figures: vec![ratio, cost] }];
        Report { rows, failures: BTreeMap::from([("no".into(), 2)]), elapsed: Duration::ZERO }
    }

    #[test]
    fn markdown_names_a_row_once_and_says_whether_the_goal_is_met() {
        let text = report().markdown();
        let lines: Vec<&str> = text.lines().skip(2).take(2).collect();
        let expected = [
            "| 1 | work | real / null | 1.50x | 1.25x .. 1.75x | 1.30x | MISSED |",
            "|  |  | CPU null | 40.0 us |  |  | 30 % in the kernel |",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn json_has_every_sample_and_the_failures() {
        let json = report().json();
        assert_eq!(json["failed"], 2);
        let figure = &json["rows"][0]["figures"][0];
        assert_eq!((&figure["median"], &figure["met"]), (&json!(1.5), &json!(false)));
        assert_eq!(figure["samples"], json!([1.25, 1.5, 1.75]));
    }

    #[test]
    fn goal_without_a_sample_is_told() {
        let figure = Figure::missing("binary", 25.0);
        assert_eq!(Cells::of(&figure).remark, "not measured");
    }
}
