//! The profile handler of a configuration file, against its profiles.

use crate::config::file::File;
use crate::config::problem::Problem;
use crate::config::resolve::instances::{Instance, Instances, Kind};
use crate::config::resolve::role::Role;
use crate::schedule::registry::{Build, Plugin, find};
use crate::schedule::{Handler, registry::Parameters};

/// The handler that is there by itself.
pub(super) const DEFAULT: &str = "single-profile-handler";

/// The handler; none when it has a problem.
pub(super) fn resolve(
    file: &File,
    instances: &Instances<'_>,
    tables: &[&'static [Plugin]],
    problems: &mut Vec<Problem>,
) -> Option<Box<dyn Handler>> {
    let unknown = |instance: &Instance<'_>| matches!(instance.kind, Kind::Unknown);
    let mut listed =
        instances.iter().filter(|instance| instance.plays(Role::Handler) && !unknown(instance));
    let first = listed.next();
    for handler in listed {
        let path = format!("plugins[{}]", handler.at);
        let problem = Problem::error(path, "there is one profile handler, this is a second");
        problems.push(problem.hint("leave one of them out"));
    }
    let profiles = file.scheduling_profiles.len();
    let Some(first) = first else {
        if profiles > 1 && !instances.iter().any(unknown) {
            // With an unknown type the handler may be that one.
            let problem =
                Problem::error("schedulingProfiles", "several profiles need a profile handler");
            problems.push(problem.hint("list header-profile-handler under plugins"));
        }
        let default = find(tables, DEFAULT).and_then(|plugin| built(plugin, &Parameters::Null));
        if default.is_none() {
            problems.push(Problem::error("", format!("this build has no `{DEFAULT}`")));
        }
        return default;
    };
    let Kind::Known(plugin) = first.kind else { return None };
    let handler = built(plugin, &first.parameters)?;
    if profiles > 1 && !handler.chooses() {
        let message = format!("{} runs one profile, there are {profiles}", first.type_name());
        let problem = Problem::error("schedulingProfiles", message);
        problems.push(problem.hint("leave the others out, or list header-profile-handler instead"));
    }
    problems.extend(without_fallback(file, first, &*handler));
    Some(handler)
}

/// The problem of several profiles without the one of requests that ask for none.
fn without_fallback(
    file: &File,
    instance: &Instance<'_>,
    handler: &dyn Handler,
) -> Option<Problem> {
    let fallback = handler.fallback()?;
    let mut names = file.scheduling_profiles.iter().filter_map(|(_, it)| it.name.as_deref());
    if file.scheduling_profiles.len() < 2 || names.any(|name| name == fallback) {
        return None;
    }
    let path = format!("plugins[{}].parameters.defaultProfile", instance.at);
    let message = format!("no profile is named `{fallback}`: a request that names none is refused");
    let names = file.scheduling_profiles.iter().filter_map(|(_, it)| it.name.as_deref());
    let problem = Problem::warning(path, message);
    Some(problem.nearest(fallback, names).or_hint("name one of the profiles"))
}

fn built(plugin: &Plugin, raw: &Parameters) -> Option<Box<dyn Handler>> {
    let Build::Handler(build) = plugin.build else { return None };
    build(raw.clone()).ok()
}
