//! What is on the screen, and what keys do to it.

use std::time::Instant;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::cli::explain::table::table;
use crate::director::{Brief, Explanation};
use crate::server::overview::{EndpointView, Overview};

use super::columns::Column;
use super::list::List;

/// Rows that a page key moves by.
const PAGE: isize = 10;

/// Everything that is shown.
#[derive(Debug)]
pub(super) struct State {
    /// Where the picker is, for people.
    pub(super) at: String,
    /// What it said last.
    pub(super) seen: Option<Seen>,
    /// Why there is no newer word of it; none while it answers.
    pub(super) lost: Option<String>,
    /// Nothing newer is taken in.
    pub(super) paused: bool,
    pub(super) sort: Sort,
    pub(super) filter: String,
    /// The filter is being written.
    pub(super) typing: bool,
    pub(super) focus: Pane,
    pub(super) endpoints: List,
    pub(super) decisions: List,
    /// What stands over the tables.
    pub(super) over: Option<Over>,
}

/// By what endpoints are sorted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sort {
    pub(super) column: Column,
    pub(super) falling: bool,
}

/// An overview, when it came, and what it tells with the one before.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) overview: Overview,
    pub(super) at: Instant,
    /// Decisions in a second; none at first and after a restart.
    pub(super) rate: Option<f64>,
}

/// Which table keys move in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pane {
    Endpoints,
    Decisions,
}

/// What stands over the tables.
#[derive(Debug)]
pub(super) enum Over {
    Help,
    /// All that is known of the endpoint of this name.
    Endpoint(String),
    /// The decision of this id, explained.
    Decision {
        id: String,
        told: Told,
        scroll: usize,
    },
}

/// An explanation, as far as it is there.
#[derive(Debug)]
pub(super) enum Told {
    Asked,
    /// In lines.
    Known(Vec<String>),
    Failed(String),
}

/// What a key asks of whoever reads it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Nothing,
    Quit,
    /// The decision of this id is to be explained.
    Explain(String),
}

impl State {
    /// Nothing was heard yet.
    pub(super) fn new(at: String, sort: Column, filter: String) -> Self {
        Self {
            at,
            seen: None,
            lost: None,
            paused: false,
            sort: Sort { column: sort, falling: sort.falls() },
            filter,
            typing: false,
            focus: Pane::Endpoints,
            endpoints: List::default(),
            decisions: List::default(),
            over: None,
        }
    }

    /// The picker answered, or did not.
    pub(super) fn heard(&mut self, said: Result<Overview, String>, now: Instant) {
        if self.paused {
            return;
        }
        match said {
            Ok(overview) => {
                let before = self.seen.take();
                let rate = before.and_then(|before| {
                    let made =
                        overview.decisions_made.checked_sub(before.overview.decisions_made)?;
                    let passed = now.saturating_duration_since(before.at).as_secs_f64();
                    (passed > 0.0).then(|| made as f64 / passed)
                });
                self.seen = Some(Seen { overview, at: now, rate });
                self.lost = None;
            }
            Err(why) => self.lost = Some(why),
        }
    }

    /// An explanation came; it is of no use when something else is looked at by now.
    pub(super) fn explained(&mut self, of: &str, said: Result<Explanation, String>) {
        if let Some(Over::Decision { id, told, .. }) = &mut self.over
            && id == of
        {
            *told = match said {
                Ok(explanation) => {
                    Told::Known(table(&explanation, false).lines().map(str::to_owned).collect())
                }
                Err(why) => Told::Failed(why),
            };
        }
    }

    /// The endpoints that pass the filter, sorted.
    pub(super) fn shown_endpoints(&self) -> Vec<&EndpointView> {
        let Some(seen) = &self.seen else { return Vec::new() };
        shown(&seen.overview.endpoints, &self.filter, (self.sort.column, self.sort.falling))
    }

    /// The decisions that pass the filter, newest first.
    pub(super) fn shown_decisions(&self) -> Vec<&Brief> {
        let decisions = self.seen.iter().flat_map(|seen| &seen.overview.decisions);
        decisions.filter(|decision| names(decision, &self.filter.to_lowercase())).collect()
    }

