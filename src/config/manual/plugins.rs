//! `docs/plugins.md`: every type by its row in the table, the doc of its file, and its struct of parameters.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::config::parameters::{self, Parameter};
use crate::config::resolve::{ALIASES, NOT_YET, instead_of};
use crate::config::sources;
use crate::schedule::registry::{Build, PLUGINS};

/// Whether a plugin is of a kind.
type Is = fn(&Build) -> bool;

/// What stands before the types.
const HEAD: &str = "\
# Plugins

The `type`s of a [configuration](configuration.md), with what they take under `parameters`. Scores are 0 to 1, a profile adds
them up by their weights. *Stale* is a metrics page that is too old to be believed, *unknown* what none has told yet.
Where a filter leaves nobody the request is answered with 503 if no endpoint can serve it, with 429 if none has room.

";

/// What stands before the types that are not there.
const LATER: &str = "
## Not yet

Types of the reference that this build has not. A configuration that names one is refused with exit code 78, and told so.

";

const DISCOVERY: (&str, &str) = (
    "file-discovery",
    "Reads endpoints from a file: `endpoints` with `name`, `address`, `port`, `namespace` and `labels`. An address is an IP \
     address, a host name (one endpoint at each of its addresses) or a service such as `_http._tcp.example`, which \
     needs no port.",
);

/// The kinds of plugins, in the order of a decision.
const KINDS: [(&str, Is); 9] = [
    ("Profile handlers", |build| matches!(build, Build::Handler(_))),
    ("Filters", |build| matches!(build, Build::Filter(..) | Build::Both(..))),
    ("Scorers", |build| matches!(build, Build::Scorer(_))),
    ("Pickers", |build| matches!(build, Build::Picker(_))),
    ("Saturation detectors", |build| matches!(build, Build::Detector(..))),
    ("Admitters", |build| matches!(build, Build::Admitter(_))),
    ("Producers", |build| matches!(build, Build::Producer(_))),
    ("Parsers", |build| matches!(build, Build::Parser)),
    ("Test aids", |build| matches!(build, Build::ServedVerifier)),
];

/// The page.
pub(super) fn page() -> String {
    let mut page = HEAD.to_owned();
    let sources = Sources::read();
    for (title, is) in KINDS {
        writeln!(page, "## {title}\n").unwrap();
        for plugin in PLUGINS.iter().filter(|plugin| is(&plugin.build)) {
            entry(&mut page, (plugin.name, plugin.summary), &sources);
        }
    }
    page.push_str("## Sources\n\n");
    for row in sources::TYPES.into_iter().chain([DISCOVERY]) {
        entry(&mut page, row, &sources);
    }
    page.truncate(page.trim_end().len());
    page.push('\n');
    page.push_str(LATER);
    for name in NOT_YET {
        let instead = instead_of(name).map(|hint| format!(": {hint}")).unwrap_or_default();
        writeln!(page, "- `{name}`{instead}").unwrap();
    }
    page
}

fn entry(page: &mut String, (name, summary): (&str, &str), sources: &Sources) {
    writeln!(page, "### `{name}`\n\n{summary}\n").unwrap();
    if let Some(hint) = instead_of(name).filter(|_| !summary.contains("Deprecated")) {
        writeln!(page, "Deprecated: {hint}.\n").unwrap();
    }
    for (alias, _) in ALIASES.iter().filter(|(_, meant)| *meant == name) {
        writeln!(page, "The deprecated name `{alias}` means it too.\n").unwrap();
    }
    if let Some(body) = sources.body(name) {
        writeln!(page, "{body}\n").unwrap();
    }
    let parameters: Vec<_> = parameters::of(name).collect();
    if parameters.is_empty() {
        return;
    }
    page.push_str("| parameter | type | default | |\n|---|---|---|---|\n");
    for parameter @ Parameter { summary, .. } in parameters {
        let default = match parameter.default {
            None => "required".to_owned(),
            Some("null") => String::new(),
            Some(json) => format!("`{json}`"),
        };
        let kind = sources.kind(name, parameter);
        writeln!(page, "| `{}` | {kind} | {default} | {summary} |", parameter.name).unwrap();
    }
    page.push('\n');
}

