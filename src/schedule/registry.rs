//! The table of plugins.
//!
//! Lookup, the configuration's checks, the manual and the tests that every plugin must pass all read it. A plugin is
//! one file and one row here.

use serde::de::DeserializeOwned;

use crate::schedule::{
    Admitter, Detector, Filter, Handler, Needs, Picker, Producer, Scorer, admitter, detector,
    filter, handler, picker, producer, scorer,
};

/// All plugins of this build.
pub static PLUGINS: &[Plugin] = &[
    filter::by_label::PLUGIN,
    filter::context_length_aware::PLUGIN,
    filter::role::PLUGIN_DECODE,
    filter::role::PLUGIN_ENCODE,
    filter::endpoint_attribute::PLUGIN,
    filter::header_based_testing::PLUGIN,
    filter::label_selector::PLUGIN,
    filter::role::PLUGIN_PREFILL,
    filter::prefix_cache_affinity::PLUGIN,
    filter::session_affinity::PLUGIN,
    filter::utilization::PLUGIN,
    scorer::active_request::PLUGIN,
    scorer::endpoint_attribute::PLUGIN,
    scorer::expected_ttft::PLUGIN,
    scorer::header_label_affinity::PLUGIN,
    scorer::kv_cache_utilization::PLUGIN,
    scorer::load_aware::PLUGIN,
    scorer::lora_affinity::PLUGIN,
    scorer::mm_embeddings_cache::PLUGIN,
    scorer::no_hit_lru::PLUGIN,
    scorer::prefix_cache::PLUGIN,
    scorer::queue::PLUGIN,
    scorer::running_requests::PLUGIN,
    scorer::session_affinity::PLUGIN,
    scorer::token_load::PLUGIN,
    picker::max_score::PLUGIN,
    picker::random::PLUGIN,
    picker::weighted_random::PLUGIN,
    producer::agent_identity::PLUGIN,
    producer::approx_prefix_cache::PLUGIN,
    producer::inflight_load::PLUGIN,
    producer::mm_embeddings_cache::PLUGIN,
    producer::session_id::PLUGIN,
    producer::token::PLUGIN,
    admitter::probabilistic::PLUGIN,
    detector::concurrency::PLUGIN,
    detector::utilization::PLUGIN,
    handler::data_parallel::PLUGIN,
    handler::header_profile::PLUGIN,
    handler::single_profile::PLUGIN,
    SERVED_VERIFIER,
    parser(
        "openai-parser",
        "Reads OpenAI requests: chat, completions, responses, embeddings and others.",
    ),
    parser("anthropic-parser", "Reads Anthropic messages."),
    parser("vllmhttp-parser", "Reads vLLM's own generate requests."),
    parser("sglanghttp-parser", "Reads SGLang's own generate requests."),
    parser("vllmgrpc-parser", "Reads vLLM's gRPC requests."),
    parser("vertexai-parser", "Reads Vertex AI prediction requests."),
    parser("passthrough-parser", "Takes every request unread."),
];

/// What lets a test of a gateway see who answered.
const SERVED_VERIFIER: Plugin = Plugin {
    name: "destination-endpoint-served-verifier",
    summary: "For tests of gateways: where it is listed, every answer tells in its header \
              `x-conformance-test-served-endpoint` which endpoint the gateway says has served it.",
    needs: Needs::NONE,
    build: Build::ServedVerifier,
};

/// One kind of plugin.
#[derive(Clone, Copy, Debug)]
pub struct Plugin {
    /// Its `type` in the configuration.
    pub name: &'static str,
    /// One sentence for the manual.
    pub summary: &'static str,
    /// What it reads beside the pool and the request.
    pub needs: Needs,
    /// What it is and how it is made.
    pub build: Build,
}

/// What a plugin is, with its constructor from the `parameters` of the configuration.
#[derive(Clone, Copy, Debug)]
pub enum Build {
    /// Removes candidates; the second value says what it means when it leaves none.
    Filter(fn(Parameters) -> Result<Box<dyn Filter>, BadParameters>, Empty),
    /// Rates candidates.
    Scorer(fn(Parameters) -> Result<Box<dyn Scorer>, BadParameters>),
    /// Removes candidates, and rates those that are left; the second value says what it means when it leaves none.
    Both(fn(Parameters) -> Result<Both, BadParameters>, Empty),
    /// Chooses.
    Picker(fn(Parameters) -> Result<Box<dyn Picker>, BadParameters>),
    /// Says how full endpoints are; in a profile a filter, of which the second value says what it means when it leaves none.
    Detector(fn(Parameters) -> Result<Box<dyn Detector>, BadParameters>, Empty),
    /// Refuses requests below priority 0.
    Admitter(fn(Parameters) -> Result<Box<dyn Admitter>, BadParameters>),
    /// Settings of where a signal comes from.
    Producer(fn(Parameters) -> Result<Producer, BadParameters>),
    /// Chooses among profiles.
    Handler(fn(Parameters) -> Result<Box<dyn Handler>, BadParameters>),
    /// Has answers tell who has served them, by being listed; takes no parameters.
    ServedVerifier,
    /// A request parser.
    Parser,
}

