//! Where a fault may come, and which: the system calls on files, and strace's words for what is to happen at one.

use std::fmt;

/// Calls that change something, or take or leave a lock.
pub(super) const CHANGING: &[&str] = &[
    "creat",
    "write",
    "pwrite64",
    "writev",
    "pwritev",
    "fsync",
    "fdatasync",
    "sync_file_range",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "symlink",
    "symlinkat",
    "unlink",
    "unlinkat",
    "rmdir",
    "ftruncate",
    "truncate",
    "fallocate",
    "mkdir",
    "mkdirat",
    "chmod",
    "fchmod",
    "fchmodat",
    "chown",
    "fchown",
    "fchownat",
    "lchown",
    "utimensat",
    "copy_file_range",
    "sendfile",
    "flock",
    "openat",
    "open",
    "close",
];

/// Calls that only look.
pub(super) const LOOKING: &[&str] = &[
    "read",
    "pread64",
    "readv",
    "lseek",
    "getdents64",
    "stat",
    "lstat",
    "fstat",
    "newfstatat",
    "statx",
    "readlink",
    "readlinkat",
    "access",
    "faccessat",
    "faccessat2",
    "fcntl",
    "getcwd",
    "chdir",
    "mmap",
];

/// Calls that need room on the disk.
pub(super) const NEED_ROOM: &[&str] = &[
    "write",
    "pwrite64",
    "writev",
    "fsync",
    "fdatasync",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "ftruncate",
    "fallocate",
    "mkdir",
    "mkdirat",
    "copy_file_range",
    "sendfile",
    "openat",
];

/// Calls that a signal may interrupt.
pub(super) const INTERRUPTIBLE: &[&str] = &[
    "read",
    "pread64",
    "write",
    "pwrite64",
    "writev",
    "fsync",
    "fdatasync",
    "flock",
    "fallocate",
    "ftruncate",
    "openat",
    "copy_file_range",
];

/// Calls whose failure lasts, when a disk is full or dying.
pub(super) const LASTING: &[&str] = &[
    "write",
    "writev",
    "fsync",
    "fdatasync",
    "rename",
    "renameat",
    "renameat2",
    "linkat",
    "ftruncate",
    "fallocate",
];

/// A system call of a run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Site {
    pub(super) call: String,
    /// Which one of that name, from 1.
    pub(super) nth: usize,
    /// Which one of those on files of the world.
    pub(super) here: usize,
    /// What it was in the run without a fault.
    pub(super) line: String,
}

/// What happens at a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    Kill,
    /// Of all processes at once, and of what was not durable: no site has it.
    PowerCut,
    Fails(&'static str),
    /// From there on.
    Lasts(&'static str),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill => write!(f, "kill"),
            Self::PowerCut => write!(f, "power cut"),
            Self::Fails(error) => write!(f, "{error}"),
            Self::Lasts(error) => write!(f, "lasting {error}"),
        }
    }
}

impl Site {
    pub(super) fn faults(&self) -> Vec<Fault> {
        let is = |calls: &[&str]| calls.contains(&self.call.as_str());
        let creates = self.call != "openat"
            || self.line.contains("O_CREAT")
            || self.line.contains("O_TMPFILE");
        let mut faults = Vec::new();
        if is(CHANGING) && creates {
            faults.push(Fault::Kill);
        }
        // A close frees its number whatever it says; strace would leave it open.
        if self.call != "close" {
            faults.push(Fault::Fails("EIO"));
        }
        if is(NEED_ROOM) && creates {
            faults.push(Fault::Fails("ENOSPC"));
        }
        if is(INTERRUPTIBLE) {
            faults.push(Fault::Fails("EINTR"));
        }
        if is(LASTING) {
            faults.extend([Fault::Lasts("EIO"), Fault::Lasts("ENOSPC")]);
        }
        faults
    }

    pub(super) fn injection(&self, fault: Fault) -> String {
        let Self { call, nth, .. } = self;
        match fault {
            Fault::Kill | Fault::PowerCut => format!("inject={call}:signal=KILL:when={nth}"),
            Fault::Fails(error) => format!("inject={call}:error={error}:when={nth}"),
            Fault::Lasts(error) => format!("inject={call}:error={error}:when={nth}+"),
        }
    }
}
