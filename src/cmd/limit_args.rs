//! The flags that bound a run, the same for every tool that runs the loop. What a limit does is [`crate::turn`]'s.

use clap::Args;

use super::model_args::seconds;

/// How long a run may go on.
#[derive(Debug, Clone, Default, Args)]
pub struct LimitArgs {
    /// Stop after so many replies of the model, 200 unless set
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Limits")]
    pub max_turns: Option<u64>,
    /// Stop after so many seconds
    #[arg(long, value_name = "S", value_parser = seconds, help_heading = "Limits")]
    pub max_seconds: Option<f64>,
    /// Stop after so many tokens, in and out together
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub max_tokens: Option<u64>,
    /// Stop after so many US dollars; needs the model's price in the config
    #[arg(long, value_name = "USD", value_parser = seconds, help_heading = "Limits")]
    pub max_cost: Option<f64>,
}

impl LimitArgs {
    /// The flags that were given, each in one word, for a child.
    pub fn words(&self) -> impl Iterator<Item = String> {
        [
            ("--max-turns", self.max_turns.map(|value| value.to_string())),
            ("--max-seconds", self.max_seconds.map(|value| value.to_string())),
            ("--max-tokens", self.max_tokens.map(|value| value.to_string())),
            ("--max-cost", self.max_cost.map(|value| value.to_string())),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name}={}", value?)))
    }
}
