//! The sandbox for commands: what a user asks for, what it permits, and how that is expressed for `bwrap`, Landlock and
//! seccomp. Values only; [`crate::sys::sandbox`] looks up the folders and builds it.
//!
//! - [`policy`]: what commands may write and read
//! - [`protected`]: names that stay read-only in writable folders, and paths of the home folder that are hidden
//! - [`bwrap`]: a policy as arguments of `bwrap`
//! - [`inner`]: a policy as the instructions of the inner stage, which applies Landlock and seccomp
//! - [`filter`]: the system calls that are refused
//! - [`mechanism`]: what the sandbox is built with on this machine, and what that leaves open
//! - [`worker_filter`]: the system calls that a process with a script engine may make
//! - [`advice`]: which setting would allow what a failed command tried

pub mod advice;
pub mod bwrap;
pub mod filter;
pub mod inner;
pub mod mechanism;
pub mod policy;
pub mod protected;
pub mod worker_filter;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Where commands may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxMode {
    /// Wherever the user may.
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

    /// Returns the mode of this name.
    ///
    /// # Errors
    /// There is no such mode; the error lists all.
    pub fn parse(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|mode| mode.name() == name).ok_or_else(|| {
            format!(
                "there is no sandbox \"{}\"; give off, workspace or read-only",
                name.escape_debug()
            )
        })
    }
}

/// The sandbox that a user asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SandboxRequest {
    /// Where commands may write.
    pub mode: SandboxMode,
    /// Whether commands have no network.
    pub no_network: bool,
    /// More folders that they may write in, as the user named them.
    pub write: Vec<PathBuf>,
    /// Whether to use Landlock and seccomp alone even where `bwrap` works.
    pub only_landlock: bool,
}

impl SandboxRequest {
    /// Returns whether it restricts anything.
    pub fn is_needed(&self) -> bool {
        self.mode != SandboxMode::Off || self.no_network
    }
}
