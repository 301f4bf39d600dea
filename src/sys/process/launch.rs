//! What happens between fork and exec. The only file with `unsafe`: std offers neither `setsid` nor the
//! death signal by other means. It decides nothing about what is run.
#![expect(
    unsafe_code,
    reason = "pre_exec, and descriptors that this process inherited and does not own"
)]

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::{Errno, FdFlags};
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal, setsid};

/// Puts the child into its own session, without a terminal, and has it killed when this process dies.
pub(super) fn in_own_session(command: &mut Command) {
    let parent = getpid();
    let before_exec = move || -> io::Result<()> {
        setsid()?;
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // This process may have died before the line above: then no signal comes any more.
        if getppid() != Some(parent) {
            return Err(Errno::CHILD.into());
        }
        Ok(())
    };
    // SAFETY: between fork and exec only system calls are made: no allocation, no lock.
    unsafe { command.pre_exec(before_exec) };
}

/// Keeps the descriptors that this process was started with, beyond stdin, stdout and stderr, from its
/// children. Those it opens itself never reach them: Rust opens them so.
pub(super) fn keep_inherited_descriptors() {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    let numbers =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    for number in numbers.filter(|number| *number > 2) {
        // SAFETY: the number is used for this one call, which fails harmlessly when it is closed by now, and
        // which changes nothing for a descriptor that this process opened itself.
        let fd = unsafe { BorrowedFd::borrow_raw(number) };
        if let Ok(flags) = rustix::io::fcntl_getfd(fd) {
            let _ = rustix::io::fcntl_setfd(fd, flags | FdFlags::CLOEXEC);
        }
    }
}
