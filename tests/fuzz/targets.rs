//! Functions over any bytes that panic where a promise of the library is broken.

mod bodies;
mod exchange;
mod ledger;
mod subset;
mod texts;
mod transport;

use self::bodies::{answer_reader, json_scan, model_restorer};
use self::exchange::exchange;
use self::subset::subset;
use self::texts::{configuration, exposition, file_discovery, pod_annotations};
use self::transport::authority;

/// A target.
pub(crate) type Target = fn(&[u8]);

/// All targets by the names of their corpora.
pub(crate) const TARGETS: [(&str, Target); 10] = [
    ("answer_reader", answer_reader),
    ("authority", authority),
    ("configuration", configuration),
    ("exchange", exchange),
    ("exposition", exposition),
    ("file_discovery", file_discovery),
    ("json_scan", json_scan),
    ("model_restorer", model_restorer),
    ("pod_annotations", pod_annotations),
    ("subset", subset),
];

/// Choices out of bytes; zeros once they are spent.
struct Dice<'a>(&'a [u8]);

impl<'a> Dice<'a> {
    fn byte(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or_default()
    }

    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        bytes
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::from(self.byte()) % choices.len()]
    }

    /// Cuts what is left in two, anywhere.
    fn halves(mut self) -> (&'a [u8], &'a [u8]) {
        let at = usize::from(u16::from_be_bytes([self.byte(), self.byte()]));
        self.0.split_at(at % (self.0.len() + 1))
    }
}
