//! The providers' files APIs: requests and replies. `client::upload` sends them, waits and removes.
//!
//! ```text
//! OpenAI     POST /v1/files  multipart: purpose, expires_after, file     → {"id":"file-…"}
//!            DELETE /v1/files/ID                                         → {"id":…,"deleted":true}
//! Anthropic  POST /v1/files  multipart: file; a beta header, here and on use → {"id":"file_…"}
//!            DELETE /v1/files/ID                                         → {"id":…,"type":"file_deleted"}
//! Google     POST /upload/v1beta/files  start                            → header x-goog-upload-url
//!            POST that address  upload, finalize                         → {"file":{"name":"files/…","uri":…,"state":…}}
//!            GET /v1beta/files/ID  until its state is ACTIVE             → {"name":…,"state":…}
//!            DELETE /v1beta/files/ID                                     → {}
//! ```
//!
//! Source: openai-python and openai-openapi; anthropic-sdk-python and the files guide; python-genai and ai.google.dev.
//! All clients read the address from the header `x-goog-upload-url`; it is presigned, so it gets no key. None of this
//! was tested against the live APIs.

use conversation::limits;
use serde_json::json;
use url::Url;

use super::api::{Endpoint, FilesApi, UploadProtocol};
use super::attachment::{Attachment, Payload, RemoteFile};
use super::{error, retry_after};
use conversation::model::{ApiError, ErrorKind, HttpRequest};

/// The state of a file at a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UploadState {
    /// It can be used.
    Ready,
    /// It cannot be used yet.
    Processing,
    /// It can never be used; with the provider's reason.
    Failed(String),
}

/// The files API of a server.
#[derive(Clone, Copy)]
pub struct Files<'a> {
    endpoint: &'a Endpoint,
    api: FilesApi,
}

impl Endpoint {
    /// The files API of this server, if it has one.
    pub fn files(&self) -> Result<Files<'_>, ApiError> {
        let api = self.api.file_rules(self.official).files_api.ok_or_else(|| {
            ApiError::new(ErrorKind::Other, "the provider has no files API; make the file smaller")
        })?;
        Ok(Files { endpoint: self, api })
    }
}

