//! Turns errors of the HTTP library into an [`ApiError`]: a kind for the loop, and a message for a person that names
//! the host, the cause and what to try. Never the whole address: it may hold a key.

use std::error::Error;
use std::io;
use std::time::Duration;

use crate::llm::{ApiError, ErrorKind};

/// Where the exchange failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Before the head of the response was complete.
    Head,
    /// In the body.
    Body,
}

/// The error for a server that was silent for too long.
pub(super) fn explain_silence(host: &str, phase: Phase, limit: Duration) -> ApiError {
    let seconds = limit.as_secs_f64();
    let message = match phase {
        Phase::Head => format!(
            "{host} did not answer within {seconds} s; it may be overloaded, try again later"
        ),
        Phase::Body => {
            format!("{host} fell silent for {seconds} s in the middle of its answer; try again")
        }
    };
    ApiError::new(ErrorKind::Broken, &message)
}

/// Says what an error of the library means.
pub(super) fn explain(
    error: &reqwest::Error,
    host: &str,
    phase: Phase,
    connect: Duration,
) -> ApiError {
    let causes = list_causes(error);
    let texts: Vec<String> = causes.iter().map(ToString::to_string).collect();
    let cause = texts.last().map_or("no cause given", String::as_str);
    let io = causes
        .iter()
        .rev()
        .find_map(|cause| cause.downcast_ref::<io::Error>())
        .map(io::Error::kind);
    if let Some(tls) = causes.iter().find_map(|cause| cause.downcast_ref::<rustls::Error>()) {
        let message = format!(
            "no secure connection to {host}: {tls}; if a proxy or a private authority issued the certificate, name its certificate in SSL_CERT_FILE"
        );
        return ApiError::new(ErrorKind::Other, &message);
    }
    if error.is_connect() {
        let message = if error.is_timeout() || io == Some(io::ErrorKind::TimedOut) {
            format!(
                "cannot connect to {host} within {} s; check the network and the proxy settings",
                connect.as_secs_f64()
            )
        } else if texts.iter().any(|text| text.contains("dns error")) {
            format!(
                "cannot find the address of {host}: {cause}; check its spelling and the network"
            )
        } else if texts.iter().any(|text| text.contains("tls handshake eof")) {
            format!(
                "{host} closed the connection during the TLS handshake; does it speak https there, or only http?"
            )
        } else if io == Some(io::ErrorKind::ConnectionRefused) {
            format!("{host} refused the connection; is the server running, and on that port?")
        } else {
            format!("cannot connect to {host}: {cause}; check the network and the proxy settings")
        };
        return ApiError::new(ErrorKind::Broken, &message);
    }
    let not_http = texts
        .iter()
        .find(|text| text.starts_with("invalid ") || text.contains("head is too large"));
    if let Some(not_http) = not_http {
        let message =
            format!("the answer of {host} is not valid HTTP: {not_http}; check the address");
        return ApiError::new(ErrorKind::Other, &message);
    }
    match phase {
        Phase::Head => {
            let message =
                format!("the connection to {host} broke before an answer came: {cause}; try again");
            ApiError::new(ErrorKind::Broken, &message)
        }
        Phase::Body => {
            let message = format!(
                "the connection to {host} broke in the middle of its answer: {cause}; try again"
            );
            ApiError::new(ErrorKind::Cut, &message)
        }
    }
}

/// The chain of causes, outermost first. An error inside an [`io::Error`] is a link too, which `source` would skip.
fn list_causes(error: &reqwest::Error) -> Vec<&(dyn Error + 'static)> {
    let mut causes = Vec::new();
    let mut at = error.source();
    while let Some(cause) = at {
        causes.push(cause);
        let within = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        at = within.map(|within| within as &(dyn Error + 'static)).or_else(|| cause.source());
    }
    causes
}
