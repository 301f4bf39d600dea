//! Which walls around commands are asked for, and what they come to: a mode, the network, folders; lists of names; the
//! words of `bwrap`, the rules of Landlock, the filter of seccomp. Values only.
//!
//! Whether walls can be built here, and where things are, is [`crate::sys::sandbox`]'s matter.
//!
//! - [`protected`]: names that stay read-only inside writable folders, and folders of the home that nothing inside reads
//! - [`bwrap`]: a layout → the arguments of `bwrap`
//! - [`plan`]: what the inner stage is told, and a layout as Landlock's rules
//! - [`filter`]: the system calls that are refused
//! - [`materials`]: what walls are made of, by what the machine has, and what that leaves open
//! - [`advice`]: what a failed command's output says of the walls

pub mod advice;
pub mod bwrap;
pub mod filter;
pub mod materials;
pub mod plan;
pub mod protected;

use std::path::PathBuf;

/// How far commands may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Wherever their user may.
    #[default]
    Off,
    /// The working tree, temp folders, and folders that the user named.
    Workspace,
    /// Folders that the user named, and a scratch folder that is removed when the command ends.
    ReadOnly,
}

impl Mode {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::Off, Self::Workspace, Self::ReadOnly];

    /// As flags and the config name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Workspace => "workspace",
            Self::ReadOnly => "read-only",
        }
    }

    /// The mode of this name.
    ///
    /// # Errors
    /// There is none; the error lists those there are.
    pub fn parse(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|mode| mode.name() == name).ok_or_else(|| {
            format!(
                "there is no sandbox \"{}\"; it is off, workspace or read-only",
                name.escape_debug()
            )
        })
    }
}

/// The walls that a user asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wanted {
    /// How far commands may write.
    pub mode: Mode,
    /// Whether commands are kept off the network.
    pub no_network: bool,
    /// Folders that they may write in besides, as the user named them.
    pub write: Vec<PathBuf>,
}

impl Wanted {
    /// Whether any wall is asked for.
    pub fn any(&self) -> bool {
        self.mode != Mode::Off || self.no_network
    }
}
