use super::*;
use crate::server::clock;

const SECOND: Duration = Duration::from_secs(1);

/// Quarter of a second, as between two looks.
const LOOK: Duration = Duration::from_millis(250);

/// A server that streams two answers of ours; its page shows them.
struct Bench {
    vitals: Vitals,
    signs: Signs,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        let now = clock::now();
        let page = Page { at: now, busy: Some(true), kv_usage: Some(0.5) };
        let outlook = Outlook { decoding: 2.0, ..Outlook::default() };
        let signs = Signs {
            tokens: 1,
            requests: 2,
            streams: true,
            outlook,
            page: Some(page),
            plain: None,
            strikes: Some(0),
        };
        Self { vitals: Vitals::new(now), signs, now }
    }

    /// Looks four times a second, changing the signs before each look; what is suspected in the end.
    fn looks(&mut self, time: Duration, change: impl Fn(&mut Signs)) -> Option<&'static str> {
        let end = self.now + time;
        let mut found = None;
        while self.now < end {
            self.now += LOOK;
            change(&mut self.signs);
            if let Some(page) = &mut self.signs.page {
                page.at = self.now;
            }
            found = self.vitals.look(&self.signs, self.now).map(Reason::name);
        }
        found
    }

    /// The time until something is suspected.
    fn until(&mut self, change: impl Fn(&mut Signs)) -> Option<f32> {
        let begun = self.now;
        (0..400).find_map(|_| self.looks(LOOK, &change))?;
        Some((self.now - begun).as_secs_f32())
    }
}

fn still(_: &mut Signs) {}

fn token(signs: &mut Signs) {
    signs.tokens = signs.tokens.wrapping_add(3);
}

#[test]
fn streams_without_a_token_are_suspected_after_a_second_until_one_comes() {
    let mut bench = Bench::new();
    assert_eq!(bench.looks(SECOND * 9, token), None);
    let seconds = bench.until(still).unwrap();
    assert!((1.0..2.0).contains(&seconds), "{seconds}");
    assert_eq!(bench.looks(SECOND * 99, still), Some("silent"));
    let given_up = |signs: &mut Signs| (signs.requests, signs.streams) = (0, false);
    assert_eq!(bench.looks(SECOND * 99, given_up), Some("silent"), "clients that give up");
    assert_eq!(bench.looks(LOOK, token), None);
    assert_eq!(bench.looks(SECOND * 99, still), None, "nothing runs");
}

#[test]
fn patience_is_longer_where_steps_are_slow_or_prompts_are_long() {
    let mut fast = Bench::new();
    fast.signs.outlook.prompt_tokens = 800.0;
    let mut long = Bench::new();
    long.signs.outlook.prompt_tokens = 40_000.0;
    let mut many = Bench::new();
    many.signs.outlook.decoding = 1_000.0;
    let [fast, long, many] = [fast, long, many].map(|mut bench| bench.until(still).unwrap());
    assert!(fast < 2.0 && (9.5..11.5).contains(&long) && (4.0..6.0).contains(&many));
}

#[test]
fn a_prompt_that_comes_later_does_not_make_us_more_patient() {
    let mut bench = Bench::new();
    let more = |signs: &mut Signs| {
        signs.requests += 1;
        signs.outlook.prompt_tokens += 8_000.0;
    };
    let seconds = bench.until(more).unwrap();
    assert!(seconds < 4.0, "{seconds}");
}

#[test]
fn a_cache_that_changes_and_an_engine_that_rests_are_not_silent() {
    let works = |signs: &mut Signs| {
        let page = signs.page.as_mut().unwrap();
        page.kv_usage = page.kv_usage.map(|usage| usage + 1e-3);
    };
    assert_eq!(Bench::new().looks(SECOND * 20, works), None);
    let rests = |signs: &mut Signs| signs.page.as_mut().unwrap().busy = Some(false);
    assert_eq!(Bench::new().looks(SECOND * 20, rests), None, "a client does not read");
    let mut hung = Bench::new();
    assert_eq!(hung.looks(SECOND * 3, |signs| signs.page = None), Some("silent"));
}

