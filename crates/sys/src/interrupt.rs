//! Catches SIGINT, SIGTERM and SIGHUP once; everything that waits can poll the result.
//!
//! The handlers set a flag and write a byte into a pipe; the pipe is never drained, so that its read end
//! stays readable once a signal has come and no waiter can miss it. Two things end the process here: a second
//! SIGINT, at once with 130; and a signal that nothing has polled for a second. SIGXFSZ is caught and forgotten. SIGPIPE
//! stays as Rust has it: ignored here, back to its default in children.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use signal_hook::{SigId, flag, low_level};

use super::ready;
use conversation::exit::Signal;

/// The signals that are caught. If several arrive before a check, the first in this order counts.
const CAUGHT: [Signal; 3] = [Signal::Int, Signal::Term, Signal::Hup];

/// The signals that ask the current work to end. Made once, at the start.
#[derive(Debug)]
pub struct Interrupts {
    readable: OwnedFd,
    flags: [Arc<AtomicBool>; 3],
    /// The number of the first signal; 0 if none came.
    first: Arc<AtomicU8>,
    /// Kept open: a pipe without a writer is readable, which would look like a signal.
    writable: OwnedFd,
}

impl Interrupts {
    /// Begins to catch the three signals. A SIGHUP that was ignored at start (`nohup`) stays ignored.
    pub fn install() -> io::Result<Self> {
        // A write beyond the limit of a file's size is then an error, and does not kill the process. Commands
        // get the default back: a handler does not outlive an exec.
        flag::register(signal_hook::consts::SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
        Self::register(&CAUGHT, true)
    }

    /// Begins to catch these signals, for a session, which continues after them: nothing here ends the process.
    pub fn catch(signals: &[Signal]) -> io::Result<Self> {
        Self::register(signals, false)
    }

    fn register(signals: &[Signal], is_ending: bool) -> io::Result<Self> {
        let interrupts = Self::without_handlers()?;
        let caught = CAUGHT.iter().zip(&interrupts.flags);
        for (signal, seen) in caught.filter(|(signal, _)| signals.contains(signal)) {
            if *signal == Signal::Hup && is_ignored(*signal) {
                continue;
            }
            let number = i32::from(signal.number());
            if is_ending && *signal == Signal::Int {
                // Registered before the handler that sets the flag, so the flag is true for the second signal only.
                flag::register_conditional_shutdown(number, 130, Arc::clone(seen))?;
            }
            flag::register(number, Arc::clone(seen))?;
            low_level::pipe::register(number, interrupts.writable.try_clone()?)?;
            if is_ending {
                watch(number, &interrupts.first)?;
            }
        }
        Ok(interrupts)
    }

    /// Ignores signals, for the clean-up request after one. A second SIGINT still exits at once.
    pub fn without_handlers() -> io::Result<Self> {
        let (readable, writable) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        Ok(Self { readable, flags: Default::default(), first: Arc::default(), writable })
    }

    /// Forgets the signals that have arrived.
    pub fn forget(&self) {
        while rustix::io::read(&self.readable, &mut [0; 64]).is_ok_and(|bytes| bytes > 0) {}
        self.flags.iter().for_each(|flag| flag.store(false, Ordering::SeqCst));
        self.first.store(0, Ordering::SeqCst);
    }

    /// Simulates a signal.
    pub fn raise(&self, signal: Signal) {
        let flags = CAUGHT.iter().zip(&self.flags).filter(|(caught, _)| **caught == signal);
        flags.for_each(|(_, flag)| flag.store(true, Ordering::SeqCst));
        // A full pipe is readable, too.
        let _ = rustix::io::write(&self.writable, b"X");
    }

    /// The first signal, if any. It is not cleared.
    pub fn pending(&self) -> Option<Signal> {
        let first = self.first.load(Ordering::Relaxed);
        if first != 0 {
            return CAUGHT.into_iter().find(|signal| signal.number() == first);
        }
        let seen = CAUGHT.iter().zip(&self.flags).find(|(_, flag)| flag.load(Ordering::SeqCst));
        seen.map(|(signal, _)| {
            self.first.store(signal.number(), Ordering::Relaxed);
            *signal
        })
    }

    /// Waits for a signal, up to `longest` (`None`: without a limit).
    pub fn wait_for_signal(&self, longest: Option<Duration>) -> Option<Signal> {
        let end = longest.and_then(|longest| Instant::now().checked_add(longest));
        loop {
            if let Some(signal) = self.pending() {
                return Some(signal);
            }
            if end.is_some_and(|end| end <= Instant::now()) {
                return None;
            }
            ready::wait(&mut [PollFd::new(&self.readable, PollFlags::IN)], end);
        }
    }
}

impl AsFd for Interrupts {
    /// Readable from the first signal on. Do not read from it.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.readable.as_fd()
    }
}

