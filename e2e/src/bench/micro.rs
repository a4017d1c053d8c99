//! What the micro-bench has measured.

use std::fs;

use anyhow::{Context, Result};
use serde_json::Value;

use super::figure::{Figure, Unit};
use super::lab::Lab;

/// The cases that `wanted` takes by bench and case; none if the micro-bench was not run.
pub(super) fn figures(lab: &Lab, wanted: impl Fn(&str, &str) -> bool) -> Result<Vec<Figure>> {
    let Some(path) = &lab.micro else { return Ok(Vec::new()) };
    let text = fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
    let lines: Vec<Value> = text
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()
        .with_context(|| format!("{} is not of the micro-bench", path.display()))?;
    Ok(lines.iter().filter_map(|line| figure(line, &wanted)).collect())
}

fn figure(line: &Value, wanted: impl Fn(&str, &str) -> bool) -> Option<Figure> {
    let text = |name: &str| line.get(name).and_then(Value::as_str);
    let number = |name: &str| line.get(name).and_then(Value::as_f64);
    let case = text("case")?;
    if !wanted(text("bench")?, case) {
        return None;
    }
    if let Some(bytes) = number("bytes") {
        return Some(Figure::new(format!("{case} (bytes)"), Unit::Count, [bytes]));
    }
    let counted =
        ["instructions", "allocations"].map(|what| Some(format!("{} {what}", number(what)?)));
    let note: Vec<String> = counted.into_iter().flatten().collect();
    let samples = [number("us")?, number("us_max").unwrap_or(f64::NAN)];
    Some(Figure::new(case, Unit::Us, samples).with_note(note.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_becomes_a_figure() {
        let line = r#"{"bench":"json","case":"1 kB","us":1.5,"us_max":2.5,"instructions":9000,"allocations":0}"#;
        let line: Value = serde_json::from_str(line).unwrap();
        let figure = figure(&line, |bench, case| (bench, case) == ("json", "1 kB")).unwrap();
        assert_eq!((figure.median(), figure.range()), (Some(1.5), Some((1.5, 2.5))));
        assert_eq!(figure.note, "9000 instructions, 0 allocations");
        assert!(super::figure(&line, |_, _| false).is_none());
    }
}
