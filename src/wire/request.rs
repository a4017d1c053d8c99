//! Messages of a gateway, from the form in which they come.

use bytes::Bytes;
use prost::{DecodeError, Message};

use super::field::{Value, field};
use super::processing_request::Request;
use super::{HttpBody, ProcessingRequest};

/// The fields of a `ProcessingRequest` that a piece of a body comes in.
const REQUEST_BODY: u32 = 4;
const RESPONSE_BODY: u32 = 5;

/// The field that gateways put into every message, mostly empty.
const METADATA: u32 = 8;

/// The fields of an `HttpBody`.
const BODY: u32 = 1;
const END_OF_STREAM: u32 = 2;

/// Reads a message; the bytes of bodies are slices of it.
///
/// # Errors
/// When it is no encoding of one.
pub fn decode(message: Bytes) -> Result<ProcessingRequest, DecodeError> {
    // There is one such message for every token, so it goes past the reader of all messages, which takes three times as
    // many instructions.
    match piece(&message) {
        Some(request) => {
            Ok(ProcessingRequest { request: Some(request), ..ProcessingRequest::default() })
        }
        None => ProcessingRequest::decode(message),
    }
}

/// The piece of a body that a message is, if it is nothing more.
fn piece(message: &Bytes) -> Option<Request> {
    let (mut rest, mut found) = (&**message, None);
    while !rest.is_empty() {
        match field(&mut rest)? {
            (REQUEST_BODY, Value::Text(piece)) if found.is_none() => {
                found = Some(Request::RequestBody(body(message, piece)?));
            }
            (RESPONSE_BODY, Value::Text(piece)) if found.is_none() => {
                found = Some(Request::ResponseBody(body(message, piece)?));
            }
            (METADATA, Value::Text([])) => {}
            _ => return None,
        }
    }
    found
}

fn body(message: &Bytes, mut piece: &[u8]) -> Option<HttpBody> {
    let mut body = HttpBody::default();
    while !piece.is_empty() {
        match field(&mut piece)? {
            (BODY, Value::Text(bytes)) => body.body = message.slice_ref(bytes),
            (END_OF_STREAM, Value::Number(end)) => body.end_of_stream = end != 0,
            _ => return None,
        }
    }
    Some(body)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::{HttpHeaders, ProtocolConfiguration};

    fn request() -> impl Strategy<Value = Request> {
        let bytes = || prop::collection::vec(any::<u8>(), 0..200).prop_map(Bytes::from);
        let body = (bytes(), any::<bool>())
            .prop_map(|(body, end_of_stream)| HttpBody { body, end_of_stream });
        let headers = (prop::option::of(bytes()), any::<bool>())
            .prop_map(|(headers, end_of_stream)| HttpHeaders { headers, end_of_stream });
        prop_oneof![
            body.clone().prop_map(Request::RequestBody),
            body.prop_map(Request::ResponseBody),
            headers.prop_map(Request::RequestHeaders),
        ]
    }

    proptest! {
        #[test]
        fn a_message_is_read_as_the_reader_of_all_messages_reads_it(
            request in prop::option::of(request()),
            metadata_context in prop_oneof![Just(Bytes::new()), Just(Bytes::from_static(b"x"))],
            observability_mode: bool,
            request_body_mode in prop::option::of(0..6),
        ) {
            let protocol_config = request_body_mode
                .map(|request_body_mode| ProtocolConfiguration { request_body_mode, response_body_mode: 0 });
            let sent = ProcessingRequest { request, metadata_context, observability_mode, protocol_config };
            let mut encoded = sent.encode_to_vec();
            prop_assert_eq!(&decode(encoded.clone().into()).unwrap(), &sent);
            // as gateways send it: the field is there and empty
            encoded.extend([0x42, 0]);
            prop_assert_eq!(
                decode(encoded.into()).unwrap(),
                ProcessingRequest { metadata_context: Bytes::new(), ..sent },
            );
        }

        #[test]
        fn other_bytes_are_read_or_refused_as_by_the_reader_of_all_messages(
            bytes in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            prop_assert_eq!(decode(bytes.clone().into()).ok(), ProcessingRequest::decode(&*bytes).ok());
        }
    }

    #[test]
    fn a_piece_is_a_slice_of_its_message() {
        let body = HttpBody { body: Bytes::from_static(b"data: x"), end_of_stream: false };
        let request = Some(Request::ResponseBody(body));
        let sent = ProcessingRequest { request, ..ProcessingRequest::default() };
        let message = Bytes::from(sent.encode_to_vec());
        let Some(Request::ResponseBody(read)) = decode(message.clone()).unwrap().request else {
            panic!("another message")
        };
        assert!(message.as_ptr_range().contains(&read.body.as_ptr()));
    }
}
