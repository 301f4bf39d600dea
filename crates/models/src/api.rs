//! The interface to a provider's API: the trait that a new API implements, and the server that speaks it.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};
use url::Url;

use super::ChatRequest;
use super::attachment::FileFormat;
use super::partial_reply::PartialReply;
use super::price::Price;
use super::server::KnownServer;
use conversation::model::ApiError;

/// An API. [`PartialReply::stop`] may be set only when the API's end mark has arrived, however much text there is.
pub trait Api: Sync {
    /// The path of a request to the model, with the version, which is used if the base address has none.
    fn chat_path(&self, model: &str) -> String;

    /// The body of a request to the model. Messages come last, since the provider's cache works by prefix.
    fn chat_body(&self, ask: &ChatRequest<'_>, server: &Endpoint) -> Vec<u8>;

    /// Headers of every request.
    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// The header with the credential.
    fn key_header(&self, key: &str, host: &str) -> (&'static str, String) {
        // Azure has a header of its own.
        if host.ends_with(".azure.com") {
            ("api-key", key.to_owned())
        } else {
            ("authorization", format!("Bearer {key}"))
        }
    }

    /// Whether a stream has one JSON value per line instead of server-sent events.
    fn is_json_lines(&self) -> bool {
        false
    }

    /// Maximum size of one event, in bytes.
    fn longest_event(&self) -> usize {
        conversation::limits::STREAM_LINE
    }

    /// Whether servers that imitate the API may send reasoning as text in `<think>` tags.
    fn may_inline_reasoning(&self) -> bool {
        false
    }

    /// Reads one event of a stream.
    fn on_event(&self, event: &Value, reply: &mut PartialReply) -> Result<(), ApiError>;

    /// Reads a JSON body that came instead of the requested stream. Some proxies do that.
    fn on_body(&self, body: &Value, reply: &mut PartialReply) -> Result<(), ApiError> {
        self.on_event(body, reply)
    }

    /// The path of the request that lists models.
    fn models_path(&self) -> &'static str {
        "/models"
    }

    /// The parameter that names a page of models.
    fn page_parameter(&self) -> &'static str {
        "after"
    }

    /// The files that a model accepts at a server.
    fn file_rules(&self, server: &Endpoint, model: &str) -> FileRules;
}

/// A server with its API and credential. It does not implement `Debug`, since it holds the key.
#[derive(Clone)]
pub struct Endpoint {
    /// The API that it speaks.
    pub api: &'static dyn Api,
    /// Its address, with or without a trailing slash. A query (`?api-version=…`) is kept.
    pub base_url: String,
    /// The credential; local servers need none.
    pub key: Option<String>,
    /// Whether the server belongs to the owner of the API. Imitations may refuse features that only the owner's server
    /// has.
    pub official: bool,
    /// The known server that it is, by its profile or its address.
    pub server: Option<&'static KnownServer>,
    /// Whether the credential is a token, and so is not sent in the API's own header for keys.
    pub has_token: bool,
    /// Headers set by the user for every request.
    pub headers: Vec<(String, String)>,
    /// Members set by the user for the body of requests to the model, merged into those of the API; null removes one.
    pub body: Map<String, Value>,
}

impl Endpoint {
    /// A server at an address, without any settings of the user's.
    pub fn new(
        api: &'static dyn Api,
        base_url: impl Into<String>,
        key: Option<String>,
        official: bool,
    ) -> Self {
        let base_url = base_url.into();
        let (headers, body) = (Vec::new(), Map::new());
        let mut endpoint =
            Self { api, base_url, key, official, server: None, has_token: false, headers, body };
        endpoint.server = KnownServer::find_server_at_host(&endpoint.host_name());
        endpoint
    }

    /// The host of the address, in lower case; empty if the address is not a URL.
    pub(super) fn host_name(&self) -> String {
        let url = Url::parse(self.base_url.trim()).ok();
        url.as_ref().and_then(Url::host_str).unwrap_or_default().to_owned()
    }
}

/// A model that a server offers.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelInfo {
    /// The id to request it by.
    pub id: String,
    /// The window in tokens: as the server reports it, else from this program's table, else unknown.
    pub window: Option<u64>,
    /// The longest reply in tokens: as the server reports it, else from this program's table, else unknown.
    pub max_output: Option<u64>,
    /// The price, if the server reports it.
    pub price: Option<Price>,
    /// The day on which the provider shuts it down, if the server reports it.
    pub ends: Option<String>,
}

/// One page of the server's list of models.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelPage {
    /// The models, in the server's order.
    pub models: Vec<ModelInfo>,
    /// The page to request from [`Endpoint::models_request`] next; `None`: this was the last page.
    pub next: Option<String>,
}

/// The files that an API accepts for a model.
#[derive(Debug, Clone, Copy)]
pub struct FileRules {
    /// The name of the API's owner or of what else reads the files, for messages.
    pub server: &'static str,
    /// Whether it takes pictures: PNG and JPEG, which others become.
    pub pictures: bool,
    /// Other formats that are not text.
    pub documents: &'static [FileFormat],
    /// Maximum size of an image, in bytes; a larger one is scaled down.
    pub image_limit: u64,
    /// Maximum length of a side of an image, in pixels.
    pub side: u32,
    /// Maximum size of another file within a request; a larger one is uploaded.
    pub document_limit: u64,
    /// Maximum number of pages of a PDF.
    pub pages: u64,
    /// Maximum size of all files of a request, in bytes, and their number.
    pub request: (u64, u64),
    /// Its files API, for files that are too large for a request.
    pub files_api: Option<FilesApi>,
    /// The tokens of an image, by the model, its width and its height.
    pub image_tokens: fn(&str, u64, u64) -> u64,
    /// The tokens of a page of a PDF.
    pub page_tokens: u64,
}

/// A provider's files API: a file is uploaded, referred to by its id in a request, and removed.
#[derive(Debug, Clone, Copy)]
pub struct FilesApi {
    /// The path of its files.
    pub path: &'static str,
    /// The form of an upload.
    pub form: UploadForm,
    /// Headers of its requests, and of requests that name an uploaded file.
    pub headers: &'static [(&'static str, &'static str)],
}

/// The body of an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadForm {
    /// A form with these fields and the file.
    Fields(&'static [(&'static str, &'static str)]),
    /// A document about the file, and the file: Google's form.
    Related,
}

/// The characters that are encoded in a path segment or in the value of a query.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b':')
    .remove(b'@')
    .remove(b'/');

pub(super) fn percent_encode(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}
