//! What is wrong with a document, and where.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

/// Names closer than this to an unknown one are worth a hint (Jaro-Winkler similarity, 0.0 ..= 1.0), where also no more
/// than a third of its letters are other ones: a beginning in common alone is no likeness.
const SIMILAR: f64 = 0.8;

/// Bytes of the longest name for which a near one is searched.
const LONGEST_NAME: usize = 64;

/// Near names are searched for so many problems of a document: each search takes time, and nobody reads more of them.
pub const MOST_SEARCHES: usize = 100;

/// So many names are searched for one: all types of plugins, and the instances of a large file.
const MOST_NAMES: usize = 1_000;

/// Where a message goes over to what to write instead, and how the hint begins.
const MARKS: [(&str, &str); 4] = [
    (", expected ", "give "),
    (", give ", "give "),
    (", there are ", "there are "),
    (" such as ", "write for example "),
];

/// One thing wrong with a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Whether the document can be used all the same.
    pub severity: Severity,
    /// Place in the document, as `schedulingProfiles[0].plugins[1].weight`; empty for the document itself.
    pub path: String,
    /// Line of that place, from 1; absent when it is not known.
    pub line: Option<u64>,
    /// What is wrong, in one sentence.
    pub message: String,
    /// What may have been meant.
    pub hint: Option<String>,
}

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The document cannot be used.
    Error,
    /// The document can be used, but says something that has no effect.
    Warning,
}

impl Problem {
    /// An error at `path`.
    pub fn error(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            path: path.into(),
            line: None,
            message: message.into(),
            hint: None,
        }
    }

    /// A warning at `path`.
    pub fn warning(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(path, message) }
    }

    /// An error as a type's own reader words it: what it says to write instead becomes the hint.
    pub fn told(path: impl Into<String>, message: &str) -> Self {
        if let Some((what, wanted)) = message.split_once(", expected ") {
            if what.starts_with("unknown ") {
                return Self::error(path, what).hint(known_names(wanted));
            }
            if wanted.starts_with("struct ") {
                return Self::no_map(path, given(what));
            }
        }
        if let Some(field) = message.strip_prefix("missing field ") {
            return Self::error(path, message).hint(format!("give {field}"));
        }
        for (mark, wording) in MARKS {
            if let Some((what, instead)) = message.split_once(mark) {
                return Self::error(path, what).hint(format!("{wording}{}", plain(instead)));
            }
        }
        Self::error(path, message)
    }

    /// An error where `given` stands in the place of parameters.
    pub fn no_map(path: impl Into<String>, given: &str) -> Self {
        Self::error(path, format!("{given} is no map of parameters"))
            .hint("give `name: value` pairs")
    }

    /// The same with the known name that is nearest to `name`, if one is near.
    #[must_use]
    pub fn nearest<'a>(self, name: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        match nearest(name, known) {
            Some(near) => self.hint(format!("did you mean `{near}`?")),
            None => self,
        }
    }

    /// The same with this hint where there is none.
    #[must_use]
    pub fn or_hint(self, hint: impl Into<String>) -> Self {
        if self.hint.is_some() { self } else { self.hint(hint) }
    }

    /// The same with a hint.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The text for a person: `file:line: path: message (hint)`.
    pub fn in_file<'a>(&'a self, file: &'a str) -> impl fmt::Display + 'a {
        InFile { problem: self, file }
    }
}

struct InFile<'a> {
    problem: &'a Problem,
    file: &'a str,
}

impl fmt::Display for InFile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { severity, path, line, message, hint } = self.problem;
        write!(f, "{}:", self.file)?;
        line.iter().try_for_each(|line| write!(f, "{line}:"))?;
        match severity {
            Severity::Error => write!(f, " error:")?,
            Severity::Warning => write!(f, " warning:")?,
        }
        if !path.is_empty() {
            write!(f, " {path}:")?;
        }
        write!(f, " {message}")?;
        hint.iter().try_for_each(|hint| write!(f, " ({hint})"))
    }
}

/// Gives each problem without a line that of its path, or of the nearest place around it.
pub fn locate(problems: &mut [Problem], lines: &BTreeMap<String, u64>) {
    for problem in problems.iter_mut().filter(|problem| problem.line.is_none()) {
        let mut path = problem.path.as_str();
        while problem.line.is_none() {
            problem.line = lines.get(path).copied();
            match path.rfind(['.', '[']).and_then(|end| path.get(..end)) {
                Some(around) => path = around,
                None => break,
            }
        }
    }
}

fn known_names(known: &str) -> String {
    format!("known: {}", known.trim_start_matches("one of ").replace(" or ", ", "))
}

