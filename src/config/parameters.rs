//! What plugins take, for the manual and for configurations that are written out.
//!
//! The plugins themselves read their parameters; tests hold this table against what they accept and what they do
//! without.

use serde_json::Value;

/// One parameter of a plugin type.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// The type of the plugin.
    pub plugin: &'static str,
    /// Its name.
    pub name: &'static str,
    /// What its absence means, as JSON; none where it must be given.
    pub default: Option<&'static str>,
    /// One sentence for the manual.
    pub summary: &'static str,
}

/// All parameters, by type.
pub static PARAMETERS: &[Parameter] = &[
    Parameter {
        plugin: "active-request-scorer",
        name: "idleThreshold",
        default: Some("0"),
        summary: "Requests in flight up to which an endpoint counts as idle and scores 1.",
    },
    Parameter {
        plugin: "active-request-scorer",
        name: "maxBusyScore",
        default: Some("1.0"),
        summary: "The score that an endpoint which is not idle comes up to, 0 to 1.",
    },
    Parameter {
        plugin: "file-discovery",
        name: "path",
        default: None,
        summary: "The file with the endpoints.",
    },
    Parameter {
        plugin: "file-discovery",
        name: "watchFile",
        default: Some("false"),
        summary: "Whether changes of the file are followed.",
    },
    max_num_of_endpoints("max-score-picker"),
    max_num_of_endpoints("random-picker"),
    max_num_of_endpoints("weighted-random-picker"),
];

impl Parameter {
    /// What its absence means; none where it must be given.
    pub fn default(&self) -> Option<Value> {
        self.default.and_then(|default| serde_json::from_str(default).ok())
    }
}

/// The parameters of a type.
pub fn of(plugin: &str) -> impl Iterator<Item = &'static Parameter> {
    PARAMETERS.iter().filter(move |parameter| parameter.plugin == plugin)
}

const fn max_num_of_endpoints(plugin: &'static str) -> Parameter {
    Parameter {
        plugin,
        name: "maxNumOfEndpoints",
        default: Some("1"),
        summary: "Endpoints to choose, best first; 0 or less is 1. More than one is told to the gateway with \
                  `lodesman.destinationList: multi`.",
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use serde_json::json;

    use super::*;
    use crate::config::FileDiscovery;
    use crate::schedule::registry::{Build, PLUGINS, Parameters, Plugin, parameters};

    /// What a plugin is, built with `raw`, or why it is not.
    fn built(plugin: &Plugin, raw: Parameters) -> Result<String, String> {
        fn shown(built: Result<impl Debug, impl ToString>) -> Result<String, String> {
            built.map(|plugin| format!("{plugin:?}")).map_err(|error| error.to_string())
        }
        match plugin.build {
            Build::Filter(build, _) => shown(build(raw)),
            Build::Scorer(build) => shown(build(raw)),
            Build::Picker(build) => shown(build(raw)),
            Build::SingleProfileHandler | Build::Parser => Ok(String::new()),
        }
    }

    /// The names that the refusal of an unknown parameter tells.
    fn accepted(refusal: &str) -> Vec<String> {
        let names = refusal.split("expected").nth(1).unwrap_or_default().split('`');
        names.skip(1).step_by(2).map(str::to_owned).collect()
    }

    fn documented(plugin: &str) -> Vec<String> {
        of(plugin).map(|parameter| parameter.name.to_owned()).collect()
    }

    #[test]
    fn every_parameter_that_a_plugin_takes_is_in_the_table_and_no_other() {
        for plugin in PLUGINS {
            let Err(refusal) = built(plugin, json!({"nonsense": 1})) else { continue };
            assert_eq!(documented(plugin.name), accepted(&refusal), "{}", plugin.name);
        }
        let refusal = parameters::<FileDiscovery>(json!({"nonsense": 1})).unwrap_err().to_string();
        assert_eq!(documented("file-discovery"), accepted(&refusal));
    }

    #[test]
    fn the_defaults_in_the_table_are_those_of_the_plugins() {
        for plugin in PLUGINS {
            let written: serde_json::Map<_, _> =
                of(plugin.name).filter_map(|p| Some((p.name.to_owned(), p.default()?))).collect();
            assert_eq!(
                built(plugin, Value::Null),
                built(plugin, written.into()),
                "{}",
                plugin.name
            );
        }
        assert!(PARAMETERS.iter().all(|p| p.default.is_some() == p.default().is_some()), "JSON");
    }
}
