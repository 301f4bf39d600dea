//! The keeper: a process between nagent and a job's leader that outlives neither. It sees to it that nothing of the
//! job is left, whatever ends first: the leader, nagent (by whatever cause, SIGKILL too), or a time limit.
//!
//! It is a fork of nagent without an exec. As a child subreaper it gets every descendant of the leader whose parent is
//! gone, so that all that is below it is this job's, and nothing else is. It holds one end of a socket pair:
//! - to the keeper: [`TERM`], [`KILL`], a byte each; the end of file is the death of nagent: TERM, the grace, KILL
//! - from the keeper: one [`Report`], when the leader has ended and the rest was killed
//!
//! It signals unreaped children of its own alone, whose numbers cannot have gone to strangers. It runs between fork and
//! exec: nothing here takes a lock or memory. All that it cannot do is left to `descend`.
#![expect(
    unsafe_code,
    reason = "fork, signal masks and descriptors have no safe form that takes no memory"
)]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, WaitIdStatus, chdir, getpid, getppid,
    kill_process, kill_process_group, set_child_subreaper, set_parent_process_death_signal,
    setpgid, setrlimit, setsid, waitid,
};

/// The order to ask the leader's group to end.
pub(super) const TERM: u8 = b'T';

/// The order to end it.
pub(super) const KILL: u8 = b'K';

/// How long processes may take to vanish after SIGKILL. One that sleeps in the kernel can take for ever.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// What a keeper needs to know from its start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Charge {
    /// When the job was started.
    pub(super) started: Instant,
    /// The time between SIGTERM and SIGKILL when nagent is gone.
    pub(super) grace: Duration,
    /// The limit of core dumps that commands get; this process has its own.
    pub(super) core: Option<Rlimit>,
}

/// How a leader ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Report {
    /// The exit code, or the signal's number.
    pub(super) status: Result<i32, i32>,
    /// From the start to the leader's end.
    pub(super) took: Duration,
    /// Whether everything below the keeper is gone and reaped.
    pub(super) all_gone: bool,
}

impl Report {
    const SIZE: usize = 14;

    fn to_bytes(self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        let nanoseconds = u64::try_from(self.took.as_nanos()).unwrap_or(u64::MAX);
        let (Ok(number) | Err(number)) = self.status;
        bytes[0] = u8::from(self.all_gone);
        bytes[1] = u8::from(self.status.is_err());
        bytes[2..6].copy_from_slice(&number.to_le_bytes());
        bytes[6..].copy_from_slice(&nanoseconds.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (flags, bytes) = bytes.split_first_chunk::<2>()?;
        let (number, bytes) = bytes.split_first_chunk()?;
        let number = i32::from_le_bytes(*number);
        Some(Self {
            status: if flags[1] == 0 { Ok(number) } else { Err(number) },
            took: Duration::from_nanos(u64::from_le_bytes(*bytes.first_chunk()?)),
            all_gone: flags[0] != 0,
        })
    }

    /// The report of a keeper that has ended; `None` from one that was killed.
    pub(super) fn read(socket: BorrowedFd<'_>) -> Option<Self> {
        let mut bytes = [0; Self::SIZE];
        let (_, length) = recv(socket, &mut bytes[..], RecvFlags::DONTWAIT).ok()?;
        Self::from_bytes(bytes.get(..length)?)
    }
}

/// Makes two of this process, which is a fresh fork of nagent: the one that returns goes on to exec as the leader, in
/// its own session, without a terminal, and killed when the other one dies; the other one keeps it, and never returns.
pub(super) fn divide(socket: BorrowedFd<'_>, charge: Charge) -> io::Result<()> {
    defer_signals();
    // In a group of its own, which no Ctrl-C reaches. If its job has stopped it, the death of nagent continues it: the end
    // of the socket is then seen to.
    setpgid(None, None)?;
    set_parent_process_death_signal(Some(Signal::CONT))?;
    let keeper = getpid();
    set_child_subreaper(Some(keeper))?;
    // SAFETY: this process has one thread, and either side makes system calls alone until it execs or exits.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => become_leader(keeper, charge.core),
        leader => match Pid::from_raw(leader) {
            Some(leader) => keep(socket, leader, charge),
            None => exit(),
        },
    }
}

