//! Asks a question with three answers on the terminal of this process, whatever stdin, stdout and stderr are. Only keys
//! that are pressed while it is shown count.

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use rustix::termios::LocalModes;

use super::interrupt::Interrupts;
use super::lock::{LockWait, lock_file};
use super::terminal;
use super::tty::Tty;
use conversation::format::columns::wrap_line;
use conversation::format::harmless::escape_text;

/// What somebody answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Yes, from now on.
    Allow,
    /// No, from now on.
    Deny,
    /// Yes, for this run.
    Once,
    /// Ctrl-C, Esc, or nobody is there any more.
    Interrupted,
}

/// The choices, in the order in which they are shown.
const CHOICES: [(&str, Answer); 3] =
    [("Allow", Answer::Allow), ("Deny", Answer::Deny), ("Once", Answer::Once)];

/// The choice that is selected at first.
const DEFAULT: usize = 1;

/// How long the rest of a key's sequence may take.
const SEQUENCE: Duration = Duration::from_millis(50);

/// The terminal, for questions.
#[derive(Debug)]
pub struct AskTty {
    tty: Tty,
    /// The folder of the lock that keeps two processes from asking at once.
    locks: PathBuf,
}

impl AskTty {
    /// Opens the terminal. `None`: there is none.
    pub fn open(locks: PathBuf) -> Option<Self> {
        Some(Self { tty: Tty::open()?, locks })
    }

    /// Writes a line.
    pub fn write_line(&mut self, text: &str) {
        self.tty.write(&format!("  {}\n", escape_text(text)));
    }

    /// Asks whether `who` may do something.
    pub fn ask_permission(
        &mut self,
        who: &str,
        label: &str,
        detail: &str,
        interrupts: &Interrupts,
    ) -> Answer {
        // Until it is dropped, this process alone asks on this terminal.
        let _lock = self.lock_terminal(interrupts);
        let (columns, has_colours) = self.tty.read_dimensions();
        let head = format!("◆ {label}  {}", escape_text(detail).replace('\n', "\\n"));
        let rows = wrap_line(&head, columns.saturating_sub(3).max(20));
        let who = escape_text(who).replace('\n', " ");
        let mut text = if has_colours {
            format!("\n\x1b[7m {who} asks \x1b[0m\n")
        } else {
            format!("\n{who} asks\n")
        };
        for (at, row) in rows.iter().enumerate() {
            match row.strip_prefix('◆').filter(|_| at == 0 && has_colours) {
                Some(rest) => text.push_str(&format!("  \x1b[38;5;214m◆\x1b[0m{rest}\n")),
                None => text.push_str(&format!("  {row}\n")),
            }
        }
        self.tty.write(&text);
        // Ctrl-C is a key here.
        let modes = LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        let Some(_raw) = self.tty.enter_raw_mode(modes) else { return Answer::Interrupted };
        if !self.tty.wait_for_quiet(interrupts) {
            return Answer::Interrupted;
        }
        let mut at = DEFAULT;
        let mut is_drawn = false;
        let mut typed = Vec::new();
        let answer = loop {
            self.draw_choices(at, is_drawn);
            is_drawn = true;
            match self.read_key(&mut typed, interrupts) {
                Key::Up => at = at.saturating_sub(1),
                Key::Down => at = (at + 1).min(CHOICES.len() - 1),
                Key::Take => break CHOICES[at].1,
                Key::Number(number) => break CHOICES[number].1,
                Key::Leave => break Answer::Interrupted,
                Key::Other => {}
            }
        };
        if terminal::can_overwrite() {
            // The question vanishes: blank line, head, detail, choices.
            let lines = 2 + rows.len() + CHOICES.len();
            self.tty.write(&format!("\x1b[{lines}A\r\x1b[J"));
        }
        answer
    }

    fn draw_choices(&mut self, at: usize, again: bool) {
        let can_overwrite = terminal::can_overwrite();
        if again && !can_overwrite {
            return;
        }
        let mut text = if again { format!("\x1b[{}A\r", CHOICES.len()) } else { String::new() };
        for (number, (word, _)) in CHOICES.iter().enumerate() {
            let mark = if number == at { '❯' } else { ' ' };
            text.push_str(&format!("  {mark} {} {word}\n", number + 1));
        }
        self.tty.write(&text);
    }

    /// The next key; `typed` has what came with the one before.
    fn read_key(&self, typed: &mut Vec<u8>, interrupts: &Interrupts) -> Key {
        if typed.is_empty() && !self.tty.read_bytes(typed, None, interrupts) {
            return Key::Leave;
        }
        // The rest of an arrow key may come on its own.
        if typed.as_slice() == [0x1b] && !self.tty.read_bytes(typed, Some(SEQUENCE), interrupts) {
            return Key::Leave;
        }
        let (length, key) = match typed.as_slice() {
            [0x1b, b'[' | b'O', b'A', ..] => (3, Key::Up),
            [0x1b, b'[' | b'O', b'B', ..] => (3, Key::Down),
            [0x1b, b'[' | b'O', ..] => (typed.len(), Key::Other),
            [b'k', ..] => (1, Key::Up),
            [b'j', ..] => (1, Key::Down),
            [b'\r' | b'\n' | b' ', ..] => (1, Key::Take),
            [digit @ b'1'..=b'3', ..] => (1, Key::Number(usize::from(digit - b'1'))),
            [0x1b | 3 | 4, ..] => (1, Key::Leave),
            _ => (1, Key::Other),
        };
        typed.drain(..length);
        key
    }

    fn lock_terminal(&self, interrupts: &Interrupts) -> Option<File> {
        let stat = super::env::read_proc("/proc/self/stat").unwrap_or_default();
        let terminal = super::env::field(&stat, 7).unwrap_or("0");
        let path = self.locks.join(format!("prompt-{terminal}.lock"));
        super::fs::create_private_folder(&self.locks).ok()?;
        lock_file(&path, LockWait::new(Duration::from_hours(24), interrupts)).ok()?
    }
}

enum Key {
    Up,
    Down,
    Take,
    Number(usize),
    Leave,
    Other,
}
