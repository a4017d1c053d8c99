use std::collections::VecDeque;

use bytes::BytesMut;
use fluke_hpack::Decoder;
use proptest::collection::vec;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::Authority;
use super::block::acceptable;
use super::rewriter::Rewriter;

const ISTIO: &str = "outbound|9002||epp.default.svc.cluster.local";
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const TABLE_BYTES: usize = 4096;

type Field = (Vec<u8>, Vec<u8>);

/// How one header field is written.
#[derive(Debug, Clone, Copy)]
struct Form {
    /// First byte and index prefix of the literal: incremental, without, never indexed.
    literal: (u8, u8),
    static_name: bool,
    huffman: (bool, bool),
    reuse: bool,
}

/// An HPACK encoder with every choice open to the test.
#[derive(Default)]
struct Encoder {
    table: VecDeque<Field>,
}

impl Encoder {
    fn encode(&mut self, (name, value): &Field, form: Form, out: &mut Vec<u8>) {
        let known = self.table.iter().position(|field| field.0 == *name && field.1 == *value);
        if let Some(index) = known.filter(|_| form.reuse) {
            return integer(out, 0x80, 7, 62 + index);
        }
        let (flags, bits) = form.literal;
        if form.static_name && name == b":authority" {
            integer(out, flags, bits, 1);
        } else {
            integer(out, flags, bits, 0);
            string(out, name, form.huffman.0);
        }
        string(out, value, form.huffman.1);
        if flags == 0x40 {
            self.table.push_front((name.clone(), value.clone()));
            let size = |(name, value): &Field| name.len() + value.len() + 32;
            while self.table.iter().map(size).sum::<usize>() > TABLE_BYTES {
                self.table.pop_back();
            }
        }
    }
}

fn integer(out: &mut Vec<u8>, flags: u8, bits: u8, value: usize) {
    let mut coded = fluke_hpack::encoder::encode_integer(value, bits);
    coded[0] |= flags;
    out.extend(coded);
}

