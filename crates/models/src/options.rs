//! Options of a request in addition to its texts: reasoning, sampling, the form of the answer.
//!
//! [`Reasoning`] is one scale for all providers. [`Reasoning::to_word`] and [`Reasoning::to_tokens`] map it to the
//! values of a model; `docs/config.md` shows the table.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::catalog::{ReasoningWords, find_model};
use conversation::model::RefusedPart;

/// The amount of reasoning before the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub enum Reasoning {
    /// None, or as little as the model supports.
    Off,
    /// Little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
    /// As much as the model supports.
    Max,
    /// A step from 1 to 5, as the config files of older tools have it: one of the model's own words.
    Step(u64),
    /// Up to this many tokens.
    Tokens(u64),
}

const NAMES: [(&str, Reasoning); 5] = [
    ("off", Reasoning::Off),
    ("low", Reasoning::Low),
    ("medium", Reasoning::Medium),
    ("high", Reasoning::High),
    ("max", Reasoning::Max),
];

impl Reasoning {
    /// Reads a word of the scale, one of five steps, or a number of tokens.
    pub fn parse(text: &str) -> Result<Self, String> {
        let word = NAMES.iter().find(|(name, _)| *name == text).map(|(_, level)| *level);
        let number = || {
            text.parse().ok().map(|number| match number {
                0 => Self::Off,
                1..=5 => Self::Step(number),
                tokens => Self::Tokens(tokens),
            })
        };
        word.or_else(number).ok_or_else(|| {
            "give off, low, medium, high, max, 1 to 5, or a number of tokens".to_owned()
        })
    }

    /// The nearest word of the scale that the model accepts.
    pub(crate) fn to_word(self, model: &str) -> &'static str {
        if let Self::Step(step) = self {
            let known = find_model(model).map(|model| model.reasoning);
            let words = match &known {
                Some(ReasoningWords::Words(words)) => words,
                _ => &["low", "medium", "high"][..],
            };
            let steps: Vec<_> = words.iter().filter(|word| **word != "none").collect();
            let at = usize::try_from(step).unwrap_or(1).clamp(1, steps.len().max(1)) - 1;
            return steps.get(at).map_or("high", |word| **word);
        }
        // The preferred words, the best first.
        let wanted: &[&str] = match self {
            Self::Off => &["none", "minimal", "low"],
            Self::Low | Self::Tokens(..4_096) => &["low", "minimal", "medium", "high"],
            Self::Medium | Self::Tokens(..16_384) => &["medium", "high", "low"],
            Self::High | Self::Tokens(..49_152) => &["high", "medium"],
            Self::Max | Self::Tokens(_) | Self::Step(_) => &["max", "xhigh", "high"],
        };
        match find_model(model).map(|model| model.reasoning) {
            Some(ReasoningWords::Words(words)) => {
                let word = wanted.iter().find(|word| words.contains(*word));
                word.copied().unwrap_or(wanted[0])
            }
            // Every server that knows the key knows these words.
            _ if self == Self::Off => "none",
            _ => wanted
                .iter()
                .find(|word| ["low", "medium", "high"].contains(word))
                .unwrap_or(&"high"),
        }
    }

    /// The number of tokens, between a model's smallest and largest.
    pub(crate) fn to_tokens(self, least: u64, most: u64) -> u64 {
        let tokens = match self {
            Self::Off | Self::Step(..=1) => 0,
            Self::Low => 2_048,
            Self::Step(2) => 4_096,
            Self::Medium | Self::Step(3) => 8_192,
            Self::Step(4) => 16_384,
            Self::High => 24_576,
            Self::Max | Self::Step(_) => most,
            Self::Tokens(tokens) => tokens,
        };
        tokens.clamp(least, most)
    }
}

impl std::fmt::Display for Reasoning {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self, NAMES.iter().find(|(_, level)| level == self)) {
            (Self::Tokens(number) | Self::Step(number), _) => write!(out, "{number}"),
            (_, found) => out.write_str(found.map_or("", |(name, _)| name)),
        }
    }
}

impl TryFrom<Value> for Reasoning {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Self::parse(&text)
    }
}

impl From<Reasoning> for Value {
    fn from(reasoning: Reasoning) -> Self {
        match reasoning {
            Reasoning::Tokens(number) | Reasoning::Step(number) => number.into(),
            word => word.to_string().into(),
        }
    }
}

/// Options of a request in addition to its texts. By default, none is set: each key is sent only if someone set it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChatOptions {
    /// The amount of reasoning.
    pub reasoning: Option<Reasoning>,
    /// Whether the provider should send the model's reasoning.
    pub shows_reasoning: bool,
    /// The sampling temperature.
    pub temperature: Option<f64>,
    /// Random seed, for servers that can repeat a reply with it.
    pub seed: Option<u64>,
    /// The class of service, which has a price of its own at some providers.
    pub service_tier: Option<String>,
    /// The JSON Schema of the reply, for providers that enforce it.
    pub schema: Option<Value>,
    /// Whether the reply is requested whole instead of in pieces.
    pub is_whole: bool,
    /// The grammar of the reply, for servers that enforce it: GBNF, or Lark for OpenAI's Responses.
    pub grammar: Option<String>,
}

impl ChatOptions {
    /// Leaves out a part that a server refused. Returns whether it was there.
    pub fn leave_out(&mut self, part: RefusedPart) -> bool {
        match part {
            RefusedPart::ReasoningSummary => std::mem::take(&mut self.shows_reasoning),
            RefusedPart::Stream => !std::mem::replace(&mut self.is_whole, true),
            RefusedPart::Schema => self.schema.take().is_some(),
        }
    }

    /// The amount of reasoning, unless it is to be off in a model that is known to have none: some refuse the key.
    pub(super) fn reasoning_of(&self, model: &str) -> Option<Reasoning> {
        let known = || find_model(model).map(|model| model.reasoning);
        self.reasoning
            .filter(|it| *it != Reasoning::Off || known() != Some(ReasoningWords::Unknown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_becomes_what_the_model_takes() {
        use Reasoning::{High, Low, Max, Medium, Off, Tokens};
        let check = |model: &str, expect: [&str; 5]| {
            let words = [Off, Low, Medium, High, Max].map(|level| level.to_word(model));
            assert_eq!(words, expect, "{model}");
        };
        check("gpt-5", ["minimal", "low", "medium", "high", "high"]);
        check("gpt-5.5", ["none", "low", "medium", "high", "xhigh"]);
        check("gpt-6-sol", ["none", "low", "medium", "high", "max"]);
        check("gpt-6.2-sol", ["low", "low", "medium", "high", "max"]);
        check("deepseek-v4-pro", ["none", "high", "high", "high", "max"]);
        check("of-nobody", ["none", "low", "medium", "high", "high"]);
        assert_eq!(Tokens(100).to_word("gpt-5"), "low");
        assert_eq!(Tokens(20_000).to_word("gpt-5"), "high");
        assert_eq!((Off.to_tokens(128, 32_768), Max.to_tokens(0, 24_576)), (128, 24_576));
        assert_eq!(Tokens(99_999).to_tokens(0, 24_576), 24_576);
    }

    #[test]
    fn levels_are_words_or_numbers() {
        for text in ["off", "low", "medium", "high", "max", "5000"] {
            assert_eq!(Reasoning::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Reasoning::parse("0"), Ok(Reasoning::Off));
        assert!(Reasoning::parse("some").is_err() && Reasoning::parse("-1").is_err());
    }
}
