//! What the sandbox is built with on this machine, and what that leaves open.

use super::{SandboxMode, SandboxRequest};

/// What the sandbox is built with. seccomp is always part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mechanism {
    /// Why there are no namespaces; `None`: `bwrap` makes them.
    pub no_bwrap: Option<String>,
    /// The version of Landlock that is enforced; 0: none.
    pub landlock: u32,
}

impl Mechanism {
    /// Returns whether Landlock and seccomp are all there is.
    pub fn is_alone(&self) -> bool {
        self.no_bwrap.is_some()
    }

    /// Describes what the sandbox leaves open, one sentence each. `git_is_writable`: the user named a repository's folder.
    pub fn gaps(&self, request: &SandboxRequest, git_is_writable: bool) -> Vec<String> {
        let mut gaps: Vec<&str> = Vec::new();
        let alone = self.is_alone();
        if request.mode == SandboxMode::Off {
            gaps.push("commands read and write whatever their user may, nagent's own folder included: only the network is cut");
        } else {
            gaps.push(
                "commands read whatever their user may, except nagent's own folder and credentials",
            );
            if !request.no_network {
                gaps.push("the network is on: what commands read they can send, and servers on this machine answer them");
            }
            if request.mode == SandboxMode::Workspace {
                gaps.push(
                    "temp folders are shared with other programs, and nothing in them is protected",
                );
            }
            if request.mode == SandboxMode::Workspace || !request.write.is_empty() {
                gaps.push("settings, and repositories with hooks or programs in their config, that a command creates are not stopped: they are moved out of the tree when the command ends, and other programs may see them until then");
                gaps.push("a tree of more than 100,000 entries, or one that takes longer than 0.2 s to search, is not searched to its end; a note says so after the command");
                gaps.push(
                    "a hard link in the tree to a file outside lets commands change that file",
                );
                gaps.push(if alone {
                    "without bwrap nothing in a writable folder is read-only: .git, hooks and settings that run things can be changed or moved away; the result names those that were changed"
                } else {
                    "a folder with a repository or settings in it can be moved away, and another one made in its place; what that holds is moved out when the command ends"
                });
            }
        }
        match (alone, self.landlock) {
            (true, version) => gaps_of_landlock(request, version, git_is_writable, &mut gaps),
            (false, 0) => {
                gaps.push("this kernel has no Landlock: only namespaces and seccomp hold");
            }
            (false, _) if git_is_writable => {
                gaps.push("in .git, a rebase in progress can be changed, and runs commands when it continues");
            }
            _ => {}
        }
        gaps.into_iter().map(str::to_owned).collect()
    }
}

fn gaps_of_landlock(
    request: &SandboxRequest,
    landlock: u32,
    git_is_writable: bool,
    gaps: &mut Vec<&'static str>,
) {
    if landlock < 6 {
        gaps.push("commands can send signals to other processes of this user (Landlock 6, Linux 6.12, stops that)");
    }
    if request.mode == SandboxMode::Off {
        return;
    }
    gaps.push("without namespaces, modes, owners, times and attributes of files outside can be changed where their user may (chmod, chown, touch -d, setfattr, chattr)");
    gaps.push("command lines of other processes can be read, and the priority of those of this user changed; the size and times of a hidden file whose path is known can be read");
    gaps.push("folders above hidden ones, / and the home folder among them, cannot be listed; there is no terminal");
    if request.mode == SandboxMode::Workspace {
        gaps.push(
            "commands can write to /dev/shm, where there is one, and it is that of all programs",
        );
    }
    if git_is_writable {
        gaps.push("all of .git is writable, hooks and config too");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn landlock_alone_names_what_it_leaves_open() {
        let request = SandboxRequest { mode: SandboxMode::Workspace, ..SandboxRequest::default() };
        let alone = Mechanism { no_bwrap: Some("not installed".to_owned()), landlock: 4 };
        let gaps = alone.gaps(&request, true).join("\n");
        for part in ["chmod", "signals", "hooks and config too", "network is on", "read-only"] {
            assert!(gaps.contains(part), "{part}: {gaps}");
        }
        let reads = SandboxRequest { mode: SandboxMode::ReadOnly, ..request.clone() };
        assert!(
            gaps.contains("/dev/shm") && !alone.gaps(&reads, false).join("").contains("/dev/shm")
        );
        let without = Mechanism { no_bwrap: None, landlock: 0 };
        assert!(without.gaps(&request, false).iter().any(|gap| gap.contains("no Landlock")));
    }
}
