//! The terminal of this process, whatever stdin and stdout are: for questions that nothing but a person may answer.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::termios::{QueueSelector, tcflush, tcgetwinsize};
use signal_hook::consts::SIGCONT;
use signal_hook::low_level;

use super::env::Env;
use super::interrupt::Interrupts;
use super::terminal;

/// The terminal.
#[derive(Debug)]
pub struct Tty {
    file: File,
}

impl Tty {
    /// Opens the terminal. `None`: there is none.
    pub fn open() -> Option<Self> {
        let file = OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
        Some(Self { file })
    }

    /// The terminal, open for reading and writing.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Writes text as it is.
    pub fn write(&mut self, text: &str) {
        let _ = self.file.write_all(text.as_bytes()).and_then(|()| self.file.flush());
    }

    /// Forgets what was typed so far.
    pub(super) fn forget_input(&self) {
        let _ = tcflush(&self.file, QueueSelector::IFlush);
    }

    /// Shows a question with its choices, again after Ctrl-Z, and reads the line that is typed behind it; what was typed
    /// before does not count. `None`: the end of input, a signal, or a hangup of `asker`, the run that asks.
    pub fn read_answer(
        &mut self,
        question: &str,
        choices: &str,
        interrupts: &Interrupts,
        asker: Option<BorrowedFd<'_>>,
    ) -> Option<String> {
        let (resumed, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok()?;
        let handler = low_level::pipe::register(SIGCONT, writer);
        let (mut typed, mut buffer) = (Vec::new(), [0; 4096]);
        let mut is_due = true;
        loop {
            if is_due {
                self.write(question);
                self.forget_input();
                self.write(choices);
                typed.clear();
            }
            let mut fds = vec![
                PollFd::new(&self.file, PollFlags::IN),
                PollFd::new(interrupts, PollFlags::IN),
                PollFd::new(&resumed, PollFlags::IN),
            ];
            fds.extend(asker.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::empty())));
            let _ = poll(&mut fds, None);
            let is_gone = fds.get(3).is_some_and(|fd| !fd.revents().is_empty());
            if is_gone || interrupts.pending().is_some() {
                typed.clear();
                break;
            }
            is_due = rustix::io::read(&resumed, &mut buffer).is_ok();
            if !is_due && !fds[0].revents().is_empty() {
                let count = self.file.read(&mut buffer).unwrap_or(0);
                typed.extend_from_slice(&buffer[..count]);
                if count == 0 || typed.ends_with(b"\n") {
                    break;
                }
            }
        }
        handler.map(low_level::unregister).ok();
        (!typed.is_empty()).then(|| String::from_utf8_lossy(&typed).trim().to_owned())
    }

    /// The columns, and whether colours are shown.
    pub fn read_dimensions(&self) -> (usize, bool) {
        (terminal::columns(tcgetwinsize(&self.file)), terminal::has_colours())
    }
}

/// Opens a text in the user's editor, `VISUAL` or `EDITOR`, else vi, and returns what was saved.
///
/// # Errors
/// The editor could not be started, or failed; or the result is not text.
pub fn edit_text(text: &str) -> Result<String> {
    let mut file = tempfile::Builder::new().prefix("nagent-").suffix(".txt").tempfile()?;
    file.write_all(text.as_bytes())?;
    let edited = edit_file(file.path());
    let saved = std::fs::read(file.path()).context("cannot read what the editor saved")?;
    if let Err(error) = edited {
        if saved == text.as_bytes() {
            return Err(error);
        }
        let (_, path) = file.keep()?;
        bail!("{error:#}; what was saved is in {}", path.display());
    }
    String::from_utf8(saved).context("what the editor saved is not text")
}

/// Opens a file in the user's editor.
///
/// # Errors
/// The editor could not be started, or failed.
pub fn edit_file(path: &Path) -> Result<()> {
    let env = Env::read();
    let editor = env.get("VISUAL").or_else(|| env.get("EDITOR")).unwrap_or("vi");
    let tty = Tty::open().context("there is no terminal for the editor")?.file;
    let status = Command::new("sh")
        .args(["-c", &format!("{editor} \"$1\""), "sh"])
        .arg(path)
        .stdin(tty.try_clone()?)
        .stdout(tty.try_clone()?)
        .stderr(tty)
        .status()
        .with_context(|| format!("cannot start the editor {editor}"))?;
    ensure!(status.success(), "the editor {editor} failed ({status})");
    Ok(())
}
