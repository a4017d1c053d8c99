//! Hand-computed schedules, and properties of any schedule.

use std::{collections::HashMap, time::Duration};

use proptest::prelude::*;

use super::*;

const MS: Duration = Duration::from_millis(1);

fn job(id: u64, prompt_tokens: usize, output_tokens: usize) -> Job {
    let blocks = (0..prompt_tokens / 16).map(|n| id << 32 | n as u64).collect();
    Job { id: JobId(id), prompt_tokens, blocks, output_tokens, adapter: None }
}

fn with_adapter(job: Job, adapter: u32) -> Job {
    Job { adapter: Some(AdapterId(adapter)), ..job }
}

fn engine(spec: EngineSpec, jobs: impl IntoIterator<Item = Job>) -> Engine {
    let mut engine = Engine::new(spec);
    for job in jobs {
        engine.submit(job).unwrap();
    }
    engine
}

/// Durations of all steps to the end, and all events with the time since the beginning.
fn run(engine: &mut Engine) -> (Vec<Duration>, Vec<(Duration, Event)>) {
    let (mut steps, mut timed, mut events, mut now) = (vec![], vec![], vec![], Duration::ZERO);
    while let Some(duration) = engine.step(&mut events) {
        now += duration;
        steps.push(duration);
        timed.extend(events.drain(..).map(|event| (now, event)));
    }
    (steps, timed)
}

fn first_token(id: u64, cached_tokens: usize) -> Event {
    Event::FirstToken { id: JobId(id), cached_tokens }
}

#[test]
fn a_job_of_any_length_is_judged_without_an_overflow() {
    let spec = EngineSpec::default();
    assert!(!spec.fits(usize::MAX, usize::MAX) && !spec.fits(1, usize::MAX));
    assert!(spec.fits(1, spec.kv_tokens) && !spec.fits(2, spec.kv_tokens));
}

#[test]
fn one_prompt_of_1000_tokens_alone_takes_125_ms_to_its_first_token() {
    let mut engine = engine(EngineSpec::default(), [job(1, 1_000, 3)]);
    let (steps, events) = run(&mut engine);
    assert_eq!(steps, [125 * MS, 20 * MS, 20 * MS]);
    let token = Event::Token { id: JobId(1) };
    let finished = Event::Finished { id: JobId(1) };
    let at = [125 * MS, 145 * MS, 165 * MS, 165 * MS];
    let what = [first_token(1, 0), token, token, finished];
    assert_eq!(events, at.into_iter().zip(what).collect::<Vec<_>>());
}

#[test]
fn a_long_prompt_is_computed_in_chunks_of_the_budget() {
    let mut engine = engine(EngineSpec::default(), [job(1, 5_000, 1)]);
    assert_eq!(run(&mut engine).0, [256 * MS, 256 * MS, 113 * MS]);
}

#[test]
fn decodes_come_first_and_share_the_step_with_a_prompt() {
    let mut engine = engine(EngineSpec::default(), [job(1, 80, 9), job(2, 80, 9)]);
    let mut events = Vec::new();
    assert_eq!(engine.step(&mut events), Some(20 * MS));
    engine.submit(job(3, 6_000, 1)).unwrap();
    // 2,046 prompt tokens and two decodes fill the budget: 255.75 ms + 20.4 ms.
    assert_eq!(engine.step(&mut events), Some(Duration::from_micros(276_150)));
    assert_eq!(engine.step(&mut events), Some(Duration::from_micros(276_150)));
    assert_eq!(engine.step(&mut events), Some(Duration::from_micros(238_500 + 20_400)));
}

#[test]
fn a_request_waits_until_its_prefill_begins() {
    let mut engine = engine(EngineSpec::default(), [job(1, 2_048, 1), job(2, 16, 1)]);
    assert_eq!((engine.gauges().waiting, engine.gauges().running), (2, 0));
    engine.step(&mut Vec::new());
    let gauges = engine.gauges();
    assert_eq!((gauges.waiting, gauges.running), (1, 1));
    assert!((gauges.kv_used - 128.0 / 25_000.0).abs() < 1e-9, "{gauges:?}");
    engine.step(&mut Vec::new());
    assert_eq!((engine.gauges().waiting, engine.gauges().running), (0, 1));
    assert_eq!(engine.step(&mut Vec::new()), None);
    assert_eq!(engine.gauges(), Gauges::default());
}

