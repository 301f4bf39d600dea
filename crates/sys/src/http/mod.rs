//! The HTTP client: one exchange after another over one connection; the response is passed on while it arrives.
//!
//! It follows no redirects, and does not decompress, retry or interpret the status: the decoder of the reply does that.
//! The total time has a limit only if the user set one, since a model may talk for long; each silence has a limit. Its
//! async runtime runs on the calling thread.

mod certificates;
pub mod error;

use std::env;
use std::ffi::OsString;
use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Method, Request, Response, Url, redirect};
use rustls::RootCertStore;
use tokio::net::unix::pipe::Receiver;
use tokio::runtime::{self, Runtime};
use tokio::time::{timeout, timeout_at};

use self::error::{Phase, explain, explain_silence};
use crate::interrupt::Interrupts;
use conversation::exit::Signal;
use conversation::model::{ApiError, ErrorKind, HttpRequest};
use conversation::problem::Problem;

/// Maximum time for a server to end a body that was read far enough. Reading to the end allows reuse of the connection.
const LINGER: Duration = Duration::from_millis(200);

/// The slowest upload that is accepted, in bytes a second.
const SLOWEST_UPLOAD: u64 = 64 << 10;

/// The head of a response. The HTTP library accepts up to 100 headers and 400 KiB.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseHead {
    /// The status code.
    pub status: u16,
    /// Names in lower case; invalid UTF-8 in a value becomes U+FFFD.
    pub headers: Vec<(String, String)>,
}

/// A part of a response: first the head, then the body in any number of chunks, none of them empty.
#[derive(Debug)]
pub enum ResponsePart<'a> {
    /// Status and headers.
    Head(&'a ResponseHead),
    /// The next bytes of the body.
    Body(&'a [u8]),
}

/// Receives the parts of a response. `Break` means that it needs no more; the rest is dropped.
pub(crate) type OnPart<'a> =
    &'a mut dyn FnMut(ResponsePart<'_>) -> Result<ControlFlow<()>, ApiError>;

/// The reason why a request got no complete response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The connection failed, or the server or the receiver of the response reported an error.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// A signal came first.
    #[error("interrupted by {}", .0.name())]
    Interrupted(Signal),
}

impl RequestError {
    /// The error with another message, unless a signal came.
    #[must_use]
    pub fn map_message(self, message: impl FnOnce(&ApiError) -> String) -> Self {
        match self {
            Self::Api(error) => Self::Api(ApiError { message: message(&error), ..error }),
            Self::Interrupted(_) => self,
        }
    }
}

