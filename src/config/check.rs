//! What there is to say of a configuration document: the report of `lodesman check`.

use serde::Serialize;

use crate::config::document::Document;
use crate::config::problem::{self, Problem, Severity};
use crate::config::{FileDiscovery, Resolved, load, tree};
use crate::schedule::registry::Plugin;

/// The problems of a document, and what it says when they are no errors.
#[derive(Debug, Serialize)]
pub struct Report {
    /// By line.
    pub problems: Vec<Problem>,
    /// The document written out; absent when there is an error.
    pub resolved: Option<Document>,
    /// The file that it has the endpoints from.
    #[serde(skip)]
    pub discovery: Option<FileDiscovery>,
}

/// Checks a document with the plugins of `tables`.
pub fn check(text: &str, tables: &[&'static [Plugin]]) -> Report {
    match load(Some(text), tables) {
        Ok(Resolved { warnings, document, discovery, .. }) => {
            Report { problems: warnings, resolved: Some(document), discovery }
        }
        Err(problems) => Report { problems, resolved: None, discovery: None },
    }
}

impl Report {
    /// Adds problems of the same document, `text`, that were found elsewhere.
    pub fn add(&mut self, text: &str, mut found: Vec<Problem>) {
        problem::locate(
            &mut found,
            &tree::parse(text).map(|tree| tree.lines()).unwrap_or_default(),
        );
        self.problems.append(&mut found);
        self.problems.sort_by_key(|problem| problem.line);
        if !self.good() {
            self.resolved = None;
        }
    }

    /// Whether a picker would start with the document.
    pub fn good(&self) -> bool {
        self.problems.iter().all(|problem| problem.severity == Severity::Warning)
    }

    /// The problems for a person, one a line.
    pub fn problems_in(&self, file: &str) -> String {
        let lines = self.problems.iter().map(|problem| problem.in_file(file).to_string() + "\n");
        lines.collect()
    }

    /// The document written out as YAML; empty when there is an error.
    ///
    /// # Errors
    /// When it cannot be written, which is a fault.
    pub fn yaml(&self) -> Result<String, serde_saphyr::ser::Error> {
        self.resolved.as_ref().map_or_else(|| Ok(String::new()), serde_saphyr::to_string)
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use expect_test::expect_file;

    use super::*;
    use crate::config::sources;
    use crate::config::tree::{Node, Value};
    use crate::schedule::registry::{PLUGINS, find};

    fn folder() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/configs")
    }

    /// The configurations of the folder: file name and text.
    fn samples() -> Vec<(String, String)> {
        let entries = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
        let samples = entries.filter(|path| path.extension().is_some_and(|end| end == "yaml"));
        let sample = |path: PathBuf| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(path).unwrap())
        };
        let samples: Vec<_> = samples.map(sample).collect();
        assert!(samples.len() >= 5, "samples were found");
        samples
    }

    fn member<'a>(node: &'a Node, name: &str) -> Option<&'a Node> {
        let Value::Map(members) = &node.value else { return None };
        members.iter().find(|(key, _)| key == name).map(|(_, node)| node)
    }

    /// The types that a document's plugins have.
    fn types(text: &str) -> Vec<String> {
        let tree = tree::parse(text).unwrap();
        let Value::List(plugins) = &member(&tree, "plugins").unwrap().value else { panic!() };
        let name = |plugin: &Node| {
            let Value::Text(name) = &member(plugin, "type").unwrap().value else { panic!() };
            name.clone()
        };
        plugins.iter().map(name).collect()
    }

    #[test]
    fn samples_are_resolved_or_refused_as_recorded() {
        for (name, text) in samples() {
            let report = check(&text, &[PLUGINS]);
            let told = report.problems_in(&name) + &report.yaml().unwrap();
            expect_file![folder().join(name.replace(".yaml", ".expected"))].assert_eq(&told);
        }
    }

    #[test]
    fn a_sample_is_refused_with_the_name_of_each_type_that_is_lacking() {
        for (name, text) in samples() {
            let source = |name: &String| sources::TYPES.iter().any(|(source, _)| source == name);
            let here = |name: &String| {
                find(&[PLUGINS], name).is_some() || source(name) || name == "file-discovery"
            };
            let lacking: Vec<_> = types(&text).into_iter().filter(|name| !here(name)).collect();
            let report = check(&text, &[PLUGINS]);
            let messages: Vec<_> = report.problems.iter().map(|p| p.message.as_str()).collect();
            for type_name in &lacking {
                let expected = format!("plugin type `{type_name}` is not supported yet");
                assert!(messages.contains(&expected.as_str()), "{name}: {type_name}: {messages:?}");
            }
            let gated = text.contains("[flowControl]");
            assert_eq!(report.good(), lacking.is_empty() && !gated, "{name}: {messages:?}");
        }
    }

    // FR-128
    #[test]
    fn what_is_written_out_is_a_document_that_says_the_same() {
        let header = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n";
        let empty = (String::new(), header.to_owned());
        let mut good = 0;
        for (name, text) in samples().into_iter().chain([empty]) {
            let report = check(&text, &[PLUGINS]);
            let Some(resolved) = &report.resolved else { continue };
            let yaml = report.yaml().unwrap();
            let again = check(&yaml, &[PLUGINS]);
            assert_eq!(again.problems, [], "{name}: {yaml}");
            assert_eq!(again.resolved.as_ref(), Some(resolved), "{name}");
            good += 1;
        }
        assert!(good >= 2);
    }

    #[test]
    fn an_error_leaves_nothing_resolved() {
        let report = check("a: 1", &[PLUGINS]);
        assert!(!report.good() && report.resolved.is_none());
        assert_eq!(report.yaml().unwrap(), "");
    }
}
