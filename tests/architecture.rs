//! The shape of the source tree, checked: who may use whom, what the core may not do, how long files are.
#![expect(clippy::unwrap_used, clippy::tests_outside_test_module, reason = "an integration test")]

use std::fs;
use std::path::{Path, PathBuf};

#[path = "architecture/robustness.rs"]
mod robustness;

/// A module, whether it is core, and the modules that it may use. Lowest first; nobody uses what stands below itself
/// in this list.
const LADDER: &[(&str, Kind, &[&str])] = &[
    ("wire", Kind::Generated, &[]),
    ("units", Kind::Core, &[]),
    ("metrics", Kind::Core, &[]),
    ("spans", Kind::Core, &["metrics"]),
    ("pool", Kind::Core, &[]),
    ("request", Kind::Core, &["units"]),
    ("prefix", Kind::Core, &["units", "pool", "request"]),
    ("flow", Kind::Core, &[]),
    ("scale", Kind::Core, &["units", "pool"]),
    ("recording", Kind::Core, &["metrics", "prefix"]),
    ("schedule", Kind::Core, &["units", "pool", "request", "prefix"]),
    (
        "director",
        Kind::Core,
        &["units", "metrics", "spans", "pool", "request", "prefix", "schedule"],
    ),
    (
        "extproc",
        Kind::Core,
        &[
            "wire",
            "metrics",
            "spans",
            "pool",
            "request",
            "prefix",
            "flow",
            "recording",
            "schedule",
            "director",
        ],
    ),
    (
        "config",
        Kind::Shell,
        &["units", "spans", "pool", "request", "prefix", "flow", "scale", "schedule", "director"],
    ),
    ("sim/engine", Kind::Core, &[]),
    ("sim", Kind::Shell, &[]),
    (
        "replay",
        Kind::Shell,
        &[
            "recording",
            "metrics",
            "pool",
            "request",
            "prefix",
            "scale",
            "schedule",
            "director",
            "config",
            "sim",
        ],
    ),
    ("telemetry", Kind::Shell, &["wire", "metrics", "spans", "recording", "config"]),
    ("discovery", Kind::Shell, &["pool", "config"]),
    ("k8s", Kind::Shell, &["metrics", "pool", "config"]),
    ("scrape", Kind::Shell, &["pool", "config"]),
    (
        "server",
        Kind::Shell,
        &["wire", "units", "metrics", "spans", "pool", "scale", "recording", "director", "extproc"],
    ),
    (
        "app",
        Kind::Shell,
        &[
            "metrics",
            "spans",
            "pool",
            "prefix",
            "flow",
            "scale",
            "recording",
            "schedule",
            "director",
            "extproc",
            "config",
            "telemetry",
            "discovery",
            "k8s",
            "scrape",
            "server",
        ],
    ),
    (
        "cli",
        Kind::Shell,
        &[
            "units",
            "pool",
            "schedule",
            "director",
            "extproc",
            "config",
            "discovery",
            "k8s",
            "scrape",
            "server",
            "sim",
            "replay",
            "telemetry",
            "app",
        ],
    ),
];

/// What no core module may name: I/O, clocks, global randomness.
const FORBIDDEN: &[&str] = &[
    "tokio::",
    "tonic::",
    "kube::",
    "reqwest::",
    "hyper::",
    "axum::",
    "std::fs",
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "Instant::now",
    "SystemTime",
    "fastrand::u",
    "fastrand::f",
    "fastrand::bool",
    "fastrand::shuffle",
    "Rng::new",
    "new_v4",
    "tracing::",
    "println!",
    "std::env::var",
];

/// The exception: channels and locks of tokio are no I/O.
const ALLOWED: &str = "tokio::sync";

const LONGEST_FILE: usize = 500;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Core,
    Shell,
    Generated,
}

/// A source file, its path relative to `src/`.
struct Source {
    path: String,
    text: String,
}

