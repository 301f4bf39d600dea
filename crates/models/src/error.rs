//! Converts a server's error into an [`ApiError`]: one set of kinds for all providers.
//!
//! The bodies of providers differ in every respect: `error` is an object, a text, or absent; `code` a text, a number or
//! null; the whole may be an array, plain text or a web page. So the words (types, codes, reasons) are collected from
//! all places, and the kind follows from the status, the words and, if there are none, the sentence. Codes take
//! precedence over prose. Sources: the providers' API references and SDKs, and surveys of live error bodies.

use conversation::limits;
use serde_json::Value;

use super::error_body::ErrorBody;
use super::retry_after;
use conversation::model::{ApiError, ErrorKind};

/// The error for a prompt that cannot fit into the model's window, found before anything is sent.
pub fn check_window(bytes: usize, model: &str, window: Option<u64>) -> Option<ApiError> {
    let window = window?;
    // The estimate is four bytes a token. Only a prompt far beyond the window is refused here; else the provider
    // decides.
    let least = (bytes as u64) / 6;
    (least > window).then(|| {
        let tokens = bytes / 4;
        let model = if model.is_empty() { "the model" } else { model };
        ApiError::new(
            ErrorKind::TooLong,
            &format!(
                "nothing was sent: it has about {tokens} tokens ({bytes} bytes), and {model} takes {window}"
            ),
        )
    })
}

/// Advice for the user about a conversation that has outgrown the model's window; for that of a file there is no
/// `--new`.
pub fn too_long_advice(conversation: &str, is_of_file: bool) -> String {
    let new = if is_of_file { "" } else { "nagent --new, or " };
    format!(
        "Start a new conversation ({new}nagent-conversations clear {conversation}, which archives this one), shorten this one \
         (nagent-conversations compact {conversation}; nagent-conversations path {conversation} prints its path, for an editor), or use a model with a larger window"
    )
}

/// The error's message, with the variable of a refused credential, or the name of a missing model.
pub fn name_cause(error: &ApiError, credential: Option<&str>, model: &str) -> String {
    let message = &error.message;
    let refused = error.kind == ErrorKind::Auth || matches!(error.status, Some(401 | 403));
    match credential {
        Some(name) if refused => format!("{message} (the credential came from {name})"),
        None if refused => {
            format!("{message} (no credential was sent; --list-providers names the variables)")
        }
        _ if error.kind == ErrorKind::NoModel => {
            format!("{message} (the model was {model}; nagent --list-models lists the models)")
        }
        _ => message.clone(),
    }
}

/// The error for a response whose status is not 2xx. Not yet cleaned.
pub(super) fn from_response(status: u16, headers: &[(String, String)], body: &[u8]) -> ApiError {
    let header = |name: &str| retry_after::find_header(headers, name);
    let body = &body[..body.len().min(limits::ERROR_BODY)];
    let text = String::from_utf8_lossy(body);
    let mut error = if (300..400).contains(&status) {
        let to =
            header("location").and_then(|url| url.split(['?', '#']).next()).unwrap_or("nowhere");
        let message = format!(
            "the server redirects to {to} (HTTP {status}); redirects are not followed, since the key could reach another server: \
             set base_url to the right address"
        );
        with_status(ErrorKind::Other, &message, status)
    } else if let Some(value) = find_json(text.trim()) {
        from_value(&value, Some(status))
    } else {
        from_plain_text(&text, status)
    };
    if let Some(asked) = retry_after::from_headers(headers) {
        error.retry_after = Some(asked);
    }
    error.should_retry = header("x-should-retry").and_then(|word| word.parse().ok());
    error
}

/// The JSON of an error's body: all of it, or of its first event. LiteLLM sends an event where a stream was requested.
fn find_json(text: &str) -> Option<Value> {
    let events = text.lines().filter_map(|line| line.strip_prefix("data:"));
    std::iter::once(text).chain(events).find_map(|text| {
        let value = serde_json::from_str::<Value>(text.trim()).ok()?;
        (text.starts_with(['{', '[', '"']) || value.is_object()).then_some(value)
    })
}

