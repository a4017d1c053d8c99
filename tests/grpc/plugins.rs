//! Plugins that misbehave, and one that always does what it is told.

use std::panic;
use std::sync::Once;
use std::time::Duration;

use lodesman::pool::Slot;
use lodesman::schedule::registry::{BadParameters, Build, Empty, Parameters, Plugin};
use lodesman::schedule::{Filter, Needs, PickContext, Picker, Scorer};
use lodesman_e2e::wait::now;

/// How long the slow scorer blocks: four times the deadline of a decision.
const SLOW: Duration = Duration::from_millis(200);

pub(crate) static TABLE: &[Plugin] = &[
    Plugin {
        name: "panicking-scorer",
        summary: "",
        needs: Needs::NONE,
        build: Build::Scorer(scorer::<Panicking>),
    },
    Plugin {
        name: "slow-scorer",
        summary: "",
        needs: Needs::NONE,
        build: Build::Scorer(scorer::<Slow>),
    },
    Plugin {
        name: "panicking-picker",
        summary: "",
        needs: Needs::NONE,
        build: Build::Picker(picker),
    },
    Plugin {
        name: "panicking-filter",
        summary: "",
        needs: Needs::NONE,
        build: Build::Filter(filter::<Panicking>, Empty::Capability),
    },
    Plugin {
        name: "needs-a-capability",
        summary: "",
        needs: Needs::NONE,
        build: Build::Filter(filter::<Nothing>, Empty::Capability),
    },
    Plugin {
        name: "needs-room",
        summary: "",
        needs: Needs::NONE,
        build: Build::Filter(filter::<Nothing>, Empty::Load),
    },
];

#[derive(Debug, Default)]
struct Panicking;

#[derive(Debug, Default)]
struct Slow;

/// Leaves nothing.
#[derive(Debug, Default)]
struct Nothing;

impl Scorer for Panicking {
    fn score(&self, _: PickContext<'_>, _: &[Slot], _: &mut [f32]) {
        panic!("a scorer of the test");
    }
}

impl Filter for Panicking {
    fn filter(&self, _: PickContext<'_>, candidates: &mut Vec<Slot>) {
        candidates.clear();
        panic!("a filter of the test");
    }
}

impl Picker for Panicking {
    fn pick(&self, _: &[f32], _: u64, _: &mut Vec<usize>) {
        panic!("a picker of the test");
    }
}

impl Scorer for Slow {
    fn score(&self, _: PickContext<'_>, _: &[Slot], _: &mut [f32]) {
        let end = now() + SLOW;
        while now() < end {
            std::thread::park_timeout(SLOW);
        }
    }
}

impl Filter for Nothing {
    fn filter(&self, _: PickContext<'_>, candidates: &mut Vec<Slot>) {
        candidates.clear();
    }
}

/// Keeps the panics of these plugins, and no others, out of the output: their backtraces take seconds.
pub(crate) fn panic_quietly() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            let text = panic.payload().downcast_ref::<&str>();
            if !text.is_some_and(|text| text.ends_with("of the test")) {
                usual(panic);
            }
        }));
    });
}

fn scorer<S: Scorer + Default + 'static>(_: Parameters) -> Result<Box<dyn Scorer>, BadParameters> {
    Ok(Box::new(S::default()))
}

fn filter<F: Filter + Default + 'static>(_: Parameters) -> Result<Box<dyn Filter>, BadParameters> {
    Ok(Box::new(F::default()))
}

fn picker(_: Parameters) -> Result<Box<dyn Picker>, BadParameters> {
    Ok(Box::new(Panicking))
}
