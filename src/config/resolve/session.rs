//! What is written of sessions and has no effect.

use crate::config::file::File;
use crate::config::problem::Problem;
use crate::config::resolve::instances::{Instance, Instances};

/// The types that keep sessions.
const TYPES: [&str; 2] = ["session-affinity-filter", "session-affinity-scorer"];

/// The strategies, each with the settings that are its own; the first is the default.
const STRATEGIES: [(&str, &str); 2] =
    [("encoded_endpoint_header", "encodedEndpointHeaderConfig"), ("session_id", "sessionIdConfig")];

/// Warns of settings of the other strategy, and of a profile that does not list the plugin.
pub(super) fn check(file: &File, instances: &Instances<'_>, problems: &mut Vec<Problem>) {
    for instance in instances.iter().filter(|it| TYPES.contains(&it.type_name())) {
        let path = |field: &str| format!("plugins[{}].parameters.{field}", instance.at);
        let given = |field: &str| instance.parameters.get(field);
        let text = |field: &str| given(field).and_then(|value| value.as_str()).unwrap_or_default();
        let [(default, _), _] = STRATEGIES;
        let strategy = if text("strategy").is_empty() { default } else { text("strategy") };
        for (other, field) in STRATEGIES.iter().filter(|(name, _)| *name != strategy) {
            if given(field).is_some() {
                let message = format!("has no effect with the strategy {strategy}");
                let problem = Problem::warning(path(field), message);
                problems.push(problem.hint(format!("write strategy: {other}")));
            }
        }
        let profile = text("profileName");
        if !profile.is_empty() && !lists(file, profile, instance) {
            let message = format!(
                "no profile `{profile}` lists `{}`: it holds the endpoints of those that do",
                instance.name
            );
            let problem = Problem::warning(path("profileName"), message);
            problems.push(problem.hint("name a profile that lists it"));
        }
    }
}

/// Whether the profile of this name lists the instance, as one that is not written lists all.
fn lists(file: &File, profile: &str, instance: &Instance<'_>) -> bool {
    let mut named =
        file.scheduling_profiles.iter().filter(|(_, it)| it.name.as_deref() == Some(profile));
    let listed = named.any(|(_, it)| {
        it.plugins.iter().any(|(_, step)| step.plugin_ref.as_deref() == Some(instance.name))
    });
    listed || file.scheduling_profiles.is_empty()
}
