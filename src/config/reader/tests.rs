use serde::Deserialize;

use super::*;
use crate::config::tree;

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Sample {
    items: Readable<Item>,
    mode: Option<Mode>,
    #[serde(deserialize_with = "or_default")]
    count: Option<u8>,
}

#[derive(Debug, Deserialize, PartialEq)]
struct Item {
    name: String,
    port: u16,
}

#[derive(Debug, Deserialize, PartialEq)]
enum Mode {
    Fast,
    Slow,
}

fn sample(text: &str) -> (Sample, Vec<(String, String)>) {
    let (sample, problems) = read(&tree::parse(text).expect("YAML"));
    (sample, problems.into_iter().map(|problem| (problem.path, problem.message)).collect())
}

#[test]
fn every_mistake_is_reported_and_the_rest_is_read() {
    let (read, problems) = sample(
        "items:\n- {name: a, port: 1}\n- {name: b, port: 70000}\n- {port: 3}\n- {name: c, port: 4, colour: red}\n\
         count: many\nmodes: Fast\n",
    );
    let names: Vec<_> =
        read.items.iter().map(|(at, item)| (at, item.name.as_str(), item.port)).collect();
    assert_eq!(names, [(0, "a", 1), (3, "c", 4)]);
    assert_eq!(read.items.len(), 4);
    let paths: Vec<_> = problems.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(paths, ["items[1].port", "items[2]", "items[3].colour", "count", "modes"]);
    assert!(problems[0].1.contains("70000"), "{problems:?}");
    assert_eq!(problems[1].1, "missing field `name`");
}

#[test]
fn an_absent_section_is_its_default() {
    for text in ["", "items:\ncount:\nmode: ~\n"] {
        let (read, problems) = sample(text);
        assert_eq!((read.items.len(), read.count, read.mode, problems), (0, None, None, vec![]));
    }
}

#[test]
fn a_wrong_word_of_a_few_is_reported_with_the_right_ones() {
    assert_eq!(sample("mode: Slow").0.mode, Some(Mode::Slow));
    let (_, problems) = sample("mode: Quick");
    assert_eq!(problems, [("mode".to_owned(), "`Quick` is unknown".to_owned())]);
}

#[test]
fn a_document_of_the_wrong_shape_is_one_problem() {
    let (read, problems) = sample("- a\n- b\n");
    assert_eq!((read.items.len(), problems.len()), (0, 1));
}

#[test]
fn near_names_are_searched_for_the_first_problems_only() {
    let item = "- {name: a, port: 1, prt: 2}\n";
    let text = format!("items:\n{}", item.repeat(MOST_SEARCHES + 1));
    let (_, problems) = read::<Sample>(&tree::parse(&text).expect("YAML"));
    let hints: Vec<_> = problems.iter().filter_map(|problem| problem.hint.as_deref()).collect();
    assert_eq!(hints.len(), MOST_SEARCHES + 1);
    assert_eq!(hints[MOST_SEARCHES - 1], "did you mean `port`?");
    assert_eq!(hints[MOST_SEARCHES], "known: name, port");
}