/// Every signal has its default effect, also one that nagent was started with ignored, and waits.
fn defer_signals() {
    // SAFETY: both structures are plain numbers, for which zeros stand for nothing.
    let (mut all, mut default) =
        unsafe { (std::mem::zeroed::<libc::sigset_t>(), std::mem::zeroed::<libc::sigaction>()) };
    default.sa_sigaction = libc::SIG_DFL;
    // SAFETY: the pointers are to values that live here. No handler of nagent's runs between the lines, as all is blocked.
    unsafe {
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
        for number in 1..=libc::SIGRTMAX() {
            // Fails for KILL, STOP and the two that the C library keeps to itself.
            libc::sigaction(number, &raw const default, std::ptr::null_mut());
        }
    }
}

fn become_leader(keeper: Pid, core: Option<Rlimit>) -> io::Result<()> {
    setsid()?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The keeper may have died before the line above: then no signal comes any more.
    if getppid() != Some(keeper) {
        return Err(Errno::CHILD.into());
    }
    if let Some(core) = core {
        setrlimit(Resource::Core, core)?;
    }
    // SAFETY: zeros are a set of no signals.
    let none = unsafe { std::mem::zeroed::<libc::sigset_t>() };
    // SAFETY: the pointer is to a value that lives here.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut()) };
    Ok(())
}

fn exit() -> ! {
    // SAFETY: it runs nothing of this program's: no handlers, no buffers.
    unsafe { libc::_exit(0) }
}

/// All that a keeper does.
fn keep(socket: BorrowedFd<'_>, leader: Pid, charge: Charge) -> ! {
    let Some(ends) = shed(socket) else {
        // Without the socket or the news of ends it can do one thing alone.
        let _ = kill_process_group(leader, Signal::KILL);
        end_all(None);
        exit()
    };
    let socket = rustix::stdio::stdin();
    let mut orphaned = false;
    let mut kill_at: Option<Instant> = None;
    loop {
        take_news(&ends);
        if has_ended(leader) {
            break;
        }
        let now = Instant::now();
        if kill_at.is_some_and(|at| at <= now) {
            kill_at = None;
            end(leader);
        }
        let left = kill_at.map(|at| at.saturating_duration_since(now));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        let mut fds = [PollFd::new(&ends, PollFlags::IN), PollFd::new(&socket, PollFlags::IN)];
        // A socket whose other end is gone is readable for ever.
        let watched = if orphaned { 1 } else { 2 };
        let _ = poll(&mut fds[..watched], left.as_ref());
        let mut order = [0; 1];
        match recv(socket, &mut order[..], RecvFlags::DONTWAIT) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            _ if orphaned => {}
            Ok((_, 1)) if order[0] == TERM => ask_to_end(leader),
            Ok((_, 1)) => end(leader),
            _ => {
                orphaned = true;
                ask_to_end(leader);
                kill_at = now.checked_add(charge.grace);
            }
        }
    }
    let took = charge.started.elapsed();
    // While the leader is not reaped, its number and its group's are nobody else's.
    let _ = kill_process_group(leader, Signal::KILL);
    let status = waitid(WaitId::Pid(leader), WaitIdOptions::EXITED).ok().flatten();
    let signal = status.as_ref().and_then(WaitIdStatus::terminating_signal);
    let code = status.as_ref().and_then(WaitIdStatus::exit_status);
    let status = signal.map_or(Ok(code.unwrap_or(-1)), Err);
    let all_gone = end_all(Some(&ends));
    let report = Report { status, took, all_gone };
    let _ = send(socket, &report.to_bytes(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
    exit()
}

/// Lets go of all that is nagent's but for the socket, which becomes descriptor 0, and gets the news of ended children.
fn shed(socket: BorrowedFd<'_>) -> Option<OwnedFd> {
    rustix::stdio::dup2_stdin(socket).ok()?;
    // SAFETY: whatever holds these descriptors in this process is never used or dropped: `keep` does not return.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, 1, libc::c_uint::MAX, 0) };
    if closed != 0 {
        // Kernels before 5.9.
        let limit = rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(1 << 20);
        for number in 1..i32::try_from(limit.min(1 << 20)).unwrap_or(i32::MAX) {
            // SAFETY: as above.
            unsafe { libc::close(number) };
        }
    }
    // The folder that the job runs in may be removed or unmounted.
    let _ = chdir(c"/");
    let _ = rustix::thread::set_name(c"nagent-keeper");
    // SAFETY: zeros are a set of no signals, and the pointers are to a value that lives here.
    let number = unsafe {
        let mut set = std::mem::zeroed::<libc::sigset_t>();
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    };
    // SAFETY: it was just opened, and is owned by nothing else.
    (number >= 0).then(|| unsafe { OwnedFd::from_raw_fd(number) })
}

/// Forgets the news so far: whoever calls looks at all children next.
fn take_news(ends: &OwnedFd) {
    let mut news = [0_u8; 512];
    while rustix::io::read(ends, &mut news[..]).is_ok_and(|bytes| bytes > 0) {}
}

/// Whether the leader has ended; it stays unreaped. Others that have ended are reaped.
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

fn ask_to_end(leader: Pid) {
    let _ = kill_process_group(leader, Signal::TERM);
    // A stopped process takes no notice before it is continued.
    let _ = kill_process_group(leader, Signal::CONT);
}

fn end(leader: Pid) {
    let _ = kill_process_group(leader, Signal::KILL);
}

/// Kills and reaps until no child is left: those of the killed become children. False when some stay nevertheless.
fn end_all(ends: Option<&OwnedFd>) -> bool {
    let give_up = Instant::now() + PATIENCE;
    loop {
        if let Some(ends) = ends {
            take_news(ends);
        }
        if has_no_child() {
            return true;
        }
        if !kill_children() {
            look_at_numbers(give_up, &mut kill_child);
        }
        if Instant::now() >= give_up {
            return false;
        }
        let wait = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
        let mut fds = [PollFd::from_borrowed_fd(
            ends.map_or(rustix::stdio::stdin(), AsFd::as_fd),
            PollFlags::IN,
        )];
        let watched = usize::from(ends.is_some());
        let _ = poll(&mut fds[..watched], Some(&wait));
    }
}

/// Reaps what has ended.
fn has_no_child() -> bool {
    loop {
        match waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return false,
            Err(_) => return true,
        }
    }
}

