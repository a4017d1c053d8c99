//! Follows the configuration file: a good new version is adopted while requests are served, a bad one is refused and the
//! last good one stays.
//!
//! A version is built as a whole before any of it is adopted. The director takes it in one step: a decision under way ends
//! by the version that it began with, a stream by the limits that it began with. What was learnt stays: the pool with its
//! samples and what is in flight, the sessions of plugins that are as they were, and the prefix index unless the version
//! says other things of it.
//!
//! Where endpoints come from is not changed while running: that is told, and holds from the next start on.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::time::{MissedTickBehavior, interval};

use crate::app::scraping::{Prepared, Scraping};
use crate::app::{Parts, configuration, prefix_index, sources};
use crate::config::{FileDiscovery, Flags, Problem, Resolved, problem, tree};
use crate::director::Director;
use crate::discovery::{POLL, Watched};
use crate::extproc;
use crate::prefix::{Index, Settings};
use crate::schedule::registry::Plugin;
use crate::server::clock;

/// The file, and what takes its versions.
#[derive(Debug)]
pub(super) struct Reload {
    pub(super) file: Watched,
    pub(super) flags: Flags,
    pub(super) tables: Vec<&'static [Plugin]>,
    /// What is not changed while running.
    pub(super) discovery: Option<FileDiscovery>,
    pub(super) parts: Arc<Parts>,
    pub(super) director: Arc<Director>,
    pub(super) streams: Arc<ArcSwap<extproc::Settings>>,
    pub(super) scraping: Scraping,
}

/// A version that was read.
#[derive(Debug)]
struct Draft {
    resolved: Resolved,
    /// The line of each place in its text.
    lines: BTreeMap<String, u64>,
}

/// A version that can be adopted.
struct Version {
    resolved: Resolved,
    /// None where the scraper goes on.
    scraper: Option<Prepared>,
}

impl Reload {
    /// Follows the file for ever: a change of it takes effect within three looks.
    pub(super) async fn run(mut self) {
        let mut looks = interval(POLL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            match self.file.poll().await {
                Ok(None) => {}
                Ok(Some(text)) => match self.version(text).await {
                    Ok(version) => self.adopt(version),
                    Err(problems) => self.refuse(problems),
                },
                Err(error) => {
                    let error = error.to_string();
                    tracing::error!(error, "configuration file unreadable, the last version stays");
                    let Parts { in_force, metrics, .. } = &*self.parts;
                    let unreadable = Problem::error("", error).hint("the last version stays");
                    in_force.store(Arc::new(in_force.load().despite(vec![unreadable])));
                    metrics.configuration.refused();
                }
            }
        }
    }

    /// Builds whatever of a version can fail, and refuses what could not be started with.
    async fn version(&self, text: String) -> Result<Version, Vec<Problem>> {
        let Draft { mut resolved, lines } = read(text, self.tables.clone()).await?;
        let placed = |problem| {
            let mut problems = [problem];
            problem::locate(&mut problems, &lines);
            problems
        };
        let scraper = self.scraping.prepare(&resolved.sources);
        let scraper = scraper.map_err(|error| {
            placed(Problem::error("dataLayer.sources", error.to_string())).to_vec()
        })?;
        if resolved.discovery != self.discovery {
            sources::check(&self.flags, &resolved).map_err(|why| {
                placed(Problem::error("dataLayer.discovery", why.to_string())).to_vec()
            })?;
            let late = Problem::warning("dataLayer.discovery", "takes effect at the next start");
            resolved.warnings.extend(placed(late));
        }
        Ok(Version { resolved, scraper })
    }

    fn adopt(&mut self, Version { resolved, scraper }: Version) {
        let Parts { budget, flow, board, prefix, in_force, metrics, .. } = &*self.parts;
        configuration::log(&resolved.warnings);
        let limits = configuration::limits(&self.flags, &resolved);
        let deciding = configuration::deciding(&self.flags, &resolved, &limits);
        let streaming = configuration::streaming(&self.flags, &resolved, &limits, budget, flow);
        let index = index(prefix.load().as_ref(), resolved.prefix.as_ref());
        let next = in_force.load().next(resolved.document.clone());
        board.aim(resolved.autoscaling);
        budget.resize(configuration::size(limits.body_budget));
        prefix.store(index.clone());
        self.director.adopt_all(configuration::policy(resolved), &deciding, index.as_ref());
        self.streams.store(Arc::new(streaming));
        if let Some(scraper) = scraper {
            self.scraping.adopt(scraper);
        }
        let (generation, path) = (next.generation(), self.file.path().display());
        in_force.store(Arc::new(next));
        metrics.configuration.adopted(generation, clock::unix_seconds());
        tracing::info!(generation, %path, "configuration adopted");
    }

    fn refuse(&self, problems: Vec<Problem>) {
        let Parts { in_force, metrics, .. } = &*self.parts;
        let (generation, path) = (in_force.load().generation(), self.file.path().display());
        tracing::error!(
            generation,
            %path,
            problems = problems.len(),
            "configuration refused, the last good one stays in force; its problems follow"
        );
        configuration::log(&problems);
        in_force.store(Arc::new(in_force.load().despite(problems)));
        metrics.configuration.refused();
    }
}

/// Reads a version on the blocking pool: a large one takes long, and probes and scrapes go on meanwhile.
async fn read(text: String, tables: Vec<&'static [Plugin]>) -> Result<Draft, Vec<Problem>> {
    let reading = tokio::task::spawn_blocking(move || {
        let resolved = crate::config::load(Some(&text), &tables)?;
        let lines = tree::parse(&text).map(|tree| tree.lines())?;
        Ok(Draft { resolved, lines })
    });
    reading.await.unwrap_or_else(|error| Err(vec![Problem::error("", error.to_string())]))
}

/// The index of these settings: the present one where it has them.
fn index(present: Option<&Arc<Index>>, settings: Option<&Settings>) -> Option<Arc<Index>> {
    let settings = settings?;
    if let Some(present) = present.filter(|present| present.settings() == settings) {
        return Some(Arc::clone(present));
    }
    if present.is_some() {
        tracing::warn!("other settings of the prefix index: it begins anew");
    }
    Some(prefix_index(settings.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::registry::PLUGINS;

    #[test]
    fn the_runtime_goes_on_while_a_version_is_read() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.max_blocking_threads(1).build().unwrap().block_on(async {
            let (release, released) = std::sync::mpsc::channel::<()>();
            let slow = tokio::task::spawn_blocking(move || released.recv());
            let text = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n";
            let mut reading = std::pin::pin!(read(text.to_owned(), vec![PLUGINS]));
            tokio::select! {
                biased;
                version = &mut reading => panic!("read where the runtime runs: {version:?}"),
                () = tokio::task::yield_now() => {}
            }
            release.send(()).unwrap();
            slow.await.unwrap().unwrap();
            assert_eq!(reading.await.unwrap().lines.len(), 3);
        });
    }
}