/// The roles of a plugin that is a filter and a scorer.
#[derive(Debug)]
pub struct Both {
    /// None where it is not to filter.
    pub filter: Option<Box<dyn Filter>>,
    /// What rates.
    pub scorer: Box<dyn Scorer>,
}

/// What it means that a filter leaves no candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Empty {
    /// No endpoint can serve the request: 503.
    Capability,
    /// Endpoints could, but have no room: 429.
    Load,
}

/// The free-form `parameters` of a plugin; null when there are none.
pub type Parameters = serde_json::Value;

/// Why parameters were refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadParameters(pub String);

/// Finds a plugin by its type in `tables`, the first that has it.
pub fn find(tables: &[&'static [Plugin]], name: &str) -> Option<&'static Plugin> {
    tables.iter().flat_map(|table| table.iter()).find(|plugin| plugin.name == name)
}

/// Reads parameters into a plugin's own struct; absent ones are an empty object.
///
/// # Errors
/// When a field is unknown or of the wrong type.
pub fn parameters<T: DeserializeOwned>(raw: Parameters) -> Result<T, BadParameters> {
    let raw = if raw.is_null() { serde_json::json!({}) } else { raw };
    serde_json::from_value(raw).map_err(|error| BadParameters(error.to_string()))
}

const fn parser(name: &'static str, summary: &'static str) -> Plugin {
    Plugin { name, summary, needs: Needs::NONE, build: Build::Parser }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::pool::Sample;
    use crate::request::Parsers;
    use crate::schedule::fixture;
    use crate::server::clock;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = PLUGINS.iter().map(|plugin| plugin.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }

    #[test]
    fn every_parser_row_is_a_parser() {
        for plugin in PLUGINS.iter().filter(|plugin| matches!(plugin.build, Build::Parser)) {
            assert!(Parsers::named(plugin.name).is_some(), "{}", plugin.name);
        }
    }

    #[test]
    fn every_scorer_stays_in_range_on_any_pool() {
        let now = clock::now();
        let full = Sample {
            waiting: Some(1e9),
            running: Some(1e9),
            kv_usage: Some(7.0),
            ..Sample::default()
        };
        let pools = [
            fixture::snapshot(0),
            fixture::snapshot(1),
            fixture::snapshot(1000),
            fixture::sampled(&[Some(Sample::default()), None, Some(full)], now),
        ];
        for plugin in PLUGINS {
            let raw = fixture::required(plugin.name);
            let scorer = if let Build::Scorer(build) = plugin.build {
                build(raw).expect("good parameters")
            } else if let Build::Both(build, _) = plugin.build {
                build(raw).expect("good parameters").scorer
            } else {
                continue;
            };
            for snapshot in &pools {
                let mut rated = vec![0.0; snapshot.ready().len()];
                scorer.score(fixture::Asked::of(snapshot).cx(now), snapshot.ready(), &mut rated);
                assert!(rated.iter().all(|score| (0.0..=1.0).contains(score)), "{}", plugin.name);
            }
        }
    }

    /// Fresh, stale and unknown samples.
    #[test]
    fn every_filter_keeps_candidates_in_their_order_and_says_why_it_removes_one() {
        let now = clock::now();
        let queue = Sample { waiting: Some(9.0), ..Sample::default() };
        let sampled = fixture::sampled(&[Some(Sample::default()), None, Some(queue)], now);
        let pools = [fixture::snapshot(0), fixture::snapshot(1), fixture::snapshot(1000), sampled];
        for plugin in PLUGINS {
            let Build::Filter(build, _) = plugin.build else { continue };
            let filter = build(fixture::required(plugin.name)).expect("good parameters");
            for (snapshot, later) in pools.iter().flat_map(|pool| [(pool, 0), (pool, 3600)]) {
                let asked = fixture::Asked::of(snapshot);
                let cx = asked.cx(now + Duration::from_secs(later));
                let mut kept = snapshot.ready().to_vec();
                filter.filter(cx, &mut kept);
                let mut rest = snapshot.ready().iter();
                assert!(kept.iter().all(|slot| rest.any(|it| it == slot)), "{}", plugin.name);
                let mut removed = snapshot.ready().iter().filter(|slot| !kept.contains(slot));
                let why = removed.next().map(|&slot| filter.reason(cx, slot));
                assert!(why.is_none_or(|why| why.is_some()), "{}", plugin.name);
            }
        }
    }

    #[test]
    fn unknown_parameters_are_refused_by_name() {
        for plugin in PLUGINS {
            let raw = serde_json::json!({"nonsense": 1});
            let error = match plugin.build {
                Build::Filter(build, _) => build(raw).err(),
                Build::Scorer(build) => build(raw).err(),
                Build::Both(build, _) => build(raw).err(),
                Build::Picker(build) => build(raw).err(),
                Build::Admitter(build) => build(raw).err(),
                Build::Producer(build) => build(raw).err(),
                Build::Detector(build, _) => build(raw).err(),
                Build::Handler(build) => build(raw).err(),
                Build::ServedVerifier | Build::Parser => continue,
            };
            assert!(error.is_some_and(|error| error.0.contains("nonsense")), "{}", plugin.name);
        }
    }
}