/// Ends the process a second after a signal if nothing has polled for it, as in a long computation. That is safe: the
/// files are whole after a kill at any instant.
#[expect(unsafe_code, reason = "what a handler does must be safe in one")]
fn watch(number: i32, first: &Arc<AtomicU8>) -> io::Result<()> {
    let came = Arc::new(AtomicBool::new(false));
    let (set, first) = (Arc::clone(&came), Arc::clone(first));
    // SAFETY: a store to an atomic and alarm(2), both of which handlers may do.
    unsafe {
        low_level::register(number, move || {
            set.store(true, Ordering::SeqCst);
            libc::alarm(1);
        })?;
    }
    // SAFETY: loads of atomics and _exit(2).
    unsafe {
        low_level::register(libc::SIGALRM, move || {
            if came.load(Ordering::SeqCst) && first.load(Ordering::SeqCst) == 0 {
                low_level::exit(128 + number);
            }
        })?;
    }
    Ok(())
}

/// Notes that the process was stopped and continues: the shell has written to the terminal meanwhile.
#[derive(Debug)]
pub struct ResumeWatch {
    has_resumed: Arc<AtomicBool>,
    handler: Option<SigId>,
}

impl ResumeWatch {
    /// Begins to watch.
    pub fn start() -> Self {
        let has_resumed = Arc::default();
        let handler = flag::register(signal_hook::consts::SIGCONT, Arc::clone(&has_resumed)).ok();
        Self { has_resumed, handler }
    }

    /// Returns true once after each time that the process was continued.
    pub fn take(&self) -> bool {
        self.has_resumed.swap(false, Ordering::SeqCst)
    }
}

impl Drop for ResumeWatch {
    fn drop(&mut self) {
        self.handler.take().map(low_level::unregister);
    }
}

/// Sends this process a SIGHUP when its stdout has no reader any more, which it would not notice while it waits for a
/// model.
pub fn watch_stdout() {
    let watch = || {
        let stdout = io::stdout();
        let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
        while fds[0].revents().is_empty() {
            ready::wait(&mut fds, None);
        }
        let _ =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::HUP);
    };
    // Without the thread, it is noticed when the next line is printed.
    let _ = std::thread::Builder::new().spawn(watch);
}

/// Blocks all signals in this thread, or none. Processes that it starts inherit that.
#[expect(unsafe_code, reason = "a set of signals is a structure of the C library")]
pub(super) fn set_signal_mask(blocks: bool) {
    // SAFETY: zeros are an empty set, and the pointers are to a value that lives here.
    unsafe {
        let mut set = std::mem::zeroed::<libc::sigset_t>();
        if blocks {
            libc::sigfillset(&raw mut set);
        }
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
    }
}

