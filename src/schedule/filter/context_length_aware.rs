//! Sends prompts to the endpoints that are set up for their length: a scorer, and a filter where it is switched on.
//!
//! A label names the lengths of an endpoint in tokens, as `min-max`, both included. The filter keeps those whose range the
//! prompt is in, and those without a label. The score is, with the width `w = max - min`,
//! - in the range `0.3 + 0.7 * (0.7 / (1 + w / 10000) + 0.3 * (max - length) / w)`, and 1.0 where `w` is 0: narrow ranges,
//!   and room for the answer, are better;
//! - `d` tokens outside it `0.3 / (1 + d / 1000)`;
//! - 0.5 without a label.
//!
//! A label that is no range is never the right one: it scores 0.0, and the filter drops it. A prompt that was not read has
//! no length: nobody is left out for it and all score 0.5. (The reference takes it for 0 tokens.) Where no range is right,
//! none is kept: 503.

use serde::Deserialize;

use crate::pool::Slot;
use crate::request::Reading;
use crate::schedule::filter::label_selector::check_key;
use crate::schedule::registry::{
    BadParameters, Both, Build, Empty, Parameters, Plugin, parameters,
};
use crate::schedule::{Filter, Needs, PickContext, Scorer};

/// The score of an endpoint of which nothing is said, or of a prompt of which nothing is known.
const NEUTRAL: f32 = 0.5;

pub(in crate::schedule) const PLUGIN: Plugin = Plugin {
    name: "context-length-aware",
    summary: "A scorer that prefers endpoints whose label names a range of lengths, `min-max` in tokens, which the prompt is \
              in; with `enableFiltering` also a filter that keeps no others.",
    needs: Needs::NONE,
    build: Build::Both(both, Empty::Capability),
};

#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct ContextLength {
    /// The key of the label that names the range.
    label: String,
    /// Whether it is a filter too; default false.
    enable_filtering: bool,
}

impl Default for ContextLength {
    fn default() -> Self {
        Self { label: "llm-d.ai/context-length-range".to_owned(), enable_filtering: false }
    }
}

/// What an endpoint's label says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lengths {
    Unsaid,
    /// It cannot be read.
    Unclear,
    /// From the first to the second, both included, in tokens.
    Range(u64, u64),
}

impl Lengths {
    fn of(label: Option<&str>) -> Self {
        let Some(label) = label else { return Self::Unsaid };
        let number = |text: &str| text.trim().parse().ok();
        let range = label.split_once('-').and_then(|(min, max)| number(min).zip(number(max)));
        match range {
            Some((min, max)) if min <= max => Self::Range(min, max),
            Some(_) | None => Self::Unclear,
        }
    }

    fn take(self, tokens: u64) -> bool {
        match self {
            Self::Unsaid => true,
            Self::Unclear => false,
            Self::Range(min, max) => (min..=max).contains(&tokens),
        }
    }

    fn score(self, tokens: u64) -> f32 {
        match self {
            Self::Unsaid => NEUTRAL,
            Self::Unclear => 0.0,
            Self::Range(min, max) if (min..=max).contains(&tokens) => {
                let (width, room) = ((max - min) as f32, (max - tokens) as f32);
                if min == max {
                    return 1.0;
                }
                0.3 + 0.7 * (0.7 / (1.0 + width / 10_000.0) + 0.3 * room / width)
            }
            Self::Range(min, max) => {
                let outside = min.saturating_sub(tokens).max(tokens.saturating_sub(max));
                0.3 / (1.0 + outside as f32 / 1000.0)
            }
        }
    }
}

impl ContextLength {
    fn lengths(&self, cx: PickContext<'_>, slot: Slot) -> Lengths {
        Lengths::of(cx.snapshot.label(slot, &self.label))
    }
}

impl Filter for ContextLength {
    fn filter(&self, cx: PickContext<'_>, candidates: &mut Vec<Slot>) {
        if let Some(tokens) = length(cx) {
            candidates.retain(|&slot| self.lengths(cx, slot).take(tokens));
        }
    }

    fn reason(&self, cx: PickContext<'_>, slot: Slot) -> Option<String> {
        let (label, tokens) = (&self.label, cx.prompt_tokens());
        Some(match self.lengths(cx, slot) {
            Lengths::Range(min, max) => {
                format!("it takes prompts of {min} to {max} tokens, this one has {tokens}")
            }
            Lengths::Unsaid | Lengths::Unclear => format!("its label {label} is no range min-max"),
        })
    }
}

impl Scorer for ContextLength {
    fn score(&self, cx: PickContext<'_>, candidates: &[Slot], scores: &mut [f32]) {
        let length = length(cx);
        for (score, &slot) in scores.iter_mut().zip(candidates) {
            *score = length.map_or(NEUTRAL, |tokens| self.lengths(cx, slot).score(tokens));
        }
    }
}

