//! Who leads, for those whom it concerns.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// Who leads, as far as this replica knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leader {
    /// The API server was not asked, or does not answer.
    #[default]
    Unknown,
    /// This replica.
    Us,
    /// Another replica.
    Other,
    /// We may not hold the lease.
    Forbidden,
}

impl Leader {
    /// Why this replica does not lead, in words.
    pub fn failure(self) -> Option<&'static str> {
        match self {
            Self::Us => None,
            Self::Unknown => Some("the lease could not be asked for"),
            Self::Other => Some("another replica leads"),
            Self::Forbidden => Some("the lease is forbidden: our Role lacks the rule for leases"),
        }
    }
}

/// Tells who leads.
#[derive(Clone, Debug)]
pub struct Leadership {
    term: watch::Receiver<Term>,
}

/// What the last attempt gave; `until` is meant for [`Leader::Us`].
#[derive(Clone, Debug)]
pub(super) struct Term {
    pub(super) leader: Leader,
    /// Which other replica it is.
    pub(super) holder: Option<Arc<str>>,
    pub(super) until: Instant,
}

impl Term {
    #[cfg(test)]
    fn long(leader: Leader) -> Self {
        let until = Instant::now() + std::time::Duration::from_hours(24);
        Self { leader, holder: None, until }
    }

    /// Who leads at that time.
    pub(super) fn leader(&self, now: Instant) -> Leader {
        let over = self.leader == Leader::Us && now >= self.until;
        if over { Leader::Unknown } else { self.leader }
    }
}

impl Leadership {
    /// What tells of the terms that are sent.
    pub(super) fn new(term: Term) -> (watch::Sender<Term>, Self) {
        let (sender, term) = watch::channel(term);
        (sender, Self { term })
    }

    /// Who leads now.
    pub fn leader(&self) -> Leader {
        self.term.borrow().leader(Instant::now())
    }

    /// Whether this replica leads now.
    pub fn ours(&self) -> bool {
        self.leader() == Leader::Us
    }

    /// Of a test that says who leads.
    #[cfg(test)]
    pub(in crate::k8s) fn changing() -> (Terms, Self) {
        let (sender, leadership) = Self::new(Term::long(Leader::Unknown));
        (Terms(sender), leadership)
    }

    /// The same for ever.
    #[cfg(test)]
    pub(in crate::k8s) fn fixed(leader: Leader) -> Self {
        Self::new(Term::long(leader)).1
    }

    /// Waits until another leads than `known`, and tells who.
    pub async fn changed_from(&mut self, known: Leader) -> Leader {
        self.until(|leader, _| leader != known).await.0
    }

    /// The same where it matters which other replica leads: also tells its identity, if that is known.
    pub async fn changed_holder(
        &mut self,
        known: &(Leader, Option<Arc<str>>),
    ) -> (Leader, Option<Arc<str>>) {
        self.until(|leader, holder| leader != known.0 || holder != known.1.as_deref()).await
    }

    async fn until(
        &mut self,
        wanted: impl Fn(Leader, Option<&str>) -> bool,
    ) -> (Leader, Option<Arc<str>>) {
        loop {
            let term = self.term.borrow_and_update().clone();
            let leader = term.leader(Instant::now());
            if wanted(leader, term.holder.as_deref()) {
                return (leader, term.holder);
            }
            let news = news(&mut self.term);
            if leader == Leader::Us {
                timeout_at(term.until, news).await.ok();
            } else {
                news.await;
            }
        }
    }
}

/// Waits for another term, for ever when there will be none.
async fn news(term: &mut watch::Receiver<Term>) {
    if term.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// What a test says of leaders.
#[cfg(test)]
pub(in crate::k8s) struct Terms(watch::Sender<Term>);

#[cfg(test)]
impl Terms {
    /// From now on this one leads.
    pub(in crate::k8s) fn enter(&self, leader: Leader) {
        self.0.send_replace(Term::long(leader));
    }
}