/// Kills every child. False when the system does not tell which there are.
fn kill_children() -> bool {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let Ok(list) = openat(CWD, c"/proc/thread-self/children", flags, Mode::empty()) else {
        return false;
    };
    // Numbers, with a blank after each.
    let mut chunk = [0; 2048];
    let mut number = 0_i32;
    while let Ok(length @ 1..) = rustix::io::read(&list, &mut chunk[..]) {
        for byte in chunk.iter().take(length) {
            if byte.is_ascii_digit() {
                number = number.saturating_mul(10).saturating_add(i32::from(byte - b'0'));
            } else if let Some(child) = Pid::from_raw(std::mem::take(&mut number)) {
                kill_child(child);
            }
        }
    }
    true
}

/// Kills a child that is not reaped. False when it may not be signalled.
fn kill_child(child: Pid) -> bool {
    // The group at one stroke, if it leads one, before its members fork on.
    let _ = kill_process_group(child, Signal::KILL);
    kill_process(child, Signal::KILL).is_ok()
}

/// Where there is no /proc: asks the kernel of number after number whether that is a child of this process, from this
/// process's own on, and hands over those that are and have not ended. Returns early once one was killed, as its children come
/// next, and near; at `end` at the latest.
pub(super) fn look_at_numbers(end: Instant, kill: &mut dyn FnMut(Pid) -> bool) {
    /// The kernel gives out no higher ones.
    const NUMBERS: i32 = 1 << 22;
    /// How many are asked for between two looks at the time.
    const ROUND: i32 = 1 << 12;
    let own = getpid().as_raw_nonzero().get();
    // What is killed again and again and does not go must not hide what has a number far away.
    let is_early = Instant::now() + PATIENCE / 2 < end;
    let mut killed = false;
    for step in 1..NUMBERS {
        let number = own.saturating_add(step) % NUMBERS;
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if let Some(pid) = Pid::from_raw(number)
            && matches!(waitid(WaitId::Pid(pid), options), Ok(None))
        {
            killed |= kill(pid);
        }
        if step % ROUND == 0 && (killed && is_early || Instant::now() >= end) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_comes_back_as_it_went() {
        for status in [Ok(0), Ok(255), Err(9)] {
            for all_gone in [false, true] {
                let report = Report { status, took: Duration::from_millis(1234), all_gone };
                assert_eq!(Report::from_bytes(&report.to_bytes()), Some(report));
            }
        }
        assert_eq!(Report::from_bytes(&[1, 0, 0]), None);
    }
}
