//! The files of requests, as the model's API takes them: read from where they are kept, made to fit, and where they are
//! too large for a request, put into the provider's files API, from which they are removed at the end of the run.
//!
//! A file that cannot be sent is not an error of the request: the model reads why in its place, and the user is told.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::server::Server;
use super::{Backend, ModelClient, RequestError};
use conversation::format::harmless::quote_name;
use conversation::model::{ApiError, ErrorKind};
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

/// How often a provider is asked whether it has processed a file, and the time between.
const PROCESSING: (u32, Duration) = (120, Duration::from_secs(1));
/// Maximum time for each step of the removal of a file, and once a signal has come.
const REMOVAL: Duration = Duration::from_secs(5);
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
                _ => "its bytes are of another type",
            },
            Err(_) => "its bytes are not kept any more (pruned?); read it again",
        };
        Ok(self.leave_out(file.sha256.to_owned(), file.path, why))
    }

    /// Makes a file fit for the API, or uploads it. Without `interrupts` nothing is uploaded.
    fn prepare_file(
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
        let as_it_is = || (file.format, Payload::Bytes(Arc::new(file.bytes.to_vec())));
        let ready = match rules.route(file.format, bytes) {
            Err(why) => return Ok(self.leave_out(sha256, file.name, &why)),
            Ok(_) if matches!(self.backend, Backend::Program(_)) => {
                (file.format, Payload::Path(file.path.to_owned()))
            }
            Ok(FileRoute::Upload) => (file.format, self.upload(file, interrupts)?),
            Ok(_) if file.format.is_image() => {
                let picture = Picture::decode(file.format, file.bytes);
                let fit = picture.and_then(|picture| {
                    picture.fit(bytes, &rules).map_err(|error| error.to_string())
                });
                match fit {
                    Err(why) => return Ok(self.leave_out(sha256, file.name, &why)),
                    Ok(None) => as_it_is(),
                    Ok(Some((format, copy))) => (format, Payload::Bytes(Arc::new(copy))),
                }
            }
            Ok(_) => as_it_is(),
        };
        self.ready_files.insert(sha256, ready.clone());
        Ok(ready)
    }

    /// Tells the user and the model once why a file is not shown.
    fn leave_out(&mut self, sha256: String, name: &str, why: &str) -> (FileFormat, Payload) {
        let why = format!("{} is not shown to the model: {why}", quote_name(name));
        let missing = (FileFormat::Text, Payload::Missing(format!("[{why}]")));
        self.notes.push(why);
        self.ready_files.insert(sha256, missing.clone());
        missing
    }

    /// Makes this file the only one of a request. Without `interrupts` nothing is uploaded.
    pub fn attach_file(
        &mut self,
        ask: &mut ChatRequest<'_>,
        file: &NewFile<'_>,
        interrupts: Option<&Interrupts>,
    ) -> Result<(), RequestError> {
        let (format, payload) = self.prepare_file(file, ask.model, interrupts)?;
        let (name, place) = (safe_name(file.name, format), (0, 0));
        ask.files = vec![Attachment { place, name, format, tokens: 0, payload }];
        Ok(())
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
        let boundary = uuid::Uuid::new_v4().simple().to_string();
        let (remote, state) = self.as_server()?.with_key(interrupts, |server| {
            let files = server.endpoint.files()?;
            let request = files.upload_request(file.name, file.format, file.bytes, &boundary);
            let body = server.fetch(request, interrupts)?;
            Ok(server.endpoint.files()?.read_file(&body)?)
        })?;
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
        let (mut state, (mut left, time)) = (state, PROCESSING);
        while state == UploadState::Processing && left > 0 {
            if let Some(signal) = interrupts.wait_for_signal(Some(time)) {
                return Err(RequestError::Interrupted(signal));
            }
            left -= 1;
            state = self.as_server()?.with_key(interrupts, |server| {
                let request = server.endpoint.files()?.state_request(remote);
                let body = server.fetch(request, interrupts)?;
                Ok(server.endpoint.files()?.read_file(&body)?.1)
            })?;
        }
        let why = match state {
            UploadState::Ready => return Ok(()),
            UploadState::Failed(reason) => reason,
            UploadState::Processing => "it is still busy with it; try again later".to_owned(),
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
            let limit = interrupts.pending().map_or(REMOVAL, |_| LAST_REMOVAL);
            if let Err(error) = remove(server, &remote, limit) {
                notes.push(format!(
                    "the uploaded file {} could not be removed from the provider, where it expires within two days: {error}",
                    remote.id
                ));
            }
        }
        notes
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Leaves out the oldest files of a request that has too many bytes or files: so many that the next ones fit again, since
/// the messages of each request should begin with those of the previous one.
fn leave_out_oldest(files: &mut [Attachment], (most_bytes, most): (u64, u64)) {
    let size = |file: &Attachment| file.bytes().len() as u64;
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

/// Removes a file with a client of its own, which has short limits and which no signal stops.
fn remove(server: &Server, remote: &RemoteFile, limit: Duration) -> Result<(), RequestError> {
    let deaf = Interrupts::without_handlers()
        .map_err(|error| ApiError::new(ErrorKind::Other, &format!("no descriptors: {error}")))?;
    let request = server.endpoint.files()?.removal_request(remote);
    let head =
        HttpClient::new(limit, limit).send(request, &deaf, &mut |_| Ok(ControlFlow::Break(())))?;
    // Who does not know the file any more has removed it.
    if (200..300).contains(&head.status) || head.status == 404 {
        return Ok(());
    }
    Err(server.endpoint.failure(head.status, &head.headers, b"").into())
}
