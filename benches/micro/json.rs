//! A scan of chat bodies that come in pieces, as gateways send them; the prompt is seen but not hashed.

use std::hint::black_box;

use lodesman::request::{Api, Parsed, Scan};
use serde_json::json;

use crate::measure::Bench;

/// The largest piece that Envoy sends.
pub(crate) const PIECE_BYTES: usize = 64 << 10;

const PLAIN: &str = "A sentence of plain English text, as prompts mostly are. ";
const ESCAPED: &str = "fn main() {\n\tprintln!(\"{}\", 'a');\n}\n";

pub(crate) fn run(bench: &mut Bench) {
    for (case, text, bytes) in [
        ("scan of 1.3 kB", PLAIN, 1_300),
        ("scan of 32 kB", PLAIN, 32_000),
        ("scan of 32 kB with escapes", ESCAPED, 32_000),
        ("scan of 1 MB", PLAIN, 1_000_000),
    ] {
        let body = chat(text, bytes);
        bench.case(case, || scan(&body));
    }
}

fn scan(body: &[u8]) -> Parsed {
    let mut scan = Scan::new(Some(Api::ChatCompletions));
    for piece in body.chunks(PIECE_BYTES) {
        scan.feed(piece, &mut |part| {
            black_box(part);
        });
    }
    scan.finish().unwrap()
}

/// A chat of about so many bytes.
pub(crate) fn chat(text: &str, bytes: usize) -> Vec<u8> {
    let written = json!(text).to_string().len();
    let content = text.repeat(bytes / written);
    let messages = json!([
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": content},
    ]);
    let body = json!({
        "model": "m", "stream": true, "temperature": 0.7, "max_tokens": 256, "messages": messages,
    });
    body.to_string().into_bytes()
}
