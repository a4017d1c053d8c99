//! The two tables: endpoints and decisions.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Row, Table, TableState};

use crate::director::Brief;
use crate::server::overview::EndpointView;

use super::columns::Column;
use super::state::{Pane, State, keys_of_decisions, keys_of_endpoints};
use super::theme::Theme;
use super::view::ruled;
use super::words::{age, count, percent};

/// Letters of the widest name that is shown whole.
const LONGEST_NAME: usize = 44;

/// Letters of the bar of a KV cache.
const BAR: usize = 8;

/// Room between two columns.
const SPACING: u16 = 2;

/// Draws the endpoints, with as many columns as there is room for.
pub(super) fn endpoints(frame: &mut Frame<'_>, area: Rect, state: &State, theme: Theme) {
    let shown = state.shown_endpoints();
    let columns = fitting(&shown, area.width);
    let title = |&(column, _): &(Column, u16)| {
        let mark = match (column == state.sort.column, state.sort.falling) {
            (false, _) => "",
            (true, true) => "▼",
            (true, false) => "▲",
        };
        let text = format!("{}{mark}", column.title());
        let style = if column == state.sort.column { Theme::strong() } else { Theme::faint() };
        Cell::from(aligned(Span::styled(text, style), column))
    };
    let row =
        |of: &&EndpointView| Row::new(columns.iter().map(|&(column, _)| cell(column, of, theme)));
    let known = state.seen.as_ref().map(|seen| seen.overview.endpoints_total);
    let title_text = match known {
        Some(total) if total == shown.len() => format!("endpoints {total}"),
        Some(total) => format!("endpoints {} of {total}", shown.len()),
        None => "endpoints".to_owned(),
    };
    let table = Table::new(shown.iter().map(row), widths(&columns))
        .header(Row::new(columns.iter().map(title)))
        .column_spacing(SPACING)
        .row_highlight_style(Theme::selected())
        .block(ruled(&title_text, state.focus == Pane::Endpoints));
    let row = state.endpoints.row(&keys_of_endpoints(&shown));
    let mut place =
        TableState::default().with_selected(row.filter(|_| state.focus == Pane::Endpoints));
    frame.render_stateful_widget(table, area, &mut place);
}

/// Draws the decisions, newest first.
pub(super) fn decisions(frame: &mut Frame<'_>, area: Rect, state: &State, theme: Theme) {
    let shown = state.shown_decisions();
    let name = |of: &&Brief| of.endpoint.as_ref().map_or(0, |name| name.chars().count());
    let widest = shown.iter().map(name).max().unwrap_or(0).clamp(8, LONGEST_NAME);
    let model = |of: &&Brief| of.model.as_ref().map_or(0, |name| name.chars().count());
    let models = shown.iter().map(model).max().unwrap_or(0).clamp(5, 24);
    let widths = [5, widest, models, 6, 6].map(|width| Constraint::Length(short(width)));
    let head = ["AGO", "ENDPOINT", "MODEL", "PROMPT", "CACHED", "WHY"];
    let head = head.map(|title| Cell::from(Span::styled(title, Theme::faint())));
    let row = |of: &&Brief| {
        let why = if of.endpoint.is_some() { ratatui::style::Style::new() } else { theme.bad() };
        let number = |text: String| Cell::from(Line::from(text).alignment(Alignment::Right));
        Row::new([
            Cell::from(age(of.seconds_ago)),
            Cell::from(of.endpoint.clone().unwrap_or_else(|| "refused".to_owned())),
            Cell::from(of.model.clone().unwrap_or_default()),
            number(count(of.prompt_tokens as f64)),
            number(count(f64::from(of.cached_tokens))),
            Cell::from(Span::styled(of.why.clone(), why)),
        ])
    };
    let focused = state.focus == Pane::Decisions;
    let title = format!("decisions {}", shown.len());
    let table = Table::new(shown.iter().map(row), widths.into_iter().chain([Constraint::Fill(1)]))
        .header(Row::new(head))
        .column_spacing(SPACING)
        .row_highlight_style(Theme::selected())
        .block(ruled(&title, focused));
    let row = state.decisions.row(&keys_of_decisions(&shown));
    let mut place = TableState::default().with_selected(row.filter(|_| focused));
    frame.render_stateful_widget(table, area, &mut place);
}

/// The columns that there is room for, with their widths; the first is always there.
fn fitting(shown: &[&EndpointView], room: u16) -> Vec<(Column, u16)> {
    let mut left = room;
    let width = |column: Column| {
        let cells = shown.iter().map(|of| column.cell(of).chars().count());
        let widest = cells.max().unwrap_or(0).max(column.title().len() + 1);
        if column == Column::Kv {
            return short(BAR + 5);
        }
        short(widest.min(if column.is_text() { LONGEST_NAME } else { usize::MAX }))
    };
    let mut columns = Vec::new();
    for column in Column::ALL {
        let width = width(column).min(room);
        let needed = width + if columns.is_empty() { 0 } else { SPACING };
        let Some(rest) = left.checked_sub(needed) else { break };
        left = rest;
        columns.push((column, width));
    }
    columns
}

fn widths(columns: &[(Column, u16)]) -> impl Iterator<Item = Constraint> {
    columns.iter().map(|(_, width)| Constraint::Length(*width))
}

fn cell(column: Column, of: &EndpointView, theme: Theme) -> Cell<'static> {
    let text = column.cell(of);
    match (column, of.kv_usage) {
        (Column::Kv, Some(share)) => Cell::from(bar(share, theme)),
        (Column::State, _) => Cell::from(Span::styled(text, theme.state(&of.state))),
        (Column::Age, _) if of.metrics != "fresh" => {
            Cell::from(aligned(Span::styled(text, theme.warn()), column))
        }
        _ => Cell::from(aligned(Span::raw(text), column)),
    }
}

fn aligned(span: Span<'static>, column: Column) -> Line<'static> {
    let side = if column.is_text() { Alignment::Left } else { Alignment::Right };
    Line::from(span).alignment(side)
}

/// A bar and the share in numbers.
fn bar(share: f32, theme: Theme) -> Line<'static> {
    let eighths = (share.clamp(0.0, 1.0) * (BAR * 8) as f32).round();
    let (full, part) = ((eighths / 8.0).floor(), eighths % 8.0);
    let parts = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let part = parts.iter().enumerate().find(|(at, _)| *at as f32 >= part).map_or("", |it| it.1);
    let mut filled: String = std::iter::repeat_n('█', BAR).take(whole(full)).collect();
    filled.push_str(part);
    let rest = BAR.saturating_sub(filled.chars().count());
    Line::from(vec![
        Span::styled(filled, theme.bar(share)),
        Span::styled("·".repeat(rest), Theme::faint()),
        Span::raw(format!("{:>5}", percent(share))),
    ])
}

fn whole(value: f32) -> usize {
    usize::try_from(crate::units::whole(f64::from(value))).unwrap_or(0)
}

fn short(width: usize) -> u16 {
    u16::try_from(width).unwrap_or(u16::MAX)
}
