//! The request for a command that a supervisor starts, in memory that it shares with nagent.
//!
//! The memory is mapped before the fork, so that its addresses are the same on both sides: a request holds them as they are.
#![expect(unsafe_code, reason = "memory that two processes share has no owner in Rust")]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsStr, c_char};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use rustix::process::Rlimit;
use seccompiler::sock_filter;

use super::job::Job;
use crate::env;

/// Size of the memory in bytes; only what is written to takes any. Linux limits arguments and environment to 6 MiB.
const SIZE: usize = 8 << 20;

/// Size of the stack in bytes on which the command's process runs until it execs, in addition to eight for each argument:
/// execvp copies those of a script without a first line `#!`.
const STACK: usize = 64 << 10;

/// A command and how it is started.
#[derive(Debug)]
pub(super) struct Config<'a> {
    /// The command.
    pub(super) job: &'a Job,
    /// The folder that it is started in.
    pub(super) folder: CString,
    /// Its standard streams.
    pub(super) streams: [BorrowedFd<'a>; 3],
}

impl Config<'_> {
    /// The descriptors that are sent: the streams, the inherited ones, and the ruleset if there is one.
    pub(super) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let restriction = self.job.restriction.as_ref();
        let ruleset = restriction.and_then(|restriction| restriction.ruleset.as_ref());
        let rest = self.job.inherit.iter().chain(ruleset).map(AsFd::as_fd);
        self.streams.iter().copied().chain(rest).collect()
    }
}

/// The way in which a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ExitReport {
    /// The exit code, or the number of the signal.
    pub(super) status: Result<i32, i32>,
    /// Whether every process below the supervisor has ended and was reaped.
    pub(super) all_gone: bool,
    /// The number of processes that were still running when the command had ended.
    pub(super) left: u16,
}

impl ExitReport {
    /// That of a supervisor which was killed, and its command with it.
    pub(super) const UNKNOWN: Self = Self { status: Err(libc::SIGKILL), all_gone: false, left: 0 };
}

/// A [`Config`] as the supervisor reads it: without any owner of memory or of a descriptor.
#[derive(Debug)]
pub(super) struct Request {
    /// The time between SIGTERM and SIGKILL once nagent is dead.
    pub(super) grace: Duration,
    /// The limit of core dumps for the command; nagent sets its own to zero.
    pub(super) core: Option<Rlimit>,
    pub(super) is_bwrap: bool,
    /// Whether the command gives up all capabilities, and the right to new privileges; `None`: nothing at all.
    pub(super) rights: Option<(bool, bool)>,
    /// The negative process id of the command, or the number of the error for which it was not started.
    pub(super) start: Cell<i32>,
    pub(super) report: Cell<ExitReport>,
    /// Arguments and environment as execvp(3) takes them.
    pub(super) argv: *const *const c_char,
    pub(super) environment: *const *const c_char,
    /// The end of the stack of the command's process until it execs.
    pub(super) stack_end: usize,
    folder: *const c_char,
    inherit: *const [RawFd],
    filter: *const [sock_filter],
    descriptors: *const [Cell<RawFd>],
}

impl Request {
    pub(super) fn folder(&self) -> &CStr {
        // SAFETY: `Shared::write` has written a text that ends with a NUL byte.
        unsafe { CStr::from_ptr(self.folder) }
    }

    /// The numbers under which the command gets the descriptors after the first three.
    pub(super) fn inherit(&self) -> &[RawFd] {
        // SAFETY: `Shared::write` has written this many.
        unsafe { &*self.inherit }
    }

    pub(super) fn filter(&self) -> &[sock_filter] {
        // SAFETY: `Shared::write` has written this many.
        unsafe { &*self.filter }
    }

    /// The numbers that the descriptors which were sent have in the supervisor.
    pub(super) fn descriptors(&self) -> &[Cell<RawFd>] {
        // SAFETY: `Shared::write` has written this many.
        unsafe { &*self.descriptors }
    }
}

