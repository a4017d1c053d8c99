//! Plugins that misbehave, and one that always does what it is told.

use std::panic;
use std::sync::Once;
use std::time::Duration;

use lodesman::pool::Slot;
use lodesman::schedule::registry::{Build, Empty, Plugin};
use lodesman::schedule::{Admitter, Detector, Filter, Handler, Needs, PickContext, Picker, Scorer};
use lodesman_e2e::wait::now;

/// How long the slow scorer blocks: four times the deadline of a decision.
const SLOW: Duration = Duration::from_millis(200);

pub(crate) static TABLE: &[Plugin] = &[
    plugin("panicking-scorer", Build::Scorer(|_| Ok(Box::new(Panicking)))),
    plugin("slow-scorer", Build::Scorer(|_| Ok(Box::new(Slow)))),
    plugin("panicking-picker", Build::Picker(|_| Ok(Box::new(Panicking)))),
    plugin("panicking-filter", Build::Filter(|_| Ok(Box::new(Panicking)), Empty::Capability)),
    plugin("panicking-detector", Build::Detector(|_| Ok(Box::new(Panicking)), Empty::Load)),
    plugin("panicking-admitter", Build::Admitter(|_| Ok(Box::new(Panicking)))),
    plugin("panicking-handler", Build::Handler(|_| Ok(Box::new(Panicking)))),
    plugin("needs-a-capability", Build::Filter(|_| Ok(Box::new(Nothing)), Empty::Capability)),
    plugin("needs-room", Build::Filter(|_| Ok(Box::new(Nothing)), Empty::Load)),
];

const fn plugin(name: &'static str, build: Build) -> Plugin {
    Plugin { name, summary: "For tests.", needs: Needs::NONE, build }
}

#[derive(Debug)]
struct Panicking;

#[derive(Debug)]
struct Slow;

/// Leaves nothing.
#[derive(Debug)]
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

impl Detector for Panicking {
    fn fill(&self, _: PickContext<'_>, _: Slot) -> f32 {
        panic!("a detector of the test");
    }
}

impl Admitter for Panicking {
    fn refuses(&self, _: PickContext<'_>, _: &[Slot]) -> bool {
        panic!("an admitter of the test");
    }
}

impl Handler for Panicking {
    fn choose(&self, _: PickContext<'_>, _: &[Box<str>]) -> Option<usize> {
        panic!("a handler of the test");
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
