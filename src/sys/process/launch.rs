//! What happens between fork and exec. It decides nothing about what is run.
#![expect(
    unsafe_code,
    reason = "pre_exec, and descriptors that this process inherited and does not own"
)]

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::FdFlags;

use super::keeper::{self, Charge};

/// Has the command run under a keeper, which is the child that `spawn` gives; `socket` is the keeper's end.
pub(super) fn under_keeper(command: &mut Command, socket: OwnedFd, charge: Charge) {
    let before_exec = move || keeper::divide(socket.as_fd(), charge);
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
