//! Asks a model about a file: within the request, or through the provider's files API, where the file is removed again
//! whatever comes of the request.
//!
//! Requests and replies are [`crate::llm::files`]'s; which way a file takes is [`crate::llm::route`]'s. It prints
//! nothing.

use std::time::Duration;

use super::ask::{AskError, Source, converse, fetch};
use super::patient::patiently;
use crate::llm::attachment::{Attachment, Payload, Remote};
use crate::llm::files::{self, State};
use crate::llm::retry::Retry;
use crate::llm::route::Route;
use crate::llm::{ApiError, Ask, ErrorKind, HttpRequest, Reply};
use crate::sys::clock;
use crate::sys::http::{Client, Part, Prepared, Progress};
use crate::sys::interrupt::Interrupts;

/// How long a provider may take to make a file ready, not counting its answers.
const PROCESSING: Duration = Duration::from_mins(2);
/// The first wait for it; each is twice the one before, up to the longest.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// How long removing a file may be tried again.
const REMOVAL: Duration = Duration::from_secs(5);
/// How long each step of removing a file may take once a signal has come.
const LAST_REMOVAL: Duration = Duration::from_millis(800);

/// What all steps of one run share.
struct Run<'a> {
    source: &'a mut Source,
    retry: Retry,
    interrupts: &'a Interrupts,
    tell: &'a mut dyn FnMut(&str),
    model: String,
}

/// Asks about a file whose bytes are in `file`, patiently: all waits together last `patience`. `route` is what
/// [`super::ask::Model::route`] said; text is no attachment and is asked about with [`super::patient::ask`].
///
/// # Errors
/// As [`super::patient::ask`]. That a file could not be removed is no error: a line says so and names its id.
pub fn ask_about(
    source: &mut Source,
    ask: &Ask<'_>,
    file: &Attachment<'_>,
    route: Route,
    patience: Duration,
    interrupts: &Interrupts,
    tell: &mut dyn FnMut(&str),
) -> Result<Reply, AskError> {
    let retry = Retry::new(patience);
    let mut run = Run { source, retry, interrupts, tell, model: ask.model.to_owned() };
    if route != Route::Files {
        return run.ask(ask, file);
    }
    let (remote, state) = run.upload(file)?;
    let reply = run
        .until_ready(&remote, state)
        .and_then(|()| run.ask(ask, &Attachment { payload: Payload::Remote(&remote), ..*file }));
    run.remove(&remote);
    reply
}

