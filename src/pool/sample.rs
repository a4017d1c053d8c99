//! What one scrape of a model server's metrics told.

use std::sync::Arc;

use crate::pool::Names;

/// Values read from one metrics page; a value that the page lacks, or that is not finite, is absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// Requests waiting in the server's queue, summed over its engines.
    pub waiting: Option<f32>,
    /// Requests being computed, summed over its engines.
    pub running: Option<f32>,
    /// Used share of the KV cache, 0.0 ..= 1.0, the maximum over its engines.
    pub kv_usage: Option<f32>,
    /// Tokens in a block of the KV cache, at least 1, the largest of its engines.
    pub block_size: Option<u32>,
    /// Blocks of the KV cache, at least 1, summed over its engines.
    pub blocks: Option<u32>,
    /// Its adapters; absent for a server without.
    pub adapters: Option<Arc<Adapters>>,
    /// Models that its series name; usually base models, and only the first name of each.
    pub models: Option<Arc<Names>>,
    /// What else its engine is configured to tell.
    pub attributes: Attributes,
}

/// Adapters that a server has requests for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Adapters {
    /// Those of the requests being computed. An adapter without requests is not here though it may be loaded.
    pub running: Names,
    /// Those of the requests in the queue.
    pub waiting: Names,
    /// How many can be loaded at once.
    pub slots: Option<u32>,
}

/// Numbers that the configuration names, by those names; at most [`MOST`](Self::MOST), the rest is left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attributes(Option<Arc<[Attribute]>>);

type Attribute = (Arc<str>, f32);

impl Attributes {
    /// The most of an endpoint.
    pub const MOST: usize = 16;

    /// The reference's names for what every engine may tell, which need no configuration.
    pub const COMMON: [&str; 6] = [
        "WaitingQueueSize",
        "RunningRequestsSize",
        "KVCacheUsagePercent",
        "CacheBlockSize",
        "CacheNumBlocks",
        "MaxActiveModels",
    ];

    /// All of them.
    pub(in crate::pool) fn iter(&self) -> impl Iterator<Item = (&str, f32)> {
        self.0.iter().flat_map(|all| all.iter()).map(|(name, value)| (&**name, *value))
    }

    fn find(&self, key: &str) -> Option<f32> {
        let mut all = self.0.iter().flat_map(|all| all.iter());
        all.find_map(|(name, value)| (**name == *key).then_some(*value))
    }
}

impl FromIterator<Attribute> for Attributes {
    fn from_iter<I: IntoIterator<Item = Attribute>>(all: I) -> Self {
        let mut all = all.into_iter().take(Self::MOST).peekable();
        Self(all.peek().is_some().then(|| all.collect()))
    }
}

impl Sample {
    /// A number by its name: the configured one, else the reference's for what every engine may tell.
    pub(in crate::pool) fn attribute(&self, key: &str) -> Option<f32> {
        self.attributes.find(key).or_else(|| match key {
            "WaitingQueueSize" => self.waiting,
            "RunningRequestsSize" => self.running,
            "KVCacheUsagePercent" => self.kv_usage,
            "CacheBlockSize" => self.block_size.map(|size| size as f32),
            "CacheNumBlocks" => self.blocks.map(|blocks| blocks as f32),
            "MaxActiveModels" => self.adapters.as_ref()?.slots.map(|slots| slots as f32),
            _ => None,
        })
    }

    /// Whether the page told no load: then it is no page of the engine.
    pub fn is_empty(&self) -> bool {
        [self.waiting, self.running, self.kv_usage].iter().all(Option::is_none)
    }
}

/// A scraped value as a decision may use it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reading {
    /// Read recently enough to trust.
    Fresh(f32),
    /// Read once, too long ago: what this process has in flight tells more.
    Stale,
    /// Never read: the endpoint is neither idle nor busy, it is unknown.
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(n: usize) -> Attribute {
        (format!("a{n}").into(), n as f32)
    }

    #[test]
    fn a_number_is_found_by_its_own_name_before_that_of_the_reference() {
        let mut sample = Sample { waiting: Some(3.0), blocks: Some(9), ..Sample::default() };
        assert_eq!(sample.attribute("WaitingQueueSize"), Some(3.0));
        assert_eq!(sample.attribute("CacheNumBlocks"), Some(9.0));
        assert_eq!(sample.attribute("KVCacheUsagePercent"), None);
        sample.attributes = [named(1), ("WaitingQueueSize".into(), -7.0)].into_iter().collect();
        let all = Sample {
            waiting: Some(1.0),
            running: Some(1.0),
            kv_usage: Some(1.0),
            block_size: Some(1),
            blocks: Some(1),
            adapters: Some(Arc::new(Adapters { slots: Some(1), ..Adapters::default() })),
            ..Sample::default()
        };
        assert!(Attributes::COMMON.iter().all(|name| all.attribute(name) == Some(1.0)));
        let found = ["a1", "a", "", "WaitingQueueSize"].map(|key| sample.attribute(key));
        assert_eq!(found, [Some(1.0), None, None, Some(-7.0)]);
    }

    #[test]
    fn no_more_than_the_most_are_kept_and_none_cost_nothing() {
        let kept: Attributes = (0..1000).map(named).collect();
        assert_eq!((kept.find("a15"), kept.find("a16")), (Some(15.0), None));
        assert_eq!(Attributes::from_iter([]), Attributes::default());
    }
}
