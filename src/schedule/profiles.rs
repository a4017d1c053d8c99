//! The profiles of a configuration, and what chooses among them.

use std::collections::HashMap;
use std::sync::Arc;

use crate::schedule::handler::Handler;
use crate::schedule::handler::single_profile::SingleProfile;
use crate::schedule::profile::contained;
use crate::schedule::registry::Parameters;
use crate::schedule::{Fault, Filter, PickContext, Profile, Relay, Scorer};

/// Profiles under their names, with their handler.
#[derive(Debug)]
pub struct Profiles {
    names: Vec<Box<str>>,
    list: Vec<Profile>,
    handler: Box<dyn Handler>,
    instances: HashMap<Box<str>, Instance>,
}

/// A plugin of profiles; several may name it.
#[derive(Clone, Debug)]
pub struct Instance {
    /// Its type.
    pub type_name: &'static str,
    /// What it was built of.
    pub parameters: Parameters,
    /// None where it does not filter.
    pub filter: Option<Arc<dyn Filter>>,
    /// None where it does not score.
    pub scorer: Option<Arc<dyn Scorer>>,
}

/// The profile that a request runs.
#[derive(Debug)]
pub struct Chosen<'a> {
    /// Its name.
    pub name: &'a str,
    /// The profile.
    pub profile: &'a Profile,
    /// What failed while it was chosen.
    pub fault: Option<Fault>,
}

impl Profiles {
    /// Profiles of which `handler` chooses one for each request.
    pub fn new(
        profiles: impl IntoIterator<Item = (Box<str>, Profile)>,
        handler: Box<dyn Handler>,
    ) -> Self {
        let (names, list) = profiles.into_iter().unzip();
        Self { names, list, handler, instances: HashMap::new() }
    }

    /// The same, of plugins that are built of this, by their names: what they remember can outlive the profiles.
    #[must_use]
    pub fn of(self, instances: HashMap<Box<str>, Instance>) -> Self {
        Self { instances, ..self }
    }

    /// Takes the plugins of profiles before these over that were built of the same, with what they remember.
    pub fn resume(&mut self, before: &Self) {
        for (name, instance) in &mut self.instances {
            let same = before.instances.get(name).filter(|before| before.is_like(instance));
            if let Some(same) = same {
                instance.clone_from(same);
            }
        }
        let named = |name: &str| self.instances.get(name);
        for profile in &mut self.list {
            for step in &mut profile.filters {
                let filter = named(&step.name).and_then(|instance| instance.filter.as_ref());
                step.filter = Arc::clone(filter.unwrap_or(&step.filter));
            }
            for step in &mut profile.scorers {
                let scorer = named(&step.name).and_then(|instance| instance.scorer.as_ref());
                step.scorer = Arc::clone(scorer.unwrap_or(&step.scorer));
            }
        }
    }

    /// The one that a request runs; none where it asks for one that is not there. A handler that panics has chosen its
    /// fallback, or the first.
    pub fn choose(&self, cx: PickContext<'_>) -> Option<Chosen<'_>> {
        let mut chosen = None;
        let done = contained(|| chosen = self.handler.choose(cx, &self.names));
        let at = if done { chosen? } else { self.fallback() };
        let fault = (!done).then(|| Fault::Panicked("profile handler".into()));
        Some(Chosen { name: self.names.get(at)?, profile: self.list.get(at)?, fault })
    }

    fn fallback(&self) -> usize {
        let name = self.handler.fallback();
        self.names.iter().position(|it| Some(&**it) == name).unwrap_or(0)
    }

    /// All of them with their names, in the order of the configuration.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Profile)> {
        self.names.iter().map(|name| &**name).zip(&self.list)
    }

    /// What stands between the gateway and the endpoints.
    pub fn relay(&self) -> Option<Relay> {
        self.handler.relay()
    }

    /// The headers that plugins read.
    pub fn headers(&self) -> impl Iterator<Item = &str> {
        self.list.iter().flat_map(Profile::headers).chain(self.handler.headers())
    }
}

impl Instance {
    fn is_like(&self, other: &Self) -> bool {
        (self.type_name, &self.parameters) == (other.type_name, &other.parameters)
    }
}

/// The only profile, under no name.
impl From<Profile> for Profiles {
    fn from(profile: Profile) -> Self {
        Self::new([(Box::default(), profile)], Box::new(SingleProfile::default()))
    }
}
