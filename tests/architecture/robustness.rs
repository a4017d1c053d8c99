//! `docs/robustness.md` against the tests: each test that it names is there, and has the row's number in a comment.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::{collect, none};

/// Shortest name of a test that says something.
const LEAST_NAME: usize = 12;

/// Names of test functions, and the numbers of rows in the comments above each.
type Tests = BTreeMap<String, BTreeSet<String>>;

/// The numbers of rows in a text.
fn numbers(text: &str) -> impl Iterator<Item = String> {
    let digits = |rest: &str| rest.chars().take_while(char::is_ascii_digit).collect::<String>();
    text.split("FR-").skip(1).map(digits).map(|number| format!("FR-{number}"))
}

/// The test functions of a file. Names may be there more than once.
fn tests_of(text: &str, found: &mut Tests) {
    let (mut is_test, mut above) = (false, BTreeSet::new());
    for line in text.lines().map(str::trim) {
        let function = line.trim_start_matches("pub ").trim_start_matches("async ");
        if line.starts_with("//") {
            above.extend(numbers(line));
        } else if line.starts_with("#[") {
            is_test |= line == "#[test]" || line.starts_with("#[tokio::test");
        } else if let Some(rest) = function.strip_prefix("fn ").filter(|_| is_test) {
            let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next();
            found.entry(name.unwrap_or_default().to_owned()).or_default().append(&mut above);
            is_test = false;
        } else if line.is_empty() || line.ends_with(['}', ';']) {
            (is_test, above) = (false, BTreeSet::new());
        }
    }
}

fn tests() -> Tests {
    let (root, mut files, mut found) =
        (Path::new(env!("CARGO_MANIFEST_DIR")), Vec::new(), Tests::new());
    for folder in ["src", "tests"] {
        collect(&root.join(folder), &mut files);
    }
    for file in files {
        tests_of(&fs::read_to_string(file).unwrap(), &mut found);
    }
    assert!(found.len() > 1_000, "{} tests were found", found.len());
    found
}

/// What is in code font.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn every_test_that_is_named_in_the_page_of_robustness_is_there_under_its_number() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/robustness.md");
    let (page, tests) = (fs::read_to_string(page).unwrap(), tests());
    let (mut problems, mut rows) = (Vec::new(), BTreeSet::new());
    for line in page.lines() {
        let row = numbers(line).next().filter(|_| line.starts_with("| FR-"));
        for name in quoted(line) {
            match (tests.get(name), &row) {
                (None, _) => problems.push(format!("there is no test {name}")),
                _ if name.len() < LEAST_NAME => problems.push(format!("{name} says too little")),
                (Some(marks), Some(row)) if !marks.contains(row) => {
                    problems.push(format!("no comment {row} above {name}"));
                }
                (Some(_), _) => {}
            }
        }
        if let Some(row) = row {
            if quoted(line).next().is_none() {
                problems.push(format!("{row} names no test"));
            }
            assert!(rows.insert(row), "{line} is there twice");
        }
    }
    let marks = tests.values().flatten();
    problems.extend(marks.filter(|it| !rows.contains(*it)).map(|it| format!("{it} has no row")));
    none(&problems);
    assert!(rows.len() > 50, "{} rows were found", rows.len());
}

#[test]
fn tests_are_found_with_what_stands_above_them() {
    let text = "// FR-001, FR-002\n#[tokio::test]\nasync fn one_of_them() {\n    fn not_this() {}\n}\n\n\
                // FR-003\nfn helper() {}\n\n/// Says more.\n#[test]\nfn another_one() {}\n";
    let mut found = Tests::new();
    tests_of(text, &mut found);
    let marks = |name: &str| found[name].iter().cloned().collect::<Vec<_>>();
    assert_eq!(found.len(), 2);
    assert_eq!(
        (marks("one_of_them"), marks("another_one")),
        (vec!["FR-001".into(), "FR-002".into()], vec![])
    );
}