impl Files<'_> {
    /// Whether an upload takes two requests: the response to the first has the address for the second
    /// ([`Files::read_address`]).
    pub fn has_two_steps(&self) -> bool {
        self.api.protocol == UploadProtocol::Resumable
    }

    /// The request that uploads a file, or the first of two. `boundary` separates the parts of a form.
    pub fn upload_request(&self, file: &Attachment<'_>, boundary: &str) -> HttpRequest {
        let bytes = match file.payload {
            Payload::Bytes(bytes) => bytes,
            Payload::Remote(_) => &[],
        };
        let media_type = file.media_type();
        let mut headers = self.endpoint.common_headers();
        headers.push(("accept", "application/json".to_owned()));
        let (url, body) = match self.api.protocol {
            UploadProtocol::Form(fields) => {
                headers.push(("content-type", format!("multipart/form-data; boundary={boundary}")));
                let body = write_form(boundary, fields, file.name, media_type, bytes);
                (self.endpoint.build_url(self.api.path), body)
            }
            UploadProtocol::Resumable => {
                headers.push(("content-type", "application/json".to_owned()));
                headers.push(("x-goog-upload-protocol", "resumable".to_owned()));
                headers.push(("x-goog-upload-command", "start".to_owned()));
                headers.push(("x-goog-upload-header-content-length", bytes.len().to_string()));
                headers.push(("x-goog-upload-header-content-type", media_type.to_owned()));
                let body = json!({"file": {"displayName": file.name}}).to_string().into_bytes();
                (self.resumable_url(), body)
            }
        };
        headers.extend(self.own_headers());
        let own_headers = self.endpoint.headers.clone();
        HttpRequest { method: "POST", url, headers, own_headers, body }
    }

    /// Reads the address for the bytes from the headers of the first response. Only an address on the server itself is
    /// accepted.
    pub fn read_address(&self, headers: &[(String, String)]) -> Result<String, ApiError> {
        let Some(address) = retry_after::find_header(headers, "x-goog-upload-url") else {
            return Err(self.failure(
                "the server sent no address for the upload (x-goog-upload-url); check base_url",
            ));
        };
        let (Ok(url), Ok(own)) = (Url::parse(address), Url::parse(self.endpoint.base_url.trim()))
        else {
            return Err(self.failure(
                "the address that the server sent for the upload is not a URL; nothing was uploaded",
            ));
        };
        if !url.has_host() || url.origin() != own.origin() || !url.username().is_empty() {
            let host: String = url.host_str().unwrap_or_default().chars().take(100).collect();
            return Err(self.failure(&format!(
                "the server redirected the upload to another host ({}://{host}); nothing was uploaded",
                url.scheme()
            )));
        }
        Ok(url.into())
    }

    /// The second of two requests. It has no key: the address itself is the permission.
    pub fn bytes_request(&self, address: String, bytes: &[u8]) -> HttpRequest {
        let headers = vec![
            ("accept", "application/json".to_owned()),
            ("x-goog-upload-offset", "0".to_owned()),
            ("x-goog-upload-command", "upload, finalize".to_owned()),
        ];
        let own_headers = Vec::new();
        HttpRequest { method: "POST", url: address, headers, own_headers, body: bytes.to_vec() }
    }

    /// Reads the file in the body of a 2xx response to an upload or to [`Files::state_request`].
    pub fn read_file(&self, body: &[u8]) -> Result<(RemoteFile, UploadState), ApiError> {
        let value = self.endpoint.read_json(body, "the reply to an upload")?;
        let file = value.get("file").unwrap_or(&value);
        // Google: "files/ID".
        let id = file["id"].as_str().or_else(|| file["name"].as_str()?.strip_prefix("files/"));
        let Some(id) = id else {
            return Err(self.endpoint.clean(error::from_value(&value, None)));
        };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if id.is_empty()
            || id.len() > limits::FILE_ID
            || id.starts_with('.')
            || !id.bytes().all(is_plain)
        {
            return Err(self.failure(
                "the server gave the uploaded file an id that cannot be part of an address",
            ));
        }
        let uri = file["uri"].as_str().filter(|uri| !uri.is_empty()).map(str::to_owned);
        let uri = uri.or_else(|| self.has_two_steps().then(|| self.file_url(id)));
        let state = match file["state"].as_str() {
            None | Some("ACTIVE") => UploadState::Ready,
            Some("FAILED") => {
                let reason = file["error"]["message"].as_str().unwrap_or("it gave no reason");
                UploadState::Failed(self.failure(reason).message)
            }
            // PROCESSING, STATE_UNSPECIFIED, and future names.
            Some(_) if self.has_two_steps() => UploadState::Processing,
            Some(_) => UploadState::Ready,
        };
        Ok((RemoteFile { id: id.to_owned(), uri }, state))
    }

    /// The request for a file's state.
    pub fn state_request(&self, file: &RemoteFile) -> HttpRequest {
        self.file_request("GET", file)
    }

    /// The request that removes a file. Any 2xx is success, and 404: the file does not exist.
    pub fn removal_request(&self, file: &RemoteFile) -> HttpRequest {
        self.file_request("DELETE", file)
    }

    /// The time after which a file that nobody removes expires at the provider.
    pub fn lifetime(&self) -> &'static str {
        self.api.lifetime
    }

    fn file_request(&self, method: &'static str, file: &RemoteFile) -> HttpRequest {
        let mut headers = self.endpoint.common_headers();
        headers.push(("accept", "application/json".to_owned()));
        headers.extend(self.own_headers());
        let (url, own_headers) = (self.file_url(&file.id), self.endpoint.headers.clone());
        HttpRequest { method, url, headers, own_headers, body: Vec::new() }
    }

    fn own_headers(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.api.headers.iter().map(|(name, value)| (*name, (*value).to_owned()))
    }

    fn file_url(&self, id: &str) -> String {
        self.endpoint.build_url(&format!("{}/{id}", self.api.path))
    }

    fn failure(&self, message: &str) -> ApiError {
        self.endpoint.clean(ApiError::new(ErrorKind::Other, message))
    }

    /// Google's uploads have a path of their own, before the version.
    fn resumable_url(&self) -> String {
        let url = self.endpoint.build_url(self.api.path);
        let (path, query) = url.split_at(url.find('?').unwrap_or(url.len()));
        let front = path.strip_suffix("/files").unwrap_or(path);
        let (root, version) = front.rsplit_once('/').unwrap_or((front, "v1beta"));
        format!("{root}/upload/{version}/files{query}")
    }
}

/// A form with a file (RFC 7578); the file name is escaped as in browsers.
fn write_form(
    boundary: &str,
    fields: &[(&str, &str)],
    name: &str,
    media_type: &str,
    bytes: &[u8],
) -> Vec<u8> {
    let mut head = String::new();
    for (field, value) in fields {
        head.push_str(&format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"{field}\"\r\n\r\n{value}\r\n"
        ));
    }
    let name = name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A");
    head.push_str(&format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\
         Content-Type: {media_type}\r\n\r\n"
    ));
    let end = format!("\r\n--{boundary}--\r\n");
    [head.as_bytes(), bytes, end.as_bytes()].concat()
}
