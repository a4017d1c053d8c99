//! The profiles of a configuration, and what chooses among them.

use std::sync::Arc;

use crate::schedule::handler::Handler;
use crate::schedule::handler::single_profile::SingleProfile;
use crate::schedule::{PickContext, Profile, Relay};

/// Profiles under their names, with their handler.
#[derive(Debug)]
pub struct Profiles {
    names: Vec<Box<str>>,
    list: Vec<Profile>,
    handler: Box<dyn Handler>,
}

impl Profiles {
    /// Profiles of which `handler` chooses one for each request.
    pub fn new(
        profiles: impl IntoIterator<Item = (Box<str>, Profile)>,
        handler: Box<dyn Handler>,
    ) -> Self {
        let (names, list) = profiles.into_iter().unzip();
        Self { names, list, handler }
    }

    /// The one that a request runs; none where it asks for one that is not there.
    pub fn choose(&self, cx: PickContext<'_>) -> Option<&Profile> {
        self.list.get(self.handler.choose(cx, &self.names)?)
    }

    /// All of them with their names, in the order of the configuration.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Profile)> {
        self.names.iter().map(|name| &**name).zip(&self.list)
    }

    /// Takes the filters and scorers over that were there before under the same names, with what they remember, where
    /// `same` says of the name that it means the same.
    pub fn inherit(&mut self, before: &Self, same: impl Fn(&str) -> bool) {
        let same = |name: &str, other: &str| name == other && same(name);
        for profile in &mut self.list {
            for step in &mut profile.filters {
                let mut old = before.list.iter().flat_map(|profile| &profile.filters);
                if let Some(old) = old.find(|old| same(&old.name, &step.name)) {
                    step.filter = Arc::clone(&old.filter);
                }
            }
            for step in &mut profile.scorers {
                let mut old = before.list.iter().flat_map(|profile| &profile.scorers);
                if let Some(old) = old.find(|old| same(&old.name, &step.name)) {
                    step.scorer = Arc::clone(&old.scorer);
                }
            }
        }
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

/// The only profile, under no name.
impl From<Profile> for Profiles {
    fn from(profile: Profile) -> Self {
        Self::new([(Box::default(), profile)], Box::new(SingleProfile::default()))
    }
}