impl From<RequestError> for Problem {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Interrupted(signal) => Self::interrupted(signal),
            RequestError::Api(error) => {
                Self { usage: error.usage, ..Self::new(error.kind.exit(), error.message) }
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ConnectionNeeds {
    /// The connection uses TLS, to the host or to a proxy. Loading the root certificates takes time, so plain HTTP
    /// skips it.
    tls: bool,
    /// The address is on this machine: no proxy is used.
    direct: bool,
}

/// Sends requests, and reuses the connection from one to the next.
#[derive(Debug)]
pub struct HttpClient {
    connect_timeout: Duration,
    read_timeout: Duration,
    deadline: Option<Instant>,
    runtime: Option<Runtime>,
    client: Option<(ConnectionNeeds, reqwest::Client)>,
}

impl HttpClient {
    /// A client without a connection yet. `read_timeout` limits each silence: before the head, and before each chunk of
    /// the body.
    pub fn new(connect_timeout: Duration, read_timeout: Duration) -> Self {
        Self { connect_timeout, read_timeout, deadline: None, runtime: None, client: None }
    }

    /// Ends every exchange once this much time has passed from now.
    pub fn limit_time(&mut self, limit: Duration) {
        self.deadline = Instant::now().checked_add(limit);
    }

    /// Ends exchanges after this much time, until [`Self::set_deadline`] restores the deadline that this returns.
    pub fn limit_for_now(&mut self, limit: Duration) -> Option<Instant> {
        let soon = Instant::now().checked_add(limit);
        let before = self.deadline;
        self.deadline = soon.into_iter().chain(before).min();
        before
    }

    /// Ends exchanges at this instant.
    pub fn set_deadline(&mut self, deadline: Option<Instant>) {
        self.deadline = deadline;
    }

    /// Sends a request, passes the response to `on_part` while it arrives, and returns its head when the body has ended.
    ///
    /// Any status is a response. An error of `on_part` ends the exchange and is returned. A signal ends it at any point,
    /// within a few milliseconds. Broken connections and silence are [`ErrorKind::Broken`], a body that ends early is
    /// [`ErrorKind::Cut`]; refused TLS and answers that are not HTTP are [`ErrorKind::Other`].
    pub fn send(
        &mut self,
        request: HttpRequest,
        interrupts: &Interrupts,
        on_part: OnPart<'_>,
    ) -> Result<ResponseHead, RequestError> {
        if let Some(signal) = interrupts.pending() {
            return Err(RequestError::Interrupted(signal));
        }
        let (request, host) = prepare_request(request)?;
        let client = self.client_for(&request, &host)?;
        let is_excepted = |host: &str| is_loopback(host) || has_no_proxy(host);
        let is_direct = request.url().host_str().is_some_and(is_excepted);
        let proxy = find_proxy(request.url().scheme()).filter(|_| !is_direct);
        let deadline = self.deadline;
        let failed = |error: std::io::Error| {
            let message = format!("cannot wait for the network: {error}; are too many files open?");
            ApiError::new(ErrorKind::Other, &message)
        };
        let exchange = Exchange {
            host: &host,
            proxy,
            connect_timeout: self.connect_timeout,
            read_timeout: self.read_timeout,
        };
        let runtime = match self.runtime.take() {
            Some(runtime) => runtime,
            // A server that sends without end keeps the connection's task busy: check time and signals after each of
            // its turns, not after each sixty of them.
            None => runtime::Builder::new_current_thread()
                .enable_all()
                .event_interval(1)
                .build()
                .map_err(failed)?,
        };
        let result = self.runtime.insert(runtime).block_on(async {
            let signals = interrupts.as_fd().try_clone_to_owned().and_then(Receiver::from_owned_fd);
            let signals = signals.map_err(failed)?;
            let exchange = exchange.run_exchange(client, request, on_part);
            let exchange = async {
                let Some(deadline) = deadline else { return exchange.await };
                timeout_at(deadline.into(), exchange).await.unwrap_or_else(|_| {
                    let message = "the time of --max-seconds was over before the reply ended";
                    Err(ApiError::new(ErrorKind::TimeOver, message))
                })
            };
            Ok::<_, ApiError>(run_until(exchange, signals.readable()).await)
        })?;
        match result {
            Some(result) => Ok(result?),
            // A handler sets the flag before it writes to the pipe.
            None => Err(RequestError::Interrupted(interrupts.pending().unwrap_or(Signal::Int))),
        }
    }

    /// The library's client for the request's address, made when it is first needed.
    fn client_for(&mut self, request: &Request, host: &str) -> Result<reqwest::Client, ApiError> {
        let direct = request.url().host_str().is_some_and(is_loopback);
        let scheme = request.url().scheme();
        let tls = scheme == "https" || !direct && find_proxy(scheme).is_some();
        let needs = ConnectionNeeds { tls, direct };
        if let Some((_, client)) = self.client.iter().find(|(made_for, _)| *made_for == needs) {
            return Ok(client.clone());
        }
        let certificates = (env::var_os("SSL_CERT_FILE"), env::var_os("SSL_CERT_DIR"));
        let client = build_client(needs, self.connect_timeout, certificates).map_err(|why| {
            ApiError::new(ErrorKind::Other, &format!("cannot connect to {host}: {why}"))
        })?;
        self.client = Some((needs, client.clone()));
        Ok(client)
    }
}

/// The library's client for an address, with this module's certificates, proxies and limits: for the SDK of MCP, which sends
/// its requests by itself.
pub fn make_client(url: &str, connect_timeout: Duration) -> Result<reqwest::Client, String> {
    let url = Url::parse(url).map_err(|error| format!("{url} is not an address: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("{url}: only http:// and https:// are supported"));
    }
    let (request, host) = (Request::new(Method::POST, url.clone()), url.host_str());
    let mut client = HttpClient::new(connect_timeout, connect_timeout);
    client.client_for(&request, host.unwrap_or_default()).map_err(|error| error.message)
}

impl Drop for HttpClient {
    fn drop(&mut self) {
        // The ordinary drop would wait for a name lookup that hangs.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn prepare_request(request: HttpRequest) -> Result<(Request, String), ApiError> {
    let other = |message: String| ApiError::new(ErrorKind::Other, &message);
    let url = Url::parse(&request.url).map_err(|error| {
        other(format!("the model's address is not a URL: {error}; check base_url"))
    })?;
    let scheme = url.scheme();
    if !matches!(scheme, "http" | "https") {
        let why = "is not supported, only http:// and https://; check base_url";
        return Err(other(format!("{scheme}:// {why}")));
    }
    let host = url.host_str().unwrap_or_default();
    let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
    let method = Method::from_bytes(request.method.as_bytes())
        .map_err(|_| other(format!("{} is not an HTTP method", request.method)))?;
    let mut prepared = Request::new(method, url);
    for (name, value) in request.headers {
        // The error does not show the value: it may be a key.
        let value = HeaderValue::from_str(&value).map_err(|_| {
            other(format!("the value for the header {name} holds a line feed or another character that HTTP does not allow; check the key"))
        })?;
        prepared.headers_mut().append(HeaderName::from_static(name), value);
    }
    for (name, value) in request.own_headers {
        let parsed = HeaderName::from_bytes(name.as_bytes()).ok();
        let Some((parsed, value)) = parsed.zip(HeaderValue::from_str(&value).ok()) else {
            return Err(other(format!(
                "the header {name} cannot be sent: HTTP does not allow its name or its value"
            )));
        };
        prepared.headers_mut().insert(parsed, value);
    }
    if !request.body.is_empty() {
        *prepared.body_mut() = Some(request.body.into());
    }
    Ok((prepared, host))
}

struct Exchange<'a> {
    host: &'a str,
    /// The variable that names a proxy, where the request may go through one.
    proxy: Option<&'static str>,
    connect_timeout: Duration,
    read_timeout: Duration,
}

impl Exchange<'_> {
    async fn run_exchange(
        &self,
        client: reqwest::Client,
        request: Request,
        on_part: OnPart<'_>,
    ) -> Result<ResponseHead, ApiError> {
        // A connection that the server closed since the last exchange is noticed before anything is written to it, and
        // the library makes a new one: the first yield lets the runtime notice, the second the connection's own task.
        for _ in 0..2 {
            tokio::task::yield_now().await;
        }
        // A large body on a slow line takes minutes, and no server answers before it has received it.
        let size = request.body().and_then(reqwest::Body::as_bytes).map_or(0, <[u8]>::len);
        let upload = Duration::from_secs(size as u64 / SLOWEST_UPLOAD);
        let head_timeout = self.read_timeout.saturating_add(upload);
        let mut response = match timeout(head_timeout, client.execute(request)).await {
            Ok(response) => response.map_err(|error| self.explain(&error, Phase::Head))?,
            Err(_) => return Err(explain_silence(self.host, Phase::Head, head_timeout)),
        };
        let head = read_head(&response);
        let mut progress = on_part(ResponsePart::Head(&head))?;
        while progress.is_continue() {
            match timeout(self.read_timeout, response.chunk()).await {
                Ok(Ok(Some(bytes))) if bytes.is_empty() => {}
                Ok(Ok(Some(bytes))) => progress = on_part(ResponsePart::Body(&bytes))?,
                Ok(Ok(None)) => return Ok(head),
                Ok(Err(error)) => return Err(self.explain(&error, Phase::Body)),
                Err(_) => return Err(explain_silence(self.host, Phase::Body, self.read_timeout)),
            }
        }
        let rest = async { while let Ok(Some(_)) = response.chunk().await {} };
        let _ = timeout(LINGER, rest).await;
        Ok(head)
    }

    fn explain(&self, error: &reqwest::Error, phase: Phase) -> ApiError {
        explain(error, self.host, phase, self.connect_timeout, self.proxy)
    }
}

/// The status and headers of a response, as text.
pub fn read_head(response: &Response) -> ResponseHead {
    let headers = response.headers().iter().map(|(name, value)| {
        (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    });
    ResponseHead { status: response.status().as_u16(), headers: headers.collect() }
}

/// The work's result, or `None` as soon as `stop` is done.
pub async fn run_until<T>(work: impl Future<Output = T>, stop: impl Future) -> Option<T> {
    let mut work = pin!(work);
    let mut stop = pin!(stop);
    poll_fn(|context| {
        // Check this first: bytes that come without end must not hide a signal.
        if stop.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        work.as_mut().poll(context).map(Some)
    })
    .await
}

/// The values of `SSL_CERT_FILE` and `SSL_CERT_DIR`.
pub type Certificates = (Option<OsString>, Option<OsString>);

/// What all HTTP clients have in common: no redirects, and roots of trust where they need some.
pub fn client_builder(
    tls: bool,
    (file, folder): Certificates,
) -> Result<reqwest::ClientBuilder, String> {
    let tls = if tls {
        certificates::trust_roots(file, folder)?
    } else {
        certificates::configure(RootCertStore::empty())?
    };
    let builder = reqwest::Client::builder().tls_backend_preconfigured(tls);
    Ok(builder.redirect(redirect::Policy::none()).referer(false))
}

fn build_client(
    needs: ConnectionNeeds,
    connect_timeout: Duration,
    certificates: Certificates,
) -> Result<reqwest::Client, String> {
    let builder = client_builder(needs.tls, certificates)?
        .connect_timeout(connect_timeout)
        .user_agent(concat!("nagent/", env!("CARGO_PKG_VERSION")));
    let builder = if needs.direct { builder.no_proxy() } else { builder };
    builder.build().map_err(|error| error.to_string())
}

/// Whether the host is this machine, by its name or its address.
fn is_loopback(host: &str) -> bool {
    let host = host.trim_end_matches('.');
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost"
        || host.ends_with(".localhost")
        || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

/// The variable that names a proxy for addresses with this scheme.
pub fn find_proxy(scheme: &str) -> Option<&'static str> {
    let own = if scheme == "https" {
        ["HTTPS_PROXY", "https_proxy"]
    } else {
        ["HTTP_PROXY", "http_proxy"]
    };
    let mut names = own.into_iter().chain(["ALL_PROXY", "all_proxy"]);
    names.find(|name| env::var_os(name).is_some_and(|value| !value.is_empty()))
}

/// Whether a variable excepts this host from proxies. Their rules for addresses are left to the client.
fn has_no_proxy(host: &str) -> bool {
    let lists = ["NO_PROXY", "no_proxy"].into_iter().filter_map(|name| env::var(name).ok());
    let names =
        lists.flat_map(|list| list.split(',').map(|it| it.trim().to_owned()).collect::<Vec<_>>());
    names.into_iter().any(|it| !it.is_empty() && host.ends_with(it.trim_start_matches(['*', '.'])))
}

#[cfg(test)]
mod tests;
