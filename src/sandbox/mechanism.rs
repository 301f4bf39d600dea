//! What the sandbox is built with on this machine, and what that leaves open.

use super::inner::Enforced;
use super::{SandboxMode, SandboxRequest};

/// What the sandbox is built with. seccomp is always part of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mechanism {
    /// Why there are no namespaces; `None`: `bwrap` makes them.
    pub no_bwrap: Option<String>,
    /// What the inner stage enforces.
    pub enforced: Enforced,
}

impl Mechanism {
    /// Returns whether Landlock and seccomp are all there is.
    pub fn is_alone(&self) -> bool {
        self.no_bwrap.is_some()
    }

    /// Describes what the sandbox leaves open or takes away, one sentence each.
    pub fn describe_gaps(&self, request: &SandboxRequest) -> Vec<String> {
        let (alone, landlock) = (self.is_alone(), self.enforced.landlock);
        let is_off = request.mode == SandboxMode::Off;
        let is_workspace = request.mode == SandboxMode::Workspace;
        let mut gaps = vec![if is_off {
            "commands can read and write everything the user can, including nagent's own folder; only the network is blocked"
        } else {
            "commands can read everything the user can, except nagent's own folder and credentials"
        }];
        if !request.no_network {
            gaps.push("the network is on: commands can send what they read, and reach servers on this machine");
        }
        gaps.push(if self.enforced.unix_sockets {
            "commands can open Unix sockets, to which other programs can connect, and reach a Unix socket that another program opens while they run"
        } else {
            "commands cannot use Unix sockets, those that they open themselves included (language servers, test databases, multiprocessing.Manager): without bwrap and Landlock 6 those of other programs could be reached, too"
        });
        if is_workspace {
            gaps.push("temp folders are shared with other programs and not protected");
        }
        if is_workspace || !is_off && !request.write.is_empty() {
            gaps.extend([
                "settings, and repositories with hooks or programs in their config, that a command creates are moved out of the tree only when it ends; until then other programs may use them",
                "a tree of more than 100,000 entries, or one that takes longer than 0.2 s to search, is not searched to its end; a note says so after the command",
                "a hard link in the tree to a file outside lets commands change that file",
                "of .git, only the config, hooks and what names programs is protected: commits, branches and a rebase in progress, which runs commands when it continues, can be changed and removed",
                if alone {
                    "without bwrap nothing in a writable folder is read-only: git's config, hooks and settings that run things can be changed or moved away; the result names those that were changed"
                } else {
                    "a folder with a repository or settings in it can be moved away, and another one made in its place; what that holds is moved out when the command ends"
                },
            ]);
        }
        if !alone && landlock == 0 {
            gaps.push("this kernel has no Landlock: only namespaces and seccomp hold");
        }
        if alone && landlock < 6 {
            gaps.push("commands can send signals to other processes of this user (Landlock 6, Linux 6.12, stops that)");
        }
        if alone && !is_off {
            gaps.extend([
                "without namespaces, modes, owners, times and attributes of files outside can be changed where their user may (chmod, chown, touch -d, setfattr, chattr)",
                "command lines of other processes can be read, and the priority of those of this user changed; the size and times of a hidden file whose path is known can be read",
                "folders above hidden ones, / and the home folder among them, cannot be listed; there is no terminal",
            ]);
        }
        if alone && is_workspace {
            gaps.push("commands can write to /dev/shm, which all programs share");
        }
        gaps.into_iter().map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn landlock_alone_names_what_it_leaves_open() {
        let request = SandboxRequest { mode: SandboxMode::Workspace, ..SandboxRequest::default() };
        let enforced = Enforced { landlock: 4, unix_sockets: false };
        let alone = Mechanism { no_bwrap: Some("not installed".to_owned()), enforced };
        let gaps = alone.describe_gaps(&request).join("\n");
        for part in
            ["chmod", "signals", "read-only", "network is on", "/dev/shm", "cannot use Unix"]
        {
            assert!(gaps.contains(part), "{part}: {gaps}");
        }
        let reads = SandboxRequest { mode: SandboxMode::ReadOnly, ..request.clone() };
        assert!(!alone.describe_gaps(&reads).join("").contains("/dev/shm"));
        let without = Mechanism::default();
        assert!(without.describe_gaps(&request).iter().any(|gap| gap.contains("no Landlock")));
    }
}
