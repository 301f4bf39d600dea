//! Token counts, from the provider or estimated.

use serde::{Deserialize, Serialize};

/// Estimates the tokens of a text as a quarter of its characters, which suits English and code; other scripts take
/// more.
pub fn estimate(text: &str) -> u64 {
    u64::try_from(text.chars().count()).unwrap_or(u64::MAX).div_ceil(4)
}

/// The tokens of one reply, as the provider counted them if it did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Usage {
    /// All input tokens, cached ones included.
    pub input: u64,
    /// Those of `input` that came from the provider's cache.
    pub cached: u64,
    /// Those of `input` that were written to the provider's cache.
    #[serde(skip_serializing_if = "is_default")]
    pub cache_written: u64,
    /// All output tokens that are billed, reasoning included.
    pub output: u64,
    /// Those of `output` that the model used for reasoning, if the provider reports them.
    #[serde(skip_serializing_if = "is_default")]
    pub reasoning: u64,
    /// The provider sent no counts: these are estimates of four characters per token.
    #[serde(skip_serializing_if = "is_default")]
    pub estimated: bool,
}

impl Usage {
    /// Estimates the usage of a reply that nobody counted.
    pub fn estimate(reply: &str) -> Self {
        Self { output: estimate(reply), estimated: true, ..Self::default() }
    }

    /// Adds another usage; a sum is an estimate if one of its parts is.
    pub fn add(&mut self, other: &Self) {
        self.input = self.input.saturating_add(other.input);
        self.cached = self.cached.saturating_add(other.cached);
        self.cache_written = self.cache_written.saturating_add(other.cache_written);
        self.output = self.output.saturating_add(other.output);
        self.reasoning = self.reasoning.saturating_add(other.reasoning);
        self.estimated |= other.estimated;
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
