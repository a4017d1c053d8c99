//! Which adapters were active lately on an endpoint, by its pages and by our own requests.
//!
//! A metrics page shows the adapters of *running* requests, not those that are loaded. A server keeps an adapter loaded
//! until it needs the slot for another one, and then gives up the least recently used. So the running ones have their
//! slots, and the other slots have those that were active last.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::pool::Adapters;

/// Adapters remembered for an endpoint; the one that was active longest ago is forgotten first.
const REMEMBERED: usize = 64;

/// The longest name that is remembered, in bytes; clients choose names. A longer one is known by pages alone.
const LONGEST_NAME: usize = 256;

/// An adapter that nobody has used for so long may have been unloaded by whomever we do not see.
const LOADED_FOR: Duration = Duration::from_mins(5);

/// How an adapter stands on an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Loaded, or about to be: its next request waits for no load.
    Resident,
    /// Not loaded, and there is a slot without an active adapter.
    Room,
    /// Not loaded; requests for it wait until a slot is free.
    Waiting,
    /// Not loaded, no request for it, and all slots are in use.
    Full,
}

/// The adapters of one endpoint, each once. Bounded by [`REMEMBERED`].
#[derive(Debug, Default)]
pub(in crate::pool) struct Activity(Vec<Active>);

#[derive(Debug)]
struct Active {
    name: Arc<str>,
    /// When a request for it was last sent by us or seen on a page.
    last: Instant,
    /// Requests of ours for it that have not ended.
    in_flight: u32,
}

impl Activity {
    /// A request of ours for the adapter begins; the name as it is kept.
    pub(in crate::pool) fn begin(&mut self, name: &str, at: Instant) -> Arc<str> {
        self.note(name, at);
        match self.0.iter_mut().find(|active| &*active.name == name) {
            Some(active) => {
                active.in_flight += 1;
                Arc::clone(&active.name)
            }
            None => name.into(),
        }
    }

    /// A request of ours for the adapter ends.
    pub(in crate::pool) fn end(&mut self, name: &str) {
        if let Some(active) = self.0.iter_mut().find(|active| &*active.name == name) {
            active.in_flight = active.in_flight.saturating_sub(1);
        }
    }

    /// Takes in what a page that was read at `at` shows; pages may come in any order.
    pub(in crate::pool) fn shown(&mut self, page: &Adapters, at: Instant) {
        page.running.iter().chain(page.waiting.iter()).for_each(|name| self.note(name, at));
    }

    /// How an adapter stands, by a page that is fresh, or without one.
    ///
    /// Without the number of slots there is at least one, and no word but that an adapter is resident.
    pub(in crate::pool) fn standing(
        &self,
        name: &str,
        page: Option<&Adapters>,
        now: Instant,
    ) -> Option<Standing> {
        let runs = |name: &str| page.is_some_and(|page| page.running.contains(name));
        let running = page.map_or(0, |page| page.running.iter().count());
        let slots = page.and_then(|page| page.slots).map(|slots| slots as usize);
        if runs(name) || self.rank(name, runs, now) < slots.unwrap_or(1).saturating_sub(running) {
            return Some(Standing::Resident);
        }
        let waits = |name: &str| page.is_some_and(|page| page.waiting.contains(name));
        let ours = |active: &&Active| active.in_flight > 0 && !runs(&active.name);
        let waiting = page.into_iter().flat_map(|page| page.waiting.iter());
        let unseen = self.0.iter().filter(ours).filter(|active| !waits(&active.name)).count();
        let active = running + waiting.filter(|name| !runs(name)).count() + unseen;
        let asked = waits(name) || self.0.iter().filter(ours).any(|own| &*own.name == name);
        Some(match (active < slots?, asked) {
            (true, _) => Standing::Room,
            (false, true) => Standing::Waiting,
            (false, false) => Standing::Full,
        })
    }

    /// How many adapters that do not run were active after this one; beyond all when it was not active itself.
    fn rank(&self, name: &str, runs: impl Fn(&str) -> bool, now: Instant) -> usize {
        let loaded = |active: &&Active| {
            active.in_flight > 0 || now.saturating_duration_since(active.last) < LOADED_FOR
        };
        let this = self.0.iter().filter(loaded).find(|active| &*active.name == name);
        this.map_or(usize::MAX, |this| {
            let later = |other: &&Active| other.order() < this.order();
            self.0.iter().filter(later).filter(|other| !runs(&other.name)).count()
        })
    }