/// The files that plugins and their parameters are in.
struct Sources(Vec<String>);

impl Sources {
    fn read() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut files = Vec::new();
        collect(&root.join("schedule"), &mut files);
        files.sort();
        files.extend(["config/sources.rs", "config/resolve.rs"].map(|file| root.join(file)));
        Self(files.iter().map(|file| fs::read_to_string(file).unwrap()).collect())
    }

    /// The file of a plugin.
    fn of(&self, plugin: &str) -> Option<&String> {
        let row = format!("name: \"{plugin}\"");
        let shared = format!("\"{plugin}\"");
        let rows =
            |mark: String| self.0.iter().find(move |text| is_plugin(text) && text.contains(&mark));
        rows(row).or_else(|| rows(shared))
    }

    /// The doc of a plugin's file after its first paragraph, which the row says too.
    fn body(&self, plugin: &str) -> Option<String> {
        let doc = self.of(plugin)?.lines().map_while(|line| line.strip_prefix("//!"));
        let doc: Vec<&str> = doc.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
        let begin = doc.iter().position(|line| line.is_empty())?;
        let body = doc.get(begin + 1..)?.join("\n");
        Some(body.replace("[`", "`").replace("`]", "`"))
    }

    /// What a parameter is, in a word, by the type of its field; else by its default.
    fn kind(&self, plugin: &str, Parameter { name, default, .. }: &Parameter) -> &'static str {
        let own = self.of(plugin).into_iter().chain(&self.0);
        let kind = own.filter_map(|text| field(text, name)).map(word).next();
        let kind = kind.unwrap_or_else(|| panic!("no field for {name} of {plugin}"));
        let text = default.is_some_and(|json| json.starts_with('"'));
        kind.unwrap_or(if text { "text" } else { "map" })
    }
}

/// Whether a file has a plugin, and not the table of all of them.
fn is_plugin(text: &str) -> bool {
    text.contains("build: Build::") && !text.contains("pub static PLUGINS")
}

fn collect(folder: &Path, files: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            collect(&entry, files);
        } else if !entry.ends_with("tests.rs") {
            files.push(entry);
        }
    }
}

/// The type of the field of a struct that is read from this parameter.
fn field<'a>(text: &'a str, parameter: &str) -> Option<&'a str> {
    let renamed = format!("rename = \"{parameter}\"");
    let mut lines = text.lines().skip_while(|line| !line.contains(&renamed)).skip(1);
    let line = lines.next().or_else(|| {
        let name = format!("{}: ", snake(parameter));
        let named = |line: &&str| {
            let field = line.trim_start().trim_start_matches("pub ");
            line.starts_with("    ") && !line.starts_with("     ") && field.starts_with(&name)
        };
        text.lines().find(named)
    })?;
    line.split_once(": ").map(|(_, kind)| kind.trim_end_matches(','))
}

fn snake(name: &str) -> String {
    let letters = name.chars().enumerate().map(|(at, letter)| {
        let word = at > 0 && letter.is_ascii_uppercase();
        format!("{}{}", if word { "_" } else { "" }, letter.to_ascii_lowercase())
    });
    letters.collect()
}

/// None for a type of the plugin's own.
fn word(kind: &str) -> Option<&'static str> {
    let inner = |of: &str| kind.strip_prefix(of)?.strip_suffix('>');
    if let Some(inner) = inner("Option<").or_else(|| inner("Positive<")) {
        return word(inner);
    }
    Some(match kind {
        "bool" => "true or false",
        "f32" | "f64" => "number",
        "String" | "Box<str>" | "Arc<str>" | "PathBuf" | "Path" | "Scheme" => "text",
        "GoDuration" => "duration",
        "IgnoredAny" | "serde::de::IgnoredAny" | "Value" | "Parameters" => "any",
        _ if kind.starts_with("Vec<") => "list",
        _ if kind.starts_with(['i', 'u']) || kind.starts_with("NonZero") => "whole number",
        _ => return None,
    })
}