impl Source {
    /// The module of the ladder that it belongs to, the most particular one.
    fn module(&self) -> Option<&'static (&'static str, Kind, &'static [&'static str])> {
        let within = |name: &str| {
            self.path.strip_prefix(name).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        };
        LADDER.iter().filter(|(name, ..)| within(name)).max_by_key(|(name, ..)| name.len())
    }

    /// The text without tests.
    fn production(&self) -> &str {
        let file = Path::new(&self.path);
        let is_test = file
            .components()
            .any(|part| part.as_os_str() == "tests" || part.as_os_str() == "tests.rs");
        if is_test || self.path.ends_with("fixture.rs") || self.path.ends_with("testing.rs") {
            return "";
        }
        self.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
    }

    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let code = |(_, line): &(usize, &str)| !line.trim_start().starts_with("//");
        self.production().lines().enumerate().map(|(at, line)| (at + 1, line)).filter(code)
    }

    /// Uses of modules that are not below this one.
    fn upward(&self) -> Vec<String> {
        let Some((name, _, below)) = self.module() else {
            return vec![format!("{}: in no module of the ladder", self.path)];
        };
        let own = name.split('/').next().unwrap_or_default();
        let groups = self.lines().filter(|(_, line)| line.contains("crate::{"));
        let groups = groups
            .map(|(at, _)| format!("{}:{at}: name modules of the crate one by one", self.path));
        let uses = self
            .lines()
            .flat_map(|(at, line)| line.split("crate::").skip(1).map(move |used| (at, used)));
        uses.map(|(at, used)| {
            (at, used.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default())
        })
        .filter(|(_, used)| !used.is_empty() && *used != own && !below.contains(used))
        .map(|(at, used)| format!("{}:{at}: {name} may not use {used}", self.path))
        .chain(groups)
        .collect()
    }

    /// Words that a core module may not say.
    fn impure(&self) -> Vec<String> {
        if self.module().is_none_or(|(_, kind, _)| *kind != Kind::Core) {
            return Vec::new();
        }
        let says = |line: &str, word: &&&str| line.replace(ALLOWED, "").contains(**word);
        let words = |(at, line): (usize, &str)| {
            FORBIDDEN
                .iter()
                .filter(|word| says(line, word))
                .map(|word| format!("{}:{at}: the core may not say {word}", self.path))
                .collect::<Vec<_>>()
        };
        self.lines().flat_map(words).collect()
    }
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    collect(&root, &mut found);
    let relative =
        |path: &PathBuf| path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
    let source =
        |path: PathBuf| Source { path: relative(&path), text: fs::read_to_string(&path).unwrap() };
    let sources: Vec<_> = found
        .into_iter()
        .map(source)
        .filter(|s| s.path != "lib.rs" && s.path != "main.rs")
        .collect();
    assert!(sources.len() > 50, "the tree was found");
    sources
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn none(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

#[test]
fn modules_use_only_what_is_below_them() {
    none(&sources().iter().flat_map(Source::upward).collect::<Vec<_>>());
}

#[test]
fn the_ladder_itself_goes_downward() {
    for (at, (name, _, below)) in LADDER.iter().enumerate() {
        for used in *below {
            assert!(
                LADDER[..at].iter().any(|(lower, ..)| lower == used),
                "{name} uses {used}, which is not below it"
            );
        }
    }
}

// FR-059
#[test]
fn the_core_does_no_io_reads_no_clock_and_rolls_no_dice() {
    none(&sources().iter().flat_map(Source::impure).collect::<Vec<_>>());
}

#[test]
fn an_upward_import_and_an_impure_core_are_found() {
    let text = "//! Doc.\nuse crate::server::clock;\nlet now = Instant::now();\n".to_owned();
    let source = Source { path: "pool/bad.rs".to_owned(), text };
    assert_eq!(source.upward(), ["pool/bad.rs:2: pool may not use server"]);
    assert_eq!(source.impure(), ["pool/bad.rs:3: the core may not say Instant::now"]);
    let text = "//! Doc.\nuse crate::{metrics, server};\n".to_owned();
    let group = Source { path: "metrics/bad.rs".to_owned(), text };
    assert_eq!(group.upward(), ["metrics/bad.rs:2: name modules of the crate one by one"]);
    let outside = Source { path: "stray.rs".to_owned(), text: String::new() };
    assert_eq!(outside.upward().len(), 1);
}

#[test]
fn files_are_short_and_say_what_they_are() {
    let long = |source: &Source| source.text.lines().count() > LONGEST_FILE;
    let mute = |source: &Source| !source.text.starts_with("//!") && !source.production().is_empty();
    let problem = |source: &Source| match (long(source), mute(source)) {
        (true, _) => Some(format!("{}: longer than {LONGEST_FILE} lines", source.path)),
        (_, true) => Some(format!("{}: no module doc", source.path)),
        _ => None,
    };
    none(&sources().iter().filter_map(problem).collect::<Vec<_>>());
}

#[test]
fn every_plugin_file_is_in_the_table() {
    let sources = sources();
    let table = &sources.iter().find(|source| source.path == "schedule/registry.rs").unwrap().text;
    let mut count = 0;
    for kind in ["filter", "scorer", "picker", "detector", "producer", "handler"] {
        let folder = format!("schedule/{kind}/");
        let files = sources.iter().filter_map(|source| source.path.strip_prefix(&folder));
        for file in files.filter(|file| !file.contains('/')) {
            let row = format!("{kind}::{}::PLUGIN", file.trim_end_matches(".rs"));
            assert!(table.contains(&row), "{folder}{file} has no row {row}");
            count += 1;
        }
    }
    assert!(count > 5, "plugins were found");
}
