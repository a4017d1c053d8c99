//! Writes a resolved configuration out, with what comes by default.

use serde_json::Map;

use crate::config::document::{
    DataLayer, Document, FlowControl, Instance, Own, Profile, Reference, RequestHandler, Source,
    Step,
};
use crate::config::file::{self, File};
use crate::config::parameters;
use crate::config::resolve::instances::Instances;
use crate::config::resolve::profile::SINGLE;
use crate::config::resolve::role::Role;
use crate::prefix::Settings;
use crate::schedule;
use crate::schedule::registry::Parameters;

/// The name of a profile that has none.
const PROFILE: &str = "default";

/// What a file was resolved to.
pub(super) struct Parts<'a> {
    pub(super) profile: &'a schedule::Profile,
    /// The name of the detector.
    pub(super) detector: &'a str,
    pub(super) prefix: Option<&'a Settings>,
    /// The types of the parsers.
    pub(super) parsers: &'a [&'a str],
}

impl Parts<'_> {
    /// `file` as a document that leaves nothing to defaults; a plugin that comes by default is named by its type.
    pub(super) fn written(self, file: &File, instances: &Instances<'_>) -> Document {
        let Self { profile, detector, prefix, parsers } = self;
        let mut plugins: Vec<_> = instances
            .iter()
            .map(|instance| {
                self::instance(instance.name, instance.type_name(), &instance.parameters)
            })
            .collect();
        let steps = steps(profile);
        let has_handler = instances.iter().any(|instance| instance.plays(Role::Handler));
        let handler = (!has_handler).then_some(SINGLE);
        let needed = steps.iter().map(|step| step.plugin_ref.as_str()).chain(handler);
        let needed = needed.chain(prefix.map(|index| &*index.name));
        let needed = needed.chain([detector]);
        let injected = needed.filter(|name| instances.named(name).is_none());
        plugins.extend(injected.map(|name| instance(name, name, &Parameters::Null)));
        let name = file.scheduling_profiles.iter().find_map(|(_, profile)| profile.name.clone());
        let profile = Profile { name: name.unwrap_or_else(|| PROFILE.to_owned()), plugins: steps };
        let parsers = parsers.iter().map(|name| Reference::to(*name)).collect();
        Document {
            api_version: file::GROUP_VERSION,
            kind: file::KIND,
            plugins,
            scheduling_profiles: vec![profile],
            flow_control: FlowControl { saturation_detector: Reference::to(detector) },
            data_layer: data_layer(file),
            request_handler: RequestHandler { parsers },
            lodesman: Own::of(&file.lodesman),
        }
    }
}

/// What is given over what is the default.
fn instance(name: &str, type_name: &str, given: &Parameters) -> Instance {
    let defaults = parameters::of(type_name)
        .filter_map(|parameter| Some((parameter.name.to_owned(), parameter.default()?)))
        .filter(|(_, default)| !default.is_null());
    let mut parameters: Map<_, _> = defaults.collect();
    parameters.extend(given.as_object().cloned().unwrap_or_default());
    Instance { name: name.to_owned(), kind: type_name.to_owned(), parameters }
}

/// The steps of a profile; what filters and scores stands once, with its weight.
fn steps(profile: &schedule::Profile) -> Vec<Step> {
    let schedule::Profile { filters, scorers, picker } = profile;
    let step = |name: &str| {
        let scorer = scorers.iter().find(|step| *step.name == *name);
        Step { plugin_ref: name.to_owned(), weight: scorer.map(|step| step.weight) }
    };
    let filter = |name: &str| filters.iter().any(|step| *step.name == *name);
    let alone = scorers.iter().map(|step| &*step.name).filter(|name| !filter(name));
    let names = filters.iter().map(|step| &*step.name).chain(alone).chain([&*picker.name]);
    names.map(step).collect()
}

fn data_layer(file: &File) -> DataLayer {
    let data = &file.data_layer;
    let reference = |name: &Option<String>| name.as_deref().map(Reference::to);
    let sources = data.sources.iter().filter_map(|(_, source)| {
        let extractors =
            source.extractors.iter().filter_map(|(_, extractor)| reference(&extractor.plugin_ref));
        let pluginref = source.plugin_ref.clone()?;
        Some(Source { plugin_ref: pluginref, extractors: extractors.collect() })
    });
    DataLayer {
        inject_defaults: data.inject_defaults.unwrap_or(true),
        sources: sources.collect(),
        discovery: data.discovery.as_ref().and_then(|discovery| reference(&discovery.plugin_ref)),
    }
}
