//! The supervisor: a process between nagent and a command that makes sure no process of the command survives, whichever
//! ends first: the command, nagent (SIGKILL included), or a time limit.
//!
//! It is a fork of nagent without an exec. As a child subreaper it inherits every descendant of the command whose parent
//! has ended, so everything below it belongs to this job and nothing else does. When a job has ended well, the supervisor
//! waits for the next one: a fork for each command, and the pages that nagent writes to after it, were a third of a turn.
//! It talks to nagent through memory that both see (`request`) and a socket pair:
//! - to the supervisor: [`START`] with descriptors, when a request is in the memory; [`TERM`] or [`KILL`], one byte each;
//!   end of file means that nagent is dead: TERM, the grace, KILL
//! - from the supervisor: [`STARTED`], and [`ENDED`] after the command has ended and the rest was killed, when the results are
//!   in the memory
//!
//! It signals only its own unreaped children, whose process ids cannot have been reused. It finds them in
//! `/proc/thread-self/children`; without /proc it only ends the command's process group. A command that kills its
//! supervisor is killed with it (`PDEATHSIG`), but processes that it started may survive.
//!
//! All of this runs in a fork: nothing here may take a lock or allocate memory.
#![expect(
    unsafe_code,
    reason = "fork, signal masks and signalfd have no safe form that allocates no memory"
)]

use std::ffi::CStr;
use std::io::{self, IoSlice, IoSliceMut, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::super::interrupt::set_signal_mask;
use super::super::ready;
use super::leader::{exit_at_once, start_leader};
use super::request::{Config, ExitReport, Request, Shared};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv, recvmsg, send, sendmsg,
    socketpair,
};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitIdStatus, chdir, getpid, kill_process,
    kill_process_group, pidfd_open, pidfd_send_signal, set_child_subreaper,
    set_parent_process_death_signal, setpgid, waitid,
};

/// Announces a request, or more of its descriptors.
const START: u8 = b'S';

/// The command was started, or could not be: [`Request::start`].
const STARTED: u8 = b's';

/// All is over: [`Request::report`].
const ENDED: u8 = b'e';

/// Orders the supervisor to ask the command's process group to end.
pub(super) const TERM: u8 = b'T';

/// Orders the supervisor to kill it.
pub(super) const KILL: u8 = b'K';

/// Maximum time for processes to vanish after SIGKILL. One that sleeps in the kernel can take forever.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// Descriptors in one message: the kernel takes up to 253.
const DESCRIPTORS: usize = 250;

/// Maximum wait for the report that the command has started. That takes about a millisecond, but a command can stop its
/// supervisor before the report. After this time the command counts as started.
const START_PATIENCE: Duration = Duration::from_secs(1);

/// The supervisors that wait for a job.
static IDLE: Mutex<Vec<Supervisor>> = Mutex::new(Vec::new());

/// Nagent's side of a supervisor that has a job.
#[derive(Debug)]
pub(super) struct Supervisor {
    pidfd: OwnedFd,
    /// Readable when the job may have ended.
    pub(super) socket: OwnedFd,
    shared: Shared,
    /// Whether an order was sent, which the next job must not get.
    has_orders: bool,
}

impl Supervisor {
    /// Starts a command under a supervisor, and returns the process id of the command, 0 if that is not known.
    pub(super) fn start(config: &Config) -> io::Result<(Self, u32)> {
        loop {
            let idle = IDLE.lock().ok().and_then(|mut idle| idle.pop());
            let is_new = idle.is_none();
            let mut supervisor = idle.map_or_else(Self::fork, Ok)?;
            match supervisor.shared.write(config).map(|()| supervisor.send_start(config)) {
                Ok(Ok(())) => return supervisor.wait_for_start(),
                // It cannot be written, and says so again with any other supervisor.
                Err(error) => {
                    supervisor.release(true);
                    return Err(error);
                }
                Ok(Err(error)) => {
                    supervisor.end_process();
                    if is_new {
                        return Err(error);
                    }
                    // Somebody has killed it.
                }
            }
        }
    }

    fn fork() -> io::Result<Self> {
        // SEQPACKET keeps message boundaries: an order, a report.
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let (socket, other) = socketpair(AddressFamily::UNIX, kind, flags, None)?;
        let shared = Shared::new()?;
        // SAFETY: the new process makes only system calls: no allocation, no lock.
        let process = match unsafe { libc::fork() } {
            0 => serve(other.as_fd(), &shared),
            process => Pid::from_raw(process.max(0)).ok_or_else(io::Error::last_os_error)?,
        };
        // Out of descriptors, it ends with the socket.
        let pidfd = pidfd_open(process, PidfdFlags::empty())?;
        Ok(Self { pidfd, socket, shared, has_orders: false })
    }