/// The error in a JSON value: a whole body, or an event of a stream, which has no status. Not yet cleaned.
pub(super) fn from_value(value: &Value, status: Option<u16>) -> ApiError {
    let body = ErrorBody::from_json(value);
    let seen = status.or(body.code);
    let kind = body.classify(seen);
    let repeated = seen.map(|status| status.to_string());
    let word = body
        .words
        .iter()
        .find(|word| !matches!(word.as_str(), "error" | "none") && repeated.as_ref() != Some(word));
    let place = match (seen, word) {
        (Some(status), Some(word)) => format!(" (HTTP {status}, {word})"),
        (Some(status), None) => format!(" (HTTP {status})"),
        (None, Some(word)) => format!(" ({word})"),
        (None, None) => String::new(),
    };
    let message = Some(body.message.trim()).filter(|message| !message.is_empty());
    let message = message.unwrap_or("the server gave no reason");
    let advice = advise(kind, seen);
    ApiError {
        status: seen,
        retry_after: body.delay,
        refused: body.refused_part(seen),
        ..ApiError::with_text(kind, format!("{}{place}{advice}", shorten(message)))
    }
}

/// The error in a text: the output of a program, or a plain-text body. Not yet cleaned.
pub(super) fn from_text(text: &str) -> ApiError {
    let body = ErrorBody::from_message(text);
    let message = shorten(text.trim()).to_owned();
    ApiError { retry_after: body.delay, ..ApiError::with_text(body.classify(None), message) }
}

/// The error for a web page instead of a reply. Not yet cleaned.
pub(super) fn from_page(page: &str, status: u16, base_url: &str) -> ApiError {
    let title = page_title(page).map_or_else(String::new, |title| format!(", “{title}”"));
    let message = format!(
        "the server answered HTTP {status} with a web page (HTML){title} instead of a reply: \
         a captive portal, or a wrong base_url ({base_url})"
    );
    with_status(ErrorKind::Other, &message, status)
}

pub(super) fn with_status(kind: ErrorKind, message: &str, status: u16) -> ApiError {
    ApiError { status: Some(status), ..ApiError::new(kind, message) }
}

fn page_title(page: &str) -> Option<&str> {
    let lower = page.to_ascii_lowercase();
    let from = lower.find("<title")?;
    let from = from + lower[from..].find('>')? + 1;
    let to = from + lower[from..].find("</title")?;
    Some(page[from..to].trim()).filter(|title| !title.is_empty())
}

pub(super) fn is_page(text: &str) -> bool {
    text.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}').starts_with('<')
}

fn from_plain_text(text: &str, status: u16) -> ApiError {
    let text = text.trim();
    let (body, message) = if text.is_empty() {
        (ErrorBody::default(), format!("the server answered HTTP {status} with an empty body"))
    } else if is_page(text) {
        let title = page_title(text).map_or_else(String::new, |title| format!(", “{title}”"));
        let message = format!("the server answered HTTP {status} with a web page (HTML){title}");
        (ErrorBody::default(), message)
    } else {
        (ErrorBody::from_message(text), format!("{} (HTTP {status})", shorten(text)))
    };
    let kind = body.classify(Some(status));
    let message = message + advise(kind, Some(status));
    ApiError { status: Some(status), retry_after: body.delay, ..ApiError::with_text(kind, message) }
}

/// Truncates a message to leave room for the advice that follows, within the limit of 2,000 characters.
fn shorten(message: &str) -> &str {
    message.char_indices().nth(1800).map_or(message, |(at, _)| &message[..at])
}

