//! The terminal: taken over, given back however it ends.

use std::io;
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use tokio_util::sync::CancellationToken;

use crate::cli::failure::{Failure, fault};
use crate::cli::{data_runtime, signals};
use crate::server::clock;

use super::feed::{Feed, Heard};
use super::state::{State, Wish};
use super::theme::Theme;
use super::view::draw;

/// Longest wait for a key; then whatever came is shown.
const TICK: Duration = Duration::from_millis(100);

/// Shows the state until a person or a signal ends it.
pub(super) fn show(mut state: State, feed: Feed, theme: Theme) -> Result<(), Failure> {
    // Signals are taken by a runtime; keys are waited for on this thread.
    let runtime = data_runtime().map_err(|error| fault(error.to_string()))?;
    let stop = runtime.block_on(async { signals() });
    let (stop, _) = stop.map_err(|error| fault(format!("cannot take signals: {error}")))?;
    let terminal = ratatui::try_init();
    let restored = Restored;
    let shown = terminal.and_then(|terminal| follow(terminal, (&mut state, feed), theme, &stop));
    drop(restored);
    runtime.shutdown_background();
    shown.map_err(|error| fault(format!("the terminal: {error}")))
}

/// Gives the terminal back when it is dropped; a panic gives it back by ratatui's hook.
struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

fn follow(
    mut terminal: DefaultTerminal,
    (state, mut feed): (&mut State, Feed),
    theme: Theme,
    stop: &CancellationToken,
) -> io::Result<()> {
    while !stop.is_cancelled() {
        while let Some(heard) = feed.next() {
            match heard {
                Heard::Overview(said) => state.heard(said.map(|overview| *overview), clock::now()),
                Heard::Decision(id, said) => state.explained(&id, said.map(|told| *told)),
            }
        }
        terminal.draw(|frame| draw(frame, state, theme, clock::now()))?;
        if !event::poll(TICK)? {
            continue;
        }
        let Event::Key(key) = event::read()? else { continue };
        if key.kind == KeyEventKind::Release {
            continue;
        }
        match state.press(key) {
            Wish::Nothing => {}
            Wish::Quit => break,
            Wish::Explain(id) => feed.explain(id),
        }
    }
    Ok(())
}
