//! The rights that a new process gives up before it becomes the command. They are prepared by nagent: between fork and
//! exec nothing may take a lock or allocate memory, so applying them makes only system calls.

#![expect(unsafe_code, reason = "Landlock's own crate allocates memory to apply a ruleset")]

use std::io;
use std::os::fd::{OwnedFd, RawFd};

use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};
use seccompiler::{BpfProgram, sock_filter};

/// The rights that a process gives up, in addition to core dumps.
#[derive(Debug, Default)]
pub struct Restriction {
    /// All capabilities.
    pub capabilities: bool,
    /// The right to gain privileges by exec. Without it, only root can apply the next two.
    pub new_privileges: bool,
    /// Everything that this Landlock ruleset does not allow.
    pub ruleset: Option<OwnedFd>,
    /// The system calls that this filter refuses; an empty filter refuses none.
    pub filter: BpfProgram,
}

/// Gives up rights of the calling process: all capabilities, the right to new privileges, and what a ruleset and a filter say.
pub(super) fn give_up(
    (all_capabilities, new_privileges): (bool, bool),
    ruleset: Option<RawFd>,
    filter: &[sock_filter],
) -> io::Result<()> {
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    if all_capabilities {
        drop_capabilities()?;
    }
    if new_privileges {
        set_no_new_privs(true)?;
    }
    if let Some(ruleset) = ruleset {
        // SAFETY: two numbers and no memory.
        let done = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset, 0) };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    if !filter.is_empty() && seccompiler::apply_filter(filter).is_err() {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Drops all capabilities. A plain user cannot empty the bounding set, but without new privileges it has no effect.
pub fn drop_capabilities() -> rustix::io::Result<()> {
    if capabilities(None)?.effective.contains(CapabilitySet::SETPCAP) {
        // It fails for numbers above the last capability that the kernel knows.
        let all = (0..64).map(|number| CapabilitySet::from_bits_retain(1 << number));
        let _ = all.map(remove_capability_from_bounding_set).take_while(Result::is_ok).count();
    }
    clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
}