fn advise(kind: ErrorKind, status: Option<u16>) -> &'static str {
    match (kind, status) {
        (ErrorKind::Other, Some(404 | 405)) => ": is base_url right?",
        (ErrorKind::Other, Some(407 | 511)) => ": a proxy or a captive portal requires a login",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn check(status: u16, body: &str, kind: ErrorKind, part: &str) -> ApiError {
        let error = from_response(status, &[], body.as_bytes()).with_clean_message(None);
        assert_eq!(error.kind, kind, "{status} {body}: {error}");
        assert!(error.message.contains(part), "{error} has no {part:?}");
        error
    }

    #[test]
    fn classes() {
        use ErrorKind::{Auth, Busy, NoCredit, NoModel, Other, Refused, TooLong};
        check(401, r#"{"error":"Unauthorized"}"#, Auth, "Unauthorized (HTTP 401)");
        check(401, "", Auth, "HTTP 401 with an empty body");
        check(
            403,
            r#"{"error":{"code":"unsupported_country_region_territory","message":"Country"}}"#,
            Other,
            "Country",
        );
        check(
            403,
            r#"{"error":{"code":403,"message":"Your input was flagged","metadata":{"reasons":["x"]}}}"#,
            Refused,
            "flagged",
        );
        check(403, "<html><title>Blocked</title>", Other, "a web page (HTML), “Blocked”");
        check(404, "404 page not found", Other, "is base_url right?");
        check(404, r#"{"error":"model 'x' not found"}"#, NoModel, "model 'x' not found (HTTP 404)");
        check(
            404,
            r#"{"type":"error","error":{"type":"not_found_error","message":"model: claude-x"}}"#,
            NoModel,
            "not_found_error",
        );
        check(
            400,
            r#"{"error":{"message":"foo/bar is not a valid model ID","code":400}}"#,
            NoModel,
            "valid model",
        );
        check(
            400,
            r#"{"error":{"message":"prompt is too long: 213462 tokens > 200000 maximum","type":"invalid_request_error"}}"#,
            TooLong,
            "213462",
        );
        check(413, "<html>", TooLong, "413");
        check(
            429,
            r#"{"error":{"message":"Request too large for gpt-4o on tokens per min (TPM): Limit 30000","code":"rate_limit_exceeded"}}"#,
            TooLong,
            "TPM",
        );
        check(
            400,
            r#"{"error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}"#,
            NoCredit,
            "credit",
        );
        check(
            400,
            r#"{"error":{"message":"Unsupported value","param":"temperature","code":null}}"#,
            Other,
            "Unsupported value (HTTP 400)",
        );
        check(
            422,
            r#"{"detail":[{"loc":["body"],"msg":"field required","type":"missing"}]}"#,
            Other,
            "field required (HTTP 422, missing)",
        );
        check(529, "", Busy, "529");
        check(400, &"[".repeat(50_000), Other, "[[[");
    }

    #[test]
    fn a_redirect_names_where_to_without_its_query() {
        let headers = [("Location".to_owned(), "https://login.example/x?token=abc".to_owned())];
        let error = from_response(302, &headers, b"");
        assert_eq!(error.kind, ErrorKind::Other);
        assert!(
            error
                .message
                .contains("https://login.example/x (HTTP 302); redirects are not followed"),
            "{error}"
        );
        assert!(!error.message.contains("abc"));
    }

    #[test]
    fn delays_and_the_servers_own_word() {
        let error = check(
            429,
            r#"{"error":{"message":"Please try again in 1.5s.","code":"rate_limit_exceeded"}}"#,
            ErrorKind::Busy,
            "",
        );
        assert_eq!(error.retry_after, Some(Duration::from_millis(1500)));
        let headers = [
            ("x-should-retry".to_owned(), "false".to_owned()),
            ("retry-after".to_owned(), "3".to_owned()),
        ];
        let error = from_response(503, &headers, br#"{"error":{"message":"try again in 1s"}}"#);
        assert_eq!(
            (error.should_retry, error.retry_after),
            (Some(false), Some(Duration::from_secs(3)))
        );
        // Google: over five minutes is a quota, not a rate.
        let long = r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"m","details":[{"retryDelay":"3600s"}]}}"#;
        check(429, long, ErrorKind::NoCredit, "resource_exhausted");
    }

    #[test]
    fn in_a_stream_there_is_no_status() {
        let check = |text: &str, kind, status| {
            let error = from_value(&serde_json::from_str(text).unwrap(), None);
            assert_eq!((error.kind, error.status), (kind, status), "{text}");
        };
        check(
            r#"{"error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            ErrorKind::Busy,
            None,
        );
        check(
            r#"{"error":{"code":502,"message":"Provider returned error"}}"#,
            ErrorKind::Busy,
            Some(502),
        );
        check(r#"{"error":"llama runner process has terminated"}"#, ErrorKind::Broken, None);
        check(
            r#"{"error":{"type":"invalid_request_error","message":"no"}}"#,
            ErrorKind::Other,
            None,
        );
    }

    #[test]
    fn titles() {
        assert_eq!(page_title("<html><TITLE lang=en> Log in </TITLE>"), Some("Log in"));
        assert_eq!(page_title("<html>İ<title>x"), None);
    }
}
