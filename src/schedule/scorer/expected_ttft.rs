//! Prefers the endpoints on which the request will have its first token soonest: the default policy.
//!
//! `cost = ahead * token + own * (token + 1.5 mean token) + step + crowd + load + full`, in seconds, with
//! - `ahead`: tokens of prompts that the endpoint has yet to compute, ours by our own count, those of others by its page;
//! - `own`: tokens of this prompt that are not in its cache, once for this request and 1.5 times, at the mean speed, for those
//!   that come after it; what another candidate has of it counts the less, the more prompts began so lately: they will
//!   find the copy;
//! - `token`: what a token of a prompt takes there, as learnt, `mean token` what it takes over all candidates;
//! - `step`: what sequences that decode take of the steps in which that is computed;
//! - `crowd`: what an answer takes longer there than in steps a quarter longer than is usual: the holder of a beginning that
//!   all prompts share gets no more of them than can decode together;
//! - `load`: what the adapter takes to be loaded, where it is not;
//! - `full`: what a request has to wait for room, where the KV cache is about to be full.
//!
//! `score = min(1, (lowest + band) / cost)`: whatever is within the band of the lowest cost is as good, and a picker draws
//! among it. The band is 2 ms or 1 % of the cost, and wider where the pages are old and others use the pool too.
//!
//! Nothing is taken for idle because nothing is known of it: an endpoint of which nothing was learnt has the mean speed of
//! the candidates, and what waits there counts double until its first token comes. One whose page is not read has the mean
//! of what others do there.

use std::cell::RefCell;

use serde::Deserialize;

use crate::pool::{
    CHUNK_TOKENS, Outlook, PROMPT_TOKEN_SECONDS, Prompt, Reading, STEP_SECONDS, Slot, Speed,
    Standing,
};
use crate::schedule::registry::{Build, Plugin, parameters};
use crate::schedule::{Needs, Part, PickContext, Scorer};

pub(in crate::schedule) const PLUGIN: Plugin = Plugin {
    name: "expected-ttft-scorer",
    summary: "Prefers the endpoints on which the first token will come soonest.",
    needs: Needs::PREFIX,
    build: Build::Scorer(|raw| Ok(Box::new(parameters::<ExpectedTtft>(raw)?))),
};

/// What a token of the prompt counts for those that come after it, beside 1 for the request itself. Without it caches fill
/// with copies that save a little today: the p50 of the conversation trace at load 0.9 is a quarter higher.
const OTHERS_WEIGHT: f32 = 1.5;

/// Costs are equal within this share of the lowest. A wider band gives away what the costs know: with 10 % the p90 of the
/// conversation trace at load 0.9 is 8 % higher.
const BAND: f32 = 0.01;

/// What is added to [`BAND`] where all load is that of others and its news is a second old.
const BLIND_BAND: f32 = 0.2;

/// Costs are equal within so many seconds.
const LEAST_BAND: f32 = 0.002;

/// What the mean of all endpoints counts beside what was learnt of one, in prompts: most fleets are of one kind, but with 3
/// the p99 of a fleet with one pod at half speed is 4 % higher.
const MEAN_WEIGHT: f32 = 1.0;

/// Seconds in which news of others' load loses half of its weight.
const NEWS_HALF: f32 = 1.0;

/// Used share of a KV cache from which on requests may have to wait for room.
const NEARLY_FULL: f32 = 0.9;

/// Seconds that a request waits for room in a full KV cache.
const FULL_WAIT: f32 = 1.0;

/// A step is crowded that takes so many times what is usual: below that the first token counts alone.
const CROWDED: f32 = 1.25;

/// Tokens of an answer that each take longer in crowded steps.
const ANSWER_TOKENS: f32 = 200.0;

/// Prompts for each candidate with the same beginning, of late, that halve what it costs to compute that beginning once
/// more: a copy that so many will find is worth its price, so a hot prefix spreads before its holders are busy.
const HOT: f32 = 4.0;

/// Tokens of a prompt while nothing is known.
const USUAL_PROMPT: f32 = 1_000.0;

thread_local! {
    /// A decision does not wait between its begin and its end, so one at a time is made on a thread.
    static VIEWS: RefCell<Vec<View>> = const { RefCell::new(Vec::new()) };
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedTtft {}

/// What is the same for all candidates, looked up once.
#[derive(Clone, Copy)]
struct Ask<'a> {
    cx: PickContext<'a>,
    prompt_tokens: u64,
    /// None where the model is no adapter.
    adapter: Option<&'a str>,
}

/// What is known of one candidate.
#[derive(Clone, Copy)]
struct View {
    ours: Outlook,
    /// Requests of others that wait and that decode, less the older the news; none where there is no news.
    others: Option<(f32, f32)>,
    /// Seconds since its page was read; none before.
    age: Option<f32>,
}

