//! The terminal of this process, whatever stdin and stdout are: questions that only a person may answer, keys that are typed
//! during a run, and texts for the user's editor.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Signal, kill_current_process_group};
use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr,
    tcgetwinsize, tcsetattr,
};

use super::env::Env;
use super::interrupt::{Interrupts, ResumeWatch};
use super::lock::{LockWait, lock_file};
use super::{env, fs, ready, terminal};
use conversation::format::columns::{width, wrap_line};
use conversation::format::harmless::is_hidden;

/// Nothing may be typed for this long before an answer counts.
const QUIET: Duration = Duration::from_millis(250);

/// The terminal.
#[derive(Debug)]
pub struct Tty {
    file: File,
    /// The folder of the lock that keeps parallel processes from asking at the same time.
    locks: Option<PathBuf>,
}

impl Tty {
    /// Opens the terminal. `None` if there is none.
    pub fn open() -> Option<Self> {
        let file = OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
        Some(Self { file, locks: None })
    }

    /// Opens the terminal for questions, one at a time for all processes with this folder. `None` if there is no
    /// terminal.
    pub fn open_with_locks(locks: PathBuf) -> Option<Self> {
        Some(Self { locks: Some(locks), ..Self::open()? })
    }

    /// Writes text unchanged.
    pub fn write(&mut self, text: &str) {
        let _ = self.file.write_all(text.as_bytes()).and_then(|()| self.file.flush());
    }

    /// Turns these modes off, so that each key is passed on at once, until the result is dropped.
    fn enter_raw_mode(&self, modes: LocalModes) -> Option<RawMode> {
        let file = self.file.try_clone().ok()?;
        let before = tcgetattr(&file).ok()?;
        let mut raw = before.clone();
        raw.local_modes.remove(modes);
        raw.special_codes[SpecialCodeIndex::VMIN] = 1;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(&file, OptionalActions::Now, &raw).ok()?;
        Some(RawMode { file, before, discards: true })
    }

    /// Waits, in raw mode, until nobody types: keys that were meant for something else are not an answer. False after
    /// Ctrl-C or a signal.
    fn wait_for_quiet(&self, interrupts: &Interrupts) -> bool {
        let mut typed = Vec::new();
        while self.read_bytes(&mut typed, Some(QUIET), interrupts) && !typed.contains(&3) {
            typed.clear();
        }
        typed.is_empty() && interrupts.pending().is_none()
    }

    /// Reads the typed bytes. False after a timeout, a signal, or if the terminal is gone.
    fn read_bytes(
        &self,
        into: &mut Vec<u8>,
        most: Option<Duration>,
        interrupts: &Interrupts,
    ) -> bool {
        let until = most.map(|most| Instant::now() + most);
        let mut file = &self.file;
        let mut fds = [PollFd::new(file, PollFlags::IN), PollFd::new(interrupts, PollFlags::IN)];
        while fds[0].revents().is_empty() {
            ready::wait(&mut fds, until);
            let is_over = until.is_some_and(|until| until <= Instant::now());
            if interrupts.pending().is_some() || is_over && fds[0].revents().is_empty() {
                return false;
            }
        }
        let mut bytes = [0; 64];
        let count = file.read(&mut bytes).unwrap_or(0);
        into.extend_from_slice(&bytes[..count]);
        count > 0
    }

