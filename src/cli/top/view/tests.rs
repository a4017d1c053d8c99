use std::time::Duration;

use expect_test::{Expect, expect};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::KeyCode;
use ratatui::style::Color;

use super::*;
use crate::cli::top::columns::Column;
use crate::cli::top::state::tests::{decision, endpoint};
use crate::server::clock;
use crate::server::overview::Overview;

fn overview() -> Overview {
    let mut busy = endpoint("vllm-7d9c-x2x4q", Some(12.0));
    (busy.running, busy.kv_usage, busy.requests) = (Some(31.0), Some(0.93), 40);
    (busy.prompt_tokens, busy.output_tokens) = (18_400, 7_210);
    (busy.hit_rate, busy.hit_rate_by) = (Some(0.62), Some("engine".to_owned()));
    (busy.prompt_tokens_per_second, busy.step_ms) = (Some(8_150.0), Some(21.4));
    busy.scrape_age_seconds = Some(0.04);
    (busy.adapters, busy.adapter_slots) = (vec!["sql".to_owned(), "chat".to_owned()], Some(4));
    let mut idle = endpoint("vllm-7d9c-b8k2f", Some(0.0));
    (idle.running, idle.kv_usage, idle.scrape_age_seconds) = (Some(0.0), Some(0.0), Some(0.9));
    (idle.hit_rate, idle.hit_rate_by) = (Some(0.1), Some("estimate".to_owned()));
    let mut gone = endpoint("vllm-7d9c-c0c0a", None);
    (gone.state, gone.metrics) = ("suspect".to_owned(), "stale".to_owned());
    (gone.scrape_age_seconds, gone.reason) = (Some(42.0), Some("it cannot be reached".to_owned()));
    let mut placed = decision("2a", Some("vllm-7d9c-b8k2f"), "best of 2 by 0.38");
    (placed.seconds_ago, placed.cached_tokens) = (0.4, 960);
    let mut refused = decision("29", None, "all endpoints are busy");
    refused.seconds_ago = 3.0;
    Overview {
        version: "0.1.0".to_owned(),
        namespace: "default".to_owned(),
        pool: "llm".to_owned(),
        uptime_seconds: 8_000.0,
        ready: true,
        streams: 44,
        decisions_made: 1_000,
        endpoints_total: 3,
        endpoints: vec![busy, idle, gone],
        decisions: vec![placed, refused],
        ..Overview::default()
    }
}

fn watching() -> State {
    let mut state =
        State::new("http://127.0.0.1:9091/".to_owned(), Column::Endpoint, String::new());
    state.heard(Ok(overview()), clock::now());
    state
}

fn screen(state: &State, (width, height): (u16, u16), theme: Theme) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let now = state.seen.as_ref().map_or_else(clock::now, |seen| seen.at + Duration::from_secs(12));
    terminal.draw(|frame| draw(frame, state, theme, now)).unwrap();
    terminal
}

/// The screen as text, without the blanks at the end of lines.
fn text(terminal: &Terminal<TestBackend>) -> String {
    let buffer = terminal.backend().buffer();
    let line = |cells: &[ratatui::buffer::Cell]| {
        let line: String = cells.iter().map(ratatui::buffer::Cell::symbol).collect();
        format!("{}\n", line.trim_end())
    };
    buffer.content().chunks(usize::from(buffer.area.width)).map(line).collect()
}

fn shows(state: &State, size: (u16, u16), expected: &Expect) {
    expected.assert_eq(&text(&screen(state, size, Theme::Plain)));
}

