//! Why scrapes fail, and how often.

use std::sync::atomic::{AtomicU64, Ordering};

/// The words for failures, in the order of the counters.
const REASONS: [&str; 6] =
    ["timeout", "no_answer", "status", "broken", "too_long", "nothing_known"];

/// Why a scrape gave no sample.
#[derive(Debug, thiserror::Error)]
pub enum ScrapeError {
    /// The page did not come, or did not end, in time.
    #[error("no complete page within a second")]
    TimedOut,
    /// No connection, or no answer on it.
    #[error("no answer")]
    NoAnswer(#[source] reqwest::Error),
    /// Another status than 200; redirects are not followed.
    #[error("status {0}")]
    Status(u16),
    /// The page broke off.
    #[error("the page broke off")]
    Broken(#[source] reqwest::Error),
    /// The page is longer than any metrics page.
    #[error("the page is longer than 8 MiB")]
    TooLong,
    /// The page has none of the engine's metrics.
    #[error("the page has no metric of the engine")]
    NothingKnown,
}

/// Counts of failures since the start; the metrics page reads them.
#[derive(Debug, Default)]
pub struct Counters {
    errors: [AtomicU64; REASONS.len()],
    /// Lists of models that did not come.
    lists: AtomicU64,
    /// Those that came and are none.
    no_lists: AtomicU64,
    dropped: AtomicU64,
}

impl ScrapeError {
    /// A word for logs and metric labels.
    pub fn reason(&self) -> &'static str {
        REASONS.get(self.index()).copied().unwrap_or_default()
    }

    /// Whether what came was whole, and told nothing.
    fn came(&self) -> bool {
        matches!(self, Self::NothingKnown)
    }

    /// The message with its causes.
    pub(in crate::scrape) fn chain(&self) -> String {
        let causes = std::iter::successors(std::error::Error::source(self), |error| error.source());
        causes.fold(self.to_string(), |chain, cause| format!("{chain}: {cause}"))
    }

    fn index(&self) -> usize {
        match self {
            Self::TimedOut => 0,
            Self::NoAnswer(_) => 1,
            Self::Status(_) => 2,
            Self::Broken(_) => 3,
            Self::TooLong => 4,
            Self::NothingKnown => 5,
        }
    }
}

impl Counters {
    /// Pages that came and told nothing of the engine.
    pub fn unread(&self) -> u64 {
        self.errors
            .get(ScrapeError::NothingKnown.index())
            .map_or(0, |it| it.load(Ordering::Relaxed))
    }

    /// Failed scrapes by reason, those of [`unread`](Self::unread) pages among them.
    pub fn errors(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.errors.iter().map(|count| count.load(Ordering::Relaxed));
        REASONS.into_iter().zip(counts)
    }

    /// Lists of models that did not come.
    pub fn lists(&self) -> u64 {
        self.lists.load(Ordering::Relaxed)
    }

    /// Lists of models that came and are none.
    pub fn no_lists(&self) -> u64 {
        self.no_lists.load(Ordering::Relaxed)
    }

    /// Samples that were read and not used, because the pool had too much to do.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    pub(in crate::scrape) fn count(&self, error: &ScrapeError) {
        if let Some(count) = self.errors.get(error.index()) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(in crate::scrape) fn count_list(&self, error: &ScrapeError) {
        let count = if error.came() { &self.no_lists } else { &self.lists };
        count.fetch_add(1, Ordering::Relaxed);
    }

    pub(in crate::scrape) fn drop_sample(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}