#[test]
fn a_repeated_prompt_is_a_hit_but_for_its_last_block() {
    let mut first = job(1, 1_600, 1);
    let mut engine = engine(EngineSpec::default(), [first.clone()]);
    run(&mut engine);
    first.id = JobId(2);
    assert_eq!(engine.cached_tokens(1_600, &first.blocks), 1_584);
    assert_eq!(engine.cached_tokens(1_601, &first.blocks), 1_600);
    engine.submit(first).unwrap();
    let (steps, events) = run(&mut engine);
    assert_eq!(steps, [2 * MS], "one block of 16 tokens");
    assert_eq!(events[0].1, first_token(2, 1_584));
    assert_eq!(engine.counters().cached_tokens, 1_584);
    assert_eq!(engine.counters().queried_tokens, 3_200);
}

#[test]
fn blocks_are_no_hits_before_they_are_computed() {
    let (a, mut b) = (job(1, 160, 2), job(1, 160, 2));
    b.id = JobId(2);
    let mut engine = engine(EngineSpec::default(), [a, b]);
    let (_, events) = run(&mut engine);
    assert_eq!(events[1].1, first_token(2, 0));
    assert_eq!(engine.kv.census(), (0, 10), "the twin's blocks are kept once");
}

#[test]
fn the_least_recently_used_chain_is_evicted_from_its_tail() {
    let spec = EngineSpec { kv_tokens: 160, ..EngineSpec::default() };
    let (a, b) = (job(1, 64, 1), job(2, 64, 1));
    let mut engine = engine(spec, [a.clone(), b.clone()]);
    run(&mut engine);
    engine.submit(job(3, 64, 1)).unwrap();
    run(&mut engine);
    assert_eq!(engine.cached_tokens(65, &a.blocks), 32);
    assert_eq!(engine.cached_tokens(65, &b.blocks), 64);
}

#[test]
fn a_hit_makes_a_chain_young_again() {
    let spec = EngineSpec { kv_tokens: 160, ..EngineSpec::default() };
    let (a, b) = (job(1, 64, 1), job(2, 64, 1));
    let mut engine = engine(spec, [a.clone(), b.clone()]);
    run(&mut engine);
    engine.submit(Job { id: JobId(3), ..a.clone() }).unwrap();
    run(&mut engine);
    engine.submit(job(4, 80, 1)).unwrap();
    run(&mut engine);
    assert_eq!(engine.cached_tokens(65, &a.blocks), 64);
    assert_eq!(engine.cached_tokens(65, &b.blocks), 16);
}

#[test]
fn the_last_request_is_preempted_and_recomputed_when_blocks_run_out() {
    let spec = EngineSpec { kv_tokens: 96, ..EngineSpec::default() };
    let mut engine = engine(spec, [job(1, 32, 33), job(2, 32, 33)]);
    let (_, events) = run(&mut engine);
    let of = |id| events.iter().filter(move |(_, event)| event.id() == JobId(id));
    assert!(of(1).all(|(_, event)| *event != Event::Preempted { id: JobId(1) }));
    let preempted = of(2).position(|(_, event)| *event == Event::Preempted { id: JobId(2) });
    assert_eq!(preempted, Some(17), "both hold three blocks when the first needs a fourth");
    assert_eq!(of(2).count(), 33 + 2);
    assert_eq!(engine.counters().preempted, 1);
    // Its prompt stayed in the cache: only the 17 tokens of output so far are computed again.
    assert_eq!(engine.counters().prefill_tokens, 2 * 32 + 17);
}

#[test]
fn a_preempted_request_goes_before_those_that_wait() {
    let spec = EngineSpec { kv_tokens: 96, sequences: 2, ..EngineSpec::default() };
    let mut engine = engine(spec, [job(1, 32, 33), job(2, 32, 33), job(3, 16, 1)]);
    let (_, events) = run(&mut engine);
    let of = |wanted| events.iter().position(|(_, event)| *event == wanted);
    assert!(of(first_token(3, 0)) > of(Event::Finished { id: JobId(1) }));
}

