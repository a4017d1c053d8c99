//! One exchange: what Envoy sends, and what it demands in return.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use bytes::Bytes;
use envoy_types::pb::envoy::service::ext_proc::v3::HeadersResponse;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response;

use super::Options;
use super::message::Side;
use super::plan::Script;
use super::reply::{Reply, read};
use super::stream::{Connection, Receiver, Sender, Stream};
use crate::wait::now;

/// The header that must name the chosen endpoint.
const DESTINATION: &str = "x-gateway-destination-endpoint";

/// So many of the first requests have each of their replies read by the published messages too.
const THOROUGH: usize = 32;

/// What every exchange of a run does.
#[derive(Debug)]
pub(super) struct Plan {
    script: Script,
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
    pub(super) fn new(options: &Options) -> Result<Self> {
        Ok(Self {
            script: Script::new(options)?,
            gap: Duration::from_millis(options.gap_ms),
            aborts: options.aborts,
            seed: options.seed,
        })
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
        self.response(&mut stream, number, &mut fuse).await?;
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
        let prompt = self.script.prompt(number).context("no prompt")?;
        let Stream { send, receive } = stream;
        let sending = async {
            fuse.send(send, prompt.head(number)).await?;
            let mut last = now();
            let pieces = prompt.pieces.split_last();
            for piece in pieces.iter().flat_map(|(_, pieces)| *pieces) {
                fuse.send(send, piece.clone()).await?;
                last = now();
            }
            if let Some((end, _)) = pieces {
                fuse.send(send, end.clone()).await?;
            }
            Ok::<_, End>(last)
        };
        let receiving = async {
            let mut replies = Replies { receive, thorough: number < THOROUGH };
            let decided = replies.destination().await?;
            if !prompt.body.is_empty() {
                replies.echoed(Side::Request, &prompt.body).await?;
            }
            Ok::<_, End>(decided)
        };
        let (last, decided) = tokio::try_join!(sending, receiving)?;
        Ok(decided.saturating_duration_since(last))
    }

    async fn response(
        &self,
        stream: &mut Stream,
        number: usize,
        fuse: &mut Fuse,
    ) -> Result<(), End> {
        let Some(response) = self.script.response() else { return Ok(()) };
        let Stream { send, receive } = stream;
        let sending = async {
            for (at, frame) in response.frames.iter().enumerate() {
                self.pause(at).await;
                fuse.send(send, frame.clone()).await?;
            }
            Ok::<_, End>(())
        };
        let receiving = async {
            let mut replies = Replies { receive, thorough: number < THOROUGH };
            replies.response_headers().await?;
            replies.echoed(Side::Response, &response.body).await
        };
        tokio::try_join!(sending, receiving)?;
        Ok(())
    }

    /// Waits before message `at` of a response, unless it is the first or a burst.
    async fn pause(&self, at: usize) {
        if at > 0 && !self.gap.is_zero() {
            tokio::time::sleep(self.gap).await;
        }
    }

    /// How many messages request `number` sends before it is aborted.
    fn fuse(&self, number: usize) -> Fuse {
        let mut random = fastrand::Rng::with_seed(self.seed ^ ((number as u64) << 20));
        let messages = self.script.messages();
        Fuse { left: (random.f64() < self.aborts).then(|| random.usize(0..=messages)) }
    }
}

/// Ends an exchange after a number of messages, if there is one.
#[derive(Debug)]
struct Fuse {
    left: Option<usize>,
}

impl Fuse {
    async fn send(&mut self, sender: &mut Sender, frame: Bytes) -> Result<(), End> {
        match &mut self.left {
            Some(0) => return Err(End::Aborted),
            Some(left) => *left -= 1,
            None => {}
        }
        if sender.send(frame).await.is_err() {
            // The server has ended the stream: why, only the receiving half can tell, and it will.
            std::future::pending::<()>().await;
        }
        Ok(())
    }
}

/// What the server sends on a stream.
struct Replies<'a> {
    receive: &'a mut Receiver,
    thorough: bool,
}

impl Replies<'_> {
    /// When the reply to the request headers came, which must name an endpoint.
    async fn destination(&mut self) -> Result<Instant, End> {
        let message = self.receive.message().await?;
        let came = now();
        let reply = other(read(message, self.thorough)?)?;
        let Response::RequestHeaders(headers) = reply else {
            return Err(unexpected("request headers", &reply));
        };
        if chosen(&headers) {
            return Ok(came);
        }
        Err(anyhow!("the header reply names no endpoint").into())
    }

    async fn response_headers(&mut self) -> Result<(), End> {
        let reply = other(read(self.receive.message().await?, self.thorough)?)?;
        let Response::ResponseHeaders(_) = reply else {
            return Err(unexpected("response headers", &reply));
        };
        Ok(())
    }

    /// Reads pieces up to the end of the body and compares every byte.
    async fn echoed(&mut self, side: Side, sent: &[u8]) -> Result<(), End> {
        let mut rest = sent;
        loop {
            let piece = match read(self.receive.message().await?, self.thorough)? {
                Reply::Piece(piece) if piece.side == side => piece,
                Reply::Piece(_) => return Err(anyhow!("a piece of the other body").into()),
                Reply::Other(other) => return Err(unexpected("a piece of the body", &other)),
            };
            rest = rest.strip_prefix(&*piece.bytes).context("echoed bytes differ")?;
            if piece.end {
                return match rest.len() {
                    0 => Ok(()),
                    left => Err(anyhow!("{left} bytes were not echoed").into()),
                };
            }
        }
    }
}

/// The reply where a piece of a body would be too early.
fn other(reply: Reply<'_>) -> Result<Response> {
    match reply {
        Reply::Other(reply) => Ok(*reply),
        Reply::Piece(_) => Err(anyhow!("a piece of a body before the reply to its headers")),
    }
}

fn chosen(reply: &HeadersResponse) -> bool {
    let mutation = reply.response.as_ref().and_then(|common| common.header_mutation.as_ref());
    let headers = mutation.into_iter().flat_map(|mutation| &mutation.set_headers);
    headers.filter_map(|option| option.header.as_ref()).any(|header| header.key == DESTINATION)
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
