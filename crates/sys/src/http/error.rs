//! Turns errors of the HTTP library into an [`ApiError`]: a kind for the loop, and a message for a person that names
//! the host, the cause and what to try. Never the whole address: it may hold a key.

use std::error::Error;
use std::io;
use std::time::Duration;

use conversation::model::{ApiError, ErrorKind};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Before the head of the response was complete.
    Head,
    /// In the body.
    Body,
}

pub(super) fn explain_silence(host: &str, phase: Phase, limit: Duration) -> ApiError {
    let (host, seconds) = (host, limit.as_secs_f64());
    let (what, advice) = match phase {
        Phase::Head => ("did not answer within", "; it may be overloaded, try again later"),
        Phase::Body => ("fell silent for", " in the middle of its answer; try again"),
    };
    ApiError::new(ErrorKind::Broken, &format!("{host} {what} {seconds} s{advice}"))
}

pub(super) fn explain(
    error: &reqwest::Error,
    host: &str,
    phase: Phase,
    connect: Duration,
    proxy: Option<&str>,
) -> ApiError {
    let causes = list_causes(error);
    let texts: Vec<String> = causes.iter().map(ToString::to_string).collect();
    let cause = texts.last().map_or("no cause given", String::as_str);
    let mut innermost = causes.iter().rev();
    let io = innermost.find_map(|cause| Some(cause.downcast_ref::<io::Error>()?.kind()));
    let not_http =
        |text: &&String| text.starts_with("invalid ") || text.contains("head is too large");
    let mentions = |part: &str| texts.iter().any(|text| text.contains(part));
    let tls = causes.iter().find_map(|cause| cause.downcast_ref::<rustls::Error>());
    let (kind, message) = if let Some(tls) = tls {
        let advice = "if a proxy or a private authority issued the certificate, name its certificate in SSL_CERT_FILE";
        (ErrorKind::Other, format!("no secure connection to {host}: {tls}; {advice}"))
    } else if error.is_connect() {
        let through = proxy.map(|name| format!("the proxy in {name}"));
        let way = through.as_ref().map(|proxy| format!(" through {proxy}")).unwrap_or_default();
        let message = if mentions("proxy auth") {
            let proxy = through.unwrap_or_else(|| "the proxy".to_owned());
            format!("{proxy} requires a login on the way to {host}: http://NAME:PASSWORD@HOST:PORT")
        } else if error.is_timeout() || io == Some(io::ErrorKind::TimedOut) {
            let seconds = connect.as_secs_f64();
            format!(
                "cannot connect to {host}{way} within {seconds} s; check the network and the proxy settings"
            )
        } else if mentions("dns error") {
            format!(
                "cannot find the address of {host}{}: {cause}; check its spelling and the network",
                through.map(|proxy| format!(", or of {proxy}")).unwrap_or_default()
            )
        } else if io == Some(io::ErrorKind::ConnectionRefused) {
            match through {
                Some(proxy) => format!(
                    "cannot connect to {host}: {proxy} refused the connection; is it running, and on that port?"
                ),
                None => format!(
                    "{host} refused the connection; is the server running, and on that port?"
                ),
            }
        } else {
            format!(
                "cannot connect to {host}{way}: {cause}; check the network and the proxy settings"
            )
        };
        (ErrorKind::Broken, message)
    } else if let Some(text) = texts.iter().find(not_http) {
        (
            ErrorKind::Other,
            format!("the answer of {host} is not valid HTTP: {text}; check the address"),
        )
    } else {
        let (kind, place) = match phase {
            Phase::Head => (ErrorKind::Broken, "before an answer came"),
            Phase::Body => (ErrorKind::Cut, "in the middle of its answer"),
        };
        (kind, format!("the connection to {host} broke {place}: {cause}; try again"))
    };
    ApiError::new(kind, &message)
}

/// The chain of causes, outermost first. An error inside an [`io::Error`] is a link too, which `source` would skip.
pub fn list_causes(error: &reqwest::Error) -> Vec<&(dyn Error + 'static)> {
    let mut causes = Vec::new();
    let mut at = error.source();
    while let Some(cause) = at {
        causes.push(cause);
        let within = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        at = within.map(|within| within as &(dyn Error + 'static)).or_else(|| cause.source());
    }
    causes
}