#[test]
fn a_wide_terminal_shows_all_columns() {
    shows(
        &watching(),
        (132, 18),
        &expect![[r"
        default/llm  ready  2/3 endpoints  44 streams  up 2h
        http://127.0.0.1:9091/  lodesman 0.1.0
         endpoints 3 ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
        ENDPOINT▲        STATE     WAIT   RUN             KV   OURS   PROMPT   OUTPUT   HIT   TOK/S    STEP    AGE  ADAPTERS
        vllm-7d9c-b8k2f  ready        0     0  ········   0%      0        0        0  ~10%       -       -  900ms  -
        vllm-7d9c-c0c0a  suspect      -     -              -      0        0        0     -       -       -    42s  -
        vllm-7d9c-x2x4q  ready       12    31  ███████▌  93%     40      18k     7.2k   62%    8.2k  21.4ms   40ms  2/4 sql,chat
         decisions 2 ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
        AGO    ENDPOINT         MODEL  PROMPT  CACHED  WHY
        400ms  vllm-7d9c-b8k2f  llama    1.2k     960  best of 2 by 0.38
        3.0s   refused          llama    1.2k       0  all endpoints are busy






        q quit  ? help  / filter  s sort  tab table  enter explain  space pause
    "]],
    );
}

#[test]
fn a_narrow_terminal_shows_the_first_columns_and_a_low_one_the_table_in_focus() {
    let mut state = watching();
    shows(
        &state,
        (64, 9),
        &expect![[r"
        default/llm  ready  2/3 endpoints  44 streams  up 2h
        http://127.0.0.1:9091/  lodesman 0.1.0
         endpoints 3 ───────────────────────────────────────────────────
        ENDPOINT▲        STATE     WAIT   RUN             KV   OURS
        vllm-7d9c-b8k2f  ready        0     0  ········   0%      0
        vllm-7d9c-c0c0a  suspect      -     -              -      0
        vllm-7d9c-x2x4q  ready       12    31  ███████▌  93%     40

        q quit  ? help  / filter  s sort  tab table  enter explain  spac
    "]],
    );
    state.press(KeyCode::Tab.into());
    shows(
        &state,
        (64, 9),
        &expect![[r"
        default/llm  ready  2/3 endpoints  44 streams  up 2h
        http://127.0.0.1:9091/  lodesman 0.1.0
         decisions 2 ───────────────────────────────────────────────────
        AGO    ENDPOINT         MODEL  PROMPT  CACHED  WHY
        400ms  vllm-7d9c-b8k2f  llama    1.2k     960  best of 2 by 0.38
        3.0s   refused          llama    1.2k       0  all endpoints are


        q quit  ? help  / filter  s sort  tab table  enter explain  spac
    "]],
    );
    shows(
        &state,
        (30, 4),
        &expect![[r"
        the terminal is smaller than
        36 columns by 6 lines


    "]],
    );
}

#[test]
fn before_the_first_answer_and_after_the_last_it_says_what_is_wrong() {
    let mut state = State::new("http://127.0.0.1:9091/".to_owned(), Column::Kv, String::new());
    shows(
        &state,
        (60, 6),
        &expect![[r"
        lodesman
        asking http://127.0.0.1:9091/
         endpoints ─────────────────────────────────────────────────
        ENDPOINT   STATE    WAIT   RUN            KV▼   OURS

        q quit  ? help  / filter  s sort  tab table  enter explain
    "]],
    );
    state.heard(Err("connection refused".to_owned()), clock::now());
    shows(
        &state,
        (60, 6),
        &expect![[r"
        lodesman
        no answer yet, trying on: connection refused
         endpoints ─────────────────────────────────────────────────
        ENDPOINT   STATE    WAIT   RUN            KV▼   OURS

        q quit  ? help  / filter  s sort  tab table  enter explain
    "]],
    );
    let mut state = watching();
    state.heard(Err("connection refused".to_owned()), clock::now());
    shows(
        &state,
        (60, 6),
        &expect![[r"
        default/llm  ready  2/3 endpoints  44 streams  up 2h
        no answer for 12s, trying on: connection refused
         endpoints 3 ───────────────────────────────────────────────
        ENDPOINT▲        STATE     WAIT   RUN             KV   OURS
        vllm-7d9c-b8k2f  ready        0     0  ········   0%      0
        q quit  ? help  / filter  s sort  tab table  enter explain
    "]],
    );
}

#[test]
fn what_stands_over_the_tables_is_readable() {
    let mut state = watching();
    state.press(KeyCode::Enter.into());
    shows(
        &state,
        (70, 22),
        &expect![[r"
            default/llm  ready  2/3 endpoints  44 streams  up 2h
            http://127.0.0.1:9091/  lodesman 0.1.0
             endpoints 3 ─────────────────────────────────────────────────────────
            ENDPOINT▲┌ vllm-7d9c-b8k2f ────────────────────────────────┐  PROMPT
            vllm-7d9c│ address                   10.0.0.1:8000         │       0
            vllm-7d9c│ namespace                 default               │       0
            vllm-7d9c│ state                     ready, for 0ms        │     18k
             decision│ metrics page              fresh, 900ms old      │──────────
            AGO    EN│ waiting, running          0, 0                  │
            400ms  vl│ KV cache                  0%                    │0.38
            3.0s   re│ requests of ours          0                     │ are busy
                     │ their prompts to compute  0 tokens              │
                     │ their output to come      0 tokens              │
                     │ cached of prompts         ~10%, by the estimate │
                     │ learnt prompt speed       - tokens/s            │
                     │ learnt decoding step      -                     │
                     │ adapters                  -                     │
                     │ models                    -                     │
                     └─────────────────────────────────────────────────┘


            esc back  ↑↓ move  q quit
        "]],
    );
}

#[test]
fn the_keys_and_a_decision_are_readable() {
    let mut state = watching();
    state.over = Some(Over::Help);
    shows(
        &state,
        (70, 18),
        &expect![[r"
        default/llm  ready  2/3 endpoints  44 streams  up 2h
        http://127.0.0.1:9091/  lodesman 0.1.0
         en┌ keys ───────────────────────────────────────────────────────┐────
        END│ ↑ ↓, j k  move; page up and down, home and end too          │PT
        vll│ tab       to the other table                                │ 0
        vll│ enter     an endpoint in full, or why a decision was made   │ 0
        vll│ s S, → ←  sort by the next column, or the one before        │8k
         de│ r         reverse the order                                 │────
        AGO│ /         filter both tables; enter keeps it, esc clears it │
        400│ space     pause, and go on                                  │
        3.0│ esc       back; clears the filter                           │usy
           │ q, ctrl-c quit                                              │
           │                                                             │
           │ ~         a hit rate by our estimate: the engine tells none │
           │ -         not known, or too old to be used                  │
           └─────────────────────────────────────────────────────────────┘

        esc back  ↑↓ move  q quit
    "]],
    );
    let lines = ["vllm-7d9c-b8k2f", "llama, 1200 prompt tokens", "", "endpoint  metrics"];
    let told = super::super::state::Told::Known(lines.map(str::to_owned).to_vec());
    state.over = Some(Over::Decision { id: "2a".to_owned(), told, scroll: 1 });
    shows(
        &state,
        (70, 9),
        &expect![[r"
        default/llm  ready  2/3 endpoints  44 streams  up 2h
        http://127.0.0.1:9091/  lodesman 0.1.0
         decision 2a ─────────────────────────────────────────────────────────
        llama, 1200 prompt tokens

        endpoint  metrics


        esc back  ↑↓ move  q quit
    "]],
    );
}

#[test]
fn nothing_is_colored_without_colors() {
    let colors = |theme| {
        let terminal = screen(&watching(), (132, 18), theme);
        let cells = terminal.backend().buffer().content().to_vec();
        cells.iter().filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset).count()
    };
    assert_eq!(colors(Theme::Plain), 0);
    assert!(colors(Theme::Colored) > 20);
}

#[test]
fn every_size_of_a_terminal_can_be_drawn() {
    let mut state = watching();
    for over in [None, Some(Over::Help), Some(Over::Endpoint("vllm-7d9c-x2x4q".to_owned()))] {
        state.over = over;
        for size in (1..20).flat_map(|width| (1..9).map(move |height| (width * 9, height * 3))) {
            screen(&state, size, Theme::Colored);
        }
    }
}
