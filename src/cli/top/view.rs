//! The screen as a function of the state.

use std::time::Instant;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph};

use super::state::{Over, Pane, Seen, State};
use super::tables::{decisions, endpoints};
use super::theme::Theme;
use super::words::{age, count};

mod over;

/// A terminal that is smaller shows nothing but that it is.
const LEAST: (u16, u16) = (36, 6);

/// Lines below which only one table is shown.
const BOTH: u16 = 14;

/// Draws all of it.
pub(super) fn draw(frame: &mut Frame<'_>, state: &State, theme: Theme, now: Instant) {
    let area = frame.area();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let (width, height) = LEAST;
        let told = format!("the terminal is smaller than {width} columns by {height} lines");
        return frame.render_widget(Paragraph::new(told).wrap(wrapped()), area);
    }
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(2), Constraint::Fill(1), Constraint::Length(1)])
            .areas(area);
    frame.render_widget(header(state, theme, now), head);
    match &state.over {
        Some(Over::Decision { id, told, scroll }) => {
            over::decision(frame, body, (id, told, *scroll), theme);
        }
        other => {
            tables(frame, body, state, theme);
            match other {
                Some(Over::Help) => over::help(frame, body),
                Some(Over::Endpoint(name)) => over::endpoint(frame, body, (state, name)),
                Some(Over::Decision { .. }) | None => {}
            }
        }
    }
    frame.render_widget(footer(state), foot);
}

fn tables(frame: &mut Frame<'_>, body: Rect, state: &State, theme: Theme) {
    if body.height + 3 < BOTH {
        return match state.focus {
            Pane::Endpoints => endpoints(frame, body, state, theme),
            Pane::Decisions => decisions(frame, body, state, theme),
        };
    }
    // Few endpoints leave their room to the decisions.
    let rows = u16::try_from(state.shown_endpoints().len()).unwrap_or(u16::MAX);
    let most = (body.height * 3 / 5).max(5);
    let upper = rows.saturating_add(2).clamp(4, most);
    let [above, below] =
        Layout::vertical([Constraint::Length(upper), Constraint::Fill(1)]).areas(body);
    endpoints(frame, above, state, theme);
    decisions(frame, below, state, theme);
}

/// What picker this is and how it is, and below what is wrong.
fn header(state: &State, theme: Theme, now: Instant) -> Paragraph<'static> {
    let first = match &state.seen {
        Some(seen) => summary(seen, theme),
        None => Line::from(Span::styled("lodesman", Theme::strong())),
    };
    Paragraph::new(vec![first, second(state, theme, now)])
}

fn summary(Seen { overview, rate, .. }: &Seen, theme: Theme) -> Line<'static> {
    let name = format!("{}/{}", overview.namespace, overview.pool);
    let ready = if overview.ready {
        Span::styled("ready", theme.good())
    } else {
        Span::styled("not ready", theme.bad())
    };
    let able = overview.endpoints.iter().filter(|endpoint| serves(&endpoint.state)).count();
    let mut facts = vec![
        format!("{able}/{} endpoints", overview.endpoints_total),
        format!("{} streams", overview.streams),
    ];
    facts.extend(rate.map(|rate| format!("{} req/s", rated(rate))));
    facts.push(format!("up {}", age(overview.uptime_seconds)));
    let mut line = vec![Span::styled(name, Theme::strong()), Span::raw("  "), ready];
    line.extend(facts.into_iter().map(|fact| Span::raw(format!("  {fact}"))));
    if overview.rung.as_deref() == Some("load_only") {
        line.push(Span::styled("  by load only", theme.warn()));
    }
    Line::from(line)
}

/// Whether an endpoint in this state takes new requests like any other.
fn serves(state: &str) -> bool {
    matches!(state, "new" | "warming" | "ready")
}

fn rated(rate: f64) -> String {
    if rate < 9.95 { format!("{rate:.1}") } else { count(rate) }
}

/// What is wrong; else where this comes from.
fn second(state: &State, theme: Theme, now: Instant) -> Line<'static> {
    let since = state.seen.as_ref().map(|seen| now.saturating_duration_since(seen.at));
    let since = since.map(|since| age(since.as_secs_f64()));
    let told = match (&state.lost, since, &state.seen) {
        (Some(why), None, _) => (format!("no answer yet, trying on: {why}"), theme.bad()),
        (Some(why), Some(since), _) => {
            (format!("no answer for {since}, trying on: {why}"), theme.bad())
        }
        (None, None, _) => (format!("asking {}", state.at), Theme::faint()),
        (None, Some(since), _) if state.paused => {
            (format!("paused, as of {since} ago"), theme.warn())
        }
        (None, Some(_), Some(seen)) if !seen.overview.notes.is_empty() => {
            (seen.overview.notes.join("; "), theme.warn())
        }
        (None, Some(_), Some(seen)) => {
            (format!("{}  lodesman {}", state.at, seen.overview.version), Theme::faint())
        }
        (None, Some(_), None) => (String::new(), Theme::faint()),
    };
    Line::from(Span::styled(told.0, told.1))
}

fn footer(state: &State) -> Line<'static> {
    if state.typing {
        let filter = format!("/{}", state.filter);
        return Line::from(vec![
            Span::styled(filter, Theme::strong()),
            Span::styled("▏", Theme::strong()),
            Span::styled("  enter keeps it, esc clears it", Theme::faint()),
        ]);
    }
    let keys: &[(&str, &str)] = match state.over {
        Some(_) => &[("esc", "back"), ("↑↓", "move"), ("q", "quit")],
        None => &[
            ("q", "quit"),
            ("?", "help"),
            ("/", "filter"),
            ("s", "sort"),
            ("tab", "table"),
            ("enter", "explain"),
            ("space", "pause"),
        ],
    };
    let mut line = Vec::new();
    if !state.filter.is_empty() {
        line.push(Span::styled(format!("/{}  ", state.filter), Theme::strong()));
    }
    for (key, does) in keys {
        line.push(Span::styled(format!("{key} "), Theme::strong()));
        line.push(Span::styled(format!("{does}  "), Theme::faint()));
    }
    Line::from(line)
}

/// The frame of a table or of what stands over it: a rule with a title.
pub(super) fn ruled(title: &str, focused: bool) -> Block<'static> {
    let style = if focused { Theme::strong() } else { Theme::faint() };
    Block::new()
        .borders(Borders::TOP)
        .border_style(Theme::faint())
        .title(Span::styled(format!(" {title} "), style))
}

fn wrapped() -> ratatui::widgets::Wrap {
    ratatui::widgets::Wrap { trim: true }
}

#[cfg(test)]
mod tests;