    /// Shows a question, and again after Ctrl-Z. Once nobody types, shows its choices, and reads the line that is typed
    /// after them; earlier keys do not count. One of `keys` alone is an answer without Enter, once nothing follows it. `None` after the end of input, a signal, or a hangup of `asker`, the run
    /// that asks.
    pub fn read_answer(
        &mut self,
        question: &str,
        choices: &str,
        keys: &str,
        interrupts: &Interrupts,
        asker: Option<BorrowedFd<'_>>,
    ) -> Option<String> {
        // Until it is dropped, only this process asks on this terminal.
        let _lock = self.lock_terminal(interrupts);
        let resumed = ResumeWatch::start();
        let (mut typed, mut bytes, mut buffer) = (String::new(), Vec::new(), [0; 4096]);
        let (mut is_due, mut raw) = (true, None);
        loop {
            if is_due {
                self.write(question);
                // Until it is dropped, which discards typed keys, nothing counts as a line. Ctrl-C and Ctrl-Z are
                // signals.
                drop(raw.take());
                raw = self.enter_raw_mode(LocalModes::ICANON | LocalModes::ECHO);
                if raw.is_none() || !self.wait_for_quiet(interrupts) {
                    return None;
                }
                let (columns, _) = self.read_dimensions();
                self.write(&wrap_line(choices, columns).join("\n"));
                typed.clear();
            }
            let mut fds = vec![
                PollFd::new(&self.file, PollFlags::IN),
                PollFd::new(interrupts, PollFlags::IN),
            ];
            fds.extend(asker.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::empty())));
            let until = Instant::now() + QUIET;
            ready::wait(&mut fds, Some(until));
            let is_gone = fds.get(2).is_some_and(|asker| !asker.revents().is_empty());
            let is_typed = !fds[0].revents().is_empty();
            if is_gone || interrupts.pending().is_some() {
                return None;
            }
            is_due = resumed.take();
            if is_due || !is_typed {
                let is_key = typed.chars().count() == 1 && keys.contains(&typed);
                if !is_due && is_key && until <= Instant::now() {
                    self.write("\n");
                    break;
                }
                continue;
            }
            let count = self.file.read(&mut buffer).unwrap_or(0);
            bytes.extend_from_slice(&buffer[..count]);
            self.edit_line(&take_keys(&mut bytes), &mut typed);
            if count == 0 || typed.ends_with('\n') || typed.is_empty() && buffer[..count] == [4] {
                break;
            }
        }
        (!typed.is_empty()).then(|| typed.trim().to_owned())
    }

    /// Adds typed keys to a line, and shows them: the terminal does not in raw mode.
    fn edit_line(&mut self, keys: &[Key], typed: &mut String) {
        for key in keys {
            let removed = match key {
                Key::Char(c) => {
                    typed.push(*c);
                    self.write(c.encode_utf8(&mut [0; 4]));
                    continue;
                }
                Key::Enter => {
                    typed.push('\n');
                    self.write("\n");
                    continue;
                }
                Key::Backspace => typed.pop().map(String::from).unwrap_or_default(),
                Key::Clear => std::mem::take(typed),
                Key::Up | Key::Down | Key::Escape => continue,
            };
            self.write(&"\x08 \x08".repeat(width(&removed)));
        }
    }

    fn lock_terminal(&self, interrupts: &Interrupts) -> Option<File> {
        let locks = self.locks.as_ref()?;
        let stat = env::read_proc("/proc/self/stat").unwrap_or_default();
        let path = locks.join(format!("prompt-{}.lock", env::field(&stat, 7).unwrap_or("0")));
        fs::create_private_folder(locks).ok()?;
        lock_file(&path, LockWait::new(Duration::from_hours(24), interrupts)).ok()?
    }

    /// The first line of a question, which no other text can imitate: in reverse video, where colours are shown.
    pub fn format_head(&self, text: &str) -> String {
        let (columns, has_colours) = self.read_dimensions();
        let rows = wrap_line(text, columns.saturating_sub(2).max(1)).into_iter().map(str::trim_end);
        if has_colours {
            rows.map(|row| format!("\x1b[7m {row} \x1b[0m\n")).collect()
        } else {
            let rows: String = rows.map(|row| row.to_owned() + "\n").collect();
            format!("{}\n{rows}", "-".repeat(columns.min(72)))
        }
    }

    /// The number of columns, and whether colours are shown.
    pub fn read_dimensions(&self) -> (usize, bool) {
        (terminal::columns(tcgetwinsize(&self.file)), terminal::has_colours())
    }
}

/// A key that was typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "their names say it")]
pub enum Key {
    Char(char),
    Enter,
    Backspace,
    /// Ctrl-U
    Clear,
    Up,
    Down,
    Escape,
}

/// The byte of Ctrl-Z.
const CTRL_Z: u8 = 0x1a;

/// The keys that are typed, which the terminal does not show until this is dropped. Ctrl-C and Ctrl-Z do what they usually do.
#[derive(Debug)]
pub struct Keys {
    tty: Tty,
    /// `None`: the terminal is gone.
    raw: Option<RawMode>,
    resumed: ResumeWatch,
    /// The bytes of a character that is not complete.
    bytes: Vec<u8>,
}

impl Keys {
    /// Begins to read keys. `None` without a terminal.
    pub fn start() -> Option<Self> {
        let tty = Tty::open()?;
        let resumed = ResumeWatch::start();
        let mut keys = Self { tty, raw: None, resumed, bytes: Vec::new() };
        keys.enter();
        Some(keys)
    }

    /// Sets the modes. Keys that nobody has read stay for the next reader.
    fn enter(&mut self) {
        drop(self.raw.take());
        self.raw = self.tty.enter_raw_mode(LocalModes::ICANON | LocalModes::ECHO);
        if let (Some(raw), Ok(mut modes)) = (&mut self.raw, tcgetattr(&self.tty.file)) {
            raw.discards = false;
            // Ctrl-Z is a key here: not every shell restores the modes of a terminal.
            modes.special_codes[SpecialCodeIndex::VSUSP] = 0;
            let _ = tcsetattr(&self.tty.file, OptionalActions::Now, &modes);
        }
    }

    /// Waits for keys or for `other`, up to `longest`, at most a moment. Returns the keys, and whether `other` is ready.
    pub fn wait(&mut self, other: BorrowedFd<'_>, longest: Duration) -> (Vec<Key>, bool) {
        if self.resumed.take() {
            // The shell has set its own modes.
            self.enter();
        }
        let other = PollFd::from_borrowed_fd(other, PollFlags::IN);
        let mut fds = [other, PollFd::new(&self.tty.file, PollFlags::IN)];
        let count = if self.raw.is_some() { 2 } else { 1 };
        ready::wait(&mut fds[..count], Some(Instant::now() + longest.min(QUIET)));
        let [is_other, is_typed] = fds.map(|fd| !fd.revents().is_empty());
        let mut buffer = [0; 4096];
        if is_typed {
            match (&self.tty.file).read(&mut buffer) {
                Ok(count @ 1..) => self.bytes.extend_from_slice(&buffer[..count]),
                _ => self.raw = None,
            }
        }
        if self.bytes.contains(&CTRL_Z) {
            drop(self.raw.take());
            let _ = kill_current_process_group(Signal::TSTP);
            self.enter();
        }
        (take_keys(&mut self.bytes), is_other)
    }
}

