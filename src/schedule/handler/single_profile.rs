//! Runs the only profile.

use serde::Deserialize;

use crate::schedule::registry::{Build, Plugin, parameters};
use crate::schedule::{Handler, Needs, PickContext};

pub(in crate::schedule) const PLUGIN: Plugin = Plugin {
    name: "single-profile-handler",
    summary: "Runs the only profile. It is there by itself where no handler is listed.",
    needs: Needs::NONE,
    build: Build::Handler(|raw| Ok(Box::new(parameters::<SingleProfile>(raw)?))),
};

/// It takes no parameters.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::schedule) struct SingleProfile {}

impl Handler for SingleProfile {
    fn choose(&self, _cx: PickContext<'_>, names: &[Box<str>]) -> Option<usize> {
        (!names.is_empty()).then_some(0)
    }
}
