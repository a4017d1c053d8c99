//! One exchange: what Envoy sends, and what it demands in return.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use envoy_types::pb::envoy::service::ext_proc::v3::body_mutation::Mutation;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response;
use envoy_types::pb::envoy::service::ext_proc::v3::{
    BodyResponse, HeadersResponse, ProcessingRequest, StreamedBodyResponse,
};

use super::Options;
use super::message::{Side, body, event, request_headers, response_headers};
use super::stream::{Connection, Receiver, Sender, Stream};
use crate::wait::now;

/// The header that must name the chosen endpoint.
const DESTINATION: &str = "x-gateway-destination-endpoint";

/// What every exchange of a run does.
#[derive(Debug)]
pub(super) struct Plan {
    bodies: Vec<Vec<u8>>,
    chunk_bytes: usize,
    events: Vec<String>,
    gap: Duration,
    aborts: f64,
    seed: u64,
}

/// Why an exchange did not end as a served request.
#[derive(Debug)]
pub(super) enum End {
    /// The server refused the request with this status.
    Rejected(u32),
    /// We reset the stream on purpose.
    Aborted,
    /// The server broke the protocol or went away.
    Failed(anyhow::Error),
}

impl From<anyhow::Error> for End {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

impl Plan {
    pub(super) fn new(options: &Options, bodies: Vec<Vec<u8>>) -> Self {
        Self {
            bodies,
            chunk_bytes: options.chunk_bytes.max(1),
            events: (0..options.events).map(|number| event(number, options.events)).collect(),
            gap: Duration::from_millis(options.gap_ms),
            aborts: options.aborts,
            seed: options.seed,
        }
    }

    /// Plays request `number` to its end; the time from the last body byte to the header reply.
    pub(super) async fn run(
        &self,
        connection: &Connection,
        number: usize,
    ) -> Result<Duration, End> {
        let mut fuse = self.fuse(number);
        let mut stream = connection.stream().await?;
        let decided = self.request(&mut stream, number, &mut fuse).await?;
        if !self.events.is_empty() {
            self.response(&mut stream, &mut fuse).await?;
        }
        Ok(decided)
    }

    /// Opens a stream and plays its request, never aborting it.
    pub(super) async fn open(&self, connection: &Connection, number: usize) -> Result<Stream> {
        let mut stream = connection.stream().await?;
        let opened = self.request(&mut stream, number, &mut Fuse { left: None }).await;
        match opened {
            Ok(_) => Ok(stream),
            Err(End::Failed(error)) => Err(error),
            Err(other) => Err(anyhow!("{other:?}")),
        }
    }

    async fn request(
        &self,
        stream: &mut Stream,
        number: usize,
        fuse: &mut Fuse,
    ) -> Result<Duration, End> {
        let payload = self.bodies.get(number % self.bodies.len()).map_or(&[][..], Vec::as_slice);
        let Stream { send, receive } = stream;
        let sending = async {
            fuse.send(send, &request_headers(number, payload.len())).await?;
            let mut last = now();
            for chunk in payload.chunks(self.chunk_bytes) {
                fuse.send(send, &body(Side::Request, chunk, false)).await?;
                last = now();
            }
            if !payload.is_empty() {
                fuse.send(send, &body(Side::Request, &[], true)).await?;
            }
            Ok::<_, End>(last)
        };
        let receiving = async {
            let replied = destination(receive).await?;
            if !payload.is_empty() {
                echoed(receive, Side::Request, payload).await?;
            }
            Ok::<_, End>(replied)
        };
        let (last, replied) = tokio::try_join!(sending, receiving)?;
        Ok(replied.saturating_duration_since(last))
    }

    async fn response(&self, stream: &mut Stream, fuse: &mut Fuse) -> Result<(), End> {
        let Stream { send, receive } = stream;
        let sending = async {
            fuse.send(send, &response_headers()).await?;
            for (number, event) in self.events.iter().enumerate() {
                tokio::time::sleep(self.gap).await;
                let last = number + 1 == self.events.len();
                fuse.send(send, &body(Side::Response, event.as_bytes(), last)).await?;
            }
            Ok::<_, End>(())
        };
        let receiving = async {
            let reply = reply(receive).await?;
            let Response::ResponseHeaders(_) = reply else {
                return Err(unexpected("response headers", &reply));
            };
            echoed(receive, Side::Response, self.events.concat().as_bytes()).await
        };
        tokio::try_join!(sending, receiving)?;
        Ok(())
    }