    /// A key was pressed.
    #[expect(clippy::wildcard_enum_match_arm, reason = "most keys do nothing")]
    pub(super) fn press(&mut self, key: KeyEvent) -> Wish {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if key.code == KeyCode::Char('c') { Wish::Quit } else { Wish::Nothing };
        }
        if self.typing {
            self.write(key.code);
            return Wish::Nothing;
        }
        if self.over.is_some() {
            return self.press_over(key.code);
        }
        match key.code {
            KeyCode::Char('q') => return Wish::Quit,
            KeyCode::Char('?' | 'h') => self.over = Some(Over::Help),
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Char(' ' | 'p') => self.paused = !self.paused,
            KeyCode::Char('s') | KeyCode::Right => self.sort_by(1),
            KeyCode::Char('S') | KeyCode::Left => self.sort_by(-1),
            KeyCode::Char('r') => self.sort.falling = !self.sort.falling,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Tab | KeyCode::BackTab => {
                self.focus = match self.focus {
                    Pane::Endpoints => Pane::Decisions,
                    Pane::Decisions => Pane::Endpoints,
                }
            }
            KeyCode::Enter => return self.open(),
            code => self.walk(code),
        }
        Wish::Nothing
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "most keys do nothing")]
    fn write(&mut self, code: KeyCode) {
        match code {
            KeyCode::Char(letter) => self.filter.push(letter),
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                self.filter.clear();
            }
            _ => {}
        }
    }

    fn press_over(&mut self, code: KeyCode) -> Wish {
        let by = step(code);
        match (&mut self.over, code) {
            (_, KeyCode::Char('q')) => return Wish::Quit,
            (Some(Over::Decision { scroll, told: Told::Known(lines), .. }), _) if by.is_some() => {
                let to = scroll.saturating_add_signed(by.unwrap_or_default());
                *scroll = to.min(lines.len().saturating_sub(1));
            }
            (_, KeyCode::Esc | KeyCode::Enter | KeyCode::Char('?' | 'h')) => self.over = None,
            _ => {}
        }
        Wish::Nothing
    }

    /// To another column, in its own direction.
    fn sort_by(&mut self, step: isize) {
        let count = Column::ALL.len();
        let at =
            Column::ALL.iter().position(|column| *column == self.sort.column).unwrap_or_default();
        let next = (at + count).saturating_add_signed(step) % count;
        self.sort.column = Column::ALL.get(next).copied().unwrap_or(self.sort.column);
        self.sort.falling = self.sort.column.falls();
    }

    fn walk(&mut self, code: KeyCode) {
        let Some(by) = step(code) else { return };
        match self.focus {
            Pane::Endpoints => {
                let keys: Vec<_> = keys_of_endpoints(&self.shown_endpoints());
                self.endpoints.walk(&keys, by);
            }
            Pane::Decisions => {
                let keys: Vec<_> = keys_of_decisions(&self.shown_decisions());
                self.decisions.walk(&keys, by);
            }
        }
    }

    /// Looks closer at what is selected.
    fn open(&mut self) -> Wish {
        match self.focus {
            Pane::Endpoints => {
                let keys = keys_of_endpoints(&self.shown_endpoints());
                self.over = self.endpoints.key(&keys).map(Over::Endpoint);
                Wish::Nothing
            }
            Pane::Decisions => {
                let keys = keys_of_decisions(&self.shown_decisions());
                let Some(id) = self.decisions.key(&keys) else { return Wish::Nothing };
                self.over = Some(Over::Decision { id: id.clone(), told: Told::Asked, scroll: 0 });
                Wish::Explain(id)
            }
        }
    }
}

/// The endpoints that pass a filter, sorted.
pub(super) fn shown<'a>(
    endpoints: &'a [EndpointView],
    filter: &str,
    (sort, falling): (Column, bool),
) -> Vec<&'a EndpointView> {
    let filter = filter.to_lowercase();
    let passes = |of: &&EndpointView| {
        let names = [&of.name, &of.state, &of.address];
        let more = of.adapters.iter().chain(&of.models);
        names.into_iter().chain(more).any(|name| name.to_lowercase().contains(&filter))
    };
    let mut shown: Vec<_> = endpoints.iter().filter(passes).collect();
    sort.sort(&mut shown, falling);
    shown
}

pub(super) fn keys_of_endpoints(shown: &[&EndpointView]) -> Vec<String> {
    shown.iter().map(|endpoint| endpoint.name.clone()).collect()
}

pub(super) fn keys_of_decisions(shown: &[&Brief]) -> Vec<String> {
    shown.iter().map(|decision| decision.id.clone()).collect()
}

/// Whether a decision has the filter, in small letters, in its words.
fn names(decision: &Brief, filter: &str) -> bool {
    let Brief { id, request_id, model, endpoint, why, .. } = decision;
    let optional = [model.as_ref(), endpoint.as_ref()].into_iter().flatten();
    let words = [id, request_id, why].into_iter().chain(optional);
    words.into_iter().any(|word| word.to_lowercase().contains(filter))
}

/// How many rows a key moves by.
#[expect(clippy::wildcard_enum_match_arm, reason = "most keys do nothing")]
fn step(code: KeyCode) -> Option<isize> {
    Some(match code {
        KeyCode::Down | KeyCode::Char('j') => 1,
        KeyCode::Up | KeyCode::Char('k') => -1,
        KeyCode::PageDown => PAGE,
        KeyCode::PageUp => -PAGE,
        KeyCode::Home | KeyCode::Char('g') => isize::from(i16::MIN),
        KeyCode::End | KeyCode::Char('G') => isize::from(i16::MAX),
        _ => return None,
    })
}

#[cfg(test)]
pub(super) mod tests;
