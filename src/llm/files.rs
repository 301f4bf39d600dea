//! The providers' files APIs: a file goes up, is named in a request, and is removed. Requests out, replies in; who
//! sends them, waits and removes is [`crate::drive::upload`].
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
//! That the address comes in the header `x-goog-upload-url` is what every client of it reads; it is presigned, so it
//! gets no key. None of this was seen live.

use serde_json::{Value, json};

use super::attachment::{Attachment, Payload, Remote};
use super::wire::{Endpoint, Wire};
use super::{ApiError, ErrorKind, HttpRequest, error};

/// OpenAI removes the file by itself after so many seconds, its least: what a crash leaves behind does not stay.
const OPENAI_LIFETIME: &str = "3600";
/// How long an id or a file's name at Google may be.
const LONGEST_ID: usize = 256;

/// The header that Anthropic's files API asks for, on uploads and in requests that name a file.
pub(super) fn anthropic_beta() -> (&'static str, String) {
    ("anthropic-beta", "files-api-2025-04-14".to_owned())
}

/// Whether a file at a provider can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It can.
    Ready,
    /// Not yet.
    Processing,
    /// Never; with the provider's reason.
    Failed(String),
}

/// Whether a boundary of a multipart body may stand around these bytes.
pub fn is_free(boundary: &str, bytes: &[u8]) -> bool {
    let line = format!("--{boundary}");
    let inner = format!("\n{line}");
    !bytes.starts_with(line.as_bytes())
        && !bytes
            .split(|byte| *byte == b'\r')
            .skip(1)
            .any(|rest| rest.starts_with(inner.as_bytes()))
}

impl Endpoint {
    /// Whether an upload is two requests: one that is answered with an address ([`Endpoint::upload_address`]), one that
    /// sends the bytes there ([`Endpoint::upload_bytes`]).
    pub fn uploads_in_two(&self) -> bool {
        self.wire == Wire::Gemini
    }

    /// The request that uploads a file, or the first of two. `boundary` stands around the bytes: see [`is_free`].
    pub fn upload(&self, file: &Attachment<'_>, boundary: &str) -> HttpRequest {
        let bytes = match file.payload {
            Payload::Bytes(bytes) => bytes,
            Payload::Remote(_) => &[],
        };
        let mime = file.kind.mime(file.name);
        let mut headers = self.credential();
        headers.push(("accept", "application/json".to_owned()));
        if self.wire == Wire::Gemini {
            headers.push(("content-type", "application/json".to_owned()));
            headers.push(("x-goog-upload-protocol", "resumable".to_owned()));
            headers.push(("x-goog-upload-command", "start".to_owned()));
            headers.push(("x-goog-upload-header-content-length", bytes.len().to_string()));
            headers.push(("x-goog-upload-header-content-type", mime.to_owned()));
            let body = json!({"file": {"displayName": file.name}}).to_string().into_bytes();
            return HttpRequest { method: "POST", url: self.upload_url(), headers, body };
        }
        headers.push(("content-type", format!("multipart/form-data; boundary={boundary}")));
        let fields: &[(&str, &str)] = if self.wire == Wire::Messages {
            headers.push(anthropic_beta());
            &[]
        } else {
            &[
                ("purpose", "user_data"),
                ("expires_after[anchor]", "created_at"),
                ("expires_after[seconds]", OPENAI_LIFETIME),
            ]
        };
        let body = multipart(boundary, fields, file.name, mime, bytes);
        HttpRequest { method: "POST", url: self.url("/v1/files"), headers, body }
    }

