//! Tokens: counted by the provider, or estimated.

use serde::{Deserialize, Serialize};

/// Estimates the tokens of a text: a quarter of its characters, which suits English and code; other scripts take more.
pub fn estimate(text: &str) -> u64 {
    u64::try_from(text.chars().count()).unwrap_or(u64::MAX).div_ceil(4)
}

/// Tokens of one reply, in the provider's own counts where it gave them.
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
    /// Those of `output` that the model used for reasoning, where the provider says so.
    #[serde(skip_serializing_if = "is_default")]
    pub reasoning: u64,
    /// The provider gave no counts: these are estimates, a token every four characters.
    #[serde(skip_serializing_if = "is_default")]
    pub estimated: bool,
}

impl Usage {
    /// An estimate of what a reply cost, where nobody counted.
    pub fn estimate(reply: &str) -> Self {
        Self { output: estimate(reply), estimated: true, ..Self::default() }
    }

    /// Adds another usage; a sum is an estimate when a part of it is.
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
