//! Token usage, read from answers of every API as they pass.

use super::rig::{Rig, config};
use super::stream::{CHAT, HI, Stream};

/// What a server is asked and answers, and what is to be counted of it.
struct Case<'a> {
    path: &'a str,
    request: &'a [u8],
    content_type: &'a str,
    pieces: &'a [&'a [u8]],
    /// Whether trailers end the answer.
    trailers: bool,
    /// Input and output tokens.
    tokens: [usize; 2],
    /// Cached tokens, where the server says.
    cached: Option<usize>,
}

impl Default for Case<'_> {
    fn default() -> Self {
        Self {
            path: CHAT,
            request: HI.as_bytes(),
            content_type: "text/event-stream",
            pieces: &[],
            trailers: false,
            tokens: [0; 2],
            cached: None,
        }
    }
}

impl Case<'_> {
    /// Passes the answer through, which must not change it, and looks at what was counted.
    async fn check(&self, args: &[&str]) {
        let rig = Rig::blind(1, args).await;
        let mut stream = rig.stream().await;
        stream.post(self.path, &[]).last(self.request).hear(1).await;
        assert_eq!(stream.relayed(self.request.len()).await, self.request);
        self.answer(&mut stream).await;
        assert!(stream.closed().await.ends_with("< END OK\n"));
        rig.ends("ok").await;
        let [input, output] = self.tokens.map(Some);
        for (what, tokens) in
            [("input_tokens", input), ("output_tokens", output), ("cached_tokens", self.cached)]
        {
            let name = format!("llm_d_epp_request_{what}");
            rig.counts(&format!("{name}_sum{{"), &[], tokens.unwrap_or_default()).await;
            rig.counts(&format!("{name}_count{{"), &[], usize::from(tokens.is_some())).await;
        }
    }

    async fn answer(&self, stream: &mut Stream) {
        stream.answer(self.content_type).hear(1).await;
        for piece in self.pieces {
            stream.chunk(piece);
            assert_eq!(stream.relayed(piece.len()).await, *piece);
        }
        if self.trailers {
            stream.answer_trailers().hear(1).await;
            assert!(stream.log().ends_with("< ST\n"), "{}", stream.log());
        } else {
            stream.last_chunk("").hear(1).await;
            assert!(stream.log().ends_with(" end\n"), "{}", stream.log());
        }
    }
}

// FR-022
#[tokio::test]
async fn usage_of_a_chat_stream_is_in_the_last_event() {
    let usage = br#"data: {"usage":{"prompt_tokens":7,"completion_tokens":10,"total_tokens":17}}
data: [DONE]
"#;
    Case { pieces: &[b"data: {}\n\n", usage, b"\n"], tokens: [7, 10], ..Case::default() }
        .check(&[])
        .await;
}

// FR-023
#[tokio::test]
async fn usage_of_a_messages_stream_is_spread_over_its_events() {
    let start = br#"event: message_start
data: {"type":"message_start","message":{"usage":{"input_tokens":25,"cache_read_input_tokens":5,"output_tokens":1}}}

"#;
    let delta = br#"event: message_delta
data: {"type":"message_delta","delta":{},"usage":{"output_tokens":15}}

"#;
    Case {
        path: "/v1/messages",
        pieces: &[start, delta],
        tokens: [25, 15],
        cached: Some(5),
        ..Case::default()
    }
    .check(&[])
    .await;
}

// FR-034
#[tokio::test]
async fn usage_of_a_responses_stream_is_in_its_completion() {
    let completed = br#"event: response.completed
data: {"type":"response.completed","response":{"usage":{"input_tokens":7,"output_tokens":10,"total_tokens":17}}}

"#;
    let request = br#"{"model":"m","input":"hi","stream":true}"#;
    Case {
        path: "/v1/responses",
        request,
        pieces: &[completed],
        tokens: [7, 10],
        ..Case::default()
    }
    .check(&[])
    .await;
}