/// What is usual of the steps of all candidates.
#[derive(Clone, Copy)]
struct Steps {
    /// Seconds of a step in which one sequence decodes.
    lone: f32,
    /// How many times as long a step is with the requests of an endpoint.
    growth: f32,
}

/// What is known of all candidates together.
#[derive(Clone, Copy)]
struct Mean {
    /// Seconds that a token of a prompt takes.
    token: f32,
    /// Tokens of a prompt.
    prompt: f32,
    /// Requests of others that wait and that decode on an endpoint.
    others: (f32, f32),
    /// What is usual of steps; none where no endpoint has enough requests to be crowded.
    steps: Option<Steps>,
    /// Share of the lowest cost within which costs are equal.
    band: f32,
    /// Something was learnt of some candidate.
    proven: bool,
    /// Share of what is missing of a beginning that costs nothing, since others will find the copy.
    spared: f32,
}

impl Scorer for ExpectedTtft {
    fn score(&self, cx: PickContext<'_>, candidates: &[Slot], scores: &mut [f32]) {
        let ask = Ask::of(cx);
        let band = VIEWS.with_borrow_mut(|views| {
            views.clear();
            views.extend(candidates.iter().map(|&slot| View::of(cx, slot)));
            let mean = Mean::of(views, cx.signals.prefix.heat());
            for ((score, view), &slot) in scores.iter_mut().zip(&*views).zip(candidates) {
                *score = Cost::of(ask, slot, view, &mean).seconds();
            }
            mean.band
        });
        let lowest = scores.iter().copied().fold(f32::INFINITY, f32::min);
        let best = lowest + LEAST_BAND.max(band * lowest);
        for score in scores {
            *score = if score.is_finite() { (best / *score).min(1.0) } else { 0.0 };
        }
    }

    fn parts(&self, cx: PickContext<'_>, candidates: &[Slot]) -> Vec<Part> {
        let ask = Ask::of(cx);
        let views: Vec<_> = candidates.iter().map(|&slot| View::of(cx, slot)).collect();
        let mean = Mean::of(&views, cx.signals.prefix.heat());
        let costs = views.iter().zip(candidates);
        let costs: Vec<_> = costs.map(|(view, &slot)| Cost::of(ask, slot, view, &mean)).collect();
        let part = |(name, seconds): Named| Part {
            name,
            values: costs.iter().map(|cost| 1e3 * seconds(cost)).collect(),
        };
        let all: [Named; 7] = [
            ("ahead_ms", |cost| cost.ahead),
            ("cost_ms", Cost::seconds),
            ("crowd_ms", |cost| cost.crowd),
            ("full_ms", |cost| cost.full),
            ("load_ms", |cost| cost.load),
            ("own_ms", |cost| cost.own),
            ("step_ms", |cost| cost.step),
        ];
        all.map(part).into()
    }
}

impl<'a> Ask<'a> {
    fn of(cx: PickContext<'a>) -> Self {
        let adapter = cx.model.filter(|model| cx.snapshot.adapts(model));
        Self { cx, prompt_tokens: cx.prompt_tokens(), adapter }
    }
}

impl View {
    #[inline]
    fn of(cx: PickContext<'_>, slot: Slot) -> Self {
        let PickContext { snapshot, now, .. } = cx;
        let age = snapshot.scrape_age(slot, now).map(|age| age.as_secs_f32());
        let weight = NEWS_HALF / (NEWS_HALF + age.unwrap_or_default());
        let others = snapshot.foreign(slot, now);
        Self {
            ours: snapshot.endpoint(slot).map_or_else(Outlook::default, |it| it.live.outlook(now)),
            others: others.map(|(waiting, running)| (waiting * weight, running * weight)),
            age,
        }
    }

    /// Requests there, as far as is known.
    fn requests(&self) -> f32 {
        let others = self.others.map_or(0.0, |(waiting, running)| waiting + running);
        self.ours.prompts + self.ours.decoding + others
    }
}

impl Mean {
    fn of(views: &[View], heat: u32) -> Self {
        let mut sum = Sums::default();
        for view in views {
            sum.add(view);
        }
        let heat = heat as f32 / views.len().max(1) as f32;
        let weighed = |value: f32, learnt: f32| (learnt + value) / (sum.weight + 1.0);
        let news = sum.news.max(1.0);
        let others = sum.waiting + sum.running;
        let blind = others / (others + sum.ours).max(1.0);
        let age = sum.age / news;
        Self {
            token: weighed(PROMPT_TOKEN_SECONDS, sum.token),
            prompt: weighed(USUAL_PROMPT, sum.prompt),
            others: (sum.waiting / news, sum.running / news),
            steps: Steps::of(
                views,
                sum.ours / views.len().max(1) as f32 + others / news,
                sum.ours + others,
            ),
            proven: sum.weight > 0.0,
            spared: heat / (HOT + heat),
            band: BAND + BLIND_BAND * blind * age.min(1.0),
        }
    }
}

