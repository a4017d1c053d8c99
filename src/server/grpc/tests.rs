use std::convert::Infallible;
use std::io::Write;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::{BufMut, Bytes, BytesMut};
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::StreamBody;
use hyper::body::{Body, Frame};
use proptest::prelude::*;
use tonic::Code;

use super::messages::Messages;

/// A body of these pieces.
fn body(pieces: Vec<Bytes>) -> impl Body<Data = Bytes, Error = Infallible> + Unpin {
    StreamBody::new(futures_util::stream::iter(
        pieces.into_iter().map(|piece| Ok(Frame::data(piece))),
    ))
}

fn framed(compressed: u8, message: &[u8]) -> Vec<u8> {
    let mut framed = BytesMut::new();
    framed.put_u8(compressed);
    framed.put_u32(u32::try_from(message.len()).unwrap());
    framed.extend_from_slice(message);
    framed.to_vec()
}

/// What is read of the pieces: the messages, and the status of a failure.
fn read(pieces: Vec<Bytes>, limit: usize, gzip: bool) -> (Vec<Bytes>, Option<Code>) {
    let mut messages = pin!(Messages::new(body(pieces), limit, gzip));
    let mut found = Vec::new();
    loop {
        match messages.poll_next(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(Ok(message))) => found.push(message),
            Poll::Ready(Some(Err(status))) => return (found, Some(status.code())),
            Poll::Ready(None) => return (found, None),
            Poll::Pending => panic!("all is there"),
        }
    }
}

fn gzipped(message: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(message).unwrap();
    gzip.finish().unwrap()
}

proptest! {
    #[test]
    fn however_it_is_cut_the_same_is_read(
        lengths in prop::collection::vec(prop_oneof![0..20_usize, 0..3_000_usize], 0..8),
        cuts in prop::collection::vec(1..700_usize, 1..40),
    ) {
        let sent: Vec<Bytes> = lengths.iter().map(|length| vec![b'x'; *length].into()).collect();
        let mut stream = Bytes::from(sent.iter().flat_map(|sent| framed(0, sent)).collect::<Vec<_>>());
        let mut pieces = Vec::new();
        for cut in cuts {
            pieces.push(stream.split_to(cut.min(stream.len())));
        }
        pieces.push(stream);
        prop_assert_eq!(read(pieces, 3_000, false), (sent, None));
    }
}

// FR-154
#[test]
fn a_message_that_came_in_one_piece_is_not_copied() {
    let piece = Bytes::from([framed(0, b"first"), framed(0, b"second")].concat());
    let within = piece.as_ptr_range();
    let (messages, _) = read(vec![piece], 100, false);
    assert_eq!(messages, ["first", "second"]);
    assert!(messages.iter().all(|message| within.contains(&message.as_ptr())));
}

#[test]
fn a_message_beyond_the_limit_is_refused_by_its_prefix() {
    assert_eq!(read(vec![framed(0, &[0; 100]).into()], 100, false).1, None);
    let refused = (Vec::new(), Some(Code::ResourceExhausted));
    assert_eq!(read(vec![framed(0, &[0; 101]).into()], 100, false), refused);
    assert_eq!(read(vec![Bytes::from_static(&[0, 0xff, 0xff, 0xff, 0xff])], 100, false), refused);
    let cut = vec![Bytes::from_static(&[0, 0]), Bytes::from_static(&[0, 0, 101])];
    assert_eq!(read(cut, 100, false), refused);
}

#[test]
fn a_stream_that_ends_inside_a_message_is_broken() {
    for length in 1..framed(0, b"message").len() {
        let piece = Bytes::copy_from_slice(&framed(0, b"message")[..length]);
        assert_eq!(read(vec![piece], 100, false), (Vec::new(), Some(Code::Internal)), "{length}");
    }
}

#[test]
fn compressed_messages_are_unpacked_up_to_the_limit_if_they_were_announced() {
    let packed = |length| vec![Bytes::from(framed(1, &gzipped(&vec![b'x'; length])))];
    assert_eq!(read(packed(100), 100, true), (vec![vec![b'x'; 100].into()], None));
    assert_eq!(read(packed(101), 100, true).1, Some(Code::ResourceExhausted));
    assert_eq!(read(packed(100), 100, false).1, Some(Code::Internal));
    assert_eq!(read(vec![framed(1, b"no gzip").into()], 100, true).1, Some(Code::Internal));
}
