//! The mechanism of the sandbox on this machine, and its gaps.

use std::path::PathBuf;

use super::{SandboxMode, SandboxRequest};

/// The parts that the sandbox is built with. seccomp is always one of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mechanism {
    /// The path of `bwrap`, which makes namespaces.
    pub bwrap: Option<PathBuf>,
    /// The reason why `bwrap` is not used.
    pub no_bwrap: String,
    /// Whether `bwrap` needs a user namespace for the other namespaces.
    pub user_namespace: bool,
    /// The version of Landlock; 0: none.
    pub landlock: u32,
    /// Whether commands may use Unix sockets: then those of other programs are out of reach.
    pub unix_sockets: bool,
}

impl Mechanism {
    /// The name of the mechanism: `bwrap` or `landlock`.
    pub fn name(&self) -> &'static str {
        if self.bwrap.is_some() { "bwrap" } else { "landlock" }
    }

    /// Describes what the sandbox does not protect and what it takes away, one sentence each.
    pub fn describe_gaps(&self, request: &SandboxRequest) -> Vec<String> {
        let alone = self.bwrap.is_none();
        let is_workspace = request.mode == SandboxMode::Workspace;
        let holds = |condition: &str| match condition {
            "all" => true,
            "network" => !request.no_network,
            "sockets" => self.unix_sockets,
            "no-sockets" => !self.unix_sockets,
            "workspace" => is_workspace,
            "writes" => is_workspace || !request.write.is_empty(),
            "bwrap" => !alone,
            "alone" => alone,
            "landlock<1" => self.landlock < 1,
            "landlock<6" => self.landlock < 6,
            _ => false,
        };
        let gaps =
            include_str!("gaps.txt").lines().skip(1).filter_map(|line| line.split_once(": "));
        let gaps = gaps.filter(|(conditions, _)| conditions.split(' ').all(holds));
        gaps.map(|(_, gap)| gap.to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn landlock_alone_names_what_it_leaves_open() {
        let request = SandboxRequest { mode: SandboxMode::Workspace, ..SandboxRequest::default() };
        let alone = Mechanism { landlock: 4, ..Mechanism::default() };
        let gaps = alone.describe_gaps(&request).join("\n");
        for part in
            ["chmod", "signals", "read-only", "network is on", "/dev/shm", "cannot use Unix"]
        {
            assert!(gaps.contains(part), "{part}: {gaps}");
        }
        let reads = SandboxRequest { mode: SandboxMode::ReadOnly, ..request.clone() };
        assert!(!alone.describe_gaps(&reads).join("").contains("/dev/shm"));
        let without = Mechanism { bwrap: Some("/usr/bin/bwrap".into()), ..Mechanism::default() };
        assert!(without.describe_gaps(&request).iter().any(|gap| gap.contains("no Landlock")));
    }
}