impl Steps {
    /// What is usual where an endpoint has `mean` requests, and all have `total`; none where no endpoint is crowded.
    fn of(views: &[View], mean: f32, total: f32) -> Option<Self> {
        let growth = Speed::growth(mean);
        // So few that even one endpoint with all of them is not crowded.
        if Speed::growth(total) <= CROWDED {
            return None;
        }
        let most = views.iter().map(View::requests).fold(0.0, f32::max);
        if Speed::growth(most) <= CROWDED * growth {
            return None;
        }
        let learnt = views.iter().filter_map(|view| view.ours.speed.lone_step());
        let (count, sum) = learnt.fold((0.0, 0.0), |(count, sum), step| (count + 1.0, sum + step));
        Some(Self { lone: if count > 0.0 { sum / count } else { STEP_SECONDS }, growth })
    }

    /// Seconds that an answer takes longer among so many requests than it usually may.
    fn crowd(self, requests: f32, lone_step: Option<f32>) -> f32 {
        let lone = lone_step.unwrap_or(self.lone);
        // Who is slow alone is not crowded by that.
        let usual = lone.max(self.lone) * self.growth;
        ANSWER_TOKENS * (lone * Speed::growth(requests) - CROWDED * usual).max(0.0)
    }
}

/// Sums over candidates.
#[derive(Default)]
struct Sums {
    /// Prompts that speeds were learnt from; the terms of the means are weighed by them.
    weight: f32,
    token: f32,
    prompt: f32,
    /// Requests of ours.
    ours: f32,
    /// Candidates whose pages tell of others, and what they tell.
    news: f32,
    waiting: f32,
    running: f32,
    age: f32,
}

impl Sums {
    fn add(&mut self, View { ours, others, age }: &View) {
        self.weight += ours.speed.weight();
        self.token += ours.speed.tokens_learnt();
        self.prompt += ours.speed.prompts_learnt();
        self.ours += ours.prompts + ours.decoding;
        if let Some((waiting, running)) = others {
            self.news += 1.0;
            self.waiting += waiting;
            self.running += running;
            self.age += age.unwrap_or_default();
        }
    }
}

/// A part of a cost under its name.
type Named = (&'static str, fn(&Cost) -> f32);

/// The cost of one candidate, in seconds, by its parts.
struct Cost {
    ahead: f32,
    own: f32,
    step: f32,
    crowd: f32,
    load: f32,
    full: f32,
}

impl Cost {
    fn seconds(&self) -> f32 {
        self.ahead + self.own + self.step + self.crowd + self.load + self.full
    }

    #[inline]
    fn of(ask: Ask<'_>, slot: Slot, view: &View, mean: &Mean) -> Self {
        let Outlook { prompt_tokens, prompts, decoding, speed } = view.ours;
        let (waiting, running) = view.others.unwrap_or(mean.others);
        let unproven = speed.weight() <= 0.0 && mean.proven;
        let ahead = (prompt_tokens + waiting * mean.prompt) * if unproven { 2.0 } else { 1.0 };
        let prefix = &ask.cx.signals.prefix;
        let own = Prompt::uncached(ask.prompt_tokens, prefix.tokens(slot)) as f32;
        let own = (own - mean.spared * prefix.missing(slot)).max(1.0);
        let step = speed.step(decoding + running);
        let steps = if ahead > 0.0 {
            (ahead + own) / CHUNK_TOKENS
        } else {
            0.5 + (own / CHUNK_TOKENS).max(1.0)
        };
        let token = speed.prompt_token(mean.token, MEAN_WEIGHT);
        Self {
            ahead: ahead * token,
            own: own * (token + OTHERS_WEIGHT * mean.token),
            step: step * steps,
            crowd: mean.steps.map_or(0.0, |usual| {
                usual.crowd(prompts + decoding + waiting + running, speed.lone_step())
            }),
            load: load(ask, slot, speed.load()),
            full: full(ask.cx, slot),
        }
    }
}

/// Seconds until the adapter is loaded.
#[inline]
fn load(Ask { cx, adapter, .. }: Ask<'_>, slot: Slot, load: f32) -> f32 {
    let Some(adapter) = adapter else { return 0.0 };
    match cx.snapshot.standing(slot, adapter, cx.now) {
        Some(Standing::Resident) => 0.0,
        Some(Standing::Room) | None => load,
        Some(Standing::Waiting) => 2.0 * load,
        Some(Standing::Full) => 4.0 * load,
    }
}

/// Seconds until there is room in the KV cache.
#[inline]
fn full(cx: PickContext<'_>, slot: Slot) -> f32 {
    match cx.snapshot.kv_usage(slot, cx.now) {
        Reading::Fresh(used) => {
            FULL_WAIT * ((used - NEARLY_FULL) / (1.0 - NEARLY_FULL)).clamp(0.0, 1.0)
        }
        Reading::Stale | Reading::Unknown => 0.0,
    }
}

#[cfg(test)]
mod tests;