/// The value that serde says was given.
fn given(what: &str) -> &str {
    match what.strip_prefix("invalid type: ") {
        // A struct takes a list of the right length for its fields.
        Some("sequence") | None => "a list",
        Some("unit value" | "null") => "nothing",
        Some(value) => value.find(['`', '"']).and_then(|at| value.get(at..)).unwrap_or(value),
    }
}

/// What Rust's names for types mean to somebody who writes a file.
fn plain(wanted: &str) -> &str {
    match wanted {
        "f32" | "f64" => "a number",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more",
        "a nonzero u8" | "a nonzero u16" | "a nonzero u32" | "a nonzero u64"
        | "a nonzero usize" => "a whole number, 1 or more",
        "a boolean" => "true or false",
        "a string" => "a text",
        "a sequence" => "a list",
        other => other,
    }
}

fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > LONGEST_NAME {
        return None;
    }
    known
        .into_iter()
        .take(MOST_NAMES)
        // So many letters at least would be other ones.
        .filter(|known| name.len().abs_diff(known.len()) <= name.len().div_ceil(3))
        .filter(|known| strsim::damerau_levenshtein(name, known) <= name.len().div_ceil(3))
        .map(|known| (strsim::jaro_winkler(name, known), known))
        .filter(|&(similarity, _)| similarity >= SIMILAR)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_reads_like_a_compiler_error() {
        let mut problem = Problem::error("plugins[0].type", "unknown plugin type `queue-scorr`")
            .nearest("queue-scorr", ["max-score-picker", "queue-scorer"]);
        problem.line = Some(4);
        assert_eq!(
            problem.in_file("epp.yaml").to_string(),
            "epp.yaml:4: error: plugins[0].type: unknown plugin type `queue-scorr` (did you mean `queue-scorer`?)"
        );
    }

    // FR-126
    #[test]
    fn what_to_write_instead_is_a_hint() {
        let hint = |message| {
            let Problem { message, hint, .. } = Problem::told("a", message);
            format!("{message} | {}", hint.unwrap_or_default())
        };
        for (message, expected) in [
            (
                "invalid type: string \"x\", expected f64",
                "invalid type: string \"x\" | give a number",
            ),
            ("unknown field `a`, expected `b` or `c`", "unknown field `a` | known: `b`, `c`"),
            (
                "unknown variant `a`, expected one of `b`, `c`",
                "unknown variant `a` | known: `b`, `c`",
            ),
            ("unknown field `a`, there are no fields", "unknown field `a` | there are no fields"),
            ("n is 3, give 0 to 1", "n is 3 | give 0 to 1"),
            ("`soon` is no duration such as 2s", "`soon` is no duration | write for example 2s"),
            ("missing field `a`", "missing field `a` | give `a`"),
            (
                "invalid type: integer `5`, expected struct Queue",
                "`5` is no map of parameters | give `name: value` pairs",
            ),
            (
                "invalid type: floating point `1.5`, expected struct Queue with 2 elements",
                "`1.5` is no map of parameters | give `name: value` pairs",
            ),
            (
                "invalid length 0, expected struct Queue with 1 element",
                "a list is no map of parameters | give `name: value` pairs",
            ),
            ("something else", "something else | "),
        ] {
            assert_eq!(hint(message), expected);
        }
    }

    #[test]
    fn a_place_that_is_not_in_the_document_has_the_line_of_what_is_around_it() {
        let lines = BTreeMap::from([("plugins[0]".to_owned(), 7)]);
        let mut problems = [Problem::error("plugins[0].type", "missing")];
        locate(&mut problems, &lines);
        assert_eq!(problems[0].line, Some(7));
    }

    #[test]
    fn a_name_that_resembles_nothing_gets_no_hint() {
        let hint = |name, known| Problem::error("", "").nearest(name, [known]).hint;
        assert_eq!(hint("xyz", "queue-scorer"), None);
        assert_eq!(hint("models-responder", "models-data-source"), None);
    }

    #[test]
    fn no_near_name_is_searched_for_what_is_no_name() {
        let hint = |length: usize| {
            let (name, known) = ("a".repeat(length), "a".repeat(length - 1));
            Problem::error("", "").nearest(&name, [known.as_str()]).hint
        };
        assert_eq!(hint(LONGEST_NAME).map(|hint| hint.starts_with("did you mean")), Some(true));
        assert_eq!(hint(LONGEST_NAME + 1), None);
        let known = std::iter::repeat_n("zzz", MOST_NAMES).chain(["queue-scorer"]);
        assert_eq!(Problem::error("", "").nearest("queue-scoer", known).hint, None);
    }
}
