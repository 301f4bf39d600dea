//! Runs the programs of a session on its terminal, one at a time, and restores the terminal however the session ends.
//!
//! SIGINT goes to the process that runs, since the terminal sends it to the whole group; the session notes it and
//! continues. SIGTERM and SIGHUP are forwarded to the process that runs, which has a second to end; then the terminal's
//! modes are restored and the session ends. Nothing can catch SIGKILL: then reset(1) restores the terminal.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, PipeReader, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use anyhow::{Context, Result};
use rustix::process::Pid;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::{flag, low_level};

use super::env::Env;
use super::interrupt::Interrupts;
use super::lock::lock_mutex;
use super::terminal;
use conversation::exit::Signal;
use conversation::limits::SIGNAL_PATIENCE;

/// Turns off the marking of pasted text (bracketed paste).
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
    /// The terminal and its modes at the start; without a terminal on stdin there is nothing to restore.
    terminal: Option<(Termios, File)>,
}

impl Foreground {
    /// Begins to catch signals, and saves the terminal's modes. Called once.
    pub fn start() -> io::Result<Self> {
        let interrupts = Interrupts::catch(&[Signal::Int])?;
        let ends = Interrupts::catch(&[Signal::Term, Signal::Hup])?;
        // Ctrl-\ is for the process that runs.
        flag::register(signal_hook::consts::SIGQUIT, Arc::new(AtomicBool::new(false)))?;
        let modes = tcgetattr(io::stdin()).ok();
        let file = io::stdin().as_fd().try_clone_to_owned().map(File::from);
        let terminal = modes.zip(file.ok());
        let shared = Arc::new(Shared { terminal, ..Shared::default() });
        let watched = Arc::clone(&shared);
        thread::Builder::new().spawn(move || {
            if let Some(signal) = ends.wait_for_signal(None) {
                watched.end_session(signal);
            }
        })?;
        Ok(Self { shared, interrupts })
    }

    /// Runs a program on the terminal, and waits for it. Without a terminal on stdin it has no input.
    pub fn run(&self, words: &[OsString], env: &Env) -> Result<ExitStatus> {
        let mut command = command(words, env);
        if !terminal::stdin_is_terminal() {
            command.stdin(Stdio::null());
        }
        Ok(self.wait_for_child(self.spawn(&mut command)?)?.status)
    }

    /// Runs a program without input, and returns its stdout: a document, which includes any error.
    pub fn read(&self, words: &[OsString], env: &Env) -> Result<Output> {
        let mut command = command(words, env);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        self.wait_for_child(self.spawn(&mut command)?)
    }

    /// Starts a program with which the session exchanges lines.
    pub fn converse(&self, words: &[OsString], env: &Env) -> Result<Conversing<'_>> {
        let (output, writer) = io::pipe().context("cannot make a pipe")?;
        let mut command = command(words, env);
        command.stdin(Stdio::piped()).stdout(writer.try_clone()?).stderr(writer);
        // The command holds the writing end until it is dropped; before that, the reading end would not see an end.
        let child = self.spawn(&mut command)?;
        Ok(Conversing { foreground: self, child, output: BufReader::new(output) })
    }

    fn spawn(&self, command: &mut Command) -> Result<Child> {
        let mut running = lock_mutex(&self.shared.running);
        let child = command.spawn().with_context(|| {
            let name = Path::new(command.get_program()).display();
            format!("cannot start {name}")
        })?;
        *running = Some(Pid::from_child(&child));
        Ok(child)
    }

    fn wait_for_child(&self, child: Child) -> Result<Output> {
        let output = child.wait_with_output();
        *lock_mutex(&self.shared.running) = None;
        self.shared.ended.notify_all();
        // From here on, the modes of the terminal must not change.
        while self.shared.is_ending.load(Ordering::SeqCst) {
            thread::park();
        }
        output.context("cannot wait for it")
    }
}

/// A process that reads and prints lines. Its stderr is mixed into its output.
#[derive(Debug)]
pub struct Conversing<'a> {
    foreground: &'a Foreground,
    child: Child,
    /// Its output; it hangs up when the process ends.
    pub output: BufReader<PipeReader>,
}

impl Conversing<'_> {
    /// Sends a line. If the process has already ended, its last line shows that.
    pub fn send(&mut self, line: &str) {
        if let Some(input) = &mut self.child.stdin {
            let _ = input.write_all(format!("{line}\n").as_bytes()).and_then(|()| input.flush());
        }
    }

    /// Closes its input: no more lines will come.
    pub fn close(&mut self) {
        self.child.stdin = None;
    }

    /// The next line of output; `None` at the end.
    pub fn next_line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        let bytes = self.output.read_until(b'\n', &mut line).ok()?;
        (bytes > 0).then(|| String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned())
    }

    /// Waits for its end.
    pub fn wait(self) -> Result<ExitStatus> {
        Ok(self.foreground.wait_for_child(self.child)?.status)
    }
}

fn command(words: &[OsString], env: &Env) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).env_clear().envs(env.for_children(&[]));
    command
}

impl Shared {
    /// Ends the session, after the process that runs in it.
    fn end_session(&self, signal: Signal) -> ! {
        self.is_ending.store(true, Ordering::SeqCst);
        let running = lock_mutex(&self.running);
        if let Some(pid) = *running {
            let number = match signal {
                Signal::Hup => rustix::process::Signal::HUP,
                _ => rustix::process::Signal::TERM,
            };
            let _ = rustix::process::kill_process(pid, number);
            let is_running = |running: &mut Option<Pid>| running.is_some();
            drop(self.ended.wait_timeout_while(running, SIGNAL_PATIENCE, is_running));
        }
        if let Some((modes, file)) = &self.terminal {
            if terminal::can_overwrite() {
                let _ = (&*file).write_all(PASTE_OFF.as_bytes());
            }
            let _ = tcsetattr(file, OptionalActions::Now, modes);
        }
        low_level::exit(128 + i32::from(signal.number()))
    }
}