    /// How many messages request `number` sends before it is aborted.
    fn fuse(&self, number: usize) -> Fuse {
        let mut random = fastrand::Rng::with_seed(self.seed ^ ((number as u64) << 20));
        let chunks = self.bodies.first().map_or(0, |body| body.len().div_ceil(self.chunk_bytes));
        let messages = chunks + self.events.len() + 2;
        Fuse { left: (random.f64() < self.aborts).then(|| random.usize(0..=messages)) }
    }
}

/// Ends an exchange after a number of messages, if there is one.
#[derive(Debug)]
struct Fuse {
    left: Option<usize>,
}

impl Fuse {
    async fn send(&mut self, sender: &mut Sender, message: &ProcessingRequest) -> Result<(), End> {
        match &mut self.left {
            Some(0) => return Err(End::Aborted),
            Some(left) => *left -= 1,
            None => {}
        }
        if sender.send(message).await.is_err() {
            // The server has ended the stream: why, only the receiving half can tell, and it will.
            std::future::pending::<()>().await;
        }
        Ok(())
    }
}

/// Waits for the reply to the request headers, which must name an endpoint.
async fn destination(receive: &mut Receiver) -> Result<Instant, End> {
    let reply = reply(receive).await?;
    let replied = now();
    let Response::RequestHeaders(headers) = reply else {
        return Err(unexpected("request headers", &reply));
    };
    if chosen(&headers) {
        return Ok(replied);
    }
    Err(anyhow!("the header reply names no endpoint").into())
}

fn chosen(reply: &HeadersResponse) -> bool {
    let mutation = reply.response.as_ref().and_then(|common| common.header_mutation.as_ref());
    let headers = mutation.into_iter().flat_map(|mutation| &mutation.set_headers);
    headers.filter_map(|option| option.header.as_ref()).any(|header| header.key == DESTINATION)
}

/// Reads body replies up to the end of the stream and compares every byte.
async fn echoed(receive: &mut Receiver, side: Side, sent: &[u8]) -> Result<(), End> {
    let mut rest = sent;
    loop {
        let piece = match (side, reply(receive).await?) {
            (Side::Request, Response::RequestBody(body))
            | (Side::Response, Response::ResponseBody(body)) => streamed(body)?,
            (_, other) => return Err(unexpected("a piece of the body", &other)),
        };
        rest = rest.strip_prefix(piece.body.as_slice()).context("echoed bytes differ")?;
        if piece.end_of_stream {
            return match rest.len() {
                0 => Ok(()),
                left => Err(anyhow!("{left} bytes were not echoed").into()),
            };
        }
    }
}

fn streamed(reply: BodyResponse) -> Result<StreamedBodyResponse> {
    let mutation = reply.response.and_then(|common| common.body_mutation);
    match mutation.and_then(|mutation| mutation.mutation) {
        Some(Mutation::StreamedResponse(piece)) => Ok(piece),
        _ => Err(anyhow!("a body reply that is not streamed")),
    }
}

async fn reply(receive: &mut Receiver) -> Result<Response> {
    receive.message().await?.response.context("an empty reply")
}

/// The end that a reply means which stands where another was due.
fn unexpected(due: &str, reply: &Response) -> End {
    if let Response::ImmediateResponse(answer) = reply {
        let code = answer.status.as_ref().map_or(200, |status| status.code);
        return End::Rejected(code.unsigned_abs());
    }
    End::Failed(anyhow!("{} where the reply for {due} was due", kind(reply)))
}

fn kind(reply: &Response) -> &'static str {
    match reply {
        Response::RequestHeaders(_) => "a reply for request headers",
        Response::ResponseHeaders(_) => "a reply for response headers",
        Response::RequestBody(_) => "a reply for a request body",
        Response::ResponseBody(_) => "a reply for a response body",
        Response::RequestTrailers(_) => "a reply for request trailers",
        Response::ResponseTrailers(_) => "a reply for response trailers",
        Response::ImmediateResponse(_) => "an immediate response",
        Response::StreamedImmediateResponse(_) => "a streamed immediate response",
    }
}
