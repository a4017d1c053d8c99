//! Styles. Without colors nothing is told by a color alone in any case: words and marks say the same.

use ratatui::style::{Color, Modifier, Style};

/// Whether there are colors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Theme {
    Colored,
    Plain,
}

impl Theme {
    fn colored(self, color: Color) -> Style {
        match self {
            Self::Colored => Style::new().fg(color),
            Self::Plain => Style::new(),
        }
    }

    /// What is as it should be.
    pub(super) fn good(self) -> Style {
        self.colored(Color::Green)
    }

    /// What deserves a look.
    pub(super) fn warn(self) -> Style {
        self.colored(Color::Yellow)
    }

    /// What is wrong.
    pub(super) fn bad(self) -> Style {
        self.colored(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// What matters less.
    pub(super) fn faint() -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// What matters more.
    pub(super) fn strong() -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// The filled part of a bar.
    pub(super) fn bar(self, share: f32) -> Style {
        match share {
            full if full >= 0.9 => self.colored(Color::Red),
            high if high >= 0.7 => self.colored(Color::Yellow),
            _ => self.colored(Color::Cyan),
        }
    }

    /// The row that keys act on.
    pub(super) fn selected() -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// An endpoint in this state.
    pub(super) fn state(self, state: &str) -> Style {
        match state {
            "ready" => self.good(),
            "new" | "warming" | "draining" => self.warn(),
            _ => self.bad(),
        }
    }
}