fn string(out: &mut Vec<u8>, text: &[u8], huffman: bool) {
    let mut coded = Vec::new();
    if huffman {
        httlib_huffman::encode(text, &mut coded).unwrap();
    } else {
        coded.extend_from_slice(text);
    }
    integer(out, if huffman { 0x80 } else { 0 }, 7, coded.len());
    out.extend(coded);
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend(stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// One request on the wire: header fields with their forms, frame layout, body.
#[derive(Debug, Clone)]
struct Request {
    fields: Vec<(Field, Form)>,
    padding: Option<u8>,
    priority: bool,
    pieces: usize,
    body: Vec<u8>,
}

impl Request {
    fn wire(&self, encoder: &mut Encoder, stream: u32) -> Vec<u8> {
        let mut block = Vec::new();
        for (field, form) in &self.fields {
            encoder.encode(field, *form, &mut block);
        }
        let size = block.len().div_ceil(self.pieces).max(1);
        let mut pieces: Vec<&[u8]> = block.chunks(size).collect();
        let first = if pieces.is_empty() { &[][..] } else { pieces.remove(0) };
        let last = |more: bool| if more { 0 } else { 0x4 };
        let mut payload = Vec::from_iter(self.padding);
        payload.extend(if self.priority { &[0x80, 0, 0, 1, 9][..] } else { &[] });
        payload.extend_from_slice(first);
        payload.extend(vec![0; usize::from(self.padding.unwrap_or(0))]);
        let flags = if self.padding.is_some() { 0x8 } else { 0 }
            | if self.priority { 0x20 } else { 0 }
            | last(!pieces.is_empty());
        let mut wire = frame(0x1, flags, stream, &payload);
        for (at, piece) in pieces.iter().enumerate() {
            wire.extend(frame(0x9, last(at + 1 < pieces.len()), stream, piece));
        }
        wire.extend(frame(0x0, 0x1, stream, &self.body));
        wire
    }
}

/// What a receiver makes of a connection: the header lists, and every other frame as it stands.
fn receive(wire: &[u8]) -> (Vec<Vec<Field>>, Vec<Vec<u8>>) {
    let mut decoder = Decoder::new();
    let (mut lists, mut others, mut block) = (Vec::new(), Vec::new(), Vec::new());
    let mut rest = wire.strip_prefix(PREFACE).expect("the preface comes first");
    while !rest.is_empty() {
        let length = u32::from_be_bytes([0, rest[0], rest[1], rest[2]]) as usize;
        let (kind, flags) = (rest[3], rest[4]);
        assert!(length <= 16_384, "a frame of {length} bytes");
        let (frame, behind) = rest.split_at(9 + length);
        rest = behind;
        if kind != 1 && kind != 9 {
            others.push(frame.to_vec());
            continue;
        }
        let mut payload = &frame[9..];
        if flags & 0x8 != 0 && kind == 1 {
            payload = &payload[1..payload.len() - usize::from(payload[0])];
        }
        payload = if flags & 0x20 != 0 && kind == 1 { &payload[5..] } else { payload };
        block.extend_from_slice(payload);
        if flags & 0x4 != 0 {
            lists.push(decoder.decode(&block).expect("a valid block"));
            block.clear();
        }
    }
    (lists, others)
}

/// `wire` through a rewriter in chunks of the given sizes, then the rest.
fn rewritten(wire: &[u8], chunks: &[usize]) -> Vec<u8> {
    let mut rewriter = Rewriter::new();
    let mut out = BytesMut::new();
    let mut rest = wire;
    for &chunk in chunks {
        let (now, later) = rest.split_at(chunk.min(rest.len()));
        rewriter.push(now, &mut out);
        rest = later;
    }
    rewriter.push(rest, &mut out);
    rewriter.finish(&mut out);
    out.to_vec()
}

fn forms() -> impl Strategy<Value = Form> {
    let literal = prop::sample::select(vec![(0x40, 6), (0x00, 4), (0x10, 4)]);
    (literal, any::<bool>(), any::<(bool, bool)>(), any::<bool>()).prop_map(
        |(literal, static_name, huffman, reuse)| Form { literal, static_name, huffman, reuse },
    )
}

fn fields() -> impl Strategy<Value = Field> {
    let authority = prop_oneof![
        Just(ISTIO.into()),
        "[a-z|/:@%.\\[\\]0-9-]{0,200}".prop_map(String::into_bytes),
        vec(any::<u8>(), 0..40),
    ];
    prop_oneof![
        authority.prop_map(|value| (b":authority".to_vec(), value)),
        ("[a-z:-]{1,20}", vec(any::<u8>(), 0..300)).prop_map(|(name, v)| (name.into_bytes(), v)),
    ]
}

fn requests() -> impl Strategy<Value = Request> {
    let layout = (prop::option::of(0..20_u8), any::<bool>(), 1..4_usize);
    (vec((fields(), forms()), 0..8), layout, vec(any::<u8>(), 0..100)).prop_map(
        |(fields, (padding, priority, pieces), body)| Request {
            fields,
            padding,
            priority,
            pieces,
            body,
        },
    )
}

fn connection(requests: &[Request]) -> Vec<u8> {
    let mut encoder = Encoder::default();
    let mut wire = PREFACE.to_vec();
    wire.extend(frame(0x4, 0, 0, &[]));
    for (request, stream) in requests.iter().zip((1..).step_by(2)) {
        wire.extend(request.wire(&mut encoder, stream));
    }
    wire
}

fn plain_form() -> Form {
    Form { literal: (0x40, 6), static_name: true, huffman: (false, true), reuse: true }
}

proptest! {
    #[test]
    fn only_the_authority_changes_whatever_the_encoding_and_the_cuts(
        requests in vec(requests(), 1..5),
        chunks in vec(1..60_usize, 0..100),
    ) {
        let wire = connection(&requests);
        let (mut expected, other_frames) = receive(&wire);
        for (name, value) in expected.iter_mut().flatten() {
            if name == b":authority" && let Some(accepted) = acceptable(value) {
                *value = accepted;
            }
        }
        prop_assert_eq!(receive(&rewritten(&wire, &chunks)), (expected, other_frames));
    }

    #[test]
    fn an_accepted_authority_has_its_old_length(value in vec(any::<u8>(), 1..100)) {
        let new = acceptable(&value).unwrap_or_else(|| value.clone());
        prop_assert_eq!(new.len(), value.len());
        prop_assert!(http::uri::Authority::try_from(new.as_slice()).is_ok());
    }

    #[test]
    fn garbage_comes_out_the_same_however_it_is_cut(
        frames in vec((0..11_u8, any::<u8>(), 0..3_u32, vec(any::<u8>(), 0..60)), 0..12),
        tail in vec(any::<u8>(), 0..40),
        chunks in vec(1..30_usize, 0..80),
    ) {
        let mut wire = PREFACE.to_vec();
        for (kind, flags, stream, payload) in frames {
            wire.extend(frame(kind, flags, stream, &payload));
        }
        wire.extend(tail);
        prop_assert_eq!(rewritten(&wire, &chunks), rewritten(&wire, &[]));
    }
}

fn request(fields: Vec<(Field, Form)>) -> Request {
    Request { fields, padding: None, priority: false, pieces: 1, body: Vec::new() }
}

fn istio() -> (Field, Form) {
    ((b":authority".to_vec(), ISTIO.into()), plain_form())
}

#[test]
fn the_cluster_name_of_istio_becomes_a_host_name_of_equal_length() {
    let accepted = acceptable(ISTIO.as_bytes()).unwrap();
    assert_eq!(accepted, b"outbound-9002--epp.default.svc.cluster.local");
    assert_eq!(acceptable(b"epp.default:9002"), None);
}

#[test]
fn a_block_that_needs_no_change_keeps_every_byte() {
    let host = ((b":authority".to_vec(), b"epp.default".to_vec()), plain_form());
    let padded = Request { padding: Some(7), priority: true, pieces: 3, ..request(vec![host]) };
    let wire = connection(&[padded]);
    assert_eq!(rewritten(&wire, &[]), wire);
}

#[test]
fn a_block_that_outgrows_its_frame_is_continued_in_another() {
    let bulky = |size| {
        let form = Form { huffman: (false, false), ..plain_form() };
        request(vec![istio(), ((b"x".to_vec(), vec![0xff; size]), form)])
    };
    let wire = connection(&[bulky(16_343)]);
    assert!(wire.windows(5).any(|head| head == [0, 0x40, 0, 1, 4]), "the frame is full");
    let out = rewritten(&wire, &[]);
    assert!(out.windows(5).any(|head| head == [0, 0x40, 0, 1, 0]), "the first frame is full");
    assert!(out.windows(5).any(|head| head == [0, 0, 11, 9, 4]), "the second has the rest");
    assert_eq!(receive(&out).0[0][0].1, acceptable(ISTIO.as_bytes()).unwrap());
}

#[test]
fn a_block_beyond_the_limit_passes_and_the_next_one_is_rewritten() {
    let huge = Request {
        pieces: 20,
        ..request(vec![istio(), ((b"x".to_vec(), vec![b'a'; 300_000]), plain_form())])
    };
    let huge_only = connection(std::slice::from_ref(&huge));
    assert_eq!(rewritten(&huge_only, &[]), huge_only);
    let never = Form { literal: (0x10, 4), ..plain_form() };
    let wire = connection(&[huge, request(vec![(istio().0, never)])]);
    let out = rewritten(&wire, &[]);
    assert_eq!(out[..huge_only.len()], huge_only);
    assert!(out[huge_only.len()..].windows(9).any(|text| text == b"outbound-"));
}

/// All that `adapter` yields to a reader with a buffer of `size`.
async fn read_all(mut adapter: Authority<DuplexStream>, size: usize) -> Vec<u8> {
    let (mut all, mut piece) = (Vec::new(), vec![0; size]);
    while let n @ 1.. = adapter.read(&mut piece).await.unwrap() {
        all.extend_from_slice(&piece[..n]);
    }
    all
}

#[tokio::test]
async fn the_adapter_reads_what_the_rewriter_writes_with_any_buffer() {
    let requests = vec![Request { body: vec![7; 5_000], ..request(vec![istio()]) }; 20];
    let wire = connection(&requests);
    let expected = rewritten(&wire, &[]);
    for (pipe, buffer) in [(1, 1), (13, 5), (64, 4_096), (100_000, 100_000)] {
        let (mut client, server) = duplex(pipe);
        let write = async {
            client.write_all(&wire[PREFACE.len()..]).await.unwrap();
            drop(client);
        };
        let read = read_all(Authority::new(server, PREFACE), buffer);
        let ((), read) = tokio::join!(write, read);
        assert!(read == expected, "pipe {pipe}, buffer {buffer}");
    }
}

#[test]
fn a_block_that_another_frame_interrupts_passes_as_it_is() {
    let mut block = Vec::new();
    Encoder::default().encode(&istio().0, plain_form(), &mut block);
    let (begin, end) = block.split_at(10);
    for (kind, stream) in [(0x9, 3), (0x0, 1), (0x1, 1)] {
        let frames = [frame(0x1, 0, 1, begin), frame(kind, 0x4, stream, end)].concat();
        let wire = [PREFACE, &frames].concat();
        assert_eq!(rewritten(&wire, &[]), wire, "kind {kind} on stream {stream}");
    }
}

#[tokio::test]
async fn bytes_that_are_held_back_at_the_end_are_not_lost() {
    let (mut client, server) = duplex(64);
    client.write_all(&[0, 0, 50, 1, 4, 0, 0]).await.unwrap();
    drop(client);
    let mut all = Vec::new();
    Authority::new(server, PREFACE).read_to_end(&mut all).await.unwrap();
    assert_eq!(all, [PREFACE, &[0, 0, 50, 1, 4, 0, 0]].concat());
}
