//! Pickers, one file each.

use serde::Deserialize;

use crate::schedule::registry::{BadParameters, Parameters, parameters};

pub(in crate::schedule) mod max_score;
pub(in crate::schedule) mod random;
pub(in crate::schedule) mod weighted_random;

/// What all pickers take.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct HowMany {
    /// Endpoints to choose; default 1, and 0 or less is 1 too, as in the reference.
    max_num_of_endpoints: i64,
}

impl Default for HowMany {
    fn default() -> Self {
        Self { max_num_of_endpoints: 1 }
    }
}

impl HowMany {
    fn read(raw: Parameters) -> Result<usize, BadParameters> {
        let count = parameters::<Self>(raw)?.max_num_of_endpoints.max(1);
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }
}

/// Writes the positions 0 .. `len` in a random order.
fn shuffled(len: usize, dice: u64, chosen: &mut Vec<usize>) {
    chosen.clear();
    chosen.extend(0..len);
    fastrand::Rng::with_seed(dice).shuffle(chosen);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_or_less_is_one() {
        for (given, taken) in [(-3, 1), (0, 1), (1, 1), (4, 4)] {
            let raw = serde_json::json!({"maxNumOfEndpoints": given});
            assert_eq!(HowMany::read(raw), Ok(taken));
        }
    }
}
