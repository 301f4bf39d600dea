//! One request for a script, to an address that is checked when the connection is made: a name may resolve to another
//! address a moment later.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use tokio::net::unix::pipe::Receiver;
use tokio::runtime;

use conversation::limits::JS_READ;
use std::os::fd::AsFd;
use sys::http::error::list_causes;
use sys::http::{ResponseHead, client_builder, find_proxy, read_head, run_until};
use sys::interrupt::Interrupts;

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct FetchRequest {
    /// The method.
    pub method: String,
    /// The destination, with scheme `http` or `https`.
    pub url: Url,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// Whether the address may be one of this machine or of a private network.
    pub is_private_allowed: bool,
    /// Maximum time.
    pub time: Duration,
}

/// A response, with its body.
pub(crate) type Fetched = (ResponseHead, Vec<u8>);

/// Sends one request and reads the response; a redirect is a response.
///
/// # Errors
/// The reason of the failure. A signal also ends it, and is pending then.
pub(crate) fn fetch(request: FetchRequest, interrupts: &Interrupts) -> Result<Fetched, String> {
    let (time, host) = (request.time, request.url.host_str().unwrap_or_default().to_owned());
    let literal =
        request.url.host_str().map(|host| host.trim_matches(['[', ']']).parse::<IpAddr>());
    if let Some(Ok(address)) = literal
        && !request.is_private_allowed
        && !is_public(address)
    {
        return Err(refuse_private(&host));
    }
    let client = build_client(&request)?;
    let runtime = runtime::Builder::new_current_thread().enable_all().event_interval(1).build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let fetched = runtime.block_on(async {
        let signals = interrupts.as_fd().try_clone_to_owned().and_then(Receiver::from_owned_fd);
        let signals = signals.map_err(|error| error.to_string())?;
        let exchange = tokio::time::timeout(time, exchange(client, request));
        Ok::<_, String>(run_until(exchange, signals.readable()).await)
    });
    // The ordinary drop would wait for a name lookup that hangs.
    runtime.shutdown_background();
    match fetched? {
        None => Err("interrupted".to_owned()),
        Some(Err(_)) => Err(format!("{host} took longer than {} s", time.as_secs_f64())),
        Some(Ok(result)) => result,
    }
}

async fn exchange(client: reqwest::Client, request: FetchRequest) -> Result<Fetched, String> {
    let host = request.url.host_str().unwrap_or_default().to_owned();
    let explain = |error: reqwest::Error| {
        let causes = list_causes(&error);
        let cause = causes.last().map_or_else(|| error.to_string(), ToString::to_string);
        format!("request to {host} failed: {cause}")
    };
    let method = Method::from_bytes(request.method.as_bytes())
        .map_err(|_| format!("{} is not an HTTP method", request.method))?;
    let mut headers = HeaderMap::new();
    for (name, value) in &request.headers {
        let wrong = || format!("the header {name} has a name or a value that HTTP does not allow");
        let value = HeaderValue::from_str(value).map_err(|_| wrong())?;
        headers.append(HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?, value);
    }
    let sent =
        client.request(method, request.url.clone()).headers(headers).body(request.body).send();
    let mut response = sent.await.map_err(explain)?;
    let head = read_head(&response);
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(explain)? {
        body.extend_from_slice(&chunk);
        if body.len() as u64 > JS_READ {
            return Err(format!("the response of {host} is over the limit of {JS_READ} bytes"));
        }
    }
    Ok((head, body))
}

fn build_client(request: &FetchRequest) -> Result<reqwest::Client, String> {
    let files = (std::env::var_os("SSL_CERT_FILE"), std::env::var_os("SSL_CERT_DIR"));
    let builder = client_builder(request.url.scheme() == "https", files)?
        .user_agent(concat!("nagent-think/", env!("CARGO_PKG_VERSION")));
    let proxy = find_proxy(request.url.scheme()).and_then(|name| std::env::var(name).ok());
    let builder = match proxy {
        _ if request.is_private_allowed => builder.no_proxy(),
        None => builder.no_proxy().dns_resolver(PublicNames(None)),
        // The proxy looks names up; those of NO_PROXY are looked up here.
        Some(proxy) => {
            let host = find_host(&proxy).filter(|host| request.url.host_str() != Some(host));
            builder.dns_resolver(PublicNames(host))
        }
    };
    builder.build().map_err(|error| error.to_string())
}