#[test]
fn where_answers_come_as_a_whole_the_page_tells_within_three_seconds() {
    let whole = |signs: &mut Signs| signs.streams = false;
    let seconds = Bench::new().until(whole).unwrap();
    assert!((2.5..3.1).contains(&seconds), "{seconds}");
    let blind = |signs: &mut Signs| {
        signs.streams = false;
        signs.page.as_mut().unwrap().kv_usage = None;
    };
    assert_eq!(Bench::new().looks(SECOND * 60, blind), None);
}

#[test]
fn two_probes_in_a_row_without_a_token_are_held_against_it_until_one_comes() {
    let mut bench = Bench::new();
    let idle = |strikes| {
        move |signs: &mut Signs| {
            (signs.requests, signs.streams, signs.strikes) = (0, false, Some(strikes));
        }
    };
    assert_eq!(bench.looks(SECOND, idle(1)), None);
    assert_eq!(bench.looks(SECOND, idle(2)), Some("no_token"));
    assert_eq!(bench.looks(SECOND * 60, idle(7)), Some("no_token"));
    let proven = |signs: &mut Signs| (signs.tokens, signs.strikes) = (99, Some(0));
    assert_eq!(bench.looks(SECOND, proven), None);
}

#[test]
fn errors_are_held_on_until_a_token_only_where_a_probe_can_bring_one() {
    let errors = |signs: &mut Signs| signs.plain = Some(Reason::Errors);
    let rested = |signs: &mut Signs| (signs.plain, signs.requests) = (None, 0);
    let mut probed = Bench::new();
    assert_eq!(probed.looks(LOOK, errors), Some("errors"));
    assert_eq!(probed.looks(SECOND * 60, rested), Some("errors"));
    assert_eq!(probed.looks(LOOK, token), None);
    let mut unprobed = Bench::new();
    unprobed.signs.strikes = None;
    assert_eq!(unprobed.looks(LOOK, errors), Some("errors"));
    assert_eq!(unprobed.looks(SECOND * 9, rested), Some("errors"));
    assert_eq!(unprobed.looks(SECOND, rested), None);
    let gone = |signs: &mut Signs| signs.plain = Some(Reason::Unreachable);
    let mut back = Bench::new();
    assert_eq!(back.looks(LOOK, gone), Some("unreachable"));
    assert_eq!(back.looks(LOOK, rested), None, "it is there again");
}

#[test]
fn a_page_that_seldom_changes_is_held_against_it_less_and_less_often() {
    let mut bench = Bench::new();
    let whole = |signs: &mut Signs| signs.streams = false;
    let mut waits = Vec::new();
    for _ in 0..7 {
        waits.push(bench.until(whole).unwrap());
        assert_eq!(bench.looks(LOOK, token), None, "a probe proves it");
    }
    assert!(waits.windows(2).all(|pair| pair[0] <= pair[1]), "{waits:?}");
    assert!((70.0..90.0).contains(&waits[6]), "{waits:?}");
    bench.looks(LOOK, |signs| signs.page.as_mut().unwrap().kv_usage = Some(0.7));
    let seconds = bench.until(whole).unwrap();
    assert!(seconds < 3.1, "it changed, and stands still again: {seconds}");
}

#[test]
fn probes_that_wait_behind_long_prompts_are_not_held_against_it_at_once() {
    let works = |strikes| {
        move |signs: &mut Signs| {
            let page = signs.page.as_mut().unwrap();
            page.kv_usage = page.kv_usage.map(|usage| usage + 1e-3);
            signs.strikes = Some(strikes);
        }
    };
    let mut bench = Bench::new();
    assert_eq!(bench.looks(SECOND, works(0)), None);
    assert_eq!(bench.looks(SECOND * 9, works(5)), None);
    assert_eq!(
        bench.looks(SECOND, works(6)),
        Some("no_token"),
        "it computes, and nothing comes out"
    );
}