    fn note(&mut self, name: &str, at: Instant) {
        match self.0.iter_mut().find(|active| &*active.name == name) {
            Some(active) => active.last = active.last.max(at),
            None if name.len() > LONGEST_NAME => return,
            None => self.0.push(Active { name: name.into(), last: at, in_flight: 0 }),
        }
        if self.0.len() > REMEMBERED {
            let oldest = self.0.iter().enumerate().max_by_key(|(_, active)| active.order());
            if let Some(at) = oldest.map(|(at, _)| at) {
                self.0.swap_remove(at);
            }
        }
    }
}

impl Active {
    /// The order of activity: those with requests of ours, then by time, then any fixed one.
    fn order(&self) -> (Reverse<bool>, Reverse<Instant>, &str) {
        (Reverse(self.in_flight > 0), Reverse(self.last), &self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::Standing::{Full, Resident, Room, Waiting};
    use super::*;
    use crate::server::clock;

    fn page(running: &[&str], waiting: &[&str], slots: u32) -> Adapters {
        Adapters {
            running: running.iter().copied().collect(),
            waiting: waiting.iter().copied().collect(),
            slots: Some(slots),
        }
    }

    /// The standing of each of the names on a page that was just read and taken in.
    fn standings<const N: usize>(
        activity: &mut Activity,
        page: &Adapters,
        now: Instant,
        names: [&str; N],
    ) -> [Option<Standing>; N] {
        activity.shown(page, now);
        names.map(|name| activity.standing(name, Some(page), now))
    }

    #[test]
    fn what_runs_is_resident_and_what_is_unknown_finds_room_or_none() {
        let (now, names) = (clock::now(), ["a", "b"]);
        let free = standings(&mut Activity::default(), &page(&["a"], &[], 2), now, names);
        assert_eq!(free, [Some(Resident), Some(Room)]);
        let full = standings(&mut Activity::default(), &page(&["a"], &[], 1), now, names);
        assert_eq!(full, [Some(Resident), Some(Full)]);
        let queued = standings(&mut Activity::default(), &page(&["a"], &["b"], 1), now, names);
        assert_eq!(queued, [Some(Resident), Some(Waiting)]);
    }

    #[test]
    fn an_adapter_stays_resident_after_its_requests_until_others_took_the_slots() {
        let (mut activity, start) = (Activity::default(), clock::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        activity.shown(&page(&["a"], &[], 2), at(0));
        let idle = standings(&mut activity, &page(&[], &[], 2), at(1), ["a", "b"]);
        assert_eq!(idle, [Some(Resident), Some(Room)]);
        let one = standings(&mut activity, &page(&["b"], &[], 2), at(2), ["a", "b"]);
        assert_eq!(one, [Some(Resident), Some(Resident)], "a has the other slot");
        let two = standings(&mut activity, &page(&["b", "c"], &[], 2), at(3), ["a", "c"]);
        assert_eq!(two, [Some(Full), Some(Resident)]);
        let after = standings(&mut activity, &page(&[], &[], 2), at(4), ["a", "b", "c"]);
        assert_eq!(after, [Some(Room), Some(Resident), Some(Resident)], "a was given up");
        let long = at(4) + LOADED_FOR;
        assert_eq!(activity.standing("b", Some(&page(&[], &[], 2)), long), Some(Room));
    }

    #[test]
    fn our_own_request_counts_before_any_page_shows_it() {
        let (mut activity, now) = (Activity::default(), clock::now());
        let one = page(&[], &[], 1);
        activity.begin("a", now);
        assert_eq!(activity.standing("a", Some(&one), now), Some(Resident));
        assert_eq!(activity.standing("b", Some(&one), now), Some(Full));
        let busy = page(&["b"], &[], 1);
        assert_eq!(activity.standing("a", Some(&busy), now), Some(Waiting), "b has the slot");
        activity.end("a");
        assert_eq!(activity.standing("a", Some(&busy), now), Some(Full));
    }

    #[test]
    fn without_a_page_only_our_own_adapter_is_known() {
        let (mut activity, now) = (Activity::default(), clock::now());
        activity.begin("a", now);
        assert_eq!(activity.standing("a", None, now), Some(Resident));
        assert_eq!(activity.standing("b", None, now), None);
    }

    #[test]
    fn only_the_latest_are_remembered() {
        let (mut activity, start) = (Activity::default(), clock::now());
        for n in 0..1000_u32 {
            activity.begin(&format!("a{n}"), start + Duration::from_millis(n.into()));
            activity.end(&format!("a{n}"));
        }
        activity.begin(&"x".repeat(LONGEST_NAME + 1), start + LOADED_FOR);
        assert_eq!(activity.0.len(), REMEMBERED);
        let (wide, now) = (page(&[], &[], 100), start + Duration::from_secs(1));
        assert_eq!(activity.standing("a999", Some(&wide), now), Some(Resident));
        assert_eq!(activity.standing("a0", Some(&wide), now), Some(Room));
    }
}
