//! The providers' files APIs: requests and replies. `client::upload` sends them, waits and removes.
//!
//! ```text
//! OpenAI     POST /v1/files  multipart: purpose, expires_after, file     → {"id":"file-…"}
//!            DELETE /v1/files/ID                                         → {"id":…,"deleted":true}
//! Anthropic  POST /v1/files  multipart: file; a beta header, here and on use → {"id":"file_…"}
//!            DELETE /v1/files/ID                                         → {"id":…,"type":"file_deleted"}
//! Google     POST /upload/v1beta/files  multipart: JSON, file            → {"file":{"name":"files/…","uri":…,"state":…}}
//!            GET /v1beta/files/ID  until its state is ACTIVE             → {"name":…,"state":…}
//!            DELETE /v1beta/files/ID                                     → {}
//! ```
//!
//! Source: openai-python and openai-openapi; anthropic-sdk-python and the files guide; python-genai and ai.google.dev.
//! Google's uploads in one request are those of its generative-ai-js. None of this was tested against the live APIs.

use conversation::limits;
use serde_json::json;

use super::api::{Endpoint, FilesApi, UploadForm};
use super::attachment::{FileFormat, RemoteFile, safe_name};
use super::error;
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
        let api = self.api.file_rules(self, "").files_api.ok_or_else(|| {
            ApiError::new(ErrorKind::Other, "the provider has no files API; make the file smaller")
        })?;
        Ok(Files { endpoint: self, api })
    }
}

impl Files<'_> {
    /// The request that uploads a file. `boundary` separates the parts of its body.
    pub fn upload_request(
        &self,
        name: &str,
        format: FileFormat,
        bytes: &[u8],
        boundary: &str,
    ) -> HttpRequest {
        let (name, media_type) = (safe_name(name, format), format.media_type());
        let about = json!({"file": {"displayName": name}}).to_string();
        let (kind, url, parts) = match self.api.form {
            UploadForm::Fields(fields) => {
                let head =
                    |field: &str| format!("Content-Disposition: form-data; name=\"{field}\"");
                let parts = fields.iter().map(|(field, value)| (head(field), value.as_bytes()));
                let of_file = format!("; filename=\"{name}\"\r\nContent-Type: {media_type}");
                let parts = parts.chain([(head("file") + &of_file, bytes)]);
                ("form-data", self.endpoint.build_url(self.api.path), parts.collect())
            }
            UploadForm::Related => {
                let of_about = "Content-Type: application/json; charset=utf-8".to_owned();
                let of_file = format!("Content-Type: {media_type}");
                let parts = vec![(of_about, about.as_bytes()), (of_file, bytes)];
                ("related", self.upload_url(), parts)
            }
        };
        let body = write_multipart(boundary, parts);
        let content_type = format!("multipart/{kind}; boundary={boundary}");
        let mut headers = vec![("content-type", content_type.as_str())];
        if self.is_google() {
            headers.push(("x-goog-upload-protocol", "multipart"));
        }
        self.request("POST", url, &headers, body)
    }

    fn is_google(&self) -> bool {
        self.api.form == UploadForm::Related
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
        let uri = uri.or_else(|| self.is_google().then(|| self.file_url(id)));
        let state = match file["state"].as_str() {
            None | Some("ACTIVE") => UploadState::Ready,
            Some("FAILED") => {
                let reason = file["error"]["message"].as_str().unwrap_or("it gave no reason");
                UploadState::Failed(self.failure(reason).message)
            }
            // PROCESSING, STATE_UNSPECIFIED, and future names.
            Some(_) if self.is_google() => UploadState::Processing,
            Some(_) => UploadState::Ready,
        };
        Ok((RemoteFile { id: id.to_owned(), uri }, state))
    }

    /// The request for a file's state.
    pub fn state_request(&self, file: &RemoteFile) -> HttpRequest {
        self.request("GET", self.file_url(&file.id), &[], Vec::new())
    }

    /// The request that removes a file. Any 2xx is success, and 404: the file does not exist.
    pub fn removal_request(&self, file: &RemoteFile) -> HttpRequest {
        self.request("DELETE", self.file_url(&file.id), &[], Vec::new())
    }

    fn request(
        &self,
        method: &'static str,
        url: String,
        more: &[(&'static str, &str)],
        body: Vec<u8>,
    ) -> HttpRequest {
        let headers = [&[("accept", "application/json")], more, self.api.headers].concat();
        self.endpoint.request(method, url, &headers, body)
    }

    fn file_url(&self, id: &str) -> String {
        self.endpoint.build_url(&format!("{}/{id}", self.api.path))
    }

    fn failure(&self, message: &str) -> ApiError {
        self.endpoint.clean(ApiError::new(ErrorKind::Other, message))
    }

    /// Google's uploads have a path of their own, before the version.
    fn upload_url(&self) -> String {
        let url = self.endpoint.build_url(self.api.path);
        let (path, query) = url.split_at(url.find('?').unwrap_or(url.len()));
        let front = path.strip_suffix("/files").unwrap_or(path);
        let (root, version) = front.rsplit_once('/').unwrap_or((front, "v1beta"));
        format!("{root}/upload/{version}/files{query}")
    }
}

/// A body of parts, each with its headers (RFC 2046).
fn write_multipart(boundary: &str, parts: Vec<(String, &[u8])>) -> Vec<u8> {
    let mut body = Vec::new();
    for (headers, bytes) in parts {
        body.extend(format!("--{boundary}\r\n{headers}\r\n\r\n").into_bytes());
        body.extend(bytes);
        body.extend(b"\r\n");
    }
    body.extend(format!("--{boundary}--\r\n").into_bytes());
    body
}
