//! The instructions for the inner stage: the process that restricts itself with Landlock and seccomp, and then becomes the
//! command. They are passed in memory, because arguments have a limit and are visible to others.
//!
//! ```text
//! FLAG \0 … w PATH \0 … h PATH \0 … end
//! ```

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::SandboxMode;
use super::policy::SandboxPolicy;

/// What the inner stage does before it starts the command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
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
    pub writable: Vec<PathBuf>,
    /// Paths that they cannot read. Inside of `bwrap` a mount hides them already.
    pub hidden: Vec<PathBuf>,
}

impl InnerPlan {
    /// Makes the plan for a policy.
    pub fn new(policy: &SandboxPolicy, alone: bool) -> Self {
        Self {
            alone,
            probe: false,
            no_network: policy.no_network,
            restricts_files: policy.mode != SandboxMode::Off,
            writable: policy.writable.iter().map(|folder| folder.path.clone()).collect(),
            hidden: policy.hidden.iter().map(|hidden| hidden.path.clone()).collect(),
        }
    }

    /// Encodes the plan.
    pub fn to_bytes(&self) -> Vec<u8> {
        let flags = [
            ("alone", self.alone),
            ("probe", self.probe),
            ("no-network", self.no_network),
            ("restrict", self.restricts_files),
        ];
        let mut bytes = Vec::new();
        for (name, _) in flags.iter().filter(|(_, is_set)| *is_set) {
            bytes.extend_from_slice(name.as_bytes());
            bytes.push(0);
        }
        for (kind, paths) in [(b'w', &self.writable), (b'h', &self.hidden)] {
            for path in paths {
                bytes.push(kind);
                bytes.extend_from_slice(path.as_os_str().as_bytes());
                bytes.push(0);
            }
        }
        bytes.extend_from_slice(b"end");
        bytes
    }

    /// Decodes a plan. `None` if it is not complete, or has words that are unknown.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut plan = Self::default();
        let mut words = bytes.split(|byte| *byte == 0);
        loop {
            match words.next()? {
                b"alone" => plan.alone = true,
                b"probe" => plan.probe = true,
                b"no-network" => plan.no_network = true,
                b"restrict" => plan.restricts_files = true,
                [b'w', path @ ..] => plan.writable.push(OsStr::from_bytes(path).into()),
                [b'h', path @ ..] => plan.hidden.push(OsStr::from_bytes(path).into()),
                b"end" => return Some(plan),
                _ => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_decoded_as_it_was_encoded_and_a_torn_one_is_refused() {
        let odd = PathBuf::from(OsStr::from_bytes(b"/w/\xff caf\xe9\n"));
        let plan = InnerPlan {
            alone: true,
            restricts_files: true,
            writable: vec![odd.clone(), "/tmp".into()],
            hidden: vec!["/h".into(), odd],
            ..InnerPlan::default()
        };
        let bytes = plan.to_bytes();
        assert_eq!(InnerPlan::from_bytes(&bytes), Some(plan));
        for end in 0..bytes.len() {
            assert_eq!(InnerPlan::from_bytes(&bytes[..end]), None, "{end}");
        }
        assert_eq!(InnerPlan::from_bytes(b"unknown\0end"), None);
    }
}
