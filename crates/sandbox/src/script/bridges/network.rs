//! `net.fetch`: at each hop of a request the name of the host needs permission, and its address is checked.

use std::time::{Duration, Instant};

use base64::Engine;
use reqwest::Url;
use serde_json::{Map, Value, json};

use super::Bridges;
use crate::script::fetch::{FetchRequest, Fetched, fetch};
use crate::script::policy::AccessRequest;
use sys::http::ResponseHead;

/// Maximum time of a request, including redirects.
const TIME: Duration = Duration::from_secs(30);

/// Maximum number of redirects.
const REDIRECTS: usize = 10;

/// Headers that are not sent to another host after a redirect.
const PRIVATE_HEADERS: [&str; 3] = ["authorization", "cookie", "proxy-authorization"];

/// Headers that control the connection and its destination: with them, a script could reach another host than the
/// allowed one.
const CONNECTION_HEADERS: &str =
    "host connection content-length expect te trailer transfer-encoding upgrade";

impl Bridges<'_> {
    pub(super) fn fetch(
        &mut self,
        url: &str,
        options: Option<&Value>,
        deadline: Option<Instant>,
    ) -> Result<Value, String> {
        let option = |name: &str| {
            options.and_then(|options| options.get(name)).filter(|value| !value.is_null())
        };
        let text_of =
            |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let url = Url::parse(url).map_err(|error| format!("{url} is not a URL: {error}"))?;
        let headers = option("headers").and_then(Value::as_object).into_iter().flatten();
        let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), text_of(value)));
        let method = option("method").map_or_else(|| "GET".to_owned(), text_of);
        let request = FetchRequest {
            method: method.to_ascii_uppercase(),
            url,
            headers: headers.collect(),
            body: option("body").map(text_of).unwrap_or_default().into_bytes(),
            is_private_allowed: false,
            time: TIME,
        };
        let is_refused = |(name, _): &&(String, String)| {
            name.starts_with("proxy-") || CONNECTION_HEADERS.split(' ').any(|one| one == name)
        };
        if let Some((name, _)) = request.headers.iter().find(is_refused) {
            return Err(format!("the header {name} cannot be set"));
        }
        if matches!(request.method.as_str(), "CONNECT" | "TRACE") {
            return Err(format!("the method {} cannot be used", request.method));
        }
        let is_base64 = option("base64") == Some(&Value::Bool(true));
        let (head, body) = self.follow(request, deadline)?;
        let mut headers = Map::new();
        for (name, value) in head.headers {
            let joined = match headers.get(&name).and_then(Value::as_str) {
                Some(before) => format!("{before}, {value}"),
                None => value,
            };
            headers.insert(name, joined.into());
        }
        let body = if is_base64 {
            base64::engine::general_purpose::STANDARD.encode(body)
        } else {
            String::from_utf8(body).map_err(
                |_| "the body is not UTF-8 text; {base64: true} gives any body as base64",
            )?
        };
        Ok(json!({ "status": head.status, "headers": headers, "body": body }))
    }

    /// Sends a request, and follows redirects.
    fn follow(
        &mut self,
        mut request: FetchRequest,
        deadline: Option<Instant>,
    ) -> Result<Fetched, String> {
        let asked = self.permissions.asked;
        let began = Instant::now();
        for _ in 0..=REDIRECTS {
            let host = self.permit_host(&request.url)?;
            let port = request.url.port_or_known_default().unwrap_or(0);
            request.is_private_allowed = self.permissions.names_host(&host, port);
            // Time for questions does not count.
            let spent =
                began.elapsed().saturating_sub(self.permissions.asked.saturating_sub(asked));
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            request.time = TIME.saturating_sub(spent).min(left.unwrap_or(TIME));
            let fetched = fetch(request.clone(), self.permissions.interrupts)?;
            let Some(next) = find_redirect(&request, &fetched.0)? else { return Ok(fetched) };
            request = next;
        }
        Err(format!("over {REDIRECTS} redirects"))
    }

    /// Checks the permission for the host of an address, and returns its name.
    fn permit_host(&mut self, url: &Url) -> Result<String, String> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("{}: is not supported, only http and https", url.scheme()));
        }
        let host = url.host_str().unwrap_or_default().trim_end_matches('.').to_ascii_lowercase();
        if host.is_empty() {
            return Err("the address names no host".to_owned());
        }
        let port = url.port_or_known_default().unwrap_or(0);
        self.permissions.permit(AccessRequest::Host(&host, port))?;
        Ok(host)
    }
}

/// The request that follows a redirect.
fn find_redirect(
    request: &FetchRequest,
    head: &ResponseHead,
) -> Result<Option<FetchRequest>, String> {
    let location = head.headers.iter().find(|(name, _)| name == "location");
    let (301 | 302 | 303 | 307 | 308, Some((_, location))) = (head.status, location) else {
        return Ok(None);
    };
    let url = request.url.join(location);
    let url =
        url.map_err(|error| format!("redirected to {location}, which is not a URL: {error}"))?;
    let mut next = FetchRequest { url, ..request.clone() };
    let is_get = matches!(request.method.as_str(), "GET" | "HEAD");
    if head.status == 303 && !is_get || matches!(head.status, 301 | 302) && request.method == "POST"
    {
        "GET".clone_into(&mut next.method);
        next.body.clear();
        next.headers.retain(|(name, _)| !name.starts_with("content-"));
    }
    if next.url.origin() != request.url.origin() {
        next.headers.retain(|(name, _)| !PRIVATE_HEADERS.contains(&name.as_str()));
    }
    Ok(Some(next))
}
