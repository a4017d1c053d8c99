//! What was found on a page so far.

use std::borrow::Cow;
use std::sync::Arc;

use crate::pool::{Adapters, Names};
use crate::scrape::series::Series;

/// Models of one page, in bytes; the models of a page that names more are not known.
const LONGEST_MODELS: usize = 16 << 10;

/// What was found of one wanted number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::scrape) enum Found {
    Nothing,
    Values { sum: f64, max: f64 },
    Bad,
}

impl Found {
    pub(in crate::scrape) fn add(&mut self, value: Option<f64>) {
        *self = match (*self, value.filter(|value| value.is_finite())) {
            (Self::Bad, _) | (_, None) => Self::Bad,
            (Self::Nothing, Some(value)) => Self::Values { sum: value, max: value },
            (Self::Values { sum, max }, Some(value)) => {
                Self::Values { sum: sum + value, max: max.max(value) }
            }
        };
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "the nearest is meant; infinity is refused"
    )]
    pub(in crate::scrape) fn sum(self) -> Option<f32> {
        let Self::Values { sum, .. } = self else { return None };
        Some(sum as f32).filter(|sum| sum.is_finite())
    }

    #[expect(clippy::cast_possible_truncation, reason = "it is at most 1")]
    pub(in crate::scrape) fn share(self) -> Option<f32> {
        let Self::Values { max, .. } = self else { return None };
        Some(max.min(1.0) as f32)
    }

    /// The greatest as a count from 1.
    pub(in crate::scrape) fn greatest(self) -> Option<u32> {
        let Self::Values { max, .. } = self else { return None };
        count(max)
    }

    /// The sum as a count from 1.
    pub(in crate::scrape) fn total(self) -> Option<u32> {
        let Self::Values { sum, .. } = self else { return None };
        count(sum)
    }
}

/// The adapters by the newest of their series; the text is kept from page to page, to compare and to reuse its memory.
#[derive(Debug, Default)]
pub(in crate::scrape) struct Newest {
    /// The time that the series has as its value, and whose series it is; none before the first.
    from: Option<(f64, usize)>,
    running: String,
    waiting: String,
    slots: Option<u32>,
    /// Those of the page before.
    last: Option<Arc<Adapters>>,
}

impl Newest {
    pub(in crate::scrape) fn clear(&mut self) {
        self.from = None;
    }

    /// Takes a series in if it is newer; of two from one time the first counts.
    pub(in crate::scrape) fn add(&mut self, series: &Series<'_>, engine: usize) {
        let Some(time) = series.value().filter(|time| time.is_finite()) else { return };
        if self.from.is_some_and(|(newest, _)| newest >= time) {
            return;
        }
        self.from = Some((time, engine));
        replace(&mut self.running, series.label(b"running_lora_adapters"));
        replace(&mut self.waiting, series.label(b"waiting_lora_adapters"));
        let slots = series.label(b"max_lora");
        self.slots = slots.and_then(|slots| std::str::from_utf8(&slots).ok()?.trim().parse().ok());
    }

    /// The adapters of an engine, unless another engine's were found; the same allocation while they are the same.
    pub(in crate::scrape) fn adapters(&mut self, engine: usize) -> Option<Arc<Adapters>> {
        let (_, of) = self.from?;
        if of != engine {
            return None;
        }
        let same = |last: &&Arc<Adapters>| {
            last.slots == self.slots
                && last.running.iter().eq(listed(&self.running))
                && last.waiting.iter().eq(listed(&self.waiting))
        };
        if let Some(last) = self.last.as_ref().filter(same) {
            return Some(Arc::clone(last));
        }
        let (running, waiting) = (listed(&self.running).collect(), listed(&self.waiting).collect());
        let adapters = Arc::new(Adapters { running, waiting, slots: self.slots });
        self.last = Some(Arc::clone(&adapters));
        Some(adapters)
    }
}

/// Models by the labels of their series, kept as [`Newest`] is. Bounded by [`LONGEST_MODELS`].
#[derive(Debug, Default)]
pub(in crate::scrape) struct Named {
    /// One a line.
    text: String,
    last: Option<Arc<Names>>,
}

impl Named {
    pub(in crate::scrape) fn clear(&mut self) {
        self.text.clear();
    }

    pub(in crate::scrape) fn add(&mut self, series: &Series<'_>) {
        let Some(name) = series.label(b"model_name") else { return };
        let name = String::from_utf8_lossy(&name);
        if self.text.len() <= LONGEST_MODELS && self.text.lines().all(|known| known != name) {
            self.text.push_str(&name);
            self.text.push('\n');
        }
    }

    /// The models, none where no series names one; the same allocation while they are the same.
    pub(in crate::scrape) fn models(&mut self) -> Option<Arc<Names>> {
        let names = || self.text.lines().filter(|name| !name.is_empty());
        if self.text.len() > LONGEST_MODELS || names().next().is_none() {
            return None;
        }
        if self.last.as_ref().is_none_or(|last| !last.iter().eq(names())) {
            self.last = Some(Arc::new(names().collect()));
        }
        self.last.clone()
    }
}

/// The names of a comma-separated list.
fn listed(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|name| !name.is_empty())
}

fn replace(text: &mut String, with: Option<Cow<'_, [u8]>>) {
    text.clear();
    if let Some(bytes) = with {
        text.push_str(&String::from_utf8_lossy(&bytes));
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between 1 and the greatest; a fraction is dropped"
)]
fn count(number: f64) -> Option<u32> {
    (1.0..=f64::from(u32::MAX)).contains(&number).then_some(number as u32)
}
