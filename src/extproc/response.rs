//! The half of an exchange after the decision: the answer, sent on as it comes.

use std::time::Instant;

use bytes::Bytes;

use crate::director::Report;
use crate::extproc::headers::ResponseHeaders;
use crate::extproc::reply::{self, Change, Side};
use crate::extproc::{BodyMode, Exchange, metadata};
use crate::request::{AnswerReader, Api, ModelRestorer, Seen, Usage};
use crate::wire::{HeaderMutation, HttpBody, HttpHeaders, Metadata};

/// The header of an answer that tells the conformance suite of the Gateway API who served.
const SERVED_REPORT: &str = "x-conformance-test-served-endpoint";

/// How far the answer is, and what reads it.
#[derive(Debug, Default)]
pub(in crate::extproc) struct Answer {
    phase: Phase,
    api: Option<Api>,
    /// The client's name for the model, and the one that the server knows.
    renamed: Option<Box<(String, String)>>,
    reader: Option<Box<AnswerReader>>,
    restorer: Option<Box<ModelRestorer>>,
    content_length: bool,
    status: u16,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Headers,
    Body,
    /// The body has ended; trailers may follow.
    Trailers,
    Done,
}

impl Answer {
    /// What the answer will be to.
    pub(in crate::extproc) fn expect(&mut self, api: Option<Api>, renamed: Option<(&str, &str)>) {
        self.api = api;
        self.renamed =
            renamed.map(|(client, server)| Box::new((client.to_owned(), server.to_owned())));
    }

    /// The client's name for the model, where the server knows it by another.
    pub(in crate::extproc) fn client_model(&self) -> Option<&str> {
        self.renamed.as_deref().map(|(client, _)| client.as_str())
    }

    /// Whether its headers have come.
    pub(in crate::extproc) fn began(&self) -> bool {
        self.phase != Phase::Headers
    }

    /// What the answer says of its tokens, as far as it was read.
    pub(in crate::extproc) fn usage(&self) -> Option<Usage> {
        Some(self.whole(self.reader.as_ref()?.usage()?))
    }

    /// Usage whose prompt is the whole of it: Anthropic's API counts what was cached apart.
    fn whole(&self, usage: Usage) -> Usage {
        let apart = usage.cached.filter(|_| self.api == Some(Api::Messages)).unwrap_or(0);
        Usage { prompt: usage.prompt.saturating_add(apart), ..usage }
    }

    /// Sets up what reads the body.
    fn read(&mut self, headers: &ResponseHeaders) {
        let content_type = headers.content_type.clone().unwrap_or_default();
        if headers.encoded {
            return;
        }
        let api = self.api.unwrap_or(Api::Passthrough);
        self.reader = Some(Box::new(AnswerReader::new(api, &content_type)));
        let restorer = |names: &(String, String)| {
            Box::new(ModelRestorer::new(&names.1, &names.0, &content_type))
        };
        self.restorer = self.renamed.as_deref().map(restorer);
        self.content_length = headers.content_length;
    }
}

impl Exchange {
    pub(in crate::extproc) fn response_headers(
        &mut self,
        message: HttpHeaders,
        metadata: Option<&Metadata>,
        now: Instant,
    ) {
        if self.answer.began() {
            return self.anomaly("duplicate_response_headers");
        }
        if message.headers.is_none() {
            self.anomaly("no_header_map");
        }
        self.observe_late();
        let headers =
            ResponseHeaders::read(&message.headers.unwrap_or_default(), self.settings.header_limit);
        self.answer.status = headers.status;
        self.answer.read(&headers);
        let streaming = self.answer.reader.as_ref().is_some_and(|reader| reader.streaming());
        self.account.answered(headers.status, streaming, now);
        self.answer.phase = Phase::Body;
        let mut change = self.unmeasured();
        if self.settings.report_served {
            let report = reply::set(SERVED_REPORT, metadata::served_report(metadata));
            change.headers.get_or_insert_default().set_headers.push(report);
        }
        if let Some(report) = self.decision_report() {
            change.headers.get_or_insert_default().set_headers.push(report);
        }
        if let Some(endpoint) = self.account.endpoint() {
            self.director.answer_headers(endpoint, |name, value| {
                change
                    .headers
                    .get_or_insert_default()
                    .set_headers
                    .push(reply::set(name.to_owned(), value));
            });
        }
        self.push(reply::headers(Side::Response, change));
        if message.end_of_stream {
            self.complete(now);
        } else if self.modes().response == BodyMode::None {
            self.sum_up();
        }
    }

