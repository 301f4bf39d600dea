//! Numbers for people.

use std::time::Duration;

use serde_json::{Map, Value};

/// A number of bytes: `812 B`, `4.1 KB`, `20.0 MB`.
pub fn format_bytes(count: u64) -> String {
    match count {
        0..1_000 => format!("{count} B"),
        1_000..1_000_000 => format!("{:.1} KB", count as f64 / 1e3),
        _ => format!("{:.1} MB", count as f64 / 1e6),
    }
}

/// A number of tokens: `9999`, `12.3k`.
pub fn format_tokens(count: u64) -> String {
    if count < 10_000 { count.to_string() } else { format!("{:.1}k", count as f64 / 1000.0) }
}

/// A number of things, each with this name: `1 line`, `2 lines`.
pub fn format_count(count: u64, name: &str) -> String {
    if count == 1 { format!("1 {name}") } else { format!("{count} {name}s") }
}

/// A time in seconds: `12 s`, `3 min 5 s`, `2 h 5 min`.
pub fn format_duration(seconds: u64) -> String {
    match seconds {
        0..100 => format!("{seconds} s"),
        100..6_000 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}

/// The age of something, in its largest unit: `3 min`, `5 h`, `12 d`.
pub fn format_age(age: Duration) -> String {
    match age.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3_600 => format!("{} min", seconds / 60),
        seconds @ 3_600..86_400 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

/// What a run took.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RunFigures {
    /// Replies of the model.
    pub turns: u64,
    /// Input tokens, children's too.
    pub tokens_in: u64,
    /// Those of the input that came from a cache.
    pub cached: u64,
    /// Output tokens.
    pub tokens_out: u64,
    /// US dollars; 0 without a price.
    pub cost: f64,
    /// Whether it costs something, and the price of some of it is not known.
    pub is_unpriced: bool,
    /// Whether some counts of tokens are estimates.
    pub is_estimated: bool,
    /// How long it took.
    pub seconds: f64,
}

impl RunFigures {
    /// Reads the figures in the document of `--json`. `None`: the run never asked a model.
    pub fn of_document(document: &Map<String, Value>) -> Option<Self> {
        let count = |key: &str| document.get(key).and_then(Value::as_u64).unwrap_or(0);
        let amount = |key: &str| document.get(key).and_then(Value::as_f64).unwrap_or(0.0);
        let figures = Self {
            turns: count("turn_count"),
            tokens_in: count("tokens_in"),
            cached: count("recursive_cache_read_tokens"),
            tokens_out: count("tokens_out"),
            cost: amount("cost"),
            is_unpriced: false,
            is_estimated: document.get("estimated") == Some(&Value::Bool(true)),
            seconds: amount("seconds"),
        };
        (figures.turns > 0 || figures.tokens_in > 0).then_some(figures)
    }
}

/// ` (45 % cached)`. Many servers say nothing of their cache: no share is shown where none is known.
pub fn cached_share(cached: u64, tokens_in: u64) -> String {
    let share = cached.saturating_mul(100).checked_div(tokens_in).unwrap_or(0).min(100);
    if share > 0 { format!(" ({share} % cached)") } else { String::new() }
}

/// `[3 turns, 12.3k tokens in (45 % cached), 512 out, $0.0123, 4.2 s]`
pub fn figures_line(figures: &RunFigures) -> String {
    let RunFigures { turns, tokens_in, cached, tokens_out, cost, seconds, .. } = *figures;
    let about = if figures.is_estimated { "about " } else { "" };
    let cached = cached_share(cached, tokens_in);
    let cost = match (cost > 0.0, figures.is_unpriced) {
        (true, false) => format!(", ${cost:.4}"),
        (true, true) => format!(", ${cost:.4} and more of unknown price"),
        (false, true) => ", no price known".to_owned(),
        (false, false) => String::new(),
    };
    format!(
        "[{}, {about}{} tokens in{cached}, {} out{cost}, {seconds:.1} s]",
        format_count(turns, "turn"),
        format_tokens(tokens_in),
        format_tokens(tokens_out)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(
            [format_bytes(0), format_bytes(999), format_bytes(4_100), format_bytes(20_000_000)],
            ["0 B", "999 B", "4.1 KB", "20.0 MB"]
        );
        assert_eq!([format_tokens(9_999), format_tokens(12_345)], ["9999", "12.3k"]);
        let age = |seconds| format_age(Duration::from_secs(seconds));
        assert_eq!([age(5), age(90), age(7_200), age(200_000)], ["5 s", "1 min", "2 h", "2 d"]);
        assert_eq!([format_count(0, "line"), format_count(1, "line")], ["0 lines", "1 line"]);
    }

    #[test]
    fn the_line_of_a_run() {
        let figures = RunFigures {
            turns: 3,
            tokens_in: 12_345,
            cached: 6_000,
            tokens_out: 512,
            cost: 0.0123,
            seconds: 4.21,
            ..RunFigures::default()
        };
        assert_eq!(
            figures_line(&figures),
            "[3 turns, 12.3k tokens in (48 % cached), 512 out, $0.0123, 4.2 s]"
        );
        let unpriced = RunFigures { cached: 0, cost: 0.0, is_unpriced: true, ..figures };
        assert_eq!(
            figures_line(&unpriced),
            "[3 turns, 12.3k tokens in, 512 out, no price known, 4.2 s]"
        );
        let figures = RunFigures { cached: 0, cost: 0.0, ..figures };
        assert_eq!(figures_line(&figures), "[3 turns, 12.3k tokens in, 512 out, 4.2 s]");
    }
}
