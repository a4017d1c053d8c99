//! Texts that people and other programs write: no panic, and what is read makes sense.

use std::collections::HashSet;
use std::sync::LazyLock;

use lodesman::config::{self, Severity};
use lodesman::discovery;
use lodesman::pool::Sample;
use lodesman::schedule::registry::PLUGINS;
use lodesman::scrape::Dialect;
use lodesman::scrape::exposition::Scan;

use super::Dice;

static DIALECT: LazyLock<Dialect> = LazyLock::new(Dialect::default);

/// A metrics page: cut anywhere it says the same, and only what can be counted.
pub(crate) fn exposition(data: &[u8]) {
    let (first, second) = Dice(data).halves();
    let read = |pieces: &[&[u8]]| {
        let mut scan = Scan::new(&DIALECT);
        for piece in pieces {
            scan.feed(piece);
        }
        scan.finish()
    };
    let whole = read(&[&[first, second].concat()]);
    assert_eq!(read(&[first, second]), whole, "cuts mean nothing");
    let Sample { waiting, running, kv_usage } = whole;
    for value in [waiting, running, kv_usage].into_iter().flatten() {
        assert!(value >= 0.0 && value.is_finite(), "{value}");
    }
}

/// A configuration: it is resolved, or there is an error that says why.
pub(crate) fn configuration(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let errors = |problems: &[config::Problem]| {
        problems.iter().filter(|problem| problem.severity == Severity::Error).count()
    };
    match config::load(Some(text), &[PLUGINS]) {
        Ok(resolved) => assert_eq!(errors(&resolved.warnings), 0),
        Err(problems) => assert!(errors(&problems) > 0),
    }
}

/// A file of endpoints: each is listed once, with a port.
pub(crate) fn file_discovery(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(listing) = discovery::parse(text) else { return };
    let (mut names, mut addresses) = (HashSet::new(), HashSet::new());
    for endpoint in &listing.endpoints {
        assert!(names.insert((&endpoint.namespace, &endpoint.name)), "{}", endpoint.name);
        assert!(addresses.insert(endpoint.address), "{}", endpoint.address);
        assert_ne!(endpoint.address.port(), 0);
    }
}