    fn send_start(&self, config: &Config) -> io::Result<()> {
        let descriptors = config.descriptors();
        for some in descriptors.chunks(DESCRIPTORS) {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            control.push(SendAncillaryMessage::ScmRights(some));
            sendmsg(&self.socket, &[IoSlice::new(&[START])], &mut control, SendFlags::NOSIGNAL)?;
        }
        Ok(())
    }

    fn wait_for_start(self) -> io::Result<(Self, u32)> {
        let give_up = Instant::now() + START_PATIENCE;
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
        while fds[0].revents().is_empty() && Instant::now() < give_up {
            ready::wait(&mut fds, Some(give_up));
        }
        let is_known = recv(&self.socket, &mut [0][..], RecvFlags::DONTWAIT).is_ok();
        match if is_known { self.shared.current().start.get() } else { 0 } {
            number @ ..=0 => Ok((self, number.unsigned_abs())),
            number => {
                self.release(true);
                Err(io::Error::from_raw_os_error(number))
            }
        }
    }

    /// Sends [`TERM`] or [`KILL`].
    pub(super) fn order(&mut self, order: u8) {
        self.has_orders = true;
        // Fails when the supervisor has ended, which its socket shows.
        let _ = send(&self.socket, &[order], SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        // The job may have stopped it.
        let _ = pidfd_send_signal(&self.pidfd, Signal::CONT);
    }

    /// Kills the supervisor itself.
    pub(super) fn kill(&self) {
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
    }

    /// The end of the job, once it has ended.
    pub(super) fn end(&self) -> Option<ExitReport> {
        let (mut message, request) = ([0], self.shared.current());
        loop {
            match recv(&self.socket, &mut message[..], RecvFlags::DONTWAIT) {
                Err(Errno::AGAIN | Errno::INTR) => return None,
                Ok((_, 1)) if message[0] == ENDED => return Some(request.report.get()),
                // It came after START_PATIENCE.
                Ok((_, 1)) if request.start.get() <= 0 => {}
                _ => return Some(ExitReport::UNKNOWN),
            }
        }
    }

    /// Keeps a supervisor for the next job if this one has ended without leaving anything; else ends it.
    pub(super) fn release(self, all_gone: bool) {
        if all_gone && !self.has_orders {
            let _ = IDLE.lock().map(|mut idle| idle.push(self));
        } else {
            self.end_process();
        }
    }

    fn end_process(self) {
        self.kill();
        let wait = || waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED);
        while matches!(wait(), Err(Errno::INTR)) {}
    }
}

/// The whole life of a supervisor, a new fork of nagent.
fn serve(socket: BorrowedFd<'_>, shared: &Shared) -> ! {
    reset_signals();
    // In its own process group, so that no Ctrl-C reaches it. If its command has stopped it, the death of nagent
    // continues it, and it sees the end of the socket.
    let is_alone = setpgid(None, None).is_ok()
        && set_parent_process_death_signal(Some(Signal::CONT)).is_ok()
        && set_child_subreaper(Some(getpid())).is_ok();
    let Some(child_ends) = drop_inherited(socket).filter(|_| is_alone) else { exit_at_once() };
    let socket = rustix::stdio::stdin();
    while let Some(request) = receive_request(socket, shared) {
        let started = start_leader(request);
        // The leader has its own.
        let _ = close_range(2);
        let number = match &started {
            Ok(leader) => -leader.as_raw_nonzero().get(),
            Err(error) => error.raw_os_error().unwrap_or(libc::EINVAL),
        };
        request.start.set(number);
        let _ = send(socket, &[STARTED], SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        if let Ok(leader) = started {
            supervise(socket, &child_ends, leader, request);
        }
    }
    exit_at_once()
}

/// Waits for a request and its descriptors; `None` when nagent is dead.
fn receive_request<'a>(socket: BorrowedFd<'_>, shared: &'a Shared) -> Option<&'a Request> {
    let mut received = 0;
    loop {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let mut parts = [IoSliceMut::new(&mut byte)];
        if recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC).ok()?.bytes == 0 {
            return None;
        }
        // An order for the job that has just ended.
        if byte[0] != START {
            continue;
        }
        let request = shared.current();
        for message in control.drain() {
            let RecvAncillaryMessage::ScmRights(descriptors) = message else { continue };
            for descriptor in descriptors {
                request.descriptors().get(received)?.set(descriptor.into_raw_fd());
                received += 1;
            }
        }
        if received == request.descriptors().len() {
            return Some(request);
        }
    }
}

