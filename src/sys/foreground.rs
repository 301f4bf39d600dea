//! What a session runs on its terminal, one process at a time, and how it leaves the terminal: as it was, whatever ends it.
//!
//! SIGINT goes to the process that runs, since the terminal sends it to the whole group; the session notes it and goes on.
//! SIGTERM and SIGHUP are handed to the process that runs, which has a second to end; then the terminal's modes are put back
//! and the session ends. Against SIGKILL, which nothing can catch, there is a shell that waits for the end of a pipe: the
//! session's death closes it, and the shell puts the modes back.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, PipeReader, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::{Context, Result};
use rustix::process::Pid;
use rustix::termios::{InputModes, LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::{flag, low_level};

use super::env::Env;
use super::interrupt::Interrupts;
use super::terminal;
use crate::exit::Signal;
use crate::limits::SIGNAL_PATIENCE;

/// What the shell does that outlives the session: nothing when it reads a line, which says that all is well. A shell that
/// the session was started from takes the terminal back, with modes of its own, which must stay as they are.
const GUARD: &str = r#"trap '' INT QUIT TERM HUP TSTP TTOU
read -r _ && exit
sleep 0.1
read -r _ _ _ _ group _ _ foreground _ < /proc/$$/stat
[ "$foreground" != "$group" ] && [ "$foreground" != -1 ] && exit
printf '\033[?2004l' >&2
stty "$@" <&2"#;

/// Makes the terminal stop marking what is pasted.
const PASTE_OFF: &str = "\x1b[?2004l\r\n";

/// The processes of a session.
#[derive(Debug)]
pub struct Foreground {
    shared: Arc<Shared>,
    /// SIGINT, until it is forgotten.
    pub interrupts: Interrupts,
}

#[derive(Debug, Default)]
struct Shared {
    running: Mutex<Option<Pid>>,
    /// Whether a signal ends the session.
    is_ending: AtomicBool,
    ended: Condvar,
    /// The modes at the start, and the terminal; without a terminal on stdin there is nothing to put back.
    terminal: Option<(Termios, File)>,
    guard: Mutex<Option<Child>>,
}

impl Foreground {
    /// Begins to catch signals, and remembers the terminal's modes. Called once.
    pub fn start() -> io::Result<Self> {
        let interrupts = Interrupts::catch(&[Signal::Int])?;
        let ends = Interrupts::catch(&[Signal::Term, Signal::Hup])?;
        // Ctrl-\ is for the process that runs.
        flag::register(signal_hook::consts::SIGQUIT, Arc::new(AtomicBool::new(false)))?;
        let modes = tcgetattr(io::stdin()).ok();
        let file = io::stdin().as_fd().try_clone_to_owned().map(File::from);
        let terminal = modes.zip(file.ok());
        let shared = Arc::new(Shared { terminal, ..Shared::default() });
        // Before the modes are changed for the first time.
        shared.start_guard();
        let watched = Arc::clone(&shared);
        thread::Builder::new().spawn(move || {
            if let Some(signal) = ends.wait(None) {
                watched.end(signal);
            }
        })?;
        Ok(Self { shared, interrupts })
    }

    /// Runs a program on the terminal, and waits for it. Without a terminal on stdin it has no input.
    pub fn run(&self, words: &[OsString], env: &Env) -> Result<Ended> {
        let mut command = command(words, env);
        if !terminal::stdin_is_terminal() {
            command.stdin(Stdio::null());
        }
        let mut child = self.spawn(&mut command)?;
        self.wait(&mut child)
    }

    /// Runs a program without input, and returns its stdout: a document, which has its error too.
    pub fn read(&self, words: &[OsString], env: &Env) -> Result<(Ended, Vec<u8>)> {
        let mut command = command(words, env);
        let mut child =
            self.spawn(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()))?;
        let mut output = Vec::new();
        if let Some(mut stdout) = child.stdout.take() {
            io::copy(&mut stdout, &mut output).context("cannot read what it prints")?;
        }
        Ok((self.wait(&mut child)?, output))
    }

    /// Starts a program with which the session exchanges lines.
    pub fn converse(&self, words: &[OsString], env: &Env) -> Result<Conversing<'_>> {
        let (output, writer) = io::pipe().context("cannot make a pipe")?;
        let mut command = command(words, env);
        command.stdin(Stdio::piped()).stdout(writer.try_clone()?).stderr(writer);
        let mut child = self.spawn(&mut command)?;
        // It holds the writing end, without which the reading end has no end.
        drop(command);
        let input = child.stdin.take();
        Ok(Conversing { foreground: self, child, input, output: BufReader::new(output) })
    }

    fn spawn(&self, command: &mut Command) -> Result<Child> {
        let mut running = self.shared.lock();
        let child = command.spawn().with_context(|| {
            let name = Path::new(command.get_program()).display();
            format!("cannot start {name}")
        })?;
        *running = Some(Pid::from_child(&child));
        Ok(child)
    }

    fn wait(&self, child: &mut Child) -> Result<Ended> {
        let status = child.wait();
        *self.shared.lock() = None;
        self.shared.ended.notify_all();
        // The terminal must not get other modes any more.
        while self.shared.is_ending.load(Ordering::SeqCst) {
            thread::park();
        }
        Ok(Ended::from(status.context("cannot wait for it")?))
    }
}

