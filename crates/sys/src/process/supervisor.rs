//! The supervisor: a process between nagent and a command that makes sure no process of the command survives, whichever
//! ends first: the command, nagent (SIGKILL included), or a time limit.
//!
//! It is a fork of nagent without an exec. As a child subreaper it inherits every descendant of the command whose parent
//! has ended, so everything below it belongs to this job and nothing else does. It talks to nagent through a socket pair:
//! - to the supervisor: [`TERM`] or [`KILL`], one byte each; end of file means that nagent is dead: TERM, the grace, KILL
//! - from the supervisor: four bytes when the command has been started, an error number or the negative process id of the
//!   command; and one [`ExitReport`], after the command has ended and the rest was killed
//!
//! It signals only its own unreaped children, whose process ids cannot have been reused. It finds them in
//! `/proc/thread-self/children`; without /proc it only ends the command's process group. A command that kills its
//! supervisor is killed with it (`PDEATHSIG`), but processes that it started may survive.
//!
//! All of this runs between fork and exec: nothing here may take a lock or allocate memory. The command is started as
//! vfork(2) does it, in the supervisor's memory until it execs: a second copy of nagent's memory for each command would be
//! a tenth of a turn's processor time.
#![expect(
    unsafe_code,
    reason = "fork, signal masks and signalfd have no safe form that allocates no memory"
)]

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsStr, OsString, c_char, c_int, c_void};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::{Duration, Instant};

use super::super::interrupt::set_signal_mask;
use super::super::ready;
use super::restriction::Restriction;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, WaitIdStatus, chdir, getpid, getppid,
    kill_process, kill_process_group, set_child_subreaper, set_parent_process_death_signal,
    setpgid, setrlimit, setsid, waitid,
};

/// Orders the supervisor to ask the command's process group to end.
pub(super) const TERM: u8 = b'T';

/// Orders the supervisor to kill it.
pub(super) const KILL: u8 = b'K';

/// Maximum time for processes to vanish after SIGKILL. One that sleeps in the kernel can take forever.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// The configuration of a supervisor.
#[derive(Debug)]
pub(super) struct Config {
    /// The time between SIGTERM and SIGKILL once nagent is dead.
    pub(super) grace: Duration,
    /// The limit of core dumps for the command; nagent sets its own to zero.
    pub(super) core: Option<Rlimit>,
    /// The folder that the command is started in.
    pub(super) folder: CString,
    /// Its standard streams; where one is missing, nagent's is used.
    pub(super) streams: [Option<OwnedFd>; 3],
    /// Descriptors that it inherits in addition.
    pub(super) inherit: Vec<RawFd>,
    /// The rights that the command gives up.
    pub(super) restriction: Option<Restriction>,
    /// Whether the command is below `bwrap`.
    pub(super) is_bwrap: bool,
    /// The program that the command execs.
    pub(super) image: Image,
}

/// A program with its arguments and its environment, as execvp(3) takes them.
#[derive(Debug)]
pub(super) struct Image {
    /// The addresses of the texts, with a zero at the end.
    argv: Vec<usize>,
    environment: Vec<usize>,
    /// The texts to which the addresses point: arguments, then variables.
    _texts: Vec<CString>,
    /// The stack of the new process until it execs, and the address of its end.
    _stack: Vec<u8>,
    stack_end: usize,
}

impl Image {
    /// Size of the stack in bytes, in addition to eight for each argument: execvp copies those of a script without a
    /// first line `#!`.
    const STACK: usize = 64 << 10;

    /// Encodes arguments and variables; a later value of a variable replaces an earlier one. Fails if a text has a NUL
    /// byte.
    pub(super) fn new(argv: &[OsString], environment: &[(OsString, OsString)]) -> io::Result<Self> {
        let arguments = argv.iter().map(|argument| argument.as_bytes().to_vec());
        let variables: BTreeMap<&OsStr, &OsStr> =
            environment.iter().map(|(name, value)| (&**name, &**value)).collect();
        let variables = variables.into_iter().map(|(name, value)| {
            let mut variable = name.to_owned();
            variable.push("=");
            variable.push(value);
            variable.into_vec()
        });
        let texts = arguments.chain(variables).map(CString::new).collect::<Result<Vec<_>, _>>()?;
        let (argv, environment) = texts.split_at(argv.len());
        let addresses = |texts: &[CString]| {
            texts.iter().map(|text| text.as_ptr().expose_provenance()).chain([0]).collect()
        };
        let mut stack: Vec<u8> = Vec::with_capacity(Self::STACK + argv.len() * size_of::<usize>());
        Ok(Self {
            argv: addresses(argv),
            environment: addresses(environment),
            // The processor requires alignment to 16 bytes.
            stack_end: (stack.as_mut_ptr().expose_provenance() + stack.capacity()) & !15,
            _stack: stack,
            _texts: texts,
        })
    }