    /// Where the bytes go, from the headers of the reply to the first of two requests.
    ///
    /// Only an address on the server that was asked is taken, with nothing in it that two readers of addresses could
    /// read in two ways: the file of a user goes to nobody else.
    pub fn upload_address(&self, headers: &[(String, String)]) -> Result<String, ApiError> {
        let other = |message: &str| {
            Err(ApiError::new(ErrorKind::Other, message).cleaned(self.key.as_deref()))
        };
        let named = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("x-goog-upload-url"));
        let Some(address) = named.map(|(_, value)| value.trim()) else {
            return other(
                "the server named no address for the upload (x-goog-upload-url); check base_url",
            );
        };
        let plain =
            address.bytes().all(|byte| byte.is_ascii_graphic() && !b"\\@\"<>".contains(&byte));
        let (Some((scheme, host)), Some((own_scheme, own))) =
            (origin(address), origin(self.base_url.trim()))
        else {
            return other(
                "the address that the server named for the upload is none; nothing was uploaded",
            );
        };
        if !plain || host != own || (scheme != own_scheme && scheme != "https") {
            let host: String = host.chars().take(100).collect();
            return other(&format!(
                "the server named an address for the upload that is not its own ({scheme}://{host}); nothing was \
                 uploaded"
            ));
        }
        Ok(address.to_owned())
    }

    /// The second of two requests. It carries no key: the address is the permission.
    pub fn upload_bytes(&self, address: String, bytes: &[u8]) -> HttpRequest {
        let headers = vec![
            ("accept", "application/json".to_owned()),
            ("x-goog-upload-offset", "0".to_owned()),
            ("x-goog-upload-command", "upload, finalize".to_owned()),
        ];
        HttpRequest { method: "POST", url: address, headers, body: bytes.to_vec() }
    }

    /// The file in a 2xx body: the reply to an upload, or to [`Endpoint::file_state`].
    pub fn uploaded(&self, body: &[u8]) -> Result<(Remote, State), ApiError> {
        let other = |message: &str| {
            Err(ApiError::new(ErrorKind::Other, message).cleaned(self.key.as_deref()))
        };
        let text = String::from_utf8_lossy(body);
        if error::is_page(&text) {
            return other(&format!(
                "the server answered an upload with a web page (HTML): a captive portal, or a wrong base_url ({})",
                self.base_url
            ));
        }
        let Ok(value) = serde_json::from_str::<Value>(text.trim()) else {
            return other("the reply to an upload is not JSON; check base_url");
        };
        let file = value.get("file").unwrap_or(&value);
        let id = match self.wire {
            Wire::Gemini => {
                file["name"].as_str().map(|name| name.strip_prefix("files/").unwrap_or(name))
            }
            _ => file["id"].as_str(),
        };
        let Some(id) = id else {
            return Err(error::from_value(&value, None).cleaned(self.key.as_deref()));
        };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if id.is_empty()
            || id.len() > LONGEST_ID
            || id.starts_with('.')
            || !id.bytes().all(is_plain)
        {
            return other(
                "the server gave the uploaded file an id that cannot stand in an address",
            );
        }
        let uri = file["uri"].as_str().filter(|uri| !uri.is_empty()).map(str::to_owned);
        let uri = uri
            .or_else(|| (self.wire == Wire::Gemini).then(|| self.url(&file_path(self.wire, id))));
        let state = match file["state"].as_str().filter(|_| self.wire == Wire::Gemini) {
            None | Some("ACTIVE") => State::Ready,
            Some("FAILED") => {
                let reason = file["error"]["message"].as_str().unwrap_or("it gave no reason");
                let reason = ApiError::new(ErrorKind::Other, reason).cleaned(self.key.as_deref());
                State::Failed(reason.message)
            }
            // PROCESSING, STATE_UNSPECIFIED, and names yet to come.
            Some(_) => State::Processing,
        };
        Ok((Remote { id: id.to_owned(), uri }, state))
    }

    /// The request for a file's state.
    pub fn file_state(&self, remote: &Remote) -> HttpRequest {
        self.about_file("GET", remote)
    }

    /// The request that removes a file. Any 2xx is done, and so is 404: it is not there.
    pub fn remove(&self, remote: &Remote) -> HttpRequest {
        self.about_file("DELETE", remote)
    }

    /// How long a file stays at the provider when nobody removes it.
    pub fn lifetime(&self) -> &'static str {
        match self.wire {
            Wire::Gemini => "it goes by itself after 48 hours",
            Wire::Messages => "it stays until it is removed",
            _ => "it goes by itself after an hour",
        }
    }

    fn about_file(&self, method: &'static str, remote: &Remote) -> HttpRequest {
        let mut headers = self.credential();
        headers.push(("accept", "application/json".to_owned()));
        if self.wire == Wire::Messages {
            headers.push(anthropic_beta());
        }
        let url = self.url(&file_path(self.wire, &remote.id));
        HttpRequest { method, url, headers, body: Vec::new() }
    }

    /// Google's uploads have a path of their own, before the version.
    fn upload_url(&self) -> String {
        let url = self.url("/v1beta/files");
        let (path, query) =
            url.split_once('?').map_or((url.as_str(), ""), |(path, query)| (path, query));
        let front = path.strip_suffix("/files").unwrap_or(path);
        let (root, version) = front.rsplit_once('/').unwrap_or((front, "v1beta"));
        let query = if query.is_empty() { String::new() } else { format!("?{query}") };
        format!("{root}/upload/{version}/files{query}")
    }
}

fn file_path(wire: Wire, id: &str) -> String {
    format!("/{}/files/{id}", if wire == Wire::Gemini { "v1beta" } else { "v1" })
}

/// Scheme and authority in lower case, the port always there.
fn origin(address: &str) -> Option<(String, String)> {
    let (scheme, rest) = address.split_once("://")?;
    let scheme = scheme.to_ascii_lowercase();
    let port = match scheme.as_str() {
        "http" => "80",
        "https" => "443",
        _ => return None,
    };
    let authority = rest.split(['/', '?', '#']).next().filter(|authority| !authority.is_empty())?;
    let authority = authority.to_ascii_lowercase();
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| {
        !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
    });
    Some((scheme, if has_port { authority } else { format!("{authority}:{port}") }))
}

/// A form with a file (RFC 7578); its name is escaped as browsers do.
fn multipart(
    boundary: &str,
    fields: &[(&str, &str)],
    name: &str,
    mime: &str,
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
         Content-Type: {mime}\r\n\r\n"
    ));
    let end = format!("\r\n--{boundary}--\r\n");
    let mut body =
        Vec::with_capacity(head.len().saturating_add(bytes.len()).saturating_add(end.len()));
    body.extend_from_slice(head.as_bytes());
    body.extend_from_slice(bytes);
    body.extend_from_slice(end.as_bytes());
    body
}
