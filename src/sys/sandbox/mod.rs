//! Walls around commands: namespaces through `bwrap` where the system has it, Landlock and seccomp inside them; those two
//! alone where it has not.
//!
//! Walls are built before anything runs, or the run is refused. Nothing here decides which walls are wanted
//! ([`crate::sandbox`]), and nothing reads a policy from the working tree.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::sandbox::Wanted;

/// The executable that stands inside the walls, beside the running one.
pub const INNER: &str = "nagent-sandbox";

/// What walls are made from.
#[derive(Debug, Clone, Copy)]
pub struct Places<'a> {
    /// The run's folder.
    pub folder: &'a Path,
    /// The git toplevel of `folder`, if any.
    pub toplevel: Option<&'a Path>,
    /// The home folder, if any.
    pub home: Option<&'a Path>,
    /// nagent's own root folder, which nothing inside can read.
    pub root: &'a Path,
    /// The value of `TMPDIR`, if set.
    pub tmpdir: Option<&'a OsStr>,
    /// The running executable; [`INNER`] is looked for beside it.
    pub executable: Option<&'a Path>,
    /// Whether it is a per-file conversation: then `workspace` writes in temp folders only.
    pub per_file: bool,
}

/// Why walls cannot be built, and what is missing.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Missing(pub String);

/// Walls that can be built on this machine.
#[derive(Debug, Clone)]
pub struct Walls {
    wanted: Wanted,
    writable: Vec<PathBuf>,
}

/// A command within walls.
#[derive(Debug)]
pub struct Walled {
    /// The program and its arguments that run the command within the walls.
    pub argv: Vec<OsString>,
    /// Variables to set for it beside its own.
    pub env: Vec<(OsString, OsString)>,
    /// Removes what had to be made for it; to be dropped when the command has ended.
    pub hold: Hold,
}

/// What was made for a command and goes with it: a scratch folder, mount points.
#[derive(Debug, Default)]
pub struct Hold {}

impl Hold {
    /// Removes it, and says what the command did that the walls could not stop.
    pub fn end(self) -> Vec<String> {
        Vec::new()
    }
}

impl Walls {
    /// The walls that are wanted, `None` when none are.
    ///
    /// # Errors
    /// They cannot be built here: the message says what is missing and what to do.
    pub fn build(wanted: &Wanted, places: Places<'_>) -> Result<Option<Self>, Missing> {
        _ = places;
        if !wanted.any() {
            return Ok(None);
        }
        Err(Missing("there are no walls around commands yet".to_owned()))
    }

    /// The command, within the walls.
    ///
    /// # Errors
    /// A folder that the walls need is gone, or what they need cannot be made.
    pub fn wrap(&self, argv: Vec<OsString>, cwd: &Path) -> Result<Walled, Missing> {
        _ = cwd;
        Ok(Walled { argv, env: Vec::new(), hold: Hold::default() })
    }

    /// What was asked for.
    pub fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// `bwrap` or `landlock`: what the walls are made of.
    pub fn kind(&self) -> &'static str {
        "landlock"
    }

    /// Folders, by their true paths, that commands may write in. Empty with mode off: then everywhere.
    pub fn writable(&self) -> &[PathBuf] {
        &self.writable
    }

    /// What these walls leave open, a sentence each.
    pub fn gaps(&self) -> Vec<String> {
        Vec::new()
    }

    /// What a failed command's output says of the walls: which setting would allow what was denied. `None` when nothing in
    /// it looks like a denial.
    pub fn advice(&self, output: &str) -> Option<String> {
        _ = output;
        None
    }
}
