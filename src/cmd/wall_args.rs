//! The flags that put walls around commands, the same for every tool that runs the loop. Building them is
//! [`crate::sys::sandbox`]'s.

use clap::Args;

use super::settings::{Setting, Settings, pick};
use crate::sandbox::{Mode, Wanted};

/// Which walls commands get.
#[derive(Debug, Clone, Default, Args)]
pub struct WallArgs {
    /// Put walls around commands: off, workspace (write in the working tree and temp folders), read-only
    #[arg(long, value_name = "KIND", value_parser = Mode::parse, help_heading = "Boundary")]
    pub sandbox: Option<Mode>,
    /// Keep commands off the network; =false allows it where the config does not
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        help_heading = "Boundary"
    )]
    pub no_network: Option<bool>,
}

impl WallArgs {
    /// The mode in force, and where it came from.
    pub fn mode(&self, settings: &Settings) -> Setting<Mode> {
        // The config's value was checked when it was read.
        let config = settings.config.sandbox.as_deref().and_then(|name| Mode::parse(name).ok());
        pick(self.sandbox, None, config, Mode::Off, &settings.source_of("sandbox"))
    }

    /// Whether commands are kept off the network, and where that came from.
    pub fn no_network(&self, settings: &Settings) -> Setting<bool> {
        let config = settings.config.no_network;
        pick(self.no_network, None, config, false, &settings.source_of("no_network"))
    }

    /// The walls that are wanted.
    pub fn wanted(&self, settings: &Settings, write: Vec<std::path::PathBuf>) -> Wanted {
        let (mode, no_network) = (self.mode(settings).value, self.no_network(settings).value);
        Wanted { mode, no_network, write }
    }

    /// The flags that were given, each in one word, for a child.
    pub fn words(&self) -> impl Iterator<Item = String> {
        [
            self.sandbox.map(|mode| format!("--sandbox={}", mode.name())),
            self.no_network.map(|value| format!("--no-network={value}")),
        ]
        .into_iter()
        .flatten()
    }
}
