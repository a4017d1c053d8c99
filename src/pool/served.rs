//! Which endpoints serve which model.

use std::collections::HashMap;

use crate::pool::{Names, Slot};

/// The models of an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Models {
    /// Those that stand by themselves.
    pub base: Names,
    /// Those that adapt another one.
    pub adapters: Names,
}

/// Models by name, with the endpoints that serve them. Bounded by the lists of the endpoints.
#[derive(Clone, Debug, Default)]
pub(in crate::pool) struct Served {
    /// Endpoints that listed all that they serve.
    listed: Slots,
    /// Endpoints of which only base models are known, and of those perhaps not all names.
    named: Slots,
    by_model: HashMap<Box<str>, Servers>,
}

/// How much was told of an endpoint's models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::pool) enum Told {
    /// Its whole list.
    All,
    /// What its metrics page names.
    Some,
}

/// Who serves a model.
#[derive(Clone, Debug, Default)]
struct Servers {
    all: Slots,
    /// Those that serve it as a base model.
    base: Slots,
}

/// A set of slots, one bit each.
#[derive(Clone, Debug, Default)]
struct Slots(Vec<u64>);

impl Served {
    /// Replaces what is known of an endpoint; none is to know nothing.
    pub(in crate::pool) fn tell(&mut self, slot: Slot, told: Option<(Told, &Models)>) {
        self.listed.set(slot, told.is_some_and(|(told, _)| told == Told::All));
        self.named.set(slot, told.is_some_and(|(told, _)| told == Told::Some));
        self.by_model.retain(|_, servers| {
            servers.all.set(slot, false);
            servers.base.set(slot, false);
            !servers.all.is_empty()
        });
        let Some((_, Models { base, adapters })) = told else { return };
        for name in base.iter().chain(adapters.iter()) {
            self.by_model.entry(name.into()).or_default().all.set(slot, true);
        }
        for name in base.iter() {
            self.by_model.entry(name.into()).or_default().base.set(slot, true);
        }
    }

    /// All that an endpoint listed; none when it did not.
    pub(in crate::pool) fn listed(&self, slot: Slot) -> Option<Models> {
        let all = || self.by_model.iter().filter(|(_, servers)| servers.all.contains(slot));
        let named = |base| {
            let of = all().filter(move |(_, servers)| servers.base.contains(slot) == base);
            of.map(|(name, _)| &**name).collect()
        };
        let listed = self.listed.contains(slot);
        listed.then(|| Models { base: named(true), adapters: named(false) })
    }

    /// Whether an endpoint serves the model; none where that is not known of it.
    pub(in crate::pool) fn servers(&self, model: &str) -> impl Fn(Slot) -> Option<bool> {
        let servers = self.by_model.get(model);
        let base = servers.is_some_and(|servers| !servers.base.is_empty());
        move |slot| {
            if servers.is_some_and(|servers| servers.all.contains(slot)) {
                return Some(true);
            }
            // Who names another base model may have this adapter, but hardly this base model.
            let other = || base && self.named.contains(slot);
            (self.listed.contains(slot) || other()).then_some(false)
        }
    }

    /// Whether some endpoint serves the model as a base model, or as an adapter; none when nobody serves it.
    pub(in crate::pool) fn base(&self, model: &str) -> Option<bool> {
        self.by_model.get(model).map(|servers| !servers.base.is_empty())
    }
}

impl Slots {
    fn set(&mut self, slot: Slot, member: bool) {
        let (word, bit) = Self::place(slot);
        if member && self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        if let Some(word) = self.0.get_mut(word) {
            *word = if member { *word | bit } else { *word & !bit };
        }
    }

    fn contains(&self, slot: Slot) -> bool {
        let (word, bit) = Self::place(slot);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    fn place(slot: Slot) -> (usize, u64) {
        (slot.index() / 64, 1 << (slot.index() % 64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn models(base: &[&str], adapters: &[&str]) -> Models {
        Models {
            base: base.iter().copied().collect(),
            adapters: adapters.iter().copied().collect(),
        }
    }

    #[test]
    fn a_model_is_served_by_those_that_list_it() {
        let (mut served, near, far) = (Served::default(), Slot(0), Slot(200));
        served.tell(near, Some((Told::All, &models(&["llama"], &["sql"]))));
        served.tell(far, Some((Told::All, &models(&["qwen"], &[]))));
        assert_eq!(
            [near, far, Slot(7)].map(served.servers("sql")),
            [Some(true), Some(false), None]
        );
        assert_eq!(
            ["llama", "sql", "other"].map(|m| served.base(m)),
            [Some(true), Some(false), None]
        );
        served.tell(near, Some((Told::All, &models(&["llama"], &[]))));
        assert_eq!((served.servers("sql")(near), served.base("sql")), (Some(false), None));
        served.tell(near, None);
        assert_eq!((served.servers("llama")(near), served.by_model.len()), (None, 1));
    }

    #[test]
    fn who_names_a_base_model_serves_no_other_and_perhaps_an_adapter() {
        let (mut served, lists, names) = (Served::default(), Slot(0), Slot(1));
        served.tell(lists, Some((Told::All, &models(&["llama"], &["sql"]))));
        served.tell(names, Some((Told::Some, &models(&["qwen"], &[]))));
        let of = |slot| ["qwen", "llama", "sql", "x"].map(|model| served.servers(model)(slot));
        assert_eq!(of(names), [Some(true), Some(false), None, None]);
        assert_eq!(of(lists), [Some(false), Some(true), Some(true), Some(false)]);
    }
}
