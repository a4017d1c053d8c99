//! Which configuration is in force.

use std::time::Instant;

use serde::Serialize;

use crate::config::Problem;
use crate::config::document::Document;
use crate::server::clock;

/// The configuration in force, and what kept a newer version from it.
#[derive(Clone, Debug)]
pub(super) struct InForce {
    generation: u64,
    since: Instant,
    document: Document,
    refused: Vec<Problem>,
}

/// What `/debug/config` shows.
#[derive(Debug, Serialize)]
pub(super) struct Shown {
    /// 1 at the start.
    generation: u64,
    age_seconds: f64,
    /// The problems of the newest version of the file where that is not in force.
    refused: Vec<Problem>,
    /// As `lodesman check` writes it out.
    resolved: Document,
}

impl InForce {
    /// The configuration of the start.
    pub(super) fn first(document: Document) -> Self {
        Self { generation: 1, since: clock::now(), document, refused: Vec::new() }
    }

    /// As it is written out.
    pub(super) fn document(&self) -> &Document {
        &self.document
    }

    /// Which version it is, from 1.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// The next one.
    pub(super) fn next(&self, document: Document) -> Self {
        Self { generation: self.generation + 1, ..Self::first(document) }
    }

    /// The same, though there is a newer version with these problems.
    pub(super) fn despite(&self, refused: Vec<Problem>) -> Self {
        Self { refused, ..self.clone() }
    }

    /// As it is shown.
    pub(super) fn shown(&self) -> Shown {
        Shown {
            generation: self.generation,
            age_seconds: clock::now().saturating_duration_since(self.since).as_secs_f64(),
            refused: self.refused.clone(),
            resolved: self.document.clone(),
        }
    }
}
