//! The instructions for the inner stage: the process that restricts itself with Landlock and seccomp, and then becomes the
//! command. They are passed in memory as JSON, because arguments have a limit and are visible to others.

use std::ffi::OsString;

use serde::{Deserialize, Serialize};

use super::SandboxMode;
use super::policy::SandboxPolicy;

/// What the inner stage does before it starts the command.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent of each other")]
pub struct InnerPlan {
    /// Whether Landlock and seccomp are all there is, without `bwrap`.
    pub alone: bool,
    /// Whether to start nothing, and only report what is enforced.
    pub probe: bool,
    /// Whether there is no network.
    pub no_network: bool,
    /// Whether files are restricted at all.
    pub restricts_files: bool,
    /// Folders that commands may write in.
    pub writable: Vec<OsString>,
    /// Paths that they cannot read. Inside of `bwrap` a mount hides them already.
    pub hidden: Vec<OsString>,
    /// Sockets of other programs, to be covered. `None`: they are not known, so commands get no Unix sockets at all.
    pub sockets: Option<Vec<OsString>>,
}

impl InnerPlan {
    /// Makes the plan for a policy.
    pub fn new(policy: &SandboxPolicy, alone: bool) -> Self {
        Self {
            alone,
            no_network: policy.no_network,
            restricts_files: policy.mode != SandboxMode::Off,
            writable: policy.writable.iter().map(|folder| folder.path.clone().into()).collect(),
            hidden: policy.hidden.iter().map(|hidden| hidden.path.clone().into()).collect(),
            ..Self::default()
        }
    }
}

/// What the inner stage enforces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Enforced {
    /// The version of Landlock; 0: none.
    pub landlock: u32,
    /// Whether commands may use Unix sockets: those of other programs cannot be reached.
    pub unix_sockets: bool,
}
