//! A server as backend: requests over HTTP.

use std::ops::ControlFlow;

use conversation::limits::{self, MODEL_PAGES};
use conversation::model::{ApiError, ErrorKind, HttpRequest, RefusedPart, Reply};
use models::api::{Endpoint, ModelInfo};
use models::decode::Decoder;
use models::{Arrival, ChatRequest};
use sys::http::{HttpClient, RequestError, ResponsePart};
use sys::interrupt::Interrupts;
use sys::key_command::KeyCommand;

/// A server of a model, and the connection to it.
pub struct Server {
    pub(super) endpoint: Endpoint,
    pub(super) client: Box<HttpClient>,
    key_command: Option<KeyCommand>,
    /// The parts of requests that the server refused: they are left out from then on.
    refused: Vec<RefusedPart>,
}

impl Server {
    /// `key_command` prints the credential, when it is first needed and when it has expired.
    pub fn new(endpoint: Endpoint, client: HttpClient, key_command: Option<KeyCommand>) -> Self {
        Self { endpoint, client: Box::new(client), key_command, refused: Vec::new() }
    }

    /// Gets the credential from its command; `again`: the current one was refused. Returns whether there is a new one.
    fn renew_key(&mut self, again: bool, interrupts: &Interrupts) -> Result<bool, RequestError> {
        let Some(command) = &self.key_command else { return Ok(false) };
        if self.endpoint.key.is_some() && !again {
            return Ok(false);
        }
        let key = Some(command.fetch_key(interrupts)?);
        let is_new = key != self.endpoint.key;
        self.endpoint.key = key;
        Ok(is_new)
    }

    /// Makes an attempt with a credential; a token that is refused is renewed, and the attempt repeated, once.
    pub(super) fn with_key<T>(
        &mut self,
        interrupts: &Interrupts,
        mut attempt: impl FnMut(&mut Self) -> Result<T, RequestError>,
    ) -> Result<T, RequestError> {
        self.renew_key(false, interrupts)?;
        match attempt(self) {
            Err(RequestError::Api(error))
                if error.kind == ErrorKind::Auth && self.renew_key(true, interrupts)? =>
            {
                attempt(self)
            }
            result => result,
        }
    }

    /// Asks the model; again without a part of the request that the server refuses, if it can be left out.
    pub(super) fn request_reply(
        &mut self,
        ask: &ChatRequest<'_>,
        on_arrival: &mut dyn FnMut(Arrival<'_>),
        interrupts: &Interrupts,
    ) -> Result<Reply, RequestError> {
        let mut options = ask.options.clone();
        for part in &self.refused {
            options.leave_out(*part);
        }
        loop {
            let ask = ChatRequest { options: &options, ..ask.clone() };
            let result =
                self.with_key(interrupts, |server| server.ask_once(&ask, on_arrival, interrupts));
            match result {
                Err(RequestError::Api(ApiError { refused: Some(part), .. }))
                    if options.leave_out(part) =>
                {
                    self.refused.push(part);
                }
                result => return result,
            }
        }
    }

    fn ask_once(
        &mut self,
        ask: &ChatRequest<'_>,
        on_arrival: &mut dyn FnMut(Arrival<'_>),
        interrupts: &Interrupts,
    ) -> Result<Reply, RequestError> {
        let Self { endpoint, client, .. } = self;
        let mut decoder: Option<Decoder> = None;
        client.send(endpoint.chat_request(ask), interrupts, &mut |part| {
            match (part, &mut decoder) {
                (ResponsePart::Head(head), _) => {
                    decoder = Some(endpoint.decoder(head.status, &head.headers));
                }
                (ResponsePart::Body(bytes), Some(decoder)) => {
                    let pushed =
                        decoder.push_bytes(bytes, &mut |text| on_arrival(Arrival::Text(text)));
                    let thoughts = decoder.take_thoughts();
                    if !thoughts.is_empty() {
                        on_arrival(Arrival::Thought(&thoughts));
                    }
                    pushed?;
                    if decoder.is_done() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                (ResponsePart::Body(_), None) => {}
            }
            Ok(ControlFlow::Continue(()))
        })?;
        let decoder = decoder.ok_or_else(|| {
            ApiError::new(ErrorKind::Broken, "the connection ended before the reply began")
        })?;
        Ok(decoder.finish()?)
    }

    /// Sends a request that is not to the model. Returns the body of a 2xx response; any other is an error.
    pub(super) fn fetch(
        &mut self,
        request: HttpRequest,
        interrupts: &Interrupts,
    ) -> Result<Vec<u8>, RequestError> {
        let mut body = Vec::new();
        let head = self.client.send(request, interrupts, &mut |part| {
            if let ResponsePart::Body(bytes) = part {
                if body.len() + bytes.len() > limits::FETCHED_REPLY {
                    let message = "the server's response is too long";
                    return Err(ApiError::new(ErrorKind::Other, message));
                }
                body.extend_from_slice(bytes);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        if (200..300).contains(&head.status) {
            Ok(body)
        } else {
            Err(self.endpoint.failure(head.status, &head.headers, &body).into())
        }
    }

    pub(super) fn list_models(
        &mut self,
        interrupts: &Interrupts,
    ) -> Result<Vec<ModelInfo>, RequestError> {
        if let Some(request) = self.endpoint.own_models_request() {
            let fetched =
                self.with_key(interrupts, |server| server.fetch(request.clone(), interrupts));
            // A server of an earlier version does not have it.
            if let Ok(body) = fetched {
                return Ok(self.endpoint.read_models(&body)?.models);
            }
        }
        let mut models = Vec::new();
        let mut next: Option<String> = None;
        for _ in 0..limits::MODEL_PAGES {
            let body = self.with_key(interrupts, |server| {
                server.fetch(server.endpoint.models_request(next.as_deref()), interrupts)
            })?;
            let page = self.endpoint.read_models(&body)?;
            models.extend(page.models);
            next = page.next;
            if next.is_none() {
                return Ok(models);
            }
        }
        let message = format!("the server's list of models has more than {MODEL_PAGES} pages");
        Err(ApiError::new(ErrorKind::Other, &message).into())
    }
}
