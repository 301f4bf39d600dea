//! The places of a run that need no question, and those that no entry can allow.

use std::path::{Path, PathBuf};

use super::Mode;

/// Folders in which nothing can be read or written as a file, whatever the answer is.
const DEVICES: [&str; 3] = ["/dev", "/proc", "/sys"];

/// The places of a run, without links.
#[derive(Debug, Clone, Default)]
pub struct ScriptPlaces {
    /// The working folder.
    pub cwd: PathBuf,
    /// The user's home folder.
    pub user_home: Option<PathBuf>,
    /// The folder of all thoughts' data, `~/.thinkingscript`.
    pub home: PathBuf,
    /// The thought's folder.
    pub thought: Option<PathBuf>,
    /// nagent's root.
    pub root: Option<PathBuf>,
    /// Files with policies elsewhere.
    pub policies: Vec<PathBuf>,
    /// The usual paths of credentials: they need a question even in the working folder.
    pub hidden: Vec<PathBuf>,
}

impl ScriptPlaces {
    /// Whether a place needs no question: reading the working folder and the thought's, writing its workspace, its
    /// memories, and the file `memory.js`.
    pub(crate) fn is_always_allowed(&self, mode: Mode, path: &Path) -> bool {
        if let Some(thought) = &self.thought {
            let is_own = ["workspace", "memories"].iter().any(|name| {
                let folder = thought.join(name);
                path.starts_with(&folder) && (mode != Mode::Delete || path != folder)
            });
            if is_own
                || path == thought.join("memory.js")
                || mode == Mode::Read && path.starts_with(thought)
            {
                return true;
            }
        }
        let is_hidden = || self.hidden.iter().any(|hidden| path.starts_with(hidden));
        mode == Mode::Read && self.has_free_cwd() && path.starts_with(&self.cwd) && !is_hidden()
    }

    /// Whether it is the folder of the workspace or of the memories, which must not be removed.
    fn is_workplace(&self, path: &Path) -> bool {
        self.thought.as_ref().is_some_and(|thought| {
            ["workspace", "memories"].iter().any(|name| path == thought.join(name))
        })
    }

    /// Whether the working folder may be read freely: not if it is `/`, the home folder, or above it.
    fn has_free_cwd(&self) -> bool {
        let is_above = |place: &Path| place.starts_with(&self.cwd);
        let root = self.root.as_deref();
        !is_above(&self.home)
            && !self.user_home.as_deref().is_some_and(is_above)
            && !root.is_some_and(is_above)
    }

    /// The reason why no entry can allow a place: policies, settings and keys, nagent's own folder.
    pub(crate) fn find_forbidden(&self, mode: Mode, path: &Path) -> Option<&'static str> {
        if DEVICES.iter().any(|place| path.starts_with(place)) && !path.starts_with("/dev/shm") {
            return Some("/dev, /proc and /sys have devices and processes, not files");
        }
        let agents = self.home.join("agents");
        if path.starts_with(&agents)
            || self.root.as_deref().is_some_and(|root| path.starts_with(root))
        {
            return Some("keys and conversations are there");
        }
        if mode == Mode::Read {
            return None;
        }
        let holds = |place: &Path| place.starts_with(path);
        let thoughts = self.home.join("thoughts");
        let is_of_a_thought = path.strip_prefix(&thoughts).is_ok_and(|below| {
            let mut names = below.components().skip(1);
            names.next().is_none_or(|name| {
                name.as_os_str() == "policy.json" || name.as_os_str() == "origin"
            })
        });
        let is_setting = ["policy.json", "config.json"]
            .iter()
            .any(|name| path.starts_with(self.home.join(name)));
        // The folder of an ephemeral run is elsewhere.
        let is_own_folder = self.thought.as_deref().is_some_and(holds);
        let is_above = holds(&self.home) || self.root.as_deref().is_some_and(holds);
        if mode == Mode::Delete && (is_above || path == self.cwd || self.is_workplace(path)) {
            return Some("a run needs this folder itself");
        }
        let is_policy = self.policies.iter().any(|policy| holds(policy));
        (is_of_a_thought || is_setting || is_own_folder || is_policy)
            .then_some("a script cannot change what it may do")
    }
}