    pub(in crate::extproc) fn response_body(&mut self, message: HttpBody, now: Instant) {
        let HttpBody { body, end_of_stream } = message;
        match self.answer.phase {
            Phase::Body => {}
            Phase::Headers => self.answer.phase = Phase::Body,
            Phase::Trailers | Phase::Done => return self.anomaly("response_body_after_eos"),
        }
        let seen = match &mut self.answer.reader {
            Some(reader) => reader.feed(&body),
            None => Seen::default(),
        };
        self.account.passed(body.len(), seen, now);
        self.send_answer(body, end_of_stream);
        if end_of_stream {
            self.complete(now);
        }
    }

    pub(in crate::extproc) fn response_trailers(&mut self, now: Instant) {
        if self.answer.phase == Phase::Done {
            return self.anomaly("duplicate_response_trailers");
        }
        if self.answer.phase == Phase::Body && self.modes().response == BodyMode::FullDuplex {
            self.flush();
        }
        self.push(reply::trailers(Side::Response));
        self.complete(now);
        self.answer.phase = Phase::Done;
    }

    /// The answer has ended with the message that was answered last.
    fn complete(&mut self, now: Instant) {
        self.answer.phase = Phase::Trailers;
        if let Some(tracked) = &mut self.tracked {
            tracked.completed = Some(now);
        }
        let usage = self.answer.reader.as_ref().and_then(|reader| reader.usage());
        let answered = self.account.completed(usage, now);
        if let (Some((endpoint, model)), Some(usage)) = (answered, usage) {
            let usage = self.answer.whole(usage);
            let (chain, prediction) = (&self.chain, self.prediction);
            self.director.reported(Report { endpoint, chain, model, prediction, usage });
        }
        self.sum_up();
    }

    /// An answer whose model is renamed gets another length, which its headers must not belie. In buffered mode the
    /// new length goes with the body.
    fn unmeasured(&self) -> Change {
        let streams = matches!(self.modes().response, BodyMode::FullDuplex | BodyMode::Streamed);
        if self.answer.restorer.is_none() || !self.answer.content_length || !streams {
            return Change::default();
        }
        let remove_headers = vec!["content-length".to_owned()];
        Change {
            headers: Some(HeaderMutation { set_headers: Vec::new(), remove_headers }),
            ..Change::default()
        }
    }

    fn send_answer(&mut self, body: Bytes, end_of_stream: bool) {
        match self.modes().response {
            BodyMode::FullDuplex => self.send_answer_pieces(body, end_of_stream),
            BodyMode::None => self.anomaly("body_in_mode_none"),
            BodyMode::Streamed | BodyMode::Buffered | BodyMode::BufferedPartial => {
                let change = self.replaced(body, end_of_stream);
                self.push(reply::body(Side::Response, change));
            }
        }
    }

    fn send_answer_pieces(&mut self, body: Bytes, end_of_stream: bool) {
        let Some(restorer) = &mut self.answer.restorer else {
            return self.send_piece(Side::Response, body, end_of_stream);
        };
        let mut pieces = Vec::new();
        restorer.push(body, end_of_stream, &mut pieces);
        self.send(Side::Response, pieces, end_of_stream);
    }

    /// The one reply to a piece of an answer: the piece as it is, or with the client's model name.
    fn replaced(&mut self, body: Bytes, end_of_stream: bool) -> Change {
        let mode = self.modes().response;
        let held = mode.holds_headers();
        if mode == BodyMode::BufferedPartial && !end_of_stream {
            return Change::default();
        }
        let Some(restorer) = &mut self.answer.restorer else { return Change::default() };
        let mut pieces = Vec::new();
        restorer.push(body, end_of_stream || held, &mut pieces);
        let body = Bytes::from(pieces.concat());
        let length = (held && self.answer.content_length).then(|| HeaderMutation {
            set_headers: vec![reply::set("content-length", body.len().to_string())],
            remove_headers: Vec::new(),
        });
        Change { body: Some(body), headers: length, ..Change::default() }
    }

    /// Sends what the restorer still holds, before trailers.
    fn flush(&mut self) {
        let mut pieces = Vec::new();
        if let Some(restorer) = &mut self.answer.restorer {
            restorer.push(Bytes::new(), true, &mut pieces);
        }
        self.send(Side::Response, pieces, false);
    }
}
