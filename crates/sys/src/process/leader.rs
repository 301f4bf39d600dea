//! The leader: the process that becomes the command. It starts as vfork(2) does it, in the supervisor's memory until it execs,
//! so nothing here may take a lock or allocate memory.
#![expect(unsafe_code, reason = "clone and exec have no safe form that allocates no memory")]

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::io;
use std::os::fd::{BorrowedFd, IntoRawFd, RawFd};

use super::super::interrupt::set_signal_mask;
use super::request::Request;
use super::restriction::give_up;
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{
    Pid, Resource, Signal, WaitId, WaitIdOptions, chdir, getpid, getppid,
    set_parent_process_death_signal, setrlimit, setsid, waitid,
};

/// Starts the command, in its own session, without a terminal. It is killed when the supervisor dies.
pub(super) fn start_leader(request: &Request) -> io::Result<Pid> {
    let mut start = LeaderStart { supervisor: getpid(), request, error: None };
    let stack_end = std::ptr::with_exposed_provenance_mut(request.stack_end);
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: this process has one thread, and it waits until the new one, which has a stack of its own, execs or exits.
    // Until then that one makes only system calls.
    let leader =
        unsafe { libc::clone(run_leader, stack_end, flags, (&raw mut start).cast::<c_void>()) };
    let leader = Pid::from_raw(leader.max(0)).ok_or_else(io::Error::last_os_error)?;
    match start.error.take() {
        None => Ok(leader),
        Some(error) => {
            let _ = waitid(WaitId::Pid(leader), WaitIdOptions::EXITED);
            Err(error)
        }
    }
}

/// The input of the new process, and the reason why it could not exec.
struct LeaderStart<'a> {
    supervisor: Pid,
    request: &'a Request,
    error: Option<io::Error>,
}

extern "C" fn run_leader(start: *mut c_void) -> c_int {
    // SAFETY: `start_leader` passes a pointer to this type, and touches the value only when this process is gone.
    let start = unsafe { &mut *start.cast::<LeaderStart<'_>>() };
    let prepared = prepare_leader(start.supervisor, start.request);
    start.error = Some(prepared.err().unwrap_or_else(|| exec(start.request)));
    exit_at_once()
}

/// Execs. Returns the error if that failed.
fn exec(request: &Request) -> io::Error {
    unsafe extern "C" {
        static mut environ: *const *const c_char;
    }
    // SAFETY: both are arrays of addresses of texts in the shared memory, each with a null at its end. No other thread of
    // this process reads the environment: it is a fork, which has one.
    unsafe {
        environ = request.environment;
        libc::execvp(*request.argv, request.argv);
    }
    io::Error::last_os_error()
}

fn prepare_leader(supervisor: Pid, request: &Request) -> io::Result<()> {
    setsid()?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The supervisor may have died before the line above: then that signal never comes.
    if getppid() != Some(supervisor) {
        return Err(Errno::CHILD.into());
    }
    if let Some(core) = request.core {
        setrlimit(Resource::Core, core)?;
    }
    let ruleset = take_descriptors(request)?;
    chdir(request.folder())?;
    set_signal_mask(false);
    request.rights.map_or(Ok(()), |rights| give_up(rights, ruleset, request.filter()))
}

/// Gives the descriptors that were sent the numbers that the command expects; all others are closed by the exec. Returns
/// the number of the ruleset, if there is one.
fn take_descriptors(request: &Request) -> io::Result<Option<RawFd>> {
    let (streams, rest) = request.descriptors().split_at(3);
    let wanted = request.inherit();
    // Above the wanted numbers, so that none is overwritten before its turn.
    let above = wanted.iter().copied().max().unwrap_or(2) + 1;
    for number in rest {
        // SAFETY: nagent has sent it, and it is open until the exec.
        let raised = fcntl_dupfd_cloexec(unsafe { BorrowedFd::borrow_raw(number.get()) }, above)?;
        number.set(raised.into_raw_fd());
    }
    for (from, to) in streams.iter().zip(0..).chain(rest.iter().zip(wanted.iter().copied())) {
        // SAFETY: two numbers and no memory.
        if unsafe { libc::dup2(from.get(), to) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(rest.get(wanted.len()).map(Cell::get))
}

pub(super) fn exit_at_once() -> ! {
    // SAFETY: it runs nothing of this program: no handlers, no buffers.
    unsafe { libc::_exit(0) }
}
