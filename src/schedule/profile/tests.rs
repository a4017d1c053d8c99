use std::cell::Cell;

use super::*;
use crate::pool::InFlight;
use crate::schedule::fixture;
use crate::server::clock;

/// Scores each candidate by its slot, or panics, or writes what no scorer may.
#[derive(Debug)]
enum Fake {
    BySlot,
    Panics,
    NotANumber,
    Huge,
}

impl Scorer for Fake {
    fn score(&self, _: PickContext<'_>, candidates: &[Slot], scores: &mut [f32]) {
        for (score, slot) in scores.iter_mut().zip(candidates) {
            *score = match self {
                Self::BySlot => slot.index() as f32 / 10.0,
                Self::Panics => panic!("scorer"),
                Self::NotANumber => f32::NAN,
                Self::Huge => 1e9,
            };
        }
    }
}

#[derive(Debug)]
struct KeepFrom(usize);

impl Filter for KeepFrom {
    fn filter(&self, _: PickContext<'_>, candidates: &mut Vec<Slot>) {
        candidates.retain(|slot| slot.index() >= self.0);
    }
}

#[derive(Debug)]
struct PanickingFilter;

impl Filter for PanickingFilter {
    fn filter(&self, _: PickContext<'_>, candidates: &mut Vec<Slot>) {
        candidates.clear();
        panic!("filter");
    }
}

#[derive(Debug)]
enum FakePicker {
    First,
    Panics,
    OutOfRange,
}

impl Picker for FakePicker {
    fn pick(&self, scores: &[f32], _: u64, chosen: &mut Vec<usize>) {
        let best = (0..scores.len()).max_by(|&a, &b| scores[a].total_cmp(&scores[b]));
        match self {
            Self::First => chosen.extend(best),
            Self::Panics => panic!("picker"),
            Self::OutOfRange => chosen.push(99),
        }
    }
}

fn profile(
    filters: Vec<Box<dyn Filter>>,
    scorers: Vec<(f32, Fake)>,
    picker: FakePicker,
) -> Profile {
    let filters = filters.into_iter().map(|filter| FilterStep {
        name: "f".into(),
        type_name: "fake-filter",
        empty: Empty::Load,
        filter: filter.into(),
    });
    let scorers = scorers.into_iter().map(|(weight, fake)| ScorerStep {
        name: format!("{fake:?}").into(),
        type_name: "fake-scorer",
        weight,
        scorer: Arc::new(fake),
    });
    Profile {
        filters: filters.collect(),
        scorers: scorers.collect(),
        picker: PickerStep { name: "p".into(), type_name: "fake-picker", picker: Box::new(picker) },
    }
}

/// Runs a pass over four endpoints of which the first two have a request in flight.
fn pick(profile: &Profile, open: bool, late_after: u32) -> Result<(usize, Pass), Refusal> {
    let snapshot = fixture::snapshot(4);
    let _busy: Vec<_> = snapshot.endpoints().take(2).map(|e| InFlight::begin(&e.live, 0)).collect();
    let mut scratch = Scratch { candidates: snapshot.ready().to_vec(), ..Scratch::default() };
    let asked = fixture::Asked::of(&snapshot);
    let cx = asked.cx(clock::now());
    let asked = Cell::new(0);
    let late = || {
        asked.set(asked.get() + 1);
        asked.get() > late_after
    };
    let pass =
        profile.pick(cx, Limits { leave_out_filters: open, late: &late, dice: 3 }, &mut scratch)?;
    let chosen = scratch.chosen().next().expect("chosen").index();
    Ok((chosen, pass))
}

const NEVER: u32 = u32::MAX;

#[test]
fn the_highest_weighted_sum_is_picked() {
    let (chosen, pass) =
        pick(&profile(vec![], vec![(2.0, Fake::BySlot)], FakePicker::First), false, NEVER).unwrap();
    assert_eq!((chosen, pass.by_policy, pass.faults.len()), (3, true, 0));
}

// FR-070
#[test]
fn scores_out_of_range_are_clamped_and_nan_is_zero() {
    for fake in [Fake::NotANumber, Fake::Huge] {
        let scorers = vec![(5.0, fake), (1.0, Fake::BySlot)];
        assert_eq!(pick(&profile(vec![], scorers, FakePicker::First), false, NEVER).unwrap().0, 3);
    }
}

#[test]
fn a_scorer_that_panics_is_left_out() {
    let scorers = vec![(9.0, Fake::Panics), (1.0, Fake::BySlot)];
    let (chosen, pass) = pick(&profile(vec![], scorers, FakePicker::First), false, NEVER).unwrap();
    assert_eq!(chosen, 3);
    assert_eq!(pass.faults.as_slice(), [Fault::Panicked("Panics".into())]);
}

#[test]
fn a_filter_that_panics_is_left_out_when_failing_open_and_refuses_when_failing_close() {
    let filters =
        || -> Vec<Box<dyn Filter>> { vec![Box::new(PanickingFilter), Box::new(KeepFrom(1))] };
    let scorers = || vec![(1.0, Fake::BySlot)];
    assert_eq!(pick(&profile(filters(), scorers(), FakePicker::First), true, NEVER).unwrap().0, 3);
    let refusal =
        pick(&profile(filters(), scorers(), FakePicker::First), false, NEVER).unwrap_err();
    assert_eq!(refusal, Refusal::FilterFailed(Fault::Panicked("f".into())));
}

#[test]
fn filters_that_leave_nothing_say_what_that_means() {
    let nothing = profile(vec![Box::new(KeepFrom(9))], vec![], FakePicker::First);
    assert_eq!(pick(&nothing, true, NEVER).unwrap_err(), Refusal::NoneLeft(Empty::Load));
}

// FR-164
#[test]
fn a_late_pass_takes_the_least_loaded_candidate_that_the_filters_allow() {
    let late = profile(
        vec![Box::new(KeepFrom(1))],
        vec![(1.0, Fake::BySlot), (1.0, Fake::BySlot)],
        FakePicker::First,
    );
    let (chosen, pass) = pick(&late, false, 1).unwrap();
    assert!((2..4).contains(&chosen), "one of the two idle ones");
    assert_eq!(
        (pass.by_policy, pass.faults.as_slice()),
        (false, [Fault::Late("BySlot".into())].as_slice())
    );
}

#[test]
fn a_picker_that_fails_gives_way_to_the_least_loaded() {
    for (picker, cause) in [(FakePicker::Panics, "panic"), (FakePicker::OutOfRange, "no_choice")] {
        let (chosen, pass) =
            pick(&profile(vec![], vec![(1.0, Fake::BySlot)], picker), false, NEVER).unwrap();
        assert!(chosen >= 2, "one of the two idle ones");
        assert_eq!((pass.by_policy, pass.faults[0].cause()), (false, cause));
    }
}