impl Drop for Foreground {
    fn drop(&mut self) {
        self.shared.dismiss_guard();
    }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// With an exit code.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "with exit code {code}"),
            Self::Signal(number) => write!(f, "by signal {number}"),
        }
    }
}

impl From<ExitStatus> for Ended {
    fn from(status: ExitStatus) -> Self {
        status.code().map_or_else(|| Self::Signal(status.signal().unwrap_or(0)), Self::Code)
    }
}

/// A process that reads lines and prints lines. What it prints to stderr comes with the rest.
#[derive(Debug)]
pub struct Conversing<'a> {
    foreground: &'a Foreground,
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<PipeReader>,
}

impl AsFd for Conversing<'_> {
    /// What it prints comes from there; it hangs up when the process ends.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.output.get_ref().as_fd()
    }
}

impl Conversing<'_> {
    /// Sends a line. It may have ended already, which its last line says.
    pub fn send(&mut self, line: &str) {
        if let Some(input) = &mut self.input {
            let _ = input.write_all(format!("{line}\n").as_bytes()).and_then(|()| input.flush());
        }
    }

    /// Says that no more lines will come.
    pub fn close(&mut self) {
        self.input = None;
    }

    /// The next line that it prints. `None`: it prints no more.
    pub fn next_line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        let bytes = self.output.read_until(b'\n', &mut line).ok()?;
        (bytes > 0).then(|| String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned())
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Result<Ended> {
        self.input = None;
        self.foreground.wait(&mut self.child)
    }
}

fn command(words: &[OsString], env: &Env) -> Command {
    let mut words = words.iter();
    let mut command = Command::new(words.next().map_or(OsStr::new(""), OsString::as_os_str));
    command.args(words).env_clear().envs(env.for_children(&[]));
    command
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Option<Pid>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the session, after what runs in it.
    fn end(&self, signal: Signal) -> ! {
        self.is_ending.store(true, Ordering::SeqCst);
        let running = self.lock();
        if let Some(pid) = *running {
            let number = match signal {
                Signal::Hup => rustix::process::Signal::HUP,
                _ => rustix::process::Signal::TERM,
            };
            let _ = rustix::process::kill_process(pid, number);
            let wait = self
                .ended
                .wait_timeout_while(running, SIGNAL_PATIENCE, |running| running.is_some());
            drop(wait);
        }
        if let Some((modes, file)) = &self.terminal {
            if terminal::can_overwrite() {
                let _ = (&*file).write_all(PASTE_OFF.as_bytes());
            }
            let _ = tcsetattr(file, OptionalActions::Now, modes);
        }
        self.dismiss_guard();
        low_level::exit(128 + i32::from(signal.number()))
    }

    /// Where the shell cannot be started, the session goes on without it.
    fn start_guard(&self) {
        let Some((modes, file)) = self.terminal.as_ref().filter(|_| terminal::can_overwrite())
        else {
            return;
        };
        let Ok(file) = file.try_clone() else { return };
        let guard = Command::new("/bin/sh")
            .args(["-c", GUARD, "sh"])
            .args(mode_words(modes))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(file)
            .spawn();
        *self.guard.lock().unwrap_or_else(PoisonError::into_inner) = guard.ok();
    }

    fn dismiss_guard(&self) {
        let guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut guard) = guard {
            let _ = guard.stdin.take().map(|mut stdin| stdin.write_all(b"\n"));
            let _ = guard.wait();
        }
    }
}

/// The modes that a line editor changes, as words of stty(1).
fn mode_words(modes: &Termios) -> Vec<String> {
    let input = |mode| modes.input_modes.contains(mode);
    let local = |mode| modes.local_modes.contains(mode);
    let words = [
        ("brkint", input(InputModes::BRKINT)),
        ("icrnl", input(InputModes::ICRNL)),
        ("inpck", input(InputModes::INPCK)),
        ("istrip", input(InputModes::ISTRIP)),
        ("ixon", input(InputModes::IXON)),
        ("echo", local(LocalModes::ECHO)),
        ("icanon", local(LocalModes::ICANON)),
        ("iexten", local(LocalModes::IEXTEN)),
        ("isig", local(LocalModes::ISIG)),
    ];
    words.map(|(word, is_on)| format!("{}{word}", if is_on { "" } else { "-" })).to_vec()
}