#[test]
fn a_step_that_preempts_admits_nobody() {
    let spec = EngineSpec { kv_tokens: 320, step_tokens: 16, ..EngineSpec::default() };
    let bare = |id| Job { blocks: [].into(), ..job(id, 128, 65) };
    let mut engine = engine(spec, [bare(1), bare(2)]);
    let mut events = Vec::new();
    while !events.contains(&Event::Preempted { id: JobId(2) }) {
        events.clear();
        let duration = engine.step(&mut events).expect("the second must go");
        let preempted = events.contains(&Event::Preempted { id: JobId(2) });
        assert!(!preempted || duration == 20 * MS, "one decode and no prefill: {duration:?}");
    }
}

#[test]
fn an_adapter_without_a_slot_is_passed_over_and_loading_stalls_the_engine() {
    let spec = EngineSpec { adapter_slots: 1, ..EngineSpec::default() };
    let jobs = [
        with_adapter(job(1, 80, 2), 7),
        with_adapter(job(2, 80, 1), 8),
        with_adapter(job(3, 80, 1), 7),
        job(4, 80, 1),
    ];
    let mut engine = engine(spec, jobs);
    let mut events = Vec::new();
    assert_eq!(engine.step(&mut events), Some(150 * MS + 30 * MS));
    assert_eq!(engine.running_adapters().collect::<Vec<_>>(), [AdapterId(7)]);
    assert_eq!(engine.waiting_adapters().collect::<Vec<_>>(), [AdapterId(8)]);
    assert_eq!(engine.step(&mut events), Some(20 * MS));
    assert_eq!(engine.step(&mut events), Some(150 * MS + 10 * MS));
    assert_eq!(engine.resident_adapters().collect::<Vec<_>>(), [AdapterId(8)]);
    assert_eq!(engine.counters().adapter_loads, 2);
}

#[test]
fn slowdown_scales_a_step() {
    let spec = EngineSpec { slowdown: 2.0, ..EngineSpec::default() };
    assert_eq!(run(&mut engine(spec, [job(1, 80, 2)])).0, [20 * MS, 40 * MS]);
}

#[test]
fn a_job_that_can_never_run_is_refused() {
    let spec = EngineSpec { kv_tokens: 160, adapter_slots: 0, ..EngineSpec::default() };
    let mut engine = Engine::new(spec);
    assert_eq!(engine.submit(job(1, 100, 62)), Err(Refused::TooLarge));
    assert_eq!(engine.submit(with_adapter(job(1, 1, 1), 1)), Err(Refused::NoAdapterSlots));
    assert_eq!(engine.submit(job(1, 100, 61)), Ok(()));
}

#[test]
fn a_clone_runs_ahead_without_touching_the_original() {
    let mut original = engine(EngineSpec::default(), [job(1, 3_000, 5), job(2, 3_000, 5)]);
    original.step(&mut Vec::new());
    let ahead = run(&mut original.clone());
    assert_eq!(run(&mut original), ahead);
}

#[test]
fn an_engine_goes_on_alike_while_clones_of_it_live_and_after() {
    let spec = EngineSpec { kv_tokens: 4_800, ..EngineSpec::default() };
    let jobs = (0..20).map(|id| job(id, 500, 600));
    let (mut alone, mut cloned) = (engine(spec.clone(), jobs.clone()), engine(spec, jobs));
    let (mut expected, mut events) = (Vec::new(), Vec::new());
    while let Some(length) = alone.step(&mut expected) {
        let before = cloned.clone();
        assert_eq!(cloned.step(&mut events), Some(length));
        let second = cloned.clone();
        drop(before);
        assert_eq!(second.kv.census(), alone.kv.census());
        assert_eq!(run(&mut second.clone()), run(&mut alone.clone()));
    }
    assert_eq!(events, expected);
    assert_eq!(cloned.counters(), alone.counters());
    assert!(alone.counters().preempted > 0 && alone.counters().recomputed_tokens > 0);
}

