//! What an exchange holds while the model server makes its answer: there are tens of thousands of them.

use allocation_counter::measure;

use super::*;
use crate::prefix::Index;
use crate::wire::HttpBody;

/// Bytes that one exchange may hold then, in all. The prompt is a kibibyte long.
const MOST: usize = 1536;

#[test]
fn an_exchange_that_waits_for_its_answer_holds_little() {
    let mut rig = Rig::with(3, |settings| settings.body_limit = 2000);
    let index = Arc::new(Index::new(crate::prefix::Settings::default(), 7));
    rig.decides(|director, _| director.with_prefix(index));
    let prompt = CHAT.replace("hi", &"x".repeat(1024));
    // what is held for all requests alike is there after the first
    for _ in 0..2 {
        rig.chat().body(&prompt, true).said();
        rig.closed();
    }
    let held = measure(|| {
        rig.chat().body(&prompt, true).said();
    });
    let held = usize::try_from(held.bytes_current).unwrap_or_default() + size_of::<Exchange>();
    assert!(held <= MOST, "{held} bytes");
    assert!(rig.answer(&[(":status", "200")], true).said() == ["SH"], "it was waiting");
}

/// The sum of a histogram.
fn sum(rig: &Rig, name: &str) -> f64 {
    let page = rig.director.metrics().page().unwrap();
    let line = page.lines().find(|line| line.starts_with(&format!("{name}_sum"))).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

// FR-150
#[test]
fn the_time_that_a_body_takes_to_come_is_not_that_of_its_decision() {
    let mut rig = Rig::new(4, 4);
    let headers = Some(rig::map(&[(":path", "/v1/chat/completions")]));
    let message = ProcessingRequest {
        request: Some(Message::RequestHeaders(HttpHeaders { headers, end_of_stream: false })),
        ..ProcessingRequest::default()
    };
    rig.exchange.receive(message, clock::now().checked_sub(Duration::from_mins(1)).unwrap());
    assert!(rig.body(CHAT, true).said()[0].starts_with(PICKED));
    assert!(sum(&rig, "llm_d_epp_request_processing_duration_seconds") >= 60.0);
    assert!(sum(&rig, "lodesman_decision_duration_seconds") < 30.0);
}

/// Takes a message in as far as it is taken at once, and says how often the exchange has to be asked to proceed.
fn turns(rig: &mut Rig, body: &str) -> usize {
    let body = HttpBody { body: Bytes::copy_from_slice(body.as_bytes()), end_of_stream: true };
    let request = Some(Message::RequestBody(body));
    let message = ProcessingRequest { request, ..ProcessingRequest::default() };
    let mut next = rig.exchange.receive(message, clock::now());
    let mut turns = 0;
    while next == Next::Proceed {
        assert!(rig.exchange.ask().is_none() && rig.exchange.pop().is_none());
        (turns, next) = (turns + 1, rig.exchange.proceed());
    }
    assert_eq!(next, Next::Decide);
    turns
}

// FR-154
#[test]
fn a_body_that_comes_as_one_is_read_in_turns_and_as_if_it_came_in_pieces() {
    let long = |settings: &mut Settings| {
        (settings.body_limit, settings.budget) = (1 << 20, Budget::new(1 << 22));
    };
    let text = "tide and wind ".repeat(40_000);
    let body = format!(r#"{{"messages":[{{"role":"user","content":"{text}"}}],"model":"m"}}"#);
    let headers = [(":path", "/v1/chat/completions"), ("content-length", "9")];
    let index = Arc::new(Index::new(crate::prefix::Settings::default(), 7));
    let rig = || {
        let mut rig = Rig::with(3, long);
        rig.decides(|director, _| director.with_prefix(Arc::clone(&index)));
        rig
    };
    let mut whole = rig().modes(2, 2);
    whole.headers(&headers, false);
    assert_eq!(turns(&mut whole, &body), body.len() / (128 * 1024));
    let mut pieces = rig();
    pieces.headers(&headers, false);
    let (start, end) = body.split_at(body.len() - 1000);
    for piece in start.as_bytes().chunks(60_000) {
        pieces.body(std::str::from_utf8(piece).unwrap(), false);
    }
    assert_eq!(turns(&mut pieces, end), 0);
    let (whole, pieces) = (whole.exchange.ask().unwrap(), pieces.exchange.ask().unwrap());
    assert_eq!(whole.request, pieces.request);
    assert!(!whole.chain.hashes().is_empty());
    assert_eq!((whole.model, whole.chain), (Some("m"), pieces.chain));
}
