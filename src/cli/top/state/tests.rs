use std::time::Duration;

use super::*;
use crate::server::clock;

pub(in crate::cli::top) fn endpoint(name: &str, waiting: Option<f32>) -> EndpointView {
    EndpointView {
        name: name.to_owned(),
        namespace: "default".to_owned(),
        address: "10.0.0.1:8000".to_owned(),
        state: "ready".to_owned(),
        metrics: "fresh".to_owned(),
        waiting,
        ..EndpointView::default()
    }
}

pub(in crate::cli::top) fn decision(id: &str, endpoint: Option<&str>, why: &str) -> Brief {
    Brief {
        id: id.to_owned(),
        endpoint: endpoint.map(str::to_owned),
        why: why.to_owned(),
        model: Some("llama".to_owned()),
        prompt_tokens: 1_200,
        ..Brief::default()
    }
}

fn overview() -> Overview {
    let mut other = endpoint("vllm-b", Some(2.0));
    other.adapters = vec!["sql".to_owned()];
    Overview {
        endpoints: vec![endpoint("vllm-a", Some(9.0)), other, endpoint("vllm-c", None)],
        decisions: vec![
            decision("02", Some("vllm-b"), "best of 3"),
            decision("01", None, "all endpoints are busy"),
        ],
        ..Overview::default()
    }
}

fn watching() -> State {
    let mut state = State::new("http://here".to_owned(), Column::Endpoint, String::new());
    state.heard(Ok(overview()), clock::now());
    state
}

fn press(state: &mut State, codes: impl IntoIterator<Item = KeyCode>) -> Wish {
    codes.into_iter().map(|code| state.press(code.into())).last().unwrap_or(Wish::Nothing)
}

fn names(state: &State) -> String {
    let last = |endpoint: &&EndpointView| endpoint.name.chars().last();
    state.shown_endpoints().iter().filter_map(last).collect()
}

#[test]
fn keys_sort_and_each_column_has_its_own_direction() {
    let mut state = watching();
    assert_eq!(names(&state), "abc");
    press(&mut state, [KeyCode::Char('s'), KeyCode::Char('s')]);
    assert_eq!(
        (state.sort.column, state.sort.falling, names(&state).as_str()),
        (Column::Waiting, true, "abc")
    );
    press(&mut state, [KeyCode::Char('r')]);
    assert_eq!(names(&state), "bac", "what is not known stays last");
    press(&mut state, [KeyCode::Char('S'); 3]);
    assert_eq!(
        (state.sort.column, state.sort.falling),
        (Column::Adapters, false),
        "around the end"
    );
}

#[test]
fn the_filter_is_written_kept_and_cleared() {
    let mut state = watching();
    press(&mut state, "/SQx".chars().map(KeyCode::Char));
    assert_eq!(names(&state), "");
    press(&mut state, [KeyCode::Backspace, KeyCode::Enter]);
    assert_eq!((names(&state).as_str(), state.typing), ("b", false));
    press(&mut state, [KeyCode::Esc]);
    assert_eq!(names(&state), "abc");
    press(&mut state, "/busy".chars().map(KeyCode::Char));
    assert_eq!(state.shown_decisions().len(), 1, "it is one for both tables");
    press(&mut state, [KeyCode::Esc]);
    assert!(state.filter.is_empty() && !state.typing);
}

#[test]
fn a_decision_is_asked_for_and_shown_unless_something_else_is_looked_at() {
    let mut state = watching();
    let wish = press(&mut state, [KeyCode::Tab, KeyCode::Down, KeyCode::Enter]);
    assert_eq!(wish, Wish::Explain("01".to_owned()));
    state.explained("02", Err("of another".to_owned()));
    assert!(matches!(&state.over, Some(Over::Decision { told: Told::Asked, .. })));
    state.explained("01", Err("gone".to_owned()));
    assert!(
        matches!(&state.over, Some(Over::Decision { told: Told::Failed(why), .. }) if why == "gone")
    );
    press(&mut state, [KeyCode::Esc]);
    state.explained("01", Err("late".to_owned()));
    assert!(state.over.is_none());
}

#[test]
fn an_explanation_scrolls_within_its_lines() {
    let mut state = watching();
    let lines = vec![String::new(); 30];
    state.over = Some(Over::Decision { id: "1".into(), told: Told::Known(lines), scroll: 0 });
    let mut at = |codes: &[KeyCode]| {
        press(&mut state, codes.iter().copied());
        let Some(Over::Decision { scroll, .. }) = state.over else { panic!("it is closed") };
        scroll
    };
    assert_eq!(at(&[KeyCode::Down, KeyCode::PageDown]), 11);
    assert_eq!(at(&[KeyCode::End]), 29);
    assert_eq!(at(&[KeyCode::Up]), 28);
    assert_eq!(at(&[KeyCode::Home]), 0);
}

#[test]
fn an_endpoint_is_looked_at_and_help_opens_and_closes() {
    let mut state = watching();
    press(&mut state, [KeyCode::Down, KeyCode::Enter]);
    assert!(matches!(&state.over, Some(Over::Endpoint(name)) if name == "vllm-b"));
    press(&mut state, [KeyCode::Enter, KeyCode::Char('?')]);
    assert!(matches!(state.over, Some(Over::Help)));
    press(&mut state, [KeyCode::Char('?')]);
    assert!(state.over.is_none());
}

#[test]
fn q_and_ctrl_c_quit_from_everywhere_but_a_filter_takes_letters() {
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    let mut state = watching();
    assert_eq!(press(&mut state, [KeyCode::Char('?'), KeyCode::Char('q')]), Wish::Quit);
    let mut state = watching();
    assert_eq!(press(&mut state, [KeyCode::Char('/'), KeyCode::Char('q')]), Wish::Nothing);
    assert_eq!(state.filter, "q");
    assert_eq!(state.press(interrupt), Wish::Quit);
}

#[test]
fn a_picker_that_is_lost_leaves_its_last_word_and_comes_back() {
    let (mut state, now) = (watching(), clock::now());
    state.heard(Err("refused".to_owned()), now);
    assert_eq!((state.lost.as_deref(), names(&state).as_str()), (Some("refused"), "abc"));
    let later = Overview { decisions_made: 30, ..overview() };
    let first = state.seen.as_ref().unwrap().at;
    state.heard(Ok(later), first + Duration::from_secs(3));
    assert_eq!((state.lost.as_deref(), state.seen.as_ref().unwrap().rate), (None, Some(10.0)));
    state.heard(Ok(overview()), now + Duration::from_secs(9));
    assert_eq!(state.seen.as_ref().unwrap().rate, None, "it was started again");
    press(&mut state, [KeyCode::Char(' ')]);
    state.heard(Err("refused".to_owned()), now);
    assert_eq!(state.lost, None, "nothing moves while it is paused");
}
