//! The figures of a run, as a line.

use std::ops::AddAssign;

use conversation::format::numbers::{format_count, format_tokens};
use serde_json::{Map, Value};

/// The figures of a run, or of a conversation.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RunFigures {
    /// Replies of the model.
    pub turns: u64,
    /// Input tokens, children's too.
    pub tokens_in: u64,
    /// Input tokens that came from a cache.
    pub cached: u64,
    /// Output tokens.
    pub tokens_out: u64,
    /// US dollars, as far as prices were known.
    pub cost: f64,
    /// Replies whose price is not known.
    pub unpriced: u64,
    /// Whether some counts of tokens are estimates.
    pub is_estimated: bool,
    /// Its duration.
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
            unpriced: 0,
            is_estimated: document.get("estimated") == Some(&Value::Bool(true)),
            seconds: amount("seconds"),
        };
        (figures.turns > 0 || figures.tokens_in > 0).then_some(figures)
    }

    /// Input and output together.
    pub fn tokens(&self) -> u64 {
        self.tokens_in.saturating_add(self.tokens_out)
    }

    /// The cost; `None` where the price of some reply is not known.
    pub fn known_cost(&self) -> Option<f64> {
        (self.unpriced == 0).then_some(self.cost)
    }

    /// The same where a reply without a price costs something, or else costs nothing.
    #[must_use]
    pub fn billed(self, is_billed: bool) -> Self {
        Self { unpriced: if is_billed { self.unpriced } else { 0 }, ..self }
    }
}

impl AddAssign for RunFigures {
    fn add_assign(&mut self, more: Self) {
        self.turns += more.turns;
        self.tokens_in = self.tokens_in.saturating_add(more.tokens_in);
        self.cached = self.cached.saturating_add(more.cached);
        self.tokens_out = self.tokens_out.saturating_add(more.tokens_out);
        self.cost += more.cost;
        self.unpriced += more.unpriced;
        self.is_estimated |= more.is_estimated;
    }
}

/// ` (45 % cached)`. Many servers do not report their cache: no share is shown if none is known.
pub fn cached_share(cached: u64, tokens_in: u64) -> String {
    let share = cached.saturating_mul(100).checked_div(tokens_in).unwrap_or(0).min(100);
    if share > 0 { format!(" ({share} % cached)") } else { String::new() }
}

/// `[3 turns, 12.3k tokens in (45 % cached), 512 out, $0.0123, 4.2 s]`
pub fn figures_line(figures: &RunFigures) -> String {
    format!("[{}, {:.1} s]", figures_words(figures), figures.seconds)
}

/// `3 turns, 12.3k tokens in (45 % cached), 512 out, $0.0123`
pub fn figures_words(figures: &RunFigures) -> String {
    let RunFigures { turns, tokens_in, cached, tokens_out, cost, .. } = *figures;
    let about = if figures.is_estimated { "about " } else { "" };
    let cached = cached_share(cached, tokens_in);
    let cost = match (cost > 0.0, figures.unpriced > 0) {
        (true, false) => format!(", ${cost:.4}"),
        (true, true) => format!(", ${cost:.4} and more of unknown price"),
        (false, true) => ", no price known".to_owned(),
        (false, false) => String::new(),
    };
    format!(
        "{}, {about}{} tokens in{cached}, {} out{cost}",
        format_count(turns, "turn"),
        format_tokens(tokens_in),
        format_tokens(tokens_out)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let unpriced = RunFigures { cached: 0, cost: 0.0, unpriced: 1, ..figures };
        assert_eq!(
            figures_line(&unpriced),
            "[3 turns, 12.3k tokens in, 512 out, no price known, 4.2 s]"
        );
        let figures = RunFigures { cached: 0, cost: 0.0, ..figures };
        assert_eq!(figures_line(&figures), "[3 turns, 12.3k tokens in, 512 out, 4.2 s]");
    }
}
