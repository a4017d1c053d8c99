//! The profiles of a configuration, and what chooses among them.

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

    /// The one that a request runs, with its name; none where it asks for one that is not there.
    pub fn choose(&self, cx: PickContext<'_>) -> Option<(&str, &Profile)> {
        let at = self.handler.choose(cx, &self.names)?;
        Some((self.names.get(at)?, self.list.get(at)?))
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

/// The only profile, under no name.
impl From<Profile> for Profiles {
    fn from(profile: Profile) -> Self {
        Self::new([(Box::default(), profile)], Box::new(SingleProfile::default()))
    }
}
