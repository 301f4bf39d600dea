//! Drops the rights of a process with a script engine before it reads a byte of a script: it keeps only memory, and two
//! pipes to its parent.

#![expect(unsafe_code, reason = "descriptors that were inherited have no owner in Rust")]

use std::io;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetError,
    RulesetStatus, Scope,
};
use rustix::process::{
    Resource, Rlimit, Signal, chdir, set_parent_process_death_signal, setrlimit, setsid,
};
use rustix::thread::set_no_new_privs;

use crate::script::js::worker_filter;
use sys::process::restriction::drop_capabilities;

/// The Landlock version whose rights are given up; an older kernel has fewer.
const LANDLOCK: ABI = ABI::V7;

/// Memory for the engine's own code, in addition to that of the script, in bytes.
const ENGINE_MEMORY: u64 = 256 << 20;

/// Gives up everything, permanently. Returns whether Landlock is enforced, too; if the filter of system calls fails,
/// that is an error.
///
/// `memory` is the limit for the script, in bytes. The environment must be empty already.
///
/// # Errors
/// The right that could not be given up.
pub fn give_up_rights(memory: u64) -> Result<bool, String> {
    let failed =
        |what: &'static str| move |error: rustix::io::Errno| format!("cannot {what}: {error}");
    // SAFETY: nothing in this process owns a descriptor from 3 on.
    if unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) } != 0 {
        return Err(format!("cannot close descriptors: {}", io::Error::last_os_error()));
    }
    // It fails in the leader of a group, which has no terminal of its own either.
    let _ = setsid();
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(failed("end with the parent"))?;
    chdir("/").map_err(failed("leave the folder"))?;
    drop_capabilities().map_err(failed("drop all capabilities"))?;
    set_no_new_privs(true).map_err(failed("give up new privileges"))?;
    // Before the limit of descriptors: the ruleset needs one.
    let landlock = apply_landlock().unwrap_or(false);
    for (resource, limit) in [
        (Resource::As, memory.saturating_add(ENGINE_MEMORY)),
        (Resource::Fsize, 0),
        (Resource::Nofile, 3),
        (Resource::Nproc, 0),
        (Resource::Core, 0),
    ] {
        let limit = Rlimit { current: Some(limit), maximum: Some(limit) };
        setrlimit(resource, limit).map_err(failed("limit what it may use"))?;
    }
    let filter = worker_filter::compile_filter()?;
    seccompiler::apply_filter(&filter)
        .map_err(|error| format!("cannot filter system calls (seccomp): {error}"))?;
    Ok(landlock)
}

/// Takes away all files, ports and sockets. Returns whether the kernel enforces that.
fn apply_landlock() -> Result<bool, RulesetError> {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::BestEffort);
    let ruleset = ruleset.handle_access(AccessFs::from_all(LANDLOCK))?;
    let ruleset = ruleset.handle_access(AccessNet::from_all(LANDLOCK))?;
    let status = ruleset.scope(Scope::from_all(LANDLOCK))?.create()?.restrict_self()?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;

    /// Not a test by itself: what the test below runs as a process of its own.
    #[test]
    fn entry() {
        let Ok(call) = std::env::var("NAGENT_TEST_SYSTEM_CALL") else { return };
        let landlock = give_up_rights(1 << 28).unwrap();
        assert!(landlock || !std::path::Path::new("/sys/kernel/security/landlock").exists());
        let number = call.parse().unwrap();
        // SAFETY: zeros are not an address that a call could write to; the filter ends the process before any of them does
        // something.
        let got = unsafe { libc::syscall(number, 0, 0, libc::PROT_EXEC, 0, 0, 0) };
        // SAFETY: it ends the process.
        unsafe { libc::_exit(if got == -1 { 7 } else { 8 }) };
    }

    fn try_call(number: i64) -> std::process::ExitStatus {
        Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "script::js_worker::rights::tests::entry",
                "--nocapture",
                "--test-threads=1",
            ])
            .env("NAGENT_TEST_SYSTEM_CALL", number.to_string())
            .stdout(std::process::Stdio::null())
            .status()
            .unwrap()
    }

    #[test]
    fn what_is_not_allowed_kills_the_process() {
        for number in [
            libc::SYS_openat,
            libc::SYS_openat2,
            libc::SYS_execve,
            libc::SYS_execveat,
            libc::SYS_clone,
            libc::SYS_clone3,
            libc::SYS_socket,
            libc::SYS_connect,
            libc::SYS_sendto,
            libc::SYS_recvfrom,
            libc::SYS_ptrace,
            libc::SYS_process_vm_readv,
            libc::SYS_kill,
            libc::SYS_tgkill,
            libc::SYS_pidfd_open,
            libc::SYS_mount,
            libc::SYS_unshare,
            libc::SYS_setns,
            libc::SYS_chdir,
            libc::SYS_chroot,
            libc::SYS_getdents64,
            libc::SYS_statx,
            libc::SYS_newfstatat,
            libc::SYS_unlinkat,
            libc::SYS_renameat2,
            libc::SYS_linkat,
            libc::SYS_mkdirat,
            libc::SYS_fchmodat,
            libc::SYS_ioctl,
            libc::SYS_fcntl,
            libc::SYS_dup3,
            libc::SYS_prctl,
            libc::SYS_seccomp,
            libc::SYS_bpf,
            libc::SYS_io_uring_setup,
            libc::SYS_memfd_create,
            libc::SYS_shmget,
            libc::SYS_keyctl,
            libc::SYS_setuid,
            libc::SYS_nanosleep,
            // With PROT_EXEC as its third argument.
            libc::SYS_mmap,
            libc::SYS_mprotect,
        ] {
            let status = try_call(number);
            assert_eq!(status.signal(), Some(libc::SIGSYS), "call {number}: {status}");
        }
        // What is allowed is not in the way of the test itself: a write to no descriptor fails, and that is all.
        assert_eq!(try_call(libc::SYS_munmap).code(), Some(7));
    }
}
