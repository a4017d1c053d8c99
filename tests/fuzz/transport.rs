//! What stands below HTTP/2.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use lodesman::server::authority::Authority;
use tokio::io::{AsyncRead, ReadBuf};

use super::Dice;

/// Bytes of a connection: cut anywhere the same comes out, and what was made acceptable stays as it is.
pub(crate) fn authority(data: &[u8]) {
    let mut dice = Dice(data);
    let room = usize::from(dice.byte()) + 1;
    let (first, second) = dice.halves();
    let whole = passed(&[], &[first, second].concat(), 1 << 16);
    assert_eq!(passed(first, second, room), whole, "cuts mean nothing");
    assert_eq!(passed(&[], &whole, room), whole, "once is enough");
}

/// What comes out when `read` was read before, and then there is `room` for so many bytes at a time.
fn passed(read: &[u8], rest: &[u8], room: usize) -> Vec<u8> {
    let mut connection = Authority::new(rest, read);
    let mut context = Context::from_waker(Waker::noop());
    let (mut bytes, mut buffer) = (Vec::new(), vec![0; room]);
    loop {
        let mut buffer = ReadBuf::new(&mut buffer);
        match Pin::new(&mut connection).poll_read(&mut context, &mut buffer) {
            Poll::Ready(Ok(())) if buffer.filled().is_empty() => return bytes,
            Poll::Ready(Ok(())) => bytes.extend_from_slice(buffer.filled()),
            other @ (Poll::Ready(Err(_)) | Poll::Pending) => {
                panic!("a slice can be read: {other:?}")
            }
        }
    }
}
