//! The files of requests, as the model's API takes them: read from where they are kept, made to fit, and where they are
//! too large for a request, put into the provider's files API, from which they are removed at the end of the run.
//!
//! A file that cannot be sent is not an error of the request: the model reads why in its place, and the user is told.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::retry::with_retries;
use super::server::Server;
use super::{Backend, ModelClient, RequestError};
use conversation::format::harmless::quote_name;
use conversation::model::{ApiError, ErrorKind, Reply, Retry};
use conversation::shown_file::ShownFile;
use models::ChatRequest;
use models::api::FileRules;
use models::attachment::{Attachment, FileFormat, Payload, RemoteFile, safe_name};
use models::files::UploadState;
use models::picture::Picture;
use models::route::FileRoute;
use models::sniff::detect_by_mark;
use sys::fs;
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

/// The placeholder in a shown request for the id that an upload would return.
pub const NO_ID: &str = "ID-OF-THE-UPLOADED-FILE";

/// A file to be sent.
#[derive(Clone, Copy)]
pub struct NewFile<'a> {
    /// Its name, without folders.
    pub name: &'a str,
    /// Its format.
    pub format: FileFormat,
    /// A file that has the bytes.
    pub path: &'a Path,
    /// The bytes.
    pub bytes: &'a [u8],
}

impl ModelClient {
    /// The files that a model accepts.
    pub fn file_rules(&self, model: &str) -> FileRules {
        match &self.backend {
            Backend::Server(server) => server.endpoint.file_rules(model),
            Backend::Program(program) => program.file_rules(),
            Backend::Recording(_) => FileRules::ANY_PICTURE,
        }
    }

