//! The terminal of this process, whatever stdin and stdout are: for questions that nothing but a person may answer.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::process::Command;

use anyhow::{Context, Result, bail};
use rustix::termios::{QueueSelector, tcflush};

use super::env::Env;
use super::interrupt::Interrupts;
use super::stdin;
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
    pub fn forget_input(&self) {
        let _ = tcflush(&self.file, QueueSelector::IFlush);
    }

    /// Reads a line that is typed. `None`: the end of input, or a signal.
    pub fn read_line(&self, interrupts: &Interrupts) -> Option<String> {
        let bytes = stdin::read_line_of(&self.file, "the terminal", interrupts).ok()?.ok()?;
        (!bytes.is_empty()).then(|| String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// The columns, and whether colours are shown.
    pub fn look(&self) -> (usize, bool) {
        let columns =
            rustix::termios::tcgetwinsize(&self.file).map_or(80, |size| size.ws_col.into());
        (if columns > 0 { columns } else { 80 }, terminal::has_colours())
    }
}

/// Opens a text in the user's editor, `VISUAL` or `EDITOR`, else vi, and returns what was saved.
///
/// # Errors
/// The editor could not be started, or failed; or what it left is no text.
pub fn edit_text(text: &str) -> Result<String> {
    let env = Env::read();
    let editor = editor(&env);
    let mut file = tempfile::Builder::new().prefix("nagent-").suffix(".txt").tempfile()?;
    file.write_all(text.as_bytes())?;
    let tty = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
    let status = Command::new("sh")
        .args(["-c", &format!("{editor} \"$1\""), "sh"])
        .arg(file.path())
        .stdin(tty.try_clone()?)
        .stdout(tty.try_clone()?)
        .stderr(tty)
        .status()
        .with_context(|| format!("cannot start the editor {editor}"))?;
    let saved = std::fs::read(file.path()).context("cannot read what the editor saved")?;
    if !status.success() {
        if saved == text.as_bytes() {
            bail!("the editor {editor} failed ({status})");
        }
        let (_, path) = file.keep()?;
        bail!("the editor {editor} failed ({status}); what was saved is in {}", path.display());
    }
    String::from_utf8(saved).context("what the editor saved is not text")
}

/// The user's editor: a command, with its words.
pub fn editor(env: &Env) -> &str {
    env.get("VISUAL").or_else(|| env.get("EDITOR")).unwrap_or("vi")
}
