//! Texts that people and other programs write: no panic, and what is read makes sense.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use lodesman::config::{self, Address, Engines, Severity};
use lodesman::discovery;
use lodesman::pool::Sample;
use lodesman::schedule::registry::PLUGINS;
use lodesman::scrape::exposition::Scan;
use lodesman::scrape::{Dialect, Dialects};

use super::Dice;

/// What is read where no label and no configuration says the engine: all engines' metrics.
static DIALECT: LazyLock<Arc<Dialect>> =
    LazyLock::new(|| Arc::clone(Dialects::new(&Engines::default()).dialect(None)));

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
    let Some((_, Sample { waiting, running, kv_usage, block_size, blocks, .. })) = whole else {
        return;
    };
    assert!(block_size != Some(0) && blocks != Some(0));
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
    for member in &listing.members {
        assert!(names.insert((&member.namespace, &member.name)), "{}", member.name);
        assert!(addresses.insert(&member.address), "{}", member.address);
        if let Address::Ip(address) = member.address {
            assert_ne!(address.port(), 0);
        }
    }
}