/// Removes the complete characters from typed bytes, and returns the keys that have a use.
fn take_keys(bytes: &mut Vec<u8>) -> Vec<Key> {
    let end = match std::str::from_utf8(bytes) {
        Ok(text) => text.len(),
        Err(error) => error.error_len().map_or(error.valid_up_to(), |_| bytes.len()),
    };
    let text: Vec<u8> = bytes.drain(..end).collect();
    let text = String::from_utf8_lossy(&text);
    let (mut chars, mut keys) = (text.chars(), Vec::new());
    while let Some(c) = chars.next() {
        keys.push(match c {
            '\r' | '\n' => Key::Enter,
            '\x08' | '\x7f' => Key::Backspace,
            '\x15' => Key::Clear,
            '\x1b' => match chars.next() {
                Some('\r' | '\n') => Key::Char('\n'),
                Some('[' | 'O') => match chars.find(|c| ('@'..='~').contains(c)) {
                    Some('A') => Key::Up,
                    Some('B') => Key::Down,
                    _ => continue,
                },
                _ => Key::Escape,
            },
            // Joiners are parts of words and pictures.
            c if is_hidden(c) && !matches!(c, '\t' | '\u{200c}' | '\u{200d}') => continue,
            c => Key::Char(c),
        });
    }
    keys
}

/// The previous modes of a terminal in raw mode. Dropping it restores them.
#[derive(Debug)]
struct RawMode {
    file: File,
    before: Termios,
    /// Whether keys that nobody has read are discarded.
    discards: bool,
}

impl Drop for RawMode {
    fn drop(&mut self) {
        if self.discards {
            let _ = tcflush(&self.file, QueueSelector::IFlush);
        }
        let _ = tcsetattr(&self.file, OptionalActions::Now, &self.before);
    }
}

/// Keeps the terminal on stderr from showing what is typed, until it is dropped. The next reader gets it.
#[derive(Debug)]
pub struct HiddenTyping(());

impl HiddenTyping {
    /// Begins. `None` where stdout is something else, since a program that reads it may set the modes of the terminal, as a
    /// pager does; in the background; and where nothing is shown already.
    pub fn start() -> Option<Self> {
        // Not `then_some`, whose value would be made and dropped in any case.
        (terminal::stdout_is_terminal() && set_echo(false)).then(|| Self(()))
    }
}

impl Drop for HiddenTyping {
    fn drop(&mut self) {
        set_echo(true);
    }
}

/// Sets whether the terminal on stderr shows what is typed. Whether that changed it: in the background nothing does.
fn set_echo(is_shown: bool) -> bool {
    let Ok(mut modes) = tcgetattr(io::stderr()) else { return false };
    let is_due = modes.local_modes.contains(LocalModes::ECHO) != is_shown;
    modes.local_modes.set(LocalModes::ECHO, is_shown);
    is_due
        && terminal::is_foreground()
        && tcsetattr(io::stderr(), OptionalActions::Now, &modes).is_ok()
}

/// Opens a text in the user's editor, `VISUAL` or `EDITOR`, else vi, and returns the saved text. The editor knows its
/// language by the extension of `name`.
///
/// # Errors
/// The editor could not be started, or failed; or the result is not text.
pub fn edit_text(text: &str, name: &str) -> Result<String> {
    let extension = Path::new(name).extension().and_then(OsStr::to_str).unwrap_or("txt");
    let suffix = format!(".{extension}");
    let mut file = tempfile::Builder::new().prefix("nagent-").suffix(&suffix).tempfile()?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_typed_bytes() {
        let check = |typed: &[u8], expect: &[Key], rest: &[u8]| {
            let mut bytes = typed.to_vec();
            assert_eq!((take_keys(&mut bytes).as_slice(), &bytes[..]), (expect, rest), "{typed:?}");
        };
        let char = Key::Char;
        check("a世\r".as_bytes(), &[char('a'), char('世'), Key::Enter], b"");
        check(b"\x1b[A\x1bOB\x1b[200~x\x1b[1;5C", &[Key::Up, Key::Down, char('x')], b"");
        check(b"\x1b", &[Key::Escape], b"");
        check(b"\x7f\x08\x15\x04", &[Key::Backspace, Key::Backspace, Key::Clear], b"");
        check(b"\t\x1b\rb", &[char('\t'), char('\n'), char('b')], b"");
        check("\u{200c}\u{200d}".as_bytes(), &[char('\u{200c}'), char('\u{200d}')], b"");
        check(b"a\xe4\xb8", &[char('a')], b"\xe4\xb8");
        check("a\u{9b}\u{202e}b".as_bytes(), &[char('a'), char('b')], b"");
    }
}
