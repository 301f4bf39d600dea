//! The sandbox flags of every tool that runs the loop.

use clap::Args;

use super::settings::{Setting, Settings, pick};
use crate::sandbox::{SandboxMode, SandboxRequest};

/// Which sandbox commands get.
#[derive(Debug, Clone, Default, Args)]
pub struct SandboxArgs {
    /// Run commands in a sandbox: off, workspace (write in the working tree and temp folders), read-only [default: off]
    #[arg(long = "sandbox", value_name = "MODE", value_parser = SandboxMode::parse, help_heading = "Boundary")]
    pub mode: Option<SandboxMode>,
    /// Give commands no network; =false overrides the config
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

impl SandboxArgs {
    /// Resolves the mode in force, and where it came from.
    pub fn mode(&self, settings: &Settings) -> Setting<SandboxMode> {
        // The config's value was checked when it was read.
        let config = settings.config.sandbox.as_deref();
        let config = config.and_then(|name| SandboxMode::parse(name).ok());
        pick(self.mode, None, config, SandboxMode::Off, &settings.source_of("sandbox"))
    }

    /// Resolves whether commands have no network, and where that came from.
    pub fn no_network(&self, settings: &Settings) -> Setting<bool> {
        let config = settings.config.no_network;
        pick(self.no_network, None, config, false, &settings.source_of("no_network"))
    }

    /// Returns the sandbox that is asked for.
    pub fn request(&self, settings: &Settings, write: Vec<std::path::PathBuf>) -> SandboxRequest {
        let (mode, no_network) = (self.mode(settings).value, self.no_network(settings).value);
        SandboxRequest { mode, no_network, write, only_landlock: false }
    }

    /// Returns the flags that were given, each in one word, for a child.
    pub fn words(&self) -> impl Iterator<Item = String> {
        [
            self.mode.map(|mode| format!("--sandbox={}", mode.name())),
            self.no_network.map(|value| format!("--no-network={value}")),
        ]
        .into_iter()
        .flatten()
    }
}
