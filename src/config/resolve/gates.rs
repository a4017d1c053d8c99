//! The `featureGates` of a configuration file.

use crate::config::problem::Problem;
use crate::config::reader::Readable;

/// The gate of admission by queues.
const FLOW_CONTROL: &str = "flowControl";

/// Gates that exist.
const GATES: [&str; 2] = [FLOW_CONTROL, "haPopulateNonLeaderDatastore"];

/// What is switched on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gates {
    /// Admission by queues; off when absent.
    pub(super) flow_control: bool,
}

impl Gates {
    /// Reads `name`, `name=true` and `name=false`; the last of a repeated one counts.
    pub(super) fn of(listed: &Readable<String>, problems: &mut Vec<Problem>) -> Self {
        let mut gates = Self::default();
        for (at, gate) in listed.iter() {
            let path = format!("featureGates[{at}]");
            let (name, value) = gate.split_once('=').unwrap_or((gate, "true"));
            let (name, value) = (name.trim(), value.trim().to_ascii_lowercase());
            let on = match value.as_str() {
                "true" | "t" | "1" => Some(true),
                "false" | "f" | "0" => Some(false),
                _ => None,
            };
            if !GATES.contains(&name) {
                let problem = Problem::error(path, format!("unknown feature gate `{name}`"));
                problems.push(
                    problem.nearest(name, GATES).or_hint(format!("known: {}", GATES.join(", "))),
                );
            } else if let Some(on) = on {
                gates.set(name, on, path, problems);
            } else {
                let problem = Problem::error(path, format!("`{value}` is neither true nor false"));
                problems.push(problem.hint(format!("write {name}=true or {name}=false")));
            }
        }
        gates
    }

    fn set(&mut self, name: &str, on: bool, path: String, problems: &mut Vec<Problem>) {
        if name == FLOW_CONTROL {
            self.flow_control = on;
            if on {
                let message = format!("feature gate `{name}` is not supported yet");
                problems.push(Problem::error(path, message).hint("leave it out"));
            }
        } else if !on {
            let message = "has no effect: a replica always keeps its view of the pool";
            problems.push(Problem::warning(path, message).hint("leave it out"));
        }
    }
}
