//! Pickers, one file each.

use serde::Deserialize;

use crate::schedule::registry::{BadParameters, Parameters, parameters};

pub(in crate::schedule) mod max_score;
pub(in crate::schedule) mod random;

/// What all pickers take.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct HowMany {
    /// Endpoints to choose, at least 1; default 1.
    max_num_of_endpoints: usize,
}

impl Default for HowMany {
    fn default() -> Self {
        Self { max_num_of_endpoints: 1 }
    }
}

impl HowMany {
    fn read(raw: Parameters) -> Result<usize, BadParameters> {
        match parameters::<Self>(raw)?.max_num_of_endpoints {
            0 => Err(BadParameters("maxNumOfEndpoints is 0, give 1 or more".to_owned())),
            count => Ok(count),
        }
    }
}

/// Writes the positions 0 .. `len` in a random order.
fn shuffled(len: usize, dice: u64, chosen: &mut Vec<usize>) {
    chosen.clear();
    chosen.extend(0..len);
    fastrand::Rng::with_seed(dice).shuffle(chosen);
}
