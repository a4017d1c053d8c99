//! What stands over the tables: help, an endpoint, a decision explained.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Clear, Paragraph, Wrap};

use crate::server::overview::EndpointView;

use super::super::columns::Column;
use super::super::state::{State, Told};
use super::super::theme::Theme;
use super::super::words::age;
use super::ruled;

/// The keys and what they do.
const KEYS: [(&str, &str); 12] = [
    ("↑ ↓, j k", "move; page up and down, home and end too"),
    ("tab", "to the other table"),
    ("enter", "an endpoint in full, or why a decision was made"),
    ("s S, → ←", "sort by the next column, or the one before"),
    ("r", "reverse the order"),
    ("/", "filter both tables; enter keeps it, esc clears it"),
    ("space", "pause, and go on"),
    ("esc", "back; clears the filter"),
    ("q, ctrl-c", "quit"),
    ("", ""),
    ("~", "a hit rate by our estimate: the engine tells none"),
    ("-", "not known, or too old to be used"),
];

/// The keys.
pub(super) fn help(frame: &mut Frame<'_>, area: Rect) {
    let line = |(key, does): &(&'static str, &'static str)| {
        Line::from(vec![Span::styled(format!("{key:<10}"), Theme::strong()), Span::raw(*does)])
    };
    boxed(frame, area, ("keys", KEYS.iter().map(line).collect()));
}

/// All that is known of an endpoint.
pub(super) fn endpoint(frame: &mut Frame<'_>, area: Rect, (state, name): (&State, &str)) {
    let endpoints = state.seen.iter().flat_map(|seen| &seen.overview.endpoints);
    let lines = match endpoints.into_iter().find(|endpoint| endpoint.name == name) {
        Some(endpoint) => facts(endpoint)
            .into_iter()
            .map(|(what, fact)| {
                Line::from(vec![
                    Span::styled(format!("{what:<26}"), Theme::faint()),
                    Span::raw(fact),
                ])
            })
            .collect(),
        None => vec![Line::from("it is gone from the pool")],
    };
    boxed(frame, area, (name, lines));
}

fn facts(of: &EndpointView) -> Vec<(&'static str, String)> {
    let cell = |column: Column| column.cell(of);
    let by = of.hit_rate_by.as_ref().map(|by| format!(", by the {by}")).unwrap_or_default();
    let reason = of.reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    let list = |names: &[String]| if names.is_empty() { "-".to_owned() } else { names.join(", ") };
    vec![
        ("address", of.address.clone()),
        ("namespace", of.namespace.clone()),
        ("state", format!("{}{reason}, for {}", of.state, age(of.state_seconds))),
        ("metrics page", format!("{}, {} old", of.metrics, cell(Column::Age))),
        ("waiting, running", format!("{}, {}", cell(Column::Waiting), cell(Column::Running))),
        ("KV cache", cell(Column::Kv)),
        ("requests of ours", of.requests.to_string()),
        ("their prompts to compute", format!("{} tokens", of.prompt_tokens)),
        ("their output to come", format!("{} tokens", of.output_tokens)),
        ("cached of prompts", format!("{}{by}", cell(Column::Hit))),
        ("learnt prompt speed", format!("{} tokens/s", cell(Column::Speed))),
        ("learnt decoding step", cell(Column::Step)),
        ("adapters", cell(Column::Adapters)),
        ("models", list(&of.models)),
    ]
}

/// Why a decision was made.
pub(super) fn decision(
    frame: &mut Frame<'_>,
    area: Rect,
    (id, told, scroll): (&str, &Told, usize),
    theme: Theme,
) {
    let block = ruled(&format!("decision {id}"), true);
    let lines: Vec<Line<'_>> = match told {
        Told::Asked => vec![Line::from(Span::styled("asking", Theme::faint()))],
        Told::Failed(why) => vec![Line::from(Span::styled(why.as_str(), theme.bad()))],
        Told::Known(lines) => lines.iter().map(|line| Line::from(line.as_str())).collect(),
    };
    let shown: Vec<_> = lines.into_iter().skip(scroll).collect();
    let page = Paragraph::new(shown).block(block);
    // What is aligned must not be wrapped; an error must not be cut.
    let page = if matches!(told, Told::Failed(_)) { page.wrap(Wrap { trim: true }) } else { page };
    frame.render_widget(page, area);
}

/// Lines in a box in the middle, as large as they need where there is room.
fn boxed(frame: &mut Frame<'_>, area: Rect, (title, lines): (&str, Vec<Line<'_>>)) {
    let widest = lines.iter().map(Line::width).max().unwrap_or(0).max(title.chars().count() + 2);
    let size = |letters: usize, most: u16| u16::try_from(letters).unwrap_or(most).min(most);
    let (width, height) = (size(widest + 4, area.width), size(lines.len() + 2, area.height));
    let place = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    let block = Block::new()
        .borders(Borders::ALL)
        .border_style(Theme::faint())
        .title(Span::styled(format!(" {title} "), Theme::strong()))
        .padding(ratatui::widgets::Padding::horizontal(1));
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(lines).block(block).wrap(Wrap { trim: false }), place);
}
