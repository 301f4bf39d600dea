//! The flags that choose a model and say where things are, the same for every tool that talks to a model. Which value is in
//! force is settled in [`super::settings`].

use std::path::PathBuf;

use clap::Args;

/// Which model, and where things are
#[derive(Debug, Clone, Default, Args)]
pub struct ModelArgs {
    /// Choose who runs the model: openai, anthropic, google, ollama, cursor, claude-code, command, replay
    #[arg(long, value_name = "NAME", help_heading = "Model")]
    pub provider: Option<String>,
    /// Choose the model by its id; for replay, the path of a recording
    #[arg(long, value_name = "ID", help_heading = "Model")]
    pub model: Option<String>,
    /// Call the provider's API at this address; with openai, any server that speaks Chat Completions
    #[arg(long, value_name = "URL", help_heading = "Model")]
    pub base_url: Option<String>,
    /// Wait so many seconds in all for a busy provider, 30 unless set
    #[arg(long, value_name = "S", value_parser = seconds, help_heading = "Model")]
    pub patience: Option<f64>,
    /// Read this config file instead of NAGENT_CONFIG or config.json in the root
    #[arg(long, value_name = "FILE", help_heading = "Places")]
    pub config: Option<PathBuf>,
    /// Lay the settings of this profile of the config over its others; also NAGENT_PROFILE
    #[arg(long, value_name = "NAME", help_heading = "Places")]
    pub profile: Option<String>,
    /// Keep everything in this folder instead of NAGENT_ROOT or ~/.nagent
    #[arg(long, value_name = "DIR", help_heading = "Places")]
    pub root: Option<PathBuf>,
}

/// A number of seconds from a flag.
pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=1e9).contains(&value) => Ok(value),
        _ => Err("it is a number of seconds, 0 or more".to_owned()),
    }
}
