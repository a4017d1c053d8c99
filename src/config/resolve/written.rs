//! Writes a resolved configuration out, with what comes by default.

use std::collections::HashSet;

use serde_json::Map;

use crate::config::document::{
    DataLayer, Document, FlowControl, Instance, Own, Profile, Reference, RequestHandler, Source,
    Step,
};
use crate::config::file::{self, File};
use crate::config::parameters;
use crate::config::resolve::handler;
use crate::config::resolve::instances::Instances;
use crate::config::resolve::role::Role;
use crate::prefix::Settings;
use crate::schedule;
use crate::schedule::registry::Parameters;

/// What a file was resolved to.
pub(super) struct Parts<'a> {
    pub(super) profiles: &'a schedule::Profiles,
    /// The name of the detector.
    pub(super) detector: &'a str,
    pub(super) prefix: Option<&'a Settings>,
    /// The types of the parsers.
    pub(super) parsers: &'a [&'a str],
}

impl Parts<'_> {
    /// `file` as a document that leaves nothing to defaults; a plugin that comes by default is named by its type.
    pub(super) fn written(self, file: &File, instances: &Instances<'_>) -> Document {
        let Self { profiles, detector, prefix, parsers } = self;
        let mut plugins: Vec<_> = instances
            .iter()
            .map(|instance| {
                self::instance(instance.name, instance.type_name(), &instance.parameters)
            })
            .collect();
        let profiles: Vec<_> = profiles
            .iter()
            .map(|(name, profile)| Profile { name: name.to_owned(), plugins: steps(profile) })
            .collect();
        let has_handler = instances.iter().any(|instance| instance.plays(Role::Handler));
        let handler = (!has_handler).then_some(handler::DEFAULT);
        let steps = profiles.iter().flat_map(|profile| &profile.plugins);
        let needed = steps.map(|step| step.plugin_ref.as_str()).chain(handler);
        let needed = needed.chain(prefix.map(|index| &*index.name));
        let needed = needed.chain([detector]);
        let mut injected: Vec<_> = needed.filter(|name| instances.named(name).is_none()).collect();
        let mut seen = HashSet::new();
        injected.retain(|name| seen.insert(*name));
        plugins.extend(injected.into_iter().map(|name| instance(name, name, &Parameters::Null)));
        let parsers = parsers.iter().map(|name| Reference::to(*name)).collect();
        Document {
            api_version: file::GROUP_VERSION,
            kind: file::KIND,
            plugins,
            scheduling_profiles: profiles,
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