/// The host in a variable that names a proxy: a URL, or one without its scheme.
fn find_host(proxy: &str) -> Option<String> {
    let url = Url::parse(proxy).ok().filter(Url::has_host);
    let url = url.or_else(|| Url::parse(&format!("http://{proxy}")).ok())?;
    url.host_str().map(str::to_owned)
}

/// Resolves names, and accepts a name only if all its addresses are public: the connection then goes to one of these.
/// The host in it is that of a proxy, which is usually in a private network.
struct PublicNames(Option<String>);

impl Resolve for PublicNames {
    fn resolve(&self, name: Name) -> Resolving {
        let is_proxy = self.0.as_deref() == Some(name.as_str());
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let found = tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
            let found = if is_proxy { found } else { require_public(&host, found)? };
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// Accepts the addresses of a name if all are public: a later look-up may give another one.
fn require_public(host: &str, found: Vec<SocketAddr>) -> io::Result<Vec<SocketAddr>> {
    if found.is_empty() || !found.iter().all(|address| is_public(address.ip())) {
        return Err(io::Error::other(refuse_private(host)));
    }
    Ok(found)
}

fn refuse_private(host: &str) -> String {
    format!(
        "{host} is on this machine or in a private network; only an entry that names it allows that: nagent-thought policy add host"
    )
}

/// Whether an address is on the public internet.
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => {
            let parts = address.segments();
            let embedded = |high: u16, low: u16| {
                is_public_v4(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)))
            };
            match parts {
                // NAT64, 6to4 and the old form of an IPv4 address in IPv6 lead to the IPv4 address.
                [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0, 0, 0, 0, 0, 0, high, low] => {
                    embedded(high, low) && !address.is_loopback()
                }
                [0x2002, high, low, ..] => embedded(high, low),
                // Global unicast, without the range for documentation.
                [first, second, ..] => {
                    first & 0xe000 == 0x2000 && (first, second) != (0x2001, 0xdb8)
                }
            }
        }
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        || a == 0
        // Shared by customers of a provider; protocols; benchmarks; multicast and reserved.
        || (a == 100 && b & 0xc0 == 64)
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && b & 0xfe == 18)
        || a >= 224;
    !is_special
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_internet_are_public() {
        for (address, expect) in [
            ("1.1.1.1", true),
            ("172.32.0.1", true),
            ("100.128.0.1", true),
            ("2606:4700::1111", true),
            ("::ffff:1.1.1.1", true),
            ("127.0.0.1", false),
            ("0.0.0.0", false),
            ("10.0.0.1", false),
            ("172.16.0.1", false),
            ("192.168.1.1", false),
            ("169.254.169.254", false),
            ("100.64.0.1", false),
            ("198.18.0.1", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
            ("::1", false),
            ("::", false),
            ("fe80::1", false),
            ("fd00::1", false),
            ("ff02::1", false),
            ("::ffff:169.254.169.254", false),
            ("::127.0.0.1", false),
            ("64:ff9b::7f00:1", false),
            ("2002:7f00:1::", false),
            ("2001:db8::1", false),
        ] {
            assert_eq!(is_public(address.parse().unwrap()), expect, "{address}");
        }
    }

    #[test]
    fn a_name_that_leads_here_and_there_leads_nowhere() {
        let public: SocketAddr = "1.1.1.1:0".parse().unwrap();
        let private: SocketAddr = "[::ffff:10.0.0.1]:0".parse().unwrap();
        assert_eq!(require_public("a", vec![public]).unwrap(), [public]);
        for found in [vec![], vec![private], vec![public, private], vec![private, public]] {
            assert!(require_public("a", found.clone()).is_err(), "{found:?}");
        }
    }

    #[test]
    fn a_name_that_leads_to_this_machine_is_refused_when_it_is_looked_up() {
        let request = FetchRequest {
            method: "GET".into(),
            url: Url::parse("http://localhost:1/").unwrap(),
            headers: Vec::new(),
            body: Vec::new(),
            is_private_allowed: false,
            time: Duration::from_secs(20),
        };
        let check = |request: FetchRequest, part: &str| {
            let why = fetch(request, &Interrupts::without_handlers().unwrap()).unwrap_err();
            assert!(why.contains(part), "{why}");
        };
        if find_proxy("http").is_none() {
            check(request.clone(), "private network");
        }
        check(FetchRequest { is_private_allowed: true, ..request }, "refused");
    }
}
