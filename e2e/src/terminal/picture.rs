//! A screen of a terminal as a page of HTML, so that a browser can make a picture of it.

use vt100::{Cell, Color, Screen};

/// The sixteen colors that programs name, as terminals usually show them on a dark ground.
const COLORS: [&str; 16] = [
    "#1b2127", "#e0685f", "#66c58f", "#d8a657", "#6ea8d8", "#c08ad8", "#4fb8c2", "#cfd6dc",
    "#5a6672", "#f08a80", "#8fd8ae", "#ecc57e", "#94c2e8", "#d6aee8", "#7fd3db", "#ffffff",
];

/// The ground where no color is named.
const GROUND: &str = "#14191e";
/// The letters.
const LETTERS: &str = "#d7dde2";

/// The whole screen.
pub(super) fn page(screen: &Screen) -> String {
    let (lines, columns) = screen.size();
    let (lines, columns) = (lines.get(), columns.get());
    let line = |at: u16| {
        let cells = (0..columns).filter_map(|column| screen.cell(at, column));
        cells.map(cell).collect::<String>() + "\n"
    };
    let lines: String = (0..lines).map(line).collect();
    format!(
        "<!doctype html><meta charset=\"utf-8\"><style>body{{margin:0;background:{GROUND}}}\
         pre{{margin:0;padding:14px 16px;display:inline-block;background:{GROUND};color:{LETTERS};\
         font:14px/1.3 \"DejaVu Sans Mono\",monospace}}</style><pre>{lines}</pre>"
    )
}

fn cell(cell: &Cell) -> String {
    let text = if cell.has_contents() { cell.contents() } else { " " };
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let (front, ground) = (color(cell.fgcolor(), LETTERS), color(cell.bgcolor(), GROUND));
    let (front, ground) = if cell.inverse() { (ground, front) } else { (front, ground) };
    let weight = if cell.bold() { ";font-weight:bold" } else { "" };
    let faint = if cell.dim() { ";opacity:.6" } else { "" };
    if (front, ground, weight, faint) == (LETTERS, GROUND, "", "") {
        return text;
    }
    format!("<span style=\"color:{front};background:{ground}{weight}{faint}\">{text}</span>")
}

fn color(color: Color, default: &'static str) -> &'static str {
    match color {
        Color::Idx(at) => COLORS.get(usize::from(at)).copied().unwrap_or(default),
        Color::Default | Color::Rgb(..) => default,
    }
}
