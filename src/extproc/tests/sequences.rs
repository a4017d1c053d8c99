//! Any sequence of messages gets a legal sequence of replies.

use proptest::prelude::*;

use super::*;
use crate::wire::body_mutation::Mutation;

/// Messages as a gateway could send them in any order.
#[derive(Clone, Debug)]
enum Told {
    Headers { path: usize, end: bool },
    Body { bytes: String, end: bool },
    Trailers,
    Answer { status: u16, end: bool },
    AnswerBody { bytes: String, end: bool },
    AnswerTrailers,
    Nothing,
}

const PATHS: [&str; 4] = ["/v1/chat/completions", "/v1/messages", "/anything", ""];

fn told() -> impl Strategy<Value = Told> {
    let bytes = prop_oneof![Just(CHAT.to_owned()), "[{}a\" :]{0,300}", Just(String::new())];
    prop_oneof![
        3 => (0..PATHS.len(), any::<bool>()).prop_map(|(path, end)| Told::Headers { path, end }),
        4 => (bytes.clone(), any::<bool>()).prop_map(|(bytes, end)| Told::Body { bytes, end }),
        1 => Just(Told::Trailers),
        3 => (200..600_u16, any::<bool>()).prop_map(|(status, end)| Told::Answer { status, end }),
        4 => (bytes, any::<bool>()).prop_map(|(bytes, end)| Told::AnswerBody { bytes, end }),
        1 => Just(Told::AnswerTrailers),
        1 => Just(Told::Nothing),
    ]
}

fn tell(rig: &mut Rig, told: &Told) {
    match told {
        Told::Headers { path, end } => rig.headers(&[(":path", PATHS[*path])], *end),
        Told::Body { bytes, end } => rig.body(bytes, *end),
        Told::Trailers => rig.trailers(),
        Told::Answer { status, end } => rig.answer(&[(":status", &status.to_string())], *end),
        Told::AnswerBody { bytes, end } => rig.answer_body(bytes, *end),
        Told::AnswerTrailers => rig.answer_trailers(),
        Told::Nothing => {
            let observability_mode = rig.observed;
            rig.receive(ProcessingRequest { observability_mode, ..ProcessingRequest::default() })
        }
    };
}

/// One direction as a gateway tells it in a mode other than full duplex.
#[derive(Clone, Debug)]
struct Foreseen {
    mode: i32,
    /// No body follows the headers.
    bodyless: bool,
    pieces: Vec<String>,
    trailers: bool,
}

impl Foreseen {
    /// The pieces of the body, and whether each is the last message of it.
    fn bodies(&self) -> Vec<(String, bool)> {
        let pieces = match self.mode {
            0 => Vec::new(),
            1 => self.pieces.clone(),
            _ => vec![self.pieces.concat()],
        };
        let count = pieces.len();
        let end = |at| at + 1 == count && !self.trailers;
        pieces.into_iter().enumerate().map(|(at, bytes)| (bytes, end(at))).collect()
    }

    fn request(&self, path: usize) -> Vec<Told> {
        let headers = Told::Headers { path, end: self.bodyless };
        let bodies = self.bodies().into_iter().map(|(bytes, end)| Told::Body { bytes, end });
        self.messages(headers, bodies, Told::Trailers)
    }

    fn answer(&self, status: u16) -> Vec<Told> {
        let headers = Told::Answer { status, end: self.bodyless };
        let bodies = self.bodies().into_iter().map(|(bytes, end)| Told::AnswerBody { bytes, end });
        self.messages(headers, bodies, Told::AnswerTrailers)
    }

    fn messages(
        &self,
        headers: Told,
        bodies: impl Iterator<Item = Told>,
        trailers: Told,
    ) -> Vec<Told> {
        let rest = bodies.chain(self.trailers.then_some(trailers));
        [headers].into_iter().chain(rest.filter(|_| !self.bodyless)).collect()
    }
}

fn foreseen() -> impl Strategy<Value = Foreseen> {
    let bytes = prop_oneof![Just(CHAT.to_owned()), "[{}a\" :]{0,30}", Just(String::new())];
    let pieces = prop::collection::vec(bytes, 1..5);
    (0..4, any::<bool>(), pieces, any::<bool>()).prop_map(|(mode, bodyless, pieces, trailers)| {
        Foreseen { mode, bodyless, pieces, trailers }
    })
}

/// What a message is to be answered with.
fn due(told: &Told) -> Option<(bool, u8)> {
    match told {
        Told::Headers { .. } => Some((false, 0)),
        Told::Body { .. } => Some((false, 1)),
        Told::Trailers => Some((false, 2)),
        Told::Answer { .. } => Some((true, 0)),
        Told::AnswerBody { .. } => Some((true, 1)),
        Told::AnswerTrailers => Some((true, 2)),
        Told::Nothing => None,
    }
}