impl Run<'_> {
    fn ask(&mut self, ask: &Ask<'_>, file: &Attachment<'_>) -> Result<Reply, AskError> {
        let (client, endpoint) = self.source.model.server().ok_or_else(no_server)?;
        let prepared = client.prepare(endpoint.ask_about(ask, file))?;
        let mut reply = self.patiently(|source, interrupts| {
            let (client, endpoint) = source.model.server().ok_or_else(no_server)?;
            converse(client, endpoint, &prepared, &mut |_| (), interrupts)
        })?;
        reply.assume_input(ask);
        Ok(reply)
    }

    fn upload(&mut self, file: &Attachment<'_>) -> Result<(Remote, State), AskError> {
        let Payload::Bytes(bytes) = file.payload else { return Err(no_server().into()) };
        let mut boundary = uuid::Uuid::new_v4().simple().to_string();
        while !files::is_free(&boundary, bytes) {
            boundary = uuid::Uuid::new_v4().simple().to_string();
        }
        let (client, endpoint) = self.source.model.server().ok_or_else(no_server)?;
        let in_two = endpoint.uploads_in_two();
        let first = client.prepare(endpoint.upload(file, &boundary))?;
        // The two requests are tried again together: an address is good for one upload.
        let result = self.patiently(|source, interrupts| {
            let (client, endpoint) = source.model.server().ok_or_else(no_server)?;
            let (head, mut body) = fetch(client, endpoint, &first, interrupts)?;
            if in_two {
                let address = endpoint.upload_address(&head.headers)?;
                let second = client.prepare(endpoint.upload_bytes(address, bytes))?;
                body = fetch(client, endpoint, &second, interrupts)?.1;
            }
            Ok(endpoint.uploaded(&body)?)
        });
        if let Err(AskError::Interrupted(_)) = result {
            let lifetime = self.lifetime();
            (self.tell)(&format!(
                "note: the upload was broken off; if the provider has the whole file {} all the same, {}",
                file.name, lifetime
            ));
        }
        result
    }

    /// Waits until the provider has made the file ready.
    fn until_ready(&mut self, remote: &Remote, state: State) -> Result<(), AskError> {
        let (mut state, mut wait, mut waited) = (state, FIRST_WAIT, Duration::ZERO);
        loop {
            let failure = match state {
                State::Ready => return Ok(()),
                State::Failed(reason) => {
                    format!("the provider could not read the file {}: {reason}", remote.id)
                }
                State::Processing if waited >= PROCESSING => format!(
                    "the provider was still processing the file {} after {} s; try again later",
                    remote.id,
                    PROCESSING.as_secs()
                ),
                State::Processing => {
                    if let Some(signal) = clock::sleep_interruptible(wait, self.interrupts) {
                        return Err(AskError::Interrupted(signal));
                    }
                    waited = waited.saturating_add(wait);
                    wait = wait.saturating_mul(2).min(LONGEST_WAIT);
                    let request = self.request(|endpoint| endpoint.file_state(remote))?;
                    state = self.patiently(|source, interrupts| {
                        let (client, endpoint) = source.model.server().ok_or_else(no_server)?;
                        let (_, body) = fetch(client, endpoint, &request, interrupts)?;
                        Ok(endpoint.uploaded(&body)?.1)
                    })?;
                    continue;
                }
            };
            return Err(ApiError::new(ErrorKind::Other, &failure).into());
        }
    }

    /// Removes the file, and says so where that fails. After a signal it takes about a second.
    fn remove(&mut self, remote: &Remote) {
        let mut result = Err(None);
        if self.interrupts.pending().is_none() {
            result = self.remove_patiently(remote).map_err(Some);
        }
        // Before it, or while it was tried.
        if self.interrupts.pending().is_some() && result.is_err() {
            result = self.remove_at_once(remote).map_err(Some);
        }
        if let Err(error) = result {
            let why = match error {
                Some(AskError::Api(error)) => error.message,
                Some(AskError::Interrupted(signal)) => format!("interrupted by {}", signal.name()),
                None => "there was no time".to_owned(),
            };
            let lifetime = self.lifetime();
            (self.tell)(&format!(
                "note: the uploaded file {} could not be removed from the provider: {why}; {}",
                remote.id, lifetime
            ));
        }
    }

    fn remove_patiently(&mut self, remote: &Remote) -> Result<(), AskError> {
        let request = self.request(|endpoint| endpoint.remove(remote))?;
        let Self { source, interrupts, .. } = self;
        patiently(&mut Retry::new(REMOVAL), interrupts, &mut |_| (), |_| {
            let (client, endpoint) = source.model.server().ok_or_else(no_server)?;
            gone(fetch(client, endpoint, &request, interrupts).map(drop))
        })
    }

    /// With a client of its own, which waits for nothing long, and which the signal that has come does not stop.
    fn remove_at_once(&mut self, remote: &Remote) -> Result<(), AskError> {
        let deaf = Interrupts::deaf().map_err(|error| {
            ApiError::new(ErrorKind::Other, &format!("no descriptors left: {error}"))
        })?;
        let mut client = Client::new(LAST_REMOVAL, LAST_REMOVAL);
        let (_, endpoint) = self.source.model.server().ok_or_else(no_server)?;
        let prepared = client.prepare(endpoint.remove(remote))?;
        let head = client.send(&prepared, &deaf, &mut |part| match part {
            Part::Head(_) => Ok(Progress::Complete),
            Part::Body(_) => Ok(Progress::More),
        })?;
        if (200..300).contains(&head.status) {
            return Ok(());
        }
        gone(Err(endpoint.failure(head.status, &head.headers, b"").into()))
    }

    fn request(
        &mut self,
        make: impl FnOnce(&crate::llm::wire::Endpoint) -> HttpRequest,
    ) -> Result<Prepared, AskError> {
        let (client, endpoint) = self.source.model.server().ok_or_else(no_server)?;
        Ok(client.prepare(make(endpoint))?)
    }

    /// Makes attempts while the patience of the whole run lasts.
    fn patiently<T>(
        &mut self,
        mut attempt: impl FnMut(&mut Source, &Interrupts) -> Result<T, AskError>,
    ) -> Result<T, AskError> {
        let Self { source, retry, interrupts, tell, model } = self;
        patiently(retry, interrupts, tell, |tell| {
            let result = attempt(source, interrupts);
            source.tell_notes(tell);
            result.map_err(|error| source.with_cause(error, model))
        })
    }

    fn lifetime(&mut self) -> &'static str {
        self.source.model.server().map_or("", |(_, endpoint)| endpoint.lifetime())
    }
}

/// A file that is not there is removed.
fn gone(result: Result<(), AskError>) -> Result<(), AskError> {
    match result {
        Err(AskError::Api(error)) if error.status == Some(404) => Ok(()),
        other => other,
    }
}

fn no_server() -> ApiError {
    ApiError::new(ErrorKind::Other, "files can be sent to servers only, and this provider is none")
}