/// Blocks every signal and resets all to their default effect, also those that were ignored when nagent was started.
fn reset_signals() {
    set_signal_mask(true);
    // SAFETY: the structure is plain numbers, for which zeros are valid.
    let mut default = unsafe { std::mem::zeroed::<libc::sigaction>() };
    default.sa_sigaction = libc::SIG_DFL;
    // SAFETY: the pointer is to a local value. No handler of nagent's runs between the lines: all signals are blocked.
    unsafe {
        for number in 1..=libc::SIGRTMAX() {
            // Fails for KILL, STOP and the two that the C library reserves.
            libc::sigaction(number, &raw const default, std::ptr::null_mut());
        }
    }
}

/// Closes all descriptors from `first` on. It needs Linux 5.11.
fn close_range(first: libc::c_uint) -> io::Result<()> {
    // SAFETY: whatever owns these descriptors in this process, a fork that never returns, is never used or dropped.
    match unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Watches over a job until all of it has ended, and reports that.
fn supervise(socket: BorrowedFd<'_>, child_ends: &OwnedFd, leader: Pid, request: &Request) {
    let mut is_orphaned = false;
    let mut kill_at: Option<Instant> = None;
    loop {
        drain(child_ends);
        if has_ended(leader) {
            break;
        }
        let now = Instant::now();
        if kill_at.is_some_and(|at| at <= now) {
            kill_at = None;
            let _ = kill_process_group(leader, Signal::KILL);
        }
        let mut fds = [PollFd::new(child_ends, PollFlags::IN), PollFd::new(&socket, PollFlags::IN)];
        // A socket whose other end is closed stays readable.
        let watched = if is_orphaned { 1 } else { 2 };
        ready::wait(&mut fds[..watched], kill_at);
        let mut order = [0; 1];
        match recv(socket, &mut order[..], RecvFlags::DONTWAIT) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            _ if is_orphaned => {}
            Ok((_, 1)) if order[0] == TERM => terminate_group(leader),
            Ok((_, 1)) => drop(kill_process_group(leader, Signal::KILL)),
            _ => {
                is_orphaned = true;
                terminate_group(leader);
                kill_at = now.checked_add(request.grace);
            }
        }
    }
    let left = count_left(request.is_bwrap);
    // Until the leader is reaped, nobody else can get its process id or its group's.
    let _ = kill_process_group(leader, Signal::KILL);
    let status = waitid(WaitId::Pid(leader), WaitIdOptions::EXITED).ok().flatten();
    let signal = status.as_ref().and_then(WaitIdStatus::terminating_signal);
    let code = status.as_ref().and_then(WaitIdStatus::exit_status);
    let status = signal.map_or(Ok(code.unwrap_or(-1)), Err);
    let all_gone = kill_all_children(child_ends);
    request.report.set(ExitReport { status, all_gone, left });
    let _ = send(socket, &[ENDED], SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
}

/// Closes all descriptors of nagent except the socket, which becomes descriptor 0, and opens a descriptor that is
/// readable when a child ends.
fn drop_inherited(socket: BorrowedFd<'_>) -> Option<OwnedFd> {
    rustix::stdio::dup2_stdin(socket).ok()?;
    close_range(1).ok()?;
    // Leave the folder of the command, which may be removed or unmounted.
    let _ = chdir(c"/");
    let _ = rustix::thread::set_name(c"nagent-super");
    // SAFETY: zeros are a set of no signals, and the pointers are to a local value.
    let number = unsafe {
        let mut set = std::mem::zeroed::<libc::sigset_t>();
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    };
    // SAFETY: it was just opened, and nothing else owns it.
    (number >= 0).then(|| unsafe { OwnedFd::from_raw_fd(number) })
}

/// Empties the signalfd: every caller checks all children next.
fn drain(child_ends: &OwnedFd) {
    let mut signals = [0_u8; 512];
    while rustix::io::read(child_ends, &mut signals[..]).is_ok_and(|bytes| bytes > 0) {}
}

/// Returns whether the leader has ended, without reaping it. Other children that have ended are reaped.
fn has_ended(leader: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    loop {
        if !matches!(waitid(WaitId::Pid(leader), options), Ok(None) | Err(Errno::INTR)) {
            return true;
        }
        // SAFETY: zeros are a valid value, and the pointer is to it.
        let ended = unsafe {
            let mut ended = std::mem::zeroed::<libc::siginfo_t>();
            let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
            match libc::waitid(libc::P_ALL, 0, &raw mut ended, flags) {
                0 => ended.si_pid(),
                _ => 0,
            }
        };
        let Some(ended) = Pid::from_raw(ended) else { return false };
        if ended == leader {
            return true;
        }
        let _ = waitid(WaitId::Pid(ended), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
    }
}

fn terminate_group(leader: Pid) {
    let _ = kill_process_group(leader, Signal::TERM);
    // A stopped process does not notice the signal before it is continued.
    let _ = kill_process_group(leader, Signal::CONT);
}

/// Kills and reaps until there are no more children; children of the killed become children in turn. Returns false when
/// some remain after [`PATIENCE`].
fn kill_all_children(child_ends: &OwnedFd) -> bool {
    let give_up = Instant::now() + PATIENCE;
    loop {
        drain(child_ends);
        if reap_children() {
            return true;
        }
        for_each_child(&mut |child| {
            // If it leads a group, kill the whole group at once, before its members fork on.
            let _ = kill_process_group(child, Signal::KILL);
            let _ = kill_process(child, Signal::KILL);
        });
        if Instant::now() >= give_up {
            return false;
        }
        let pause = Instant::now() + Duration::from_millis(5);
        ready::wait(&mut [PollFd::new(child_ends, PollFlags::IN)], Some(pause));
    }
}

/// Reaps every child that has ended. Returns whether none remains.
fn reap_children() -> bool {
    loop {
        match waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return false,
            Err(_) => return true,
        }
    }
}

/// Counts the processes that the command has left running: children of this process or, under bwrap, of bwrap's second
/// process, which is a child.
fn count_left(is_bwrap: bool) -> u16 {
    let mut count = 0_u16;
    let mut add = |process| count = count.saturating_add(is_running(process).into());
    for_each_child(&mut |child| {
        if is_bwrap { for_each_child_of(child, &mut add) } else { add(child) }
    });
    count
}

/// Whether a process is running, and not one that only needs to be reaped.
fn is_running(process: Pid) -> bool {
    let (mut path, mut stat) = ([0; 32], [0; 512]);
    if write!(&mut path[..], "/proc/{}/stat", process.as_raw_nonzero()).is_err() {
        return false;
    }
    let Ok(path) = CStr::from_bytes_until_nul(&path) else { return false };
    let file = openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let read = file.and_then(|file| rustix::io::read(&file, &mut stat)).unwrap_or(0);
    // `number (name) state …`, where the name may have parentheses.
    let name_end = stat[..read].iter().rposition(|byte| *byte == b')');
    let state = name_end.and_then(|end| stat.get(end + 2));
    state.is_some_and(|state| !matches!(state, b'Z' | b'X'))
}

fn for_each_child(act: &mut dyn FnMut(Pid)) {
    for_each_listed(c"/proc/thread-self/children", act);
}

fn for_each_child_of(parent: Pid, act: &mut dyn FnMut(Pid)) {
    let (mut path, number) = ([0; 64], parent.as_raw_nonzero());
    if write!(&mut path[..], "/proc/{number}/task/{number}/children").is_ok()
        && let Ok(path) = CStr::from_bytes_until_nul(&path)
    {
        for_each_listed(path, act);
    }
}

/// Reads a list of children, which belongs to one thread of their parent.
fn for_each_listed(list: &CStr, act: &mut dyn FnMut(Pid)) {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let Ok(list) = openat(CWD, list, flags, Mode::empty()) else { return };
    // Numbers, with a blank after each.
    let mut chunk = [0; 2048];
    let mut number = 0_i32;
    while let Ok(length @ 1..) = rustix::io::read(&list, &mut chunk[..]) {
        for byte in chunk.iter().take(length) {
            if byte.is_ascii_digit() {
                number = number.saturating_mul(10).saturating_add(i32::from(byte - b'0'));
            } else if let Some(child) = Pid::from_raw(std::mem::take(&mut number)) {
                act(child);
            }
        }
    }
}

/// Ends the supervisors that wait for a job.
#[cfg(test)]
pub(super) fn end_idle() {
    IDLE.lock().unwrap().drain(..).for_each(Supervisor::end_process);
}
