//! One HTTP exchange after another over one connection: bytes out, the head and the bytes that come back
//! handed on as they come. The only place with an async runtime, on the calling thread.
//!
//! It follows no redirect, unpacks nothing, retries nothing and judges no status: a wire format's decoder
//! does that. There is no limit on the whole time, since a model may speak for long; each silence has one.

mod failure;
mod trust;

use std::env;
use std::ffi::OsString;
use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Method, Request, Url, redirect};
use tokio::net::unix::pipe::Receiver;
use tokio::runtime::{self, Runtime};
use tokio::time::timeout;

use self::failure::{Phase, api_error, explain, silence};
use crate::exit::Signal;
use crate::llm::{ApiError, ErrorKind, HttpRequest};
use crate::sys::interrupt::Interrupts;

/// How long a server may take to end a body whose reader has all it wants. Reading the end keeps the connection.
const LINGER: Duration = Duration::from_millis(200);

/// The slowest line that a request with a file is still sent over, in bytes a second.
const SLOWEST: u64 = 64 << 10;

/// The head of a response. The client takes 100 headers and 400 KiB at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The status code.
    pub status: u16,
    /// Names in lower case; what is no UTF-8 in a value is U+FFFD.
    pub headers: Vec<(String, String)>,
}

impl Head {
    /// The first value of a header, its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(given, _)| given == name).map(|(_, value)| &value[..])
    }
}

/// A piece of a response, in order: the head once, then the body in any number of chunks, none empty.
#[derive(Debug)]
pub enum Part<'a> {
    /// Status and headers.
    Head(&'a Head),
    /// The next bytes of the body.
    Body(&'a [u8]),
}

/// What the receiver of the parts wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The rest.
    More,
    /// Nothing: it has seen the end mark. What still comes is read, for a moment, and dropped.
    Complete,
}

/// Why an exchange did not come to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The connection's error, or the one that the receiver gave.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// A signal came first.
    #[error("interrupted by {}", .0.name())]
    Interrupted(Signal),
}

/// A request that can be sent any number of times: its body is shared, not copied.
#[derive(Debug)]
pub struct Prepared {
    /// Without its body.
    request: Request,
    body: Bytes,
    host: String,
    route: Route,
}

impl Prepared {
    /// The body, to be used again, unless the client still holds it: it lets go when the response has ended.
    pub fn into_body(self) -> Option<Vec<u8>> {
        self.body.is_unique().then(|| Vec::from(self.body))
    }
}

/// What a client must be able to do for an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Route {
    /// Whether TLS may be needed, to the host or to a proxy.
    tls: bool,
    /// Whether the proxies of the environment are passed by: for this machine itself.
    direct: bool,
}

/// Sends requests, and keeps the connection from one to the next.
#[derive(Debug)]
pub struct Client {
    connect: Duration,
    read: Duration,
    runtime: Option<Runtime>,
    clients: Vec<(Route, reqwest::Client)>,
}

impl Client {
    /// A client that has done nothing yet. `connect` is the longest time for a connection with its TLS, `read`
    /// the longest silence: before the head, and before each chunk of the body.
    pub fn new(connect: Duration, read: Duration) -> Self {
        Self { connect, read, runtime: None, clients: Vec::new() }
    }

    /// Checks a request and takes its body over.
    pub fn prepare(&self, request: HttpRequest) -> Result<Prepared, ApiError> {
        let other = |message| api_error(ErrorKind::Other, message);
        let url = Url::parse(&request.url).map_err(|error| {
            other(format!("the model's address is not a URL: {error}; check base_url"))
        })?;
        let Some(host) = url.host_str().map(str::to_owned) else {
            return Err(other("the model's address names no host; check base_url".to_owned()));
        };
        if !matches!(url.scheme(), "http" | "https") {
            return Err(other(format!(
                "{}:// is not spoken here, only http:// and https://; check base_url",
                url.scheme()
            )));
        }
        let direct = is_loopback(&host);
        let tls = url.scheme() == "https" || !direct && has_proxy();
        let host = url.port().map_or_else(|| host.clone(), |port| format!("{host}:{port}"));
        let method = Method::from_bytes(request.method.as_bytes())
            .map_err(|_| other(format!("{} is not an HTTP method", request.method)))?;
        let mut prepared = Request::new(method, url);
        for (name, value) in request.headers {
            // Neither error shows the value: it may be a key.
            let header = HeaderName::from_bytes(name.as_bytes());
            let header = header.map_err(|_| other(format!("{name} is not a header's name")))?;
            let value = HeaderValue::from_str(&value).map_err(|_| {
                other(format!("the value for the header {name} holds a line feed or another character that HTTP does not allow; check the key"))
            })?;
            prepared.headers_mut().append(header, value);
        }
        let body = Bytes::from(request.body);
        Ok(Prepared { request: prepared, body, host, route: Route { tls, direct } })
    }