/// The memory that nagent shares with one supervisor. A request is at its beginning, and what it points to behind it.
#[derive(Debug)]
pub(super) struct Shared {
    address: usize,
}

impl Shared {
    pub(super) fn new() -> io::Result<Self> {
        let (access, flags) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::NORESERVE);
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), SIZE, access, flags) }?;
        Ok(Self { address: start.expose_provenance() })
    }

    /// The request that was written last.
    pub(super) fn current(&self) -> &Request {
        // SAFETY: `write` came first, since nobody asks for one before it is announced; no other is written before its end.
        unsafe { &*std::ptr::with_exposed_provenance(self.address) }
    }

    /// Writes a request. Fails if a text has a NUL byte or there is no room.
    pub(super) fn write(&mut self, config: &Config) -> io::Result<()> {
        let mut room = Room { next: self.address + size_of::<Request>(), end: self.address + SIZE };
        let job = config.job;
        // A later value of a variable replaces an earlier one.
        let variables: BTreeMap<&OsStr, &OsStr> =
            job.env.iter().map(|(name, value)| (&**name, &**value)).collect();
        let argv = job.argv.iter().map(|argument| [argument.as_bytes(), b"", b""]);
        let environment =
            variables.iter().map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()]);
        let (argv, environment) = (room.put_texts(argv)?, room.put_texts(environment)?);
        let inherit: Vec<RawFd> = job.inherit.iter().map(AsRawFd::as_raw_fd).collect();
        let restriction = job.restriction.as_ref();
        let filter = restriction.map_or(&[][..], |restriction| &restriction.filter);
        let request = Request {
            grace: job.grace,
            core: env::core_limit(),
            is_bwrap: job.is_bwrap,
            rights: restriction.map(|it| (it.capabilities, it.new_privileges)),
            start: Cell::new(0),
            report: Cell::new(ExitReport::UNKNOWN),
            argv,
            environment,
            stack_end: (self.address + SIZE) & !15,
            folder: room.put(config.folder.as_bytes_with_nul())?.cast(),
            inherit: room.put(&inherit)?,
            filter: room.put(filter)?,
            descriptors: room.put(&vec![-1; config.descriptors().len()])? as *const [Cell<RawFd>],
        };
        if room.end - room.next < STACK + job.argv.len() * size_of::<usize>() {
            return Err(Errno::TOOBIG.into());
        }
        // SAFETY: the beginning of a mapping is aligned and has room, and the supervisor does not use the last request any more.
        unsafe { std::ptr::with_exposed_provenance_mut::<Request>(self.address).write(request) };
        Ok(())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this size, and nothing in this process points into it.
        let _ = unsafe { munmap(std::ptr::with_exposed_provenance_mut(self.address), SIZE) };
    }
}

/// The part of the shared memory that is not used.
struct Room {
    next: usize,
    end: usize,
}

impl Room {
    /// Writes values that own nothing: their bytes are copied.
    fn put<T>(&mut self, values: &[T]) -> io::Result<*const [T]> {
        let start = self.next.next_multiple_of(align_of::<T>());
        let end = start.saturating_add(size_of_val(values));
        if end > self.end {
            return Err(Errno::TOOBIG.into());
        }
        self.next = end;
        let place = std::ptr::with_exposed_provenance_mut::<T>(start);
        // SAFETY: it is aligned, and inside of the mapping, where nothing else is.
        unsafe { values.as_ptr().copy_to_nonoverlapping(place, values.len()) };
        Ok(std::ptr::slice_from_raw_parts(place, values.len()))
    }

    /// Writes texts, each made of parts, and an array of their addresses with a null at its end.
    fn put_texts<'a>(
        &mut self,
        texts: impl Iterator<Item = [&'a [u8]; 3]>,
    ) -> io::Result<*const *const c_char> {
        let mut addresses: Vec<*const c_char> = Vec::new();
        for parts in texts {
            let text = CString::new(parts.concat())?;
            addresses.push(self.put(text.as_bytes_with_nul())?.cast());
        }
        addresses.push(std::ptr::null());
        Ok(self.put(&addresses)?.cast())
    }
}
