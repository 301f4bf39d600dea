//! Asks a model about a file through the provider's files API, and removes the file there afterwards, whatever happens.

use std::ops::ControlFlow;
use std::time::Duration;

use super::retry::with_retries;
use super::server::Server;
use super::{ModelClient, RequestError};
use conversation::model::{ApiError, ErrorKind, Reply, Retry};
use models::ChatRequest;
use models::attachment::{Attachment, Payload, RemoteFile};
use models::files::UploadState;
use sys::http::HttpClient;
use sys::interrupt::Interrupts;

/// Maximum time for a provider to process a file, without the time of its answers.
const PROCESSING: Duration = Duration::from_mins(2);
/// The first wait for it; each wait is twice the one before, up to the longest.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// Maximum time for retrying the removal of a file.
const REMOVAL: Duration = Duration::from_secs(5);
/// Maximum time for each step of the removal once a signal has come.
const LAST_REMOVAL: Duration = Duration::from_millis(800);

struct Upload<'a> {
    client: &'a mut ModelClient,
    model: &'a str,
    retry: Retry,
    interrupts: &'a Interrupts,
    report: &'a mut dyn FnMut(&str),
}

/// Asks about `file`: uploads it, asks, removes it. If it cannot be removed, a line names its id; that is not an error.
pub fn ask_about(
    client: &mut ModelClient,
    ask: &ChatRequest<'_>,
    file: &Attachment<'_>,
    patience: Duration,
    interrupts: &Interrupts,
    report: &mut dyn FnMut(&str),
) -> Result<Reply, RequestError> {
    let retry = Retry::new(patience);
    let mut upload = Upload { client, model: ask.model, retry, interrupts, report };
    let (remote, state) = upload.send_file(file)?;
    let reply = upload.wait_until_ready(&remote, state).and_then(|()| {
        let file = Attachment { payload: Payload::Remote(&remote), ..*file };
        let ask = ChatRequest { file: Some(file), ..ask.clone() };
        upload.retry(|client, interrupts| client.request_reply(&ask, &mut |_| (), interrupts))
    });
    upload.remove(&remote);
    reply
}

impl Upload<'_> {
    fn send_file(
        &mut self,
        file: &Attachment<'_>,
    ) -> Result<(RemoteFile, UploadState), RequestError> {
        let boundary = uuid::Uuid::new_v4().simple().to_string();
        let result = self.retry_at_server(|server, interrupts| {
            let request = server.endpoint.files()?.upload_request(file, &boundary);
            let (_, body) = server.fetch(request, interrupts)?;
            Ok(server.endpoint.files()?.read_file(&body)?)
        });
        if let Err(RequestError::Interrupted(_)) = result {
            let (name, lifetime) = (file.name, self.lifetime());
            (self.report)(&format!(
                "note: the upload was interrupted; if the provider received {name} anyway, {lifetime}"
            ));
        }
        result
    }

    fn wait_until_ready(
        &mut self,
        remote: &RemoteFile,
        state: UploadState,
    ) -> Result<(), RequestError> {
        let (mut state, mut wait, mut waited) = (state, FIRST_WAIT, Duration::ZERO);
        let failure = loop {
            match state {
                UploadState::Ready => return Ok(()),
                UploadState::Failed(reason) => {
                    break format!("the provider could not read the file {}: {reason}", remote.id);
                }
                UploadState::Processing if waited >= PROCESSING => {
                    let (id, seconds) = (&remote.id, PROCESSING.as_secs());
                    break format!(
                        "the provider was still processing the file {id} after {seconds} s; try again later"
                    );
                }
                UploadState::Processing => {}
            }
            if let Some(signal) = self.interrupts.wait_for_signal(Some(wait)) {
                return Err(RequestError::Interrupted(signal));
            }
            waited = waited.saturating_add(wait);
            wait = wait.saturating_mul(2).min(LONGEST_WAIT);
            state = self.retry_at_server(|server, interrupts| {
                let request = server.endpoint.files()?.state_request(remote);
                let (_, body) = server.fetch(request, interrupts)?;
                Ok(server.endpoint.files()?.read_file(&body)?.1)
            })?;
        };
        Err(ApiError::new(ErrorKind::Other, &failure).into())
    }

    /// Removes the file, and reports where that fails. After a signal this takes about a second.
    fn remove(&mut self, remote: &RemoteFile) {
        let mut result = Ok(());
        if self.interrupts.pending().is_none() {
            result = self.remove_with_retries(remote);
        }
        // The signal may have come before the removal, or interrupted it.
        if self.interrupts.pending().is_some() {
            let server = self.client.as_server().map_err(RequestError::from);
            result = server.and_then(|server| remove_at_once(server, remote));
        }
        if let Err(error) = result {
            let (id, lifetime) = (&remote.id, self.lifetime());
            (self.report)(&format!(
                "note: the uploaded file {id} could not be removed from the provider: {error}; {lifetime}"
            ));
        }
    }

    fn remove_with_retries(&mut self, remote: &RemoteFile) -> Result<(), RequestError> {
        let server = self.client.as_server()?;
        with_retries(&mut Retry::new(REMOVAL), self.interrupts, &mut |_| (), |_| {
            let request = server.endpoint.files()?.removal_request(remote);
            accept_missing(server.fetch(request, self.interrupts).map(drop))
        })
    }

    /// Makes attempts while the patience of the whole run lasts.
    fn retry<T>(
        &mut self,
        mut attempt: impl FnMut(&mut ModelClient, &Interrupts) -> Result<T, RequestError>,
    ) -> Result<T, RequestError> {
        let Self { client, model, retry, interrupts, report } = self;
        with_retries(retry, interrupts, report, |report| {
            client.attempt(model, report, |client, _| attempt(client, interrupts))
        })
    }

    /// Makes attempts at the server itself, with its credential, while the patience of the whole run lasts.
    fn retry_at_server<T>(
        &mut self,
        mut attempt: impl FnMut(&mut Server, &Interrupts) -> Result<T, RequestError>,
    ) -> Result<T, RequestError> {
        self.retry(|client, interrupts| {
            let server = client.as_server()?;
            server.with_key(interrupts, |server| attempt(server, interrupts))
        })
    }

    fn lifetime(&mut self) -> &'static str {
        let server = self.client.as_server();
        server.and_then(|server| Ok(server.endpoint.files()?.lifetime())).unwrap_or_default()
    }
}

/// Removes a file with a client of its own, which has short limits and which the signal that has come does not stop.
fn remove_at_once(server: &Server, remote: &RemoteFile) -> Result<(), RequestError> {
    let deaf = Interrupts::without_handlers()
        .map_err(|error| ApiError::new(ErrorKind::Other, &format!("no descriptors: {error}")))?;
    let request = server.endpoint.files()?.removal_request(remote);
    let head = HttpClient::new(LAST_REMOVAL, LAST_REMOVAL)
        .send(request, &deaf, &mut |_| Ok(ControlFlow::Break(())))?;
    if (200..300).contains(&head.status) {
        return Ok(());
    }
    accept_missing(Err(server.endpoint.failure(head.status, &head.headers, b"").into()))
}

fn accept_missing(result: Result<(), RequestError>) -> Result<(), RequestError> {
    match result {
        Err(RequestError::Api(error)) if error.status == Some(404) => Ok(()),
        other => other,
    }
}
