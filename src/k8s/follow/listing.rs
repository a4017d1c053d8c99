//! What is kept of the objects of a kind.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// An object as it is kept.
pub(in crate::k8s) trait Item: PartialEq {
    /// Objects of one page of a list, which is in memory as a whole; an object can have more than a megabyte.
    const PAGE: u32;

    /// Bytes for all objects of the kind, as [`Item::size`] counts them.
    const ROOM: usize;

    /// The bytes that it takes, about.
    fn size(&self) -> usize;
}

/// The objects of a kind, converted, by name.
///
/// Written by the kind's follower, in place; a reader that is late sees only the newest.
#[derive(Debug)]
pub(in crate::k8s) struct Listing<T> {
    /// At most [`Item::ROOM`]; what does not fit is left out.
    items: BTreeMap<String, T>,
    size: usize,
    full: bool,
    /// The label selector, empty for all, for which the items were complete; none when they never were.
    pub(in crate::k8s) complete: Option<Arc<str>>,
    /// Why the API server gives nothing now, in words.
    pub(in crate::k8s) trouble: Option<Arc<str>>,
}

impl<T> Default for Listing<T> {
    fn default() -> Self {
        Self { items: BTreeMap::new(), size: 0, full: false, complete: None, trouble: None }
    }
}

/// Two are the same to a reader; what was left out is for us alone.
impl<T: PartialEq> PartialEq for Listing<T> {
    fn eq(&self, other: &Self) -> bool {
        self.items == other.items
            && self.complete == other.complete
            && self.trouble == other.trouble
    }
}

impl<T> Listing<T> {
    /// No objects; `complete` says for which selector that is known.
    pub(in crate::k8s) fn empty(complete: Option<Arc<str>>) -> Self {
        Self { complete, ..Self::default() }
    }

    /// The objects by name.
    pub(in crate::k8s) fn items(&self) -> &BTreeMap<String, T> {
        &self.items
    }

    /// Whether an object was left out since this listing was begun.
    pub(in crate::k8s) fn full(&self) -> bool {
        self.full
    }
}

impl<T: Item> Listing<T> {
    /// Takes what an object is now, none when it does not count; true when that is something new. What does not fit is
    /// left out, also what is known of that object: it is not what the object says now.
    pub(in crate::k8s) fn put(&mut self, name: String, item: Option<T>) -> bool {
        let known = self.items.get(&name);
        if known == item.as_ref() {
            return false;
        }
        let size = |item: &T| item.size().saturating_add(name.len());
        let size_before = known.map_or(0, size);
        let others = self.size.saturating_sub(size_before);
        let fits = |item: &T| others.saturating_add(size(item)) <= T::ROOM;
        let fitting = item.filter(|item| {
            fits(item) || {
                self.full = true;
                false
            }
        });
        self.size = others + fitting.as_ref().map_or(0, size);
        match (self.items.entry(name), fitting) {
            (Entry::Occupied(mut place), Some(item)) => {
                place.insert(item);
            }
            (Entry::Occupied(place), None) => {
                place.remove();
            }
            (Entry::Vacant(place), Some(item)) => {
                place.insert(item);
            }
            (Entry::Vacant(_), None) => return false,
        }
        true
    }
}

#[cfg(test)]
impl<T: Item> Listing<T> {
    /// None yet, and why.
    pub(in crate::k8s) fn missing(trouble: &str) -> Self {
        Self { trouble: Some(trouble.into()), ..Self::default() }
    }

    /// A complete one.
    pub(in crate::k8s) fn of(labels: &str, items: impl IntoIterator<Item = (String, T)>) -> Self {
        let mut listing = Self { complete: Some(labels.into()), ..Self::default() };
        for (name, item) in items {
            listing.put(name, Some(item));
        }
        listing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Item for usize {
        const PAGE: u32 = 1;
        const ROOM: usize = 100;

        fn size(&self) -> usize {
            *self
        }
    }

    #[test]
    fn what_does_not_fit_is_left_out_until_there_is_room() {
        let mut listing = Listing::default();
        let mut put = |name: &str, item| (listing.put(name.to_owned(), item), listing.full());
        assert_eq!(put("a", Some(60)), (true, false));
        assert_eq!(put("a", Some(60)), (false, false), "nothing new");
        assert_eq!(put("b", Some(60)), (false, true));
        assert_eq!(put("c", Some(30)), (true, true), "a smaller one fits");
        assert_eq!(put("c", Some(50)), (true, true), "what c was is not what it is");
        assert_eq!(put("a", None), (true, true));
        assert_eq!(put("a", None), (false, true), "unknown");
        assert_eq!(put("b", Some(60)), (true, true));
        assert_eq!(listing.items().keys().collect::<Vec<_>>(), ["b"]);
    }
}
