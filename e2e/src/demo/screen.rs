//! Lines on the terminal, some of which are drawn over again.

use std::io::{self, IsTerminal as _, Write as _};

/// Standard output.
#[derive(Debug)]
pub(super) struct Screen {
    output: io::Stdout,
    terminal: bool,
    /// Lines to draw over.
    drawn: usize,
}

impl Screen {
    pub(super) fn new() -> Self {
        let output = io::stdout();
        let terminal = output.is_terminal();
        Self { output, terminal, drawn: 0 }
    }

    /// Prints lines that stay.
    pub(super) fn say(&mut self, text: &str) -> io::Result<()> {
        self.drawn = 0;
        writeln!(self.output, "{text}")
    }

    /// Prints a live table over the last one. Where lines cannot be drawn over, `line` stands for it.
    pub(super) fn draw(&mut self, table: &[String], line: &str) -> io::Result<()> {
        if !self.terminal {
            return writeln!(self.output, "{line}");
        }
        if self.drawn > 0 {
            write!(self.output, "\x1b[{}A\x1b[J", self.drawn)?;
        }
        self.drawn = table.len();
        for line in table {
            writeln!(self.output, "{line}")?;
        }
        self.output.flush()
    }
}