#[tokio::test]
async fn usage_of_an_sglang_stream_is_that_of_its_end() {
    let parser = config("requestHandler: {parsers: [{pluginRef: sglanghttp-parser}]}\n");
    let middle = br#"data: {"text":"a","meta_info":{"prompt_tokens":7,"completion_tokens":1,"finish_reason":null}}

"#;
    let end = br#"data: {"text":"ab","meta_info":{"prompt_tokens":7,"completion_tokens":2,"cached_tokens":4,"finish_reason":{"type":"stop"}}}

"#;
    let request = br#"{"text":"hi","stream":true}"#;
    Case {
        path: "/generate",
        request,
        pieces: &[middle, end],
        tokens: [7, 2],
        cached: Some(4),
        ..Case::default()
    }
    .check(&[&parser])
    .await;
}

#[tokio::test]
async fn usage_that_is_in_every_event_is_counted_once() {
    let events = [1, 2, 3].map(|n| format!("data: {{\"usage\":{{\"prompt_tokens\":7,\"completion_tokens\":{n},\"total_tokens\":{}}}}}\n\n", n + 7));
    let pieces: Vec<&[u8]> = events.iter().map(String::as_bytes).collect();
    Case { pieces: &pieces, tokens: [7, 3], ..Case::default() }.check(&[]).await;
}

#[tokio::test]
async fn events_are_read_without_spaces_with_any_line_ends_and_with_comments() {
    let usage = r#"{"usage":{"prompt_tokens":7,"completion_tokens":10,"total_tokens":17}}"#;
    for events in [
        format!("data:{usage}\n\n"),
        format!(": ping\r\n\r\ndata: {usage}\r\n\r\n"),
        format!("event: x\rdata: {usage}\r\r"),
    ] {
        Case { pieces: &[events.as_bytes()], tokens: [7, 10], ..Case::default() }.check(&[]).await;
    }
}

#[tokio::test]
async fn usage_of_a_whole_answer_is_in_its_json() {
    let (half, rest) = (br#"{"choices":[],"usage":{"prompt_to"#, br#"kens":7,"completion_tokens":10,"total_tokens":17,"prompt_tokens_details":{"cached_tokens":4}}}"#);
    Case {
        content_type: "application/json",
        pieces: &[half, rest],
        tokens: [7, 10],
        cached: Some(4),
        ..Case::default()
    }
    .check(&[])
    .await;
}

const GENERATE: &str = "/vllm.grpc.engine.VllmEngine/Generate";

/// The text "hi" in a message of vLLM's `Generate`.
const TEXT_HI: &[u8] = &[0, 0, 0, 0, 4, 0x1a, 2, b'h', b'i'];

/// A complete answer: token 9; 7 tokens in, 10 out.
const COMPLETE: [u8; 9] = [0x12, 7, 0x0a, 1, 9, 0x18, 7, 0x20, 10];

fn frame(flags: u8, message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("short").to_be_bytes();
    [&[flags], &length[..], message].concat()
}

fn grpc() -> String {
    config("requestHandler: {parsers: [{pluginRef: vllmgrpc-parser}]}\n")
}

#[tokio::test]
async fn usage_of_a_grpc_answer_is_counted_and_trailers_end_it() {
    let case = Case {
        path: GENERATE,
        request: TEXT_HI,
        content_type: "application/grpc",
        ..Case::default()
    };
    Case {
        pieces: &[&frame(0, &COMPLETE)],
        trailers: true,
        tokens: [7, 10],
        cached: Some(0),
        ..case
    }
    .check(&[&grpc()])
    .await;
}

#[tokio::test]
async fn pieces_of_a_grpc_answer_are_sent_on_as_they_are_cut() {
    let answer = frame(0, &COMPLETE);
    let case = Case {
        path: GENERATE,
        request: TEXT_HI,
        content_type: "application/grpc",
        ..Case::default()
    };
    Case {
        pieces: &[&answer[..3], &answer[3..9], &answer[9..]],
        trailers: true,
        tokens: [7, 10],
        cached: Some(0),
        ..case
    }
    .check(&[&grpc()])
    .await;
}

#[tokio::test]
async fn a_compressed_grpc_answer_is_unpacked_for_its_usage() {
    use std::io::Write;

    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&COMPLETE).expect("memory");
    let answer = frame(1, &packed.finish().expect("memory"));
    let case = Case {
        path: GENERATE,
        request: TEXT_HI,
        content_type: "application/grpc",
        ..Case::default()
    };
    Case { pieces: &[&answer], trailers: true, tokens: [7, 10], cached: Some(0), ..case }
        .check(&[&grpc()])
        .await;
}