#[derive(Clone, Debug)]
enum Action {
    Submit { family: u64, prompt: usize, output: usize, adapter: Option<u32> },
    Cancel(u64),
    Step,
}

fn action() -> impl Strategy<Value = Action> {
    let submit = (0..4u64, 0..400usize, 0..60usize, prop::option::of(0..4u32)).prop_map(
        |(family, prompt, output, adapter)| Action::Submit { family, prompt, output, adapter },
    );
    prop_oneof![3 => submit, 1 => (0..40u64).prop_map(Action::Cancel), 4 => Just(Action::Step)]
}

#[derive(Default)]
struct Seen {
    tokens: usize,
    finished: usize,
    wanted: usize,
    prompt: usize,
}

fn check(engine: &Engine, finished_before: u64) {
    let running = engine.running.iter();
    let private: usize = running.clone().map(|request| request.private).sum();
    assert_eq!(engine.kv.used(), engine.kv.census().0 + private, "every block has an owner");
    let counters = engine.counters();
    let gauges = engine.gauges();
    assert_eq!(
        counters.submitted - counters.cancelled,
        finished_before + (gauges.waiting + gauges.running) as u64
    );
    assert!((0.0..=1.0).contains(&gauges.kv_used));
    assert!(gauges.running <= engine.spec.sequences);
    assert!(engine.resident_adapters().count() <= engine.spec.adapter_slots);
    let partial = running.clone().position(|request| !request.is_decoding());
    assert!(partial.is_none_or(|at| at + 1 == engine.running.len()), "only the last is partial");
}

fn note(seen: &mut HashMap<JobId, Seen>, events: &mut Vec<Event>) {
    for event in events.drain(..) {
        let job = seen.get_mut(&event.id()).expect("events of jobs that are there");
        assert_eq!(job.finished, 0, "nothing follows the end: {event:?}");
        match event {
            Event::FirstToken { cached_tokens, .. } => {
                assert_eq!(job.tokens, 0);
                assert!(cached_tokens < job.prompt.max(1) && cached_tokens % 16 == 0);
                job.tokens = 1;
            }
            Event::Token { .. } => job.tokens += 1,
            Event::Finished { .. } => job.finished += 1,
            Event::Preempted { .. } => {}
        }
    }
}

proptest! {
    #[test]
    fn every_job_finishes_once_and_blocks_are_conserved(
        actions in prop::collection::vec(action(), 1..120),
    ) {
        let spec = EngineSpec {
            step_tokens: 128, sequences: 5, kv_tokens: 480, adapter_slots: 2, ..EngineSpec::default()
        };
        let (mut engine, mut seen, mut events) = (Engine::new(spec), HashMap::new(), Vec::new());
        for (id, action) in actions.into_iter().enumerate() {
            match action {
                Action::Submit { family, prompt, output, adapter } => {
                    let adapter = adapter.map(AdapterId);
                    let job = Job { id: JobId(id as u64), adapter, ..job(family, prompt, output) };
                    if engine.submit(job).is_ok() {
                        let wanted = output.max(1);
                        seen.insert(JobId(id as u64), Seen { wanted, prompt, ..Seen::default() });
                    }
                }
                Action::Cancel(id) => {
                    if engine.cancel(JobId(id)) {
                        seen.remove(&JobId(id));
                    }
                }
                Action::Step => {
                    let finished = engine.counters().finished;
                    engine.step(&mut events);
                    note(&mut seen, &mut events);
                    check(&engine, finished);
                }
            }
        }
        for _ in 0..100_000 {
            let finished = engine.counters().finished;
            if engine.step(&mut events).is_none() { break }
            note(&mut seen, &mut events);
            check(&engine, finished);
        }
        prop_assert!(engine.step(&mut events).is_none(), "the engine comes to rest");
        prop_assert_eq!(engine.kv.used(), 0);
        for job in seen.values() {
            prop_assert_eq!((job.tokens, job.finished), (job.wanted, 1));
        }
    }
}