/// Estimated tokens of the prompt; none where it was not read.
fn length(cx: PickContext<'_>) -> Option<u64> {
    (cx.request.reading == Reading::Read).then(|| cx.prompt_tokens())
}

fn both(raw: Parameters) -> Result<Both, BadParameters> {
    let scorer: ContextLength = parameters(raw)?;
    check_key("label", &scorer.label)?;
    let filter = scorer.enable_filtering.then(|| -> Box<dyn Filter> { Box::new(scorer.clone()) });
    Ok(Both { filter, scorer: Box::new(scorer) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pool::Snapshot;
    use crate::schedule::fixture;
    use crate::server::clock;

    /// Endpoints with these ranges; none where it is empty.
    fn pool(ranges: &[&str]) -> Snapshot {
        let label = |&range| [("llm-d.ai/context-length-range", range)];
        let labels: Vec<_> = ranges.iter().map(label).collect();
        let given = |label: &&[(&str, &str); 1]| !label[0].1.is_empty();
        let labels: Vec<&[_]> =
            labels.iter().map(|l| Some(l).filter(given).map_or(&[] as &[_], |l| l)).collect();
        fixture::labeled(&labels)
    }

    fn scores(ranges: &[&str], tokens: Option<u64>) -> Vec<f32> {
        let snapshot = pool(ranges);
        let mut asked = fixture::Asked::of(&snapshot);
        if let Some(tokens) = tokens {
            asked.prompt(tokens);
        }
        let (Both { scorer, .. }, mut rated) = (both(json!({})).unwrap(), vec![0.0; ranges.len()]);
        scorer.score(asked.cx(clock::now()), snapshot.ready(), &mut rated);
        rated
    }

    fn kept(ranges: &[&str], tokens: Option<u64>) -> Vec<usize> {
        let snapshot = pool(ranges);
        let mut asked = fixture::Asked::of(&snapshot);
        if let Some(tokens) = tokens {
            asked.prompt(tokens);
        }
        let filter = both(json!({"enableFiltering": true})).unwrap().filter.unwrap();
        fixture::kept_for(&*filter, asked.cx(clock::now()))
    }

    /// As many digits as matter.
    fn rounded(scores: &[f32]) -> Vec<f32> {
        scores.iter().map(|score| (score * 1000.0).round() / 1000.0).collect()
    }

    #[test]
    fn a_narrow_range_with_room_is_best_and_a_far_one_worst() {
        let ranges = ["0-10000", "0-1000", "500-500", "5000-9000", "", "many"];
        let expected = [0.3 + 0.7 * (0.35 + 0.285), 0.3 + 0.7 * (0.7 / 1.1 + 0.15), 1.0];
        assert_eq!(rounded(&scores(&ranges, Some(500))[..3]), rounded(&expected));
        assert_eq!(rounded(&scores(&ranges, Some(500))[3..]), [0.055, 0.5, 0.0]);
        assert_eq!(rounded(&scores(&["0-1000"; 2], Some(2000))), [0.15, 0.15]);
    }

    #[test]
    fn the_filter_keeps_the_ranges_that_are_right_and_those_of_which_nothing_is_said() {
        let ranges = ["0-1000", "1000-2000", "1001-2000", "", "many", "2000-1000", "-5"];
        assert_eq!(kept(&ranges, Some(1000)), [0, 1, 3]);
        assert_eq!(kept(&["0-1000"], Some(1001)), Vec::<usize>::new());
        assert_eq!(kept(&["0-1000"; 1000], Some(1)).len(), 1000);
    }

    #[test]
    fn a_prompt_is_as_long_as_its_model_takes_it_to_be() {
        let snapshot = pool(&["0-1000", "1001-2000"]);
        let mut asked = fixture::Asked::of(&snapshot);
        asked.text(4_000, 2.0);
        let filter = both(json!({"enableFiltering": true})).unwrap().filter.unwrap();
        assert_eq!(fixture::kept_for(&*filter, asked.cx(clock::now())), [1]);
    }

    #[test]
    fn a_prompt_that_was_not_read_leaves_nobody_out() {
        assert_eq!(kept(&["1000-2000", "many"], None), [0, 1]);
        assert_eq!(scores(&["0-1000", "many", ""], None), [0.5, 0.5, 0.5]);
    }

    #[test]
    fn it_is_no_filter_unless_it_is_switched_on_and_its_label_must_be_one() {
        assert!(both(json!({})).unwrap().filter.is_none());
        let error = both(json!({"label": "a b"})).unwrap_err();
        assert_eq!(error.0, "label: `a b` is no key of a label");
    }
}