    /// The files of a request, from `outputs`. Without `interrupts` nothing is uploaded. A replay needs none.
    pub fn attach_files(
        &mut self,
        shown: &[ShownFile<'_>],
        model: &str,
        outputs: &Path,
        interrupts: Option<&Interrupts>,
    ) -> Result<Vec<Attachment>, RequestError> {
        if matches!(self.backend, Backend::Recording(_)) {
            return Ok(Vec::new());
        }
        let mut files = Vec::new();
        for file in shown {
            let (format, payload) = match self.ready_files.get(file.sha256) {
                Some(ready) => ready.clone(),
                None => self.load_file(file, model, outputs, interrupts)?,
            };
            let (place, tokens) = (file.place, file.tokens);
            let name = safe_name(file_name(file.path), format);
            files.push(Attachment { place, name, format, tokens, payload });
        }
        leave_out_oldest(&mut files, self.file_rules(model).request);
        Ok(files)
    }

    fn load_file(
        &mut self,
        file: &ShownFile<'_>,
        model: &str,
        outputs: &Path,
        interrupts: Option<&Interrupts>,
    ) -> Result<(FileFormat, Payload), RequestError> {
        let why = match fs::read_stored(outputs, file.sha256) {
            Ok(bytes) => match detect_by_mark(&bytes) {
                Some(format) if format.media_type() == file.media_type => {
                    let path = fs::output_path(outputs, file.sha256);
                    let (name, path, bytes) = (file_name(file.path), &*path, &*bytes);
                    let new = NewFile { name, format, path, bytes };
                    return self.prepare_file(&new, model, interrupts);
                }
                _ => "its bytes are of another type".to_owned(),
            },
            Err(_) => "its bytes are not kept any more (pruned?); read it again".to_owned(),
        };
        Ok(self.leave_out(file.sha256.to_owned(), file.path, FileFormat::Text, &why))
    }

    /// Makes a file fit for the API, or uploads it. Without `interrupts` nothing is uploaded.
    pub fn prepare_file(
        &mut self,
        file: &NewFile<'_>,
        model: &str,
        interrupts: Option<&Interrupts>,
    ) -> Result<(FileFormat, Payload), RequestError> {
        let sha256 = fs::sha256(file.bytes);
        if let Some(ready) = self.ready_files.get(&sha256) {
            return Ok(ready.clone());
        }
        let (bytes, rules) = (file.bytes.len() as u64, self.file_rules(model));
        let ready = match rules.route(file.format, bytes) {
            Err(why) => return Ok(self.leave_out(sha256, file.name, file.format, &why)),
            Ok(_) if matches!(self.backend, Backend::Program(_)) => {
                (file.format, Payload::Path(file.path.to_owned()))
            }
            Ok(FileRoute::Upload) => (file.format, self.upload(file, interrupts)?),
            Ok(_) => {
                let picture = Picture::decode(file.format, file.bytes);
                let fit = picture.and_then(|picture| match picture {
                    Some(picture) => picture.fit(bytes, &rules).map_err(|error| error.to_string()),
                    None => Ok(None),
                });
                match fit {
                    Err(why) => return Ok(self.leave_out(sha256, file.name, file.format, &why)),
                    Ok(copy) => {
                        let (format, bytes) =
                            copy.unwrap_or_else(|| (file.format, file.bytes.to_vec()));
                        (format, Payload::Bytes(Arc::new(bytes)))
                    }
                }
            }
        };
        self.ready_files.insert(sha256, ready.clone());
        Ok(ready)
    }

    /// Tells the user and the model once why a file is not shown.
    fn leave_out(
        &mut self,
        sha256: String,
        name: &str,
        format: FileFormat,
        why: &str,
    ) -> (FileFormat, Payload) {
        let why = format!("{} is not shown to the model: {why}", quote_name(name));
        let missing = (format, Payload::Missing(format!("[{why}]")));
        self.notes.push(why);
        self.ready_files.insert(sha256, missing.clone());
        missing
    }

    /// Asks about a single file, with retries, and removes it from the provider.
    pub fn ask_about(
        &mut self,
        ask: &mut ChatRequest<'_>,
        file: &NewFile<'_>,
        patience: Duration,
        interrupts: &Interrupts,
        report: &mut dyn FnMut(&str),
    ) -> Result<Reply, RequestError> {
        let reply = with_retries(&mut Retry::new(patience), interrupts, report, |report| {
            self.attempt(ask.model, report, |client| {
                let (format, payload) = client.prepare_file(file, ask.model, Some(interrupts))?;
                let (name, place) = (safe_name(file.name, format), (0, 0));
                ask.files = vec![Attachment { place, name, format, tokens: 0, payload }];
                client.request_reply(ask, &mut |_| (), interrupts)
            })
        });
        for note in self.remove_uploads(interrupts) {
            report(&format!("note: {note}"));
        }
        reply
    }

    fn upload(
        &mut self,
        file: &NewFile<'_>,
        interrupts: Option<&Interrupts>,
    ) -> Result<Payload, RequestError> {
        let Some(interrupts) = interrupts else {
            self.notes.push(format!(
                "{} is uploaded first, through the provider's files API; its id then replaces {NO_ID}",
                file.name
            ));
            return Ok(Payload::Remote(RemoteFile { id: NO_ID.to_owned(), uri: None }));
        };
        let file = Attachment {
            place: (0, 0),
            name: safe_name(file.name, file.format),
            format: file.format,
            tokens: 0,
            payload: Payload::Bytes(Arc::new(file.bytes.to_vec())),
        };
        let boundary = uuid::Uuid::new_v4().simple().to_string();
        let sent = self.as_server()?.with_key(interrupts, |server| {
            let request = server.endpoint.files()?.upload_request(&file, &boundary);
            let (_, body) = server.fetch(request, interrupts)?;
            Ok(server.endpoint.files()?.read_file(&body)?)
        });
        if let Err(RequestError::Interrupted(_)) = sent {
            let (name, lifetime) = (file.name, self.lifetime());
            self.notes.push(format!(
                "the upload was interrupted; if the provider received {name} anyway, {lifetime}"
            ));
            return sent.map(|(remote, _)| Payload::Remote(remote));
        }
        let (remote, state) = sent?;
        self.uploads.push(remote.clone());
        self.wait_until_ready(&remote, state, interrupts)?;
        Ok(Payload::Remote(remote))
    }

    fn wait_until_ready(
        &mut self,
        remote: &RemoteFile,
        state: UploadState,
        interrupts: &Interrupts,
    ) -> Result<(), RequestError> {
        let (mut state, mut wait, mut waited) = (state, FIRST_WAIT, Duration::ZERO);
        while state == UploadState::Processing && waited < PROCESSING {
            if let Some(signal) = interrupts.wait_for_signal(Some(wait)) {
                return Err(RequestError::Interrupted(signal));
            }
            waited = waited.saturating_add(wait);
            wait = wait.saturating_mul(2).min(LONGEST_WAIT);
            let server = self.as_server()?;
            let asked = server.with_key(interrupts, |server| {
                let request = server.endpoint.files()?.state_request(remote);
                let (_, body) = server.fetch(request, interrupts)?;
                Ok(server.endpoint.files()?.read_file(&body)?.1)
            });
            state = match asked {
                // A busy server is asked again.
                Err(RequestError::Api(ApiError {
                    kind: ErrorKind::Busy | ErrorKind::Broken,
                    ..
                })) => UploadState::Processing,
                other => other?,
            };
        }
        let why = match state {
            UploadState::Ready => return Ok(()),
            UploadState::Failed(reason) => reason,
            UploadState::Processing => {
                format!("it was still busy with it after {} s; try again later", waited.as_secs())
            }
        };
        let failure = format!("the provider could not read the file {}: {why}", remote.id);
        Err(ApiError::new(ErrorKind::Other, &failure).into())
    }

    /// Removes all uploaded files, and describes where that fails. After a signal this takes about a second for each.
    #[must_use]
    pub fn remove_uploads(&mut self, interrupts: &Interrupts) -> Vec<String> {
        let mut notes = Vec::new();
        for remote in std::mem::take(&mut self.uploads) {
            let Ok(server) = self.as_server() else { break };
            let mut result = Ok(());
            if interrupts.pending().is_none() {
                result = with_retries(&mut Retry::new(REMOVAL), interrupts, &mut |_| (), |_| {
                    let request = server.endpoint.files()?.removal_request(&remote);
                    accept_missing(server.fetch(request, interrupts).map(drop))
                });
            }
            // The signal may have come before the removal, or interrupted it.
            if interrupts.pending().is_some() {
                result = remove_at_once(server, &remote);
            }
            if let Err(error) = result {
                let (id, lifetime) = (&remote.id, self.lifetime());
                notes.push(format!(
                    "the uploaded file {id} could not be removed from the provider: {error}; {lifetime}"
                ));
            }
        }
        notes
    }

    fn lifetime(&mut self) -> &'static str {
        let server = self.as_server();
        server.and_then(|server| Ok(server.endpoint.files()?.lifetime())).unwrap_or_default()
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Leaves out the oldest files of a request that has too many bytes or files: so many that the next ones fit again, since
/// the messages of each request should begin with those of the previous one.
fn leave_out_oldest(files: &mut [Attachment], (most_bytes, most): (u64, u64)) {
    let size = |file: &Attachment| match &file.payload {
        Payload::Bytes(bytes) => bytes.len() as u64,
        _ => 0,
    };
    let (mut start, mut bytes) = (0, 0);
    for at in 0..files.len() {
        bytes += size(&files[at]);
        if bytes > most_bytes || (at - start) as u64 >= most {
            while start < at && (bytes > most_bytes / 2 || (at - start) as u64 >= most / 2) {
                bytes -= size(&files[start]);
                start += 1;
            }
        }
    }
    for file in &mut files[..start] {
        let why = "left out, since later ones fill the request; read it again if you need it";
        file.payload = Payload::Missing(format!("[{}: {why}]", file.name));
        file.tokens = 0;
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
