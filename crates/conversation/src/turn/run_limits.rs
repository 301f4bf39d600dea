//! The limits of a run, as one table: each field has the name of its flag and of its setting. Children get the rest of all of them.

use crate::format::numbers::format_count;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The limits of a run. All are checked between turns; requests and commands end with the seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Replies of the model, including malformed ones and those of children.
    pub max_turns: u64,
    /// Seconds since the run began.
    pub max_seconds: Option<f64>,
    /// Input and output tokens, including those of children.
    pub max_tokens: Option<u64>,
    /// US dollars, including the cost of children.
    pub max_cost: Option<f64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_turns: 200, max_seconds: None, max_tokens: None, max_cost: None }
    }
}

/// The amounts that count against the limits.
#[derive(Debug, Clone, Copy)]
pub struct Spent {
    /// Replies.
    pub turns: u64,
    /// Seconds.
    pub seconds: f64,
    /// Input and output tokens.
    pub tokens: u64,
    /// US dollars.
    pub cost: f64,
}

impl Limits {
    /// The rest of the limits.
    #[must_use]
    pub fn subtract(self, spent: Spent) -> Self {
        Self {
            max_turns: self.max_turns.saturating_sub(spent.turns),
            max_seconds: self.max_seconds.map(|most| (most - spent.seconds).max(0.0)),
            max_tokens: self.max_tokens.map(|most| most.saturating_sub(spent.tokens)),
            max_cost: self.max_cost.map(|most| (most - spent.cost).max(0.0)),
        }
    }

    /// Describes the limit that has been reached, with the flag that raises it.
    pub fn find_reached(self, spent: Spent) -> Option<String> {
        let Self { max_turns, max_seconds, max_tokens, max_cost } = self;
        let limit = if spent.turns >= max_turns {
            format!("{} was reached (--max-turns)", format_count(max_turns, "turn"))
        } else if let Some(most) = max_seconds.filter(|most| spent.seconds >= *most) {
            format!("{most} seconds was reached (--max-seconds)")
        } else if let Some(most) = max_tokens.filter(|most| spent.tokens >= *most) {
            let most = format_count(most, "token");
            format!("{most} was reached with {} (--max-tokens)", spent.tokens)
        } else {
            let most = max_cost.filter(|most| spent.cost >= *most)?;
            format!("{most} dollars was reached with {:.4} (--max-cost)", spent.cost)
        };
        Some(format!("the limit of {limit}"))
    }

    /// All limits by the names of their settings; null where there is none.
    pub fn by_name(self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(values)) => values,
            _ => Map::new(),
        }
    }
}