fn is_ignored(signal: Signal) -> bool {
    let status = super::env::read_proc("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & (1 << (signal.number() - 1)) != 0
}

#[cfg(test)]
impl Interrupts {
    /// Ignores signals, for tests.
    pub(crate) fn none() -> Self {
        Self::without_handlers().unwrap()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read};
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Child, Command, ExitStatus, Stdio};

    use super::*;
    use rustix::event::{Timespec, poll};

    /// Not a test by itself: what the tests below run as a process of its own.
    #[test]
    fn entry() {
        let Ok(mode) = std::env::var("NAGENT_TEST_INTERRUPT") else { return };
        let interrupts = Interrupts::install().unwrap();
        write("ready\n");
        let signal = interrupts.wait_for_signal(Some(Duration::from_secs(20)));
        write(&format!("{}\n", signal.map_or("none", Signal::name)));
        if mode == "linger" {
            std::thread::sleep(Duration::from_secs(20));
        }
        std::process::exit(signal.map_or(0, |signal| 128 + i32::from(signal.number())));
    }

    fn write(text: &str) {
        rustix::io::write(std::io::stdout(), text.as_bytes()).unwrap();
    }

    /// Starts `entry`, by way of a shell line that says how, and waits until it is ready.
    fn start(mode: &str, shell: &str) -> (Child, BufReader<impl Read>) {
        let mut child = Command::new("sh")
            .args(["-c", shell, "sh"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "interrupt::tests::entry", "--nocapture"])
            .env("NAGENT_TEST_INTERRUPT", mode)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.ends_with("ready\n") {
            assert_ne!(lines.read_line(&mut line).unwrap(), 0, "{line}");
        }
        (child, lines)
    }

    fn send(child: &Child, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    fn check(signal: rustix::process::Signal, shell: &str, code: i32) {
        let (mut child, _lines) = start("end", shell);
        let watch = Instant::now();
        send(&child, signal);
        assert_eq!(child.wait().unwrap().code(), Some(code));
        assert!(watch.elapsed() < Duration::from_secs(1));
    }

    #[test]
    fn each_signal_is_caught() {
        check(rustix::process::Signal::INT, r#"exec "$@""#, 130);
        check(rustix::process::Signal::TERM, r#"exec "$@""#, 143);
        check(rustix::process::Signal::HUP, r#"exec "$@""#, 129);
    }

    #[test]
    fn sigint_is_caught_where_a_shell_ignored_it() {
        check(rustix::process::Signal::INT, r#"trap "" INT; exec "$@""#, 130);
    }

    #[test]
    fn an_ignored_sighup_stays_ignored() {
        let (mut child, _lines) = start("end", r#"trap "" HUP; exec "$@""#);
        send(&child, rustix::process::Signal::HUP);
        std::thread::sleep(Duration::from_millis(100));
        assert!(child.try_wait().unwrap().is_none());
        send(&child, rustix::process::Signal::TERM);
        assert_eq!(child.wait().unwrap().code(), Some(143));
    }

    #[test]
    fn the_second_sigint_leaves_at_once() {
        let (mut child, mut lines) = start("linger", r#"exec "$@""#);
        send(&child, rustix::process::Signal::INT);
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert_eq!(line, "SIGINT\n");
        assert!(child.try_wait().unwrap().is_none());
        let watch = Instant::now();
        send(&child, rustix::process::Signal::INT);
        let status: ExitStatus = child.wait().unwrap();
        assert_eq!((status.code(), status.signal()), (Some(130), None));
        assert!(watch.elapsed() < Duration::from_secs(1));
    }

    #[test]
    fn the_first_signal_stays_the_one() {
        let interrupts = Interrupts::none();
        assert_eq!(interrupts.pending(), None);
        assert_eq!(interrupts.wait_for_signal(Some(Duration::from_millis(5))), None);
        interrupts.raise(Signal::Term);
        assert_eq!(interrupts.pending(), Some(Signal::Term));
        interrupts.raise(Signal::Int);
        assert_eq!(interrupts.wait_for_signal(None), Some(Signal::Term));
    }

    #[test]
    fn a_deaf_one_waits_to_the_end() {
        let deaf = Interrupts::without_handlers().unwrap();
        let mut pipe = [PollFd::new(&deaf.readable, PollFlags::IN)];
        assert_eq!(poll(&mut pipe, Some(&Timespec::default())).unwrap(), 0, "not readable");
        assert_eq!(deaf.wait_for_signal(Some(Duration::from_millis(5))), None);
    }
}
