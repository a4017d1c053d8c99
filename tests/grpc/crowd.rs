//! Many streams on one connection.

use super::rig::Rig;
use super::stream::{CHAT, HI, Stream};

// FR-157
#[tokio::test]
async fn ten_thousand_streams_are_open_at_once_on_one_connection_and_end() {
    const STREAMS: usize = 10_000;
    let rig = Rig::blind(4, &[]).await;
    let mut open: Vec<Stream> = Vec::with_capacity(STREAMS);
    for _ in 0..STREAMS {
        let mut stream = rig.stream().await;
        stream.post(CHAT, &[]).last(HI);
        open.push(stream);
    }
    for stream in &mut open {
        stream.hear(2).await;
    }
    rig.counts("llm_d_epp_inflight_requests{", &[], STREAMS).await;
    rig.counts("lodesman_streams_inflight{", &[], STREAMS).await;
    for stream in &mut open {
        stream.response_headers(&[(":status", "204")], true);
    }
    for mut stream in open {
        stream.hear(1).await;
    }
    rig.idle().await;
    rig.counts("lodesman_request_outcomes_total{", &["\"ok\""], STREAMS).await;
}

// FR-028
#[tokio::test]
async fn two_thousand_resets_leave_nothing_behind_and_the_connection_open() {
    const STREAMS: usize = 2_000;
    let rig = Rig::blind(2, &[]).await;
    let (head, tail) = HI.split_at(20);
    let mut witness = rig.stream().await;
    witness.post(CHAT, &[]).body(head);
    for at in 0..STREAMS {
        let mut stream = rig.stream().await;
        stream.post(CHAT, &[]);
        match at % 3 {
            0 => stream.body(head),
            1 => stream.last(HI),
            _ => stream.last(HI).hear(2).await,
        };
    }
    witness.last(tail).hear(3).await;
    witness.answer("application/json").last_chunk("{}").hear(2).await;
    witness.closed().await;
    rig.idle().await;
    rig.counts("lodesman_request_outcomes_total{", &["\"ok\""], 1).await;
}
