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
    /// Whether to start nothing, and only report whether the sandbox works.
    pub probe: bool,
    /// Whether there is no network.
    pub no_network: bool,
    /// Whether files are restricted at all.
    pub restricts_files: bool,
    /// Folders that commands may write in.
    pub writable: Vec<OsString>,
    /// Paths that they cannot read. Inside of `bwrap` a mount hides them already.
    pub hidden: Vec<OsString>,
}

impl InnerPlan {
    /// Makes the plan for a policy.
    pub fn new(policy: &SandboxPolicy, alone: bool) -> Self {
        Self {
            alone,
            probe: false,
            no_network: policy.no_network,
            restricts_files: policy.mode != SandboxMode::Off,
            writable: policy.writable.iter().map(|folder| folder.path.clone().into()).collect(),
            hidden: policy.hidden.iter().map(|hidden| hidden.path.clone().into()).collect(),
        }
    }
}
