//! Limits for commands and scripts: the user's request, the policy, and its enforcement by `bwrap`, Landlock and seccomp.
//!
//! [`enforce`] looks up the folders and builds the sandbox of a command. [`script`] has scripts in JavaScript, which can do
//! nothing unasked. The writes of tags are bounded by `sys::boundary`, not here.
//!
//! ```
//! use sandbox::{SandboxMode, SandboxRequest};
//!
//! let request = SandboxRequest { mode: SandboxMode::parse("workspace").unwrap(), ..Default::default() };
//! assert!(request.mode != SandboxMode::Off);
//! ```

#![expect(clippy::disallowed_methods, reason = "it looks up folders and starts commands")]

pub mod advice;
pub mod automatic_files;
pub mod bwrap;
pub mod enforce;
pub mod executed;
pub mod filter;
pub mod gaps;
pub mod policy;
pub mod script;
pub mod special;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The folders in which commands may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxMode {
    /// Everywhere that the user may.
    #[default]
    Off,
    /// In the working tree, temp folders, and folders that the user named.
    Workspace,
    /// In folders that the user named, and in a scratch folder that is removed when the command ends.
    ReadOnly,
}

impl SandboxMode {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::Off, Self::Workspace, Self::ReadOnly];

    /// The name in flags and in the config.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Workspace => "workspace",
            Self::ReadOnly => "read-only",
        }
    }

    /// Returns the mode of this name. The error lists all modes.
    pub fn parse(name: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|mode| mode.name() == name);
        let name = name.escape_debug();
        known.ok_or_else(|| {
            format!("\"{name}\" is not a sandbox mode; use off, workspace or read-only")
        })
    }
}

/// The sandbox that a user asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SandboxRequest {
    /// The folders in which commands may write.
    pub mode: SandboxMode,
    /// Whether commands have no network; needs a mode other than `off`.
    pub no_network: bool,
    /// Additional folders in which they may write, as the user named them.
    pub write: Vec<PathBuf>,
    /// Whether to use Landlock and seccomp alone even where `bwrap` works.
    pub only_landlock: bool,
}