    /// Sends the request, hands the response to `on_part` as it comes, and returns its head when the body has
    /// ended. Any status is a response. An error of `on_part` ends the exchange and is returned, as a signal
    /// does, at any point, within a few milliseconds.
    ///
    /// Broken connections and silence are [`ErrorKind::Broken`], a body that ends early is [`ErrorKind::Cut`]; TLS
    /// that is refused and answers that are no HTTP are [`ErrorKind::Other`].
    pub fn send(
        &mut self,
        prepared: &Prepared,
        interrupts: &Interrupts,
        on_part: &mut dyn FnMut(Part<'_>) -> Result<Progress, ApiError>,
    ) -> Result<Head, Failure> {
        if let Some(signal) = interrupts.pending() {
            return Err(Failure::Interrupted(signal));
        }
        let client = self.client(prepared)?;
        let runtime = match self.runtime.take() {
            Some(runtime) => runtime,
            None => {
                // A server that sends without end keeps the connection's task busy: time and signals are looked at after
                // each of its turns, not after each sixty of them.
                runtime::Builder::new_current_thread()
                    .enable_all()
                    .event_interval(1)
                    .build()
                    .map_err(|error| {
                        api_error(
                            ErrorKind::Other,
                            format!(
                                "cannot wait for the network: {error}; are there descriptors left?"
                            ),
                        )
                    })?
            }
        };
        let runtime = self.runtime.insert(runtime);
        let exchange = exchange(client, prepared, self.connect, self.read, on_part);
        let result = runtime.block_on(async {
            let signals = interrupts
                .as_fd()
                .try_clone_to_owned()
                .and_then(Receiver::from_owned_fd)
                .map_err(|error| {
                    api_error(
                        ErrorKind::Other,
                        format!("cannot watch for signals: {error}; are there descriptors left?"),
                    )
                })?;
            Ok::<_, ApiError>(unless(exchange, signals.readable()).await)
        })?;
        match (result, interrupts.pending()) {
            (Some(result), _) => Ok(result?),
            (None, Some(signal)) => Err(Failure::Interrupted(signal)),
            (None, None) => Err(api_error(
                ErrorKind::Broken,
                format!("the exchange with {} was given up; try again", prepared.host),
            )
            .into()),
        }
    }
}

impl Client {
    /// The HTTP client for the request's route, made when it is first needed.
    fn client(&mut self, prepared: &Prepared) -> Result<reqwest::Client, ApiError> {
        if let Some((_, client)) = self.clients.iter().find(|(route, _)| *route == prepared.route) {
            return Ok(client.clone());
        }
        let authorities = (env::var_os("SSL_CERT_FILE"), env::var_os("SSL_CERT_DIR"));
        let client = build(prepared.route, self.connect, authorities).map_err(|why| {
            api_error(ErrorKind::Other, format!("cannot connect to {}: {why}", prepared.host))
        })?;
        self.clients.push((prepared.route, client.clone()));
        Ok(client)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // The ordinary drop would wait for a name lookup that hangs.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn exchange(
    client: reqwest::Client,
    prepared: &Prepared,
    connect: Duration,
    read: Duration,
    on_part: &mut dyn FnMut(Part<'_>) -> Result<Progress, ApiError>,
) -> Result<Head, ApiError> {
    let host = &prepared.host[..];
    // A connection that the server closed since the last exchange is noticed before anything is written to it, and
    // the client takes a new one: the first yield lets the runtime hear of it, the second the connection's own task.
    for _ in 0..2 {
        tokio::task::yield_now().await;
    }
    let mut request =
        prepared.request.try_clone().expect("a request without a body can always be cloned");
    if !prepared.body.is_empty() {
        *request.body_mut() = Some(prepared.body.clone().into());
    }
    // Megabytes on a slow line are on their way for minutes, and no server answers before it has them.
    let upload = Duration::from_secs(prepared.body.len() as u64 / SLOWEST);
    let head = read.saturating_add(upload);
    let mut response = match timeout(head, client.execute(request)).await {
        Ok(response) => response.map_err(|error| explain(&error, host, Phase::Head, connect))?,
        Err(_) => return Err(silence(host, Phase::Head, head)),
    };
    let headers = response.headers().iter();
    let headers = headers.map(|(name, value)| {
        (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    });
    let head = Head { status: response.status().as_u16(), headers: headers.collect() };
    let mut progress = on_part(Part::Head(&head))?;
    while progress == Progress::More {
        match timeout(read, response.chunk()).await {
            Ok(Ok(Some(bytes))) if bytes.is_empty() => {}
            Ok(Ok(Some(bytes))) => progress = on_part(Part::Body(&bytes))?,
            Ok(Ok(None)) => return Ok(head),
            Ok(Err(error)) => return Err(explain(&error, host, Phase::Body, connect)),
            Err(_) => return Err(silence(host, Phase::Body, read)),
        }
    }
    let rest = async { while let Ok(Some(_)) = response.chunk().await {} };
    let _ = timeout(LINGER, rest).await;
    Ok(head)
}

/// The work's result, or `None` as soon as `stop` is done.
async fn unless<T>(work: impl Future<Output = T>, stop: impl Future) -> Option<T> {
    let mut work = pin!(work);
    let mut stop = pin!(stop);
    poll_fn(|context| {
        // First: bytes that come without end must not hide a signal.
        if stop.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        work.as_mut().poll(context).map(Some)
    })
    .await
}

/// A client for the route; the error says why there is none.
fn build(
    route: Route,
    connect: Duration,
    (file, folder): (Option<OsString>, Option<OsString>),
) -> Result<reqwest::Client, String> {
    let tls = if route.tls { trust::roots(file, folder)? } else { trust::nobody()? };
    let builder = reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .redirect(redirect::Policy::none())
        .referer(false)
        .connect_timeout(connect)
        .user_agent(concat!("nagent/", env!("CARGO_PKG_VERSION")));
    let builder = if route.direct { builder.no_proxy() } else { builder };
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

/// Whether the environment may name a proxy.
fn has_proxy() -> bool {
    let names =
        ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
    names.iter().any(|name| env::var_os(name).is_some_and(|value| !value.is_empty()))
}

#[cfg(test)]
mod tests;