    /// Execs. Returns the error if that failed.
    fn exec(&self) -> io::Error {
        unsafe extern "C" {
            static mut environ: *const *const c_char;
        }
        let argv = self.argv.as_ptr().cast::<*const c_char>();
        // SAFETY: both are arrays of addresses of texts that live as long as this value, each with a null at its end. No
        // other thread of this process reads the environment: it is a fork, which has one.
        unsafe {
            environ = self.environment.as_ptr().cast();
            libc::execvp(*argv, argv);
        }
        io::Error::last_os_error()
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
    const SIZE: usize = 8;

    fn to_bytes(self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        let (Ok(number) | Err(number)) = self.status;
        bytes[0] = u8::from(self.all_gone);
        bytes[1] = u8::from(self.status.is_err());
        bytes[2..6].copy_from_slice(&number.to_le_bytes());
        bytes[6..].copy_from_slice(&self.left.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: [u8; Self::SIZE]) -> Self {
        let number = i32::from_le_bytes([bytes[2], bytes[3], bytes[4], bytes[5]]);
        let status = if bytes[1] == 0 { Ok(number) } else { Err(number) };
        let left = u16::from_le_bytes([bytes[6], bytes[7]]);
        Self { status, all_gone: bytes[0] != 0, left }
    }

    /// Receives the report of a supervisor that has ended; `None` if it was killed.
    pub(super) fn receive(socket: BorrowedFd<'_>) -> Option<Self> {
        let mut bytes = [0; Self::SIZE];
        loop {
            match recv(socket, &mut bytes[..], RecvFlags::DONTWAIT).ok()? {
                (_, 0) => return None,
                (_, Self::SIZE) => return Some(Self::from_bytes(bytes)),
                // The report that the command has started, which came after START_PATIENCE.
                _ => {}
            }
        }
    }
}

/// Maximum wait of [`spawn`] for the report that the command has started. That takes about a millisecond, but a command
/// can stop its supervisor before the report. After this time the command counts as started.
const START_PATIENCE: Duration = Duration::from_secs(1);

/// Starts a command under a supervisor. Returns the process ids of the supervisor and of the command, 0 if that is not
/// known. `orders` is nagent's end of their socket.
pub(super) fn spawn(
    orders: BorrowedFd<'_>,
    socket: &OwnedFd,
    config: &Config,
) -> io::Result<(Pid, u32)> {
    // SAFETY: the new process makes only system calls: no allocation, no lock.
    let supervisor = match unsafe { libc::fork() } {
        0 => {
            let error = run_supervisor(socket.as_fd(), config);
            let number = error.raw_os_error().unwrap_or(libc::EINVAL);
            let _ = send(socket, &number.to_le_bytes(), SendFlags::NOSIGNAL);
            exit_at_once()
        }
        process => Pid::from_raw(process.max(0)).ok_or_else(io::Error::last_os_error)?,
    };
    let give_up = Instant::now() + START_PATIENCE;
    let mut number = [0; size_of::<i32>()];
    let mut fds = [PollFd::new(&orders, PollFlags::IN)];
    while fds[0].revents().is_empty() && Instant::now() < give_up {
        ready::wait(&mut fds, Some(give_up));
    }
    let _ = recv(orders, &mut number[..], RecvFlags::DONTWAIT);
    match i32::from_le_bytes(number) {
        number @ ..=0 => Ok((supervisor, number.unsigned_abs())),
        number => {
            let _ = waitid(WaitId::Pid(supervisor), WaitIdOptions::EXITED);
            Err(io::Error::from_raw_os_error(number))
        }
    }
}

/// Turns this process, a new fork of nagent, into the supervisor: it starts the command, and returns only if that
/// fails.
fn run_supervisor(socket: BorrowedFd<'_>, config: &Config) -> io::Error {
    match start_leader(config) {
        Ok(leader) => supervise(socket, leader, config),
        Err(error) => error,
    }
}

/// Starts the command, in its own session, without a terminal. It is killed when the supervisor dies.
fn start_leader(config: &Config) -> io::Result<Pid> {
    reset_signals();
    // In its own process group, so that no Ctrl-C reaches it. If its command has stopped it, the death of nagent
    // continues it, and it sees the end of the socket.
    setpgid(None, None)?;
    set_parent_process_death_signal(Some(Signal::CONT))?;
    let supervisor = getpid();
    set_child_subreaper(Some(supervisor))?;
    let [stdin, stdout, stderr] = &config.streams;
    stdin.as_ref().map_or(Ok(()), rustix::stdio::dup2_stdin)?;
    stdout.as_ref().map_or(Ok(()), rustix::stdio::dup2_stdout)?;
    stderr.as_ref().map_or(Ok(()), rustix::stdio::dup2_stderr)?;
    chdir(&*config.folder)?;
    let mut start = LeaderStart { supervisor, config, error: None };
    let stack_end = std::ptr::with_exposed_provenance_mut(config.image.stack_end);
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: this process has one thread, and it waits until the new one, which has a stack of its own, execs or exits.
    // Until then that one makes only system calls.
    let leader =
        unsafe { libc::clone(run_leader, stack_end, flags, (&raw mut start).cast::<c_void>()) };
    let leader = Pid::from_raw(leader.max(0)).ok_or_else(io::Error::last_os_error)?;
    start.error.take().map_or(Ok(leader), Err)
}

/// The input of the new process, and the reason why it could not exec.
struct LeaderStart<'a> {
    supervisor: Pid,
    config: &'a Config,
    error: Option<io::Error>,
}

extern "C" fn run_leader(start: *mut c_void) -> c_int {
    // SAFETY: `start_leader` passes a pointer to this type, and touches the value only when this process is gone.
    let start = unsafe { &mut *start.cast::<LeaderStart<'_>>() };
    let prepared = prepare_leader(start.supervisor, start.config);
    start.error = Some(prepared.err().unwrap_or_else(|| start.config.image.exec()));
    exit_at_once()
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

fn prepare_leader(supervisor: Pid, config: &Config) -> io::Result<()> {
    setsid()?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The supervisor may have died before the line above: then that signal never comes.
    if getppid() != Some(supervisor) {
        return Err(Errno::CHILD.into());
    }
    if let Some(core) = config.core {
        setrlimit(Resource::Core, core)?;
    }
    // Descriptors that nagent was started with (`3<file`) must not reach the command. Rust opens its own CLOEXEC.
    close_range(3, libc::CLOSE_RANGE_CLOEXEC)?;
    for number in &config.inherit {
        // SAFETY: a number and no memory.
        if unsafe { libc::fcntl(*number, libc::F_SETFD, 0) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    set_signal_mask(false);
    config.restriction.as_ref().map_or(Ok(()), Restriction::apply)
}

/// close_range(2) from `first` on. It needs Linux 5.11.
fn close_range(first: libc::c_uint, flags: libc::c_uint) -> io::Result<()> {
    // SAFETY: whatever owns these descriptors in this process is never used or dropped: it execs, exits, or never returns.
    match unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn exit_at_once() -> ! {
    // SAFETY: it runs nothing of this program: no handlers, no buffers.
    unsafe { libc::_exit(0) }
}

/// The whole work of a supervisor.
fn supervise(socket: BorrowedFd<'_>, leader: Pid, config: &Config) -> ! {
    // The leader dies with this process.
    let Some(child_ends) = drop_inherited(socket) else { exit_at_once() };
    let socket = rustix::stdio::stdin();
    let number = (-leader.as_raw_nonzero().get()).to_le_bytes();
    let _ = send(socket, &number, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
    let mut is_orphaned = false;
    let mut kill_at: Option<Instant> = None;
    loop {
        drain(&child_ends);
        if has_ended(leader) {
            break;
        }
        let now = Instant::now();
        if kill_at.is_some_and(|at| at <= now) {
            kill_at = None;
            let _ = kill_process_group(leader, Signal::KILL);
        }
        let mut fds =
            [PollFd::new(&child_ends, PollFlags::IN), PollFd::new(&socket, PollFlags::IN)];
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
                kill_at = now.checked_add(config.grace);
            }
        }
    }
    let left = count_left(config.is_bwrap);
    // Until the leader is reaped, nobody else can get its process id or its group's.
    let _ = kill_process_group(leader, Signal::KILL);
    let status = waitid(WaitId::Pid(leader), WaitIdOptions::EXITED).ok().flatten();
    let signal = status.as_ref().and_then(WaitIdStatus::terminating_signal);
    let code = status.as_ref().and_then(WaitIdStatus::exit_status);
    let status = signal.map_or(Ok(code.unwrap_or(-1)), Err);
    let all_gone = kill_all_children(&child_ends);
    let report = ExitReport { status, all_gone, left };
    let _ = send(socket, &report.to_bytes(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
    exit_at_once()
}

/// Closes all descriptors of nagent except the socket, which becomes descriptor 0, and opens a descriptor that is
/// readable when a child ends.
fn drop_inherited(socket: BorrowedFd<'_>) -> Option<OwnedFd> {
    rustix::stdio::dup2_stdin(socket).ok()?;
    close_range(1, 0).ok()?;
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
        kill_children();
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

/// Kills every child, if the system lists them.
fn kill_children() {
    for_each_child(&mut |child| {
        // If it leads a group, kill the whole group at once, before its members fork on.
        let _ = kill_process_group(child, Signal::KILL);
        let _ = kill_process(child, Signal::KILL);
    });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_survives_the_socket() {
        for status in [Ok(0), Ok(255), Err(9)] {
            for all_gone in [false, true] {
                let report = ExitReport { status, all_gone, left: 300 };
                assert_eq!(ExitReport::from_bytes(report.to_bytes()), report);
            }
        }
    }
}
