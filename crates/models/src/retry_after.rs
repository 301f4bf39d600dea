//! Reads the wait that a server requests, in all the forms that servers use.
//!
//! Headers: `retry-after-ms` (float milliseconds), `retry-after` (float seconds, or an HTTP date, relative to the
//! reply's own `date`). Bodies: Google's `RetryInfo` (`"retryDelay": "27s"`), and sentences such as `Please retry in
//! 27.1s` or `try again in 6m0s`. Invalid values (negative, NaN, a date without the reply's own date) are ignored.

use std::time::Duration;

/// Maximum wait, in seconds: anything longer only means "not today".
const LONGEST: f64 = 31_536_000.0;

/// The trimmed value of a header, whose name may be in any case.
pub(super) fn find_header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let found = headers.iter().find(|(header, _)| header.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.trim())
}

pub(super) fn from_headers(headers: &[(String, String)]) -> Option<Duration> {
    let get = |name: &str| find_header(headers, name);
    let ms = get("retry-after-ms").and_then(|value| value.parse::<f64>().ok());
    if let Some(wait) = ms.and_then(|ms| bounded_seconds(ms / 1000.0)) {
        return Some(wait);
    }
    let value = get("retry-after")?;
    if let Ok(number) = value.parse::<f64>() {
        return bounded_seconds(number);
    }
    let until = httpdate::parse_http_date(value).ok()?;
    let now = httpdate::parse_http_date(get("date")?).ok()?;
    bounded_seconds(until.duration_since(now).unwrap_or_default().as_secs_f64())
}

pub(super) fn from_text(text: &str) -> Option<Duration> {
    let text = text.to_ascii_lowercase();
    ["retry in ", "try again in ", "retry after "].iter().find_map(|phrase| {
        let at = text.find(phrase)?;
        parse_duration(&text[at + phrase.len()..])
    })
}

/// Reads a duration at the start of a text, in the notation of Go or of people: `27s`, `2m59.56s`, `20ms`, `1.5
/// seconds`.
pub(super) fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim_start();
    let mut total = None;
    loop {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let Ok(number) = rest[..digits].trim_end_matches('.').parse::<f64>() else { break };
        let after = rest[digits..].trim_start_matches(' ');
        let letters = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
        let factor = match &after[..letters] {
            "ms" | "millisecond" | "milliseconds" => 0.001,
            "us" | "µs" => 0.000_001,
            "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
            "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
            "h" | "hour" | "hours" => 3600.0,
            "d" | "day" | "days" => 86_400.0,
            _ => break,
        };
        total = Some(total.unwrap_or(0.0) + number * factor);
        rest = &after[letters..];
    }
    total.and_then(bounded_seconds)
}

fn bounded_seconds(number: f64) -> Option<Duration> {
    if number.is_nan() || number < 0.0 {
        return None;
    }
    Duration::try_from_secs_f64(number.min(LONGEST)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(pairs: &[(&str, &str)]) -> Option<f64> {
        let headers: Vec<_> =
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        from_headers(&headers).map(|delay| delay.as_secs_f64())
    }

    #[test]
    fn headers() {
        assert_eq!(header(&[("Retry-After", "7")]), Some(7.0));
        assert_eq!(header(&[("retry-after", "0.25")]), Some(0.25));
        assert_eq!(header(&[("retry-after", "9"), ("retry-after-ms", "1500")]), Some(1.5));
        assert_eq!(header(&[("retry-after", "9"), ("retry-after-ms", "soon")]), Some(9.0));
        for nonsense in ["-1", "NaN", "", "later", "-inf"] {
            assert_eq!(header(&[("retry-after", nonsense)]), None, "{nonsense}");
        }
        assert_eq!(header(&[("retry-after", "1e300")]), Some(LONGEST));
        assert_eq!(header(&[("retry-after", "inf")]), Some(LONGEST));
        let date = ("date", "Sat, 21 Nov 2026 10:00:00 GMT");
        assert_eq!(header(&[("retry-after", "Sat, 21 Nov 2026 10:00:09 GMT"), date]), Some(9.0));
        assert_eq!(header(&[("retry-after", "Sat, 21 Nov 2026 09:00:00 GMT"), date]), Some(0.0));
        assert_eq!(header(&[("retry-after", "Sat, 21 Nov 2026 10:00:09 GMT")]), None);
        let far = ("retry-after", "Wed, 21 Oct 2826 07:28:00 GMT");
        assert_eq!(header(&[far, date]), Some(LONGEST));
    }

    #[test]
    fn texts() {
        let check = |text: &str, expect: Option<f64>| {
            assert_eq!(
                from_text(text).map(|delay| (delay.as_secs_f64() * 1000.0).round() / 1000.0),
                expect,
                "{text}"
            );
        };
        check("Please retry in 27.1s.", Some(27.1));
        check("Please retry in 500ms", Some(0.5));
        check("Rate limit reached. Please try again in 1.5s. Visit https://x", Some(1.5));
        check("try again in 20ms", Some(0.02));
        check("try again in 6m0s.", Some(360.0));
        check("try again in 2m59.56s.", Some(179.56));
        check("Try again in 3 seconds", Some(3.0));
        check("try again in a moment", None);
        check("try again in 5", None);
        check("nothing", None);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in any::<String>(), tail in "[0-9.smh ä]{0,12}") {
            let _ = from_text(&format!("{text} try again in {tail}"));
            let _ = parse_duration(&text);
        }
    }
}
