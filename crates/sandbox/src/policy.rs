//! The paths that commands in a sandbox may write and read. The mounts of `bwrap` and the rules of Landlock are made
//! from this one value, and the tags use it to check whether a path may be written or read.

use std::path::{Path, PathBuf};

use super::SandboxMode;

/// A path that commands cannot read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HiddenPath {
    /// The path, without links.
    pub path: PathBuf,
    /// Whether it is a folder.
    pub is_folder: bool,
}

/// The paths that commands may write and read. No path has links.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SandboxPolicy {
    /// The mode that the user asked for.
    pub mode: SandboxMode,
    /// Whether the network is cut.
    pub no_network: bool,
    /// Folders in which commands may write.
    pub writable: Vec<PathBuf>,
    /// Paths in them that must not be changed, whether they exist or not.
    pub read_only: Vec<PathBuf>,
    /// Paths that cannot be read, wherever they are.
    pub hidden: Vec<HiddenPath>,
    /// Folders of which a command gets an empty one of its own, that is gone with it.
    pub private: Vec<PathBuf>,
    /// Paths in hidden ones that can be read all the same, and never written.
    pub shown: Vec<PathBuf>,
}

impl SandboxPolicy {
    /// Returns whether a path is in a writable folder, even if it is read-only there.
    pub(crate) fn is_writable(&self, path: &Path) -> bool {
        self.writable.iter().any(|folder| path.starts_with(folder))
    }

    /// Returns whether a path cannot be read: of hidden and shown paths, the deepest decides.
    pub(crate) fn is_hidden(&self, path: &Path) -> bool {
        self.hidden.iter().filter(|hidden| path.starts_with(&hidden.path)).any(|hidden| {
            let mut shown = self.shown.iter().filter(|shown| path.starts_with(shown));
            !shown.any(|shown| shown.starts_with(&hidden.path))
        })
    }

    /// Names the folders in which commands may write.
    pub fn name_writable(&self) -> Vec<String> {
        self.writable.iter().map(|folder| folder.display().to_string()).collect()
    }

    /// Checks whether commands may write a file, which need not exist. The error has the reason and the setting that
    /// would allow it.
    pub(crate) fn check_write(&self, path: &Path) -> Result<(), String> {
        let (mode, shown) = (self.mode.name(), path.display());
        if !self.is_writable(path) || self.check_read(path).is_err() {
            return Err(format!(
                "{shown} is outside of what the sandbox ({mode}) lets commands write; --write DIR adds a folder"
            ));
        }
        if self.read_only.iter().chain(&self.shown).any(|kept| path.starts_with(kept)) {
            return Err(format!(
                "{shown} is run or read by git or nagent itself, so the sandbox ({mode}) keeps it read-only; only the user can change it, or turn the sandbox off (--sandbox off)"
            ));
        }
        Ok(())
    }

    /// Checks whether commands may read a path. The error says that it is hidden.
    pub fn check_read(&self, path: &Path) -> Result<(), String> {
        if !self.is_hidden(path) {
            return Ok(());
        }
        Err(format!(
            "{} is hidden by the sandbox ({}), as nagent's own folder and credentials are; only the user can turn it off (--sandbox off)",
            path.display(),
            self.mode.name()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_may_be_written_in_a_writable_folder_unless_it_is_protected_or_hidden() {
        let policy = SandboxPolicy {
            mode: SandboxMode::Workspace,
            writable: vec!["/w".into(), "/tmp".into()],
            read_only: vec!["/w/tools/hooks".into(), "/w/.git/config".into()],
            hidden: ["/w/key", "/tmp/root", "/tmp/root/skills/key"]
                .map(|path| HiddenPath { path: path.into(), is_folder: false })
                .into(),
            shown: vec!["/tmp/root/skills".into()],
            ..SandboxPolicy::default()
        };
        for (path, word) in [
            ("/w/a", None),
            ("/w/sub/.envrc", None),
            ("/tmp/.envrc", None),
            ("/w2/a", Some("--write DIR")),
            ("/w/key", Some("--write DIR")),
            ("/tmp/root/x", Some("--write DIR")),
            ("/tmp/root/skills/x", Some("--sandbox off")),
            ("/w/.git/config", Some("--sandbox off")),
            ("/w/tools/hooks/x", Some("--sandbox off")),
        ] {
            let got = policy.check_write(Path::new(path));
            match word {
                None => assert_eq!(got, Ok(()), "{path}"),
                Some(word) => assert!(got.unwrap_err().contains(word), "{path}"),
            }
        }
        for (path, is_hidden) in [
            ("/w/key", true),
            ("/tmp/root", true),
            ("/tmp/root/skills2", true),
            ("/tmp/root/skills/x", false),
            ("/tmp/root/skills/key", true),
        ] {
            assert_eq!(policy.check_read(Path::new(path)).is_err(), is_hidden, "{path}");
        }
    }
}