/// Rank of a reply within its direction.
fn rank(reply: &Response) -> Option<(bool, u8)> {
    match reply {
        Response::RequestHeaders(_) => Some((false, 0)),
        Response::RequestBody(_) => Some((false, 1)),
        Response::RequestTrailers(_) => Some((false, 2)),
        Response::ResponseHeaders(_) => Some((true, 0)),
        Response::ResponseBody(_) => Some((true, 1)),
        Response::ResponseTrailers(_) => Some((true, 2)),
        Response::ImmediateResponse(_) => None,
    }
}

proptest! {
    // FR-002, FR-028
    #[test]
    fn replies_are_legal_counts_return_to_zero_and_there_is_one_outcome(
        sequence in prop::collection::vec(told(), 0..12),
        modes in (0..6, 0..6),
        observed in any::<bool>(),
    ) {
        let mut rig = Rig::new(modes.0, modes.1);
        rig.observed = observed;
        for told in &sequence {
            tell(&mut rig, told);
        }
        let refusals = rig.replies.iter().filter(|reply| rank(reply).is_none()).count();
        prop_assert!(refusals <= 1);
        prop_assert!(refusals == 0 || rank(rig.replies.last().unwrap()).is_none(), "nothing follows a refusal");
        prop_assert!(!observed || rig.replies.is_empty());
        for side in [false, true] {
            let ranks: Vec<_> = rig.replies.iter().filter_map(rank).filter(|rank| rank.0 == side).collect();
            prop_assert!(ranks.is_sorted(), "headers, body, trailers: {ranks:?}");
        }
        rig.closed();
        prop_assert_eq!(rig.in_flight(), 0);
        prop_assert_eq!(rig.settings.budget.used(), 0);
        let page = rig.director.metrics().page().unwrap();
        let count = |name: &str| {
            page.lines().filter(|line| line.starts_with(name) && !line.ends_with(" 0")).count()
        };
        let requests = usize::from(count("lodesman_requests_received_total{") > 0);
        prop_assert_eq!(count("lodesman_request_outcomes_total{"), requests);
        let running = |line: &str| line.starts_with("llm_d_epp_request_running{") && !line.ends_with(" 0");
        prop_assert_eq!(page.lines().find(|line| running(line)), None);
    }

    #[test]
    fn each_message_has_one_reply_of_its_kind_where_bodies_do_not_stream_both_ways(
        request in foreseen(),
        answer in foreseen(),
        path in 0..PATHS.len(),
        status in 200..600_u16,
    ) {
        let mut rig = Rig::new(request.mode, answer.mode);
        for told in request.request(path).iter().chain(&answer.answer(status)) {
            let before = rig.replies.len();
            tell(&mut rig, told);
            let replies = &rig.replies[before..];
            prop_assert_eq!(replies.len(), 1, "to {:?}", told);
            let Some(rank) = rank(&replies[0]) else { break };
            prop_assert_eq!(Some(rank), due(told), "to {:?}", told);
        }
    }

    #[test]
    fn every_byte_of_a_body_is_sent_on_once_however_it_is_cut(
        cuts in prop::collection::vec(0..CHAT.len(), 0..6),
        by_trailers in any::<bool>(),
        path in 0..PATHS.len(),
    ) {
        let mut rig = Rig::new(4, 4);
        let mut cuts = cuts;
        cuts.sort_unstable();
        rig.headers(&[(":path", PATHS[path])], false);
        let mut at = 0;
        for cut in cuts {
            rig.body(CHAT.get(at..cut).unwrap(), false);
            at = cut;
        }
        rig.body(CHAT.get(at..).unwrap(), !by_trailers);
        if by_trailers {
            rig.trailers();
        }
        let mut ends = 0;
        let mut sent = Vec::new();
        for reply in &rig.replies {
            let Response::RequestBody(body) = reply else { continue };
            let mutation = body.response.as_ref().and_then(|common| common.body_mutation.as_ref());
            let Some(Mutation::StreamedResponse(piece)) = mutation.and_then(|m| m.mutation.as_ref()) else {
                panic!("full duplex streams")
            };
            prop_assert!(piece.body.len() <= rig.settings.chunk_limit);
            prop_assert_eq!(ends, 0, "nothing after the end");
            sent.extend_from_slice(&piece.body);
            ends += usize::from(piece.end_of_stream);
        }
        prop_assert_eq!(sent, CHAT.as_bytes());
        prop_assert_eq!(ends, usize::from(!by_trailers));
    }
}
