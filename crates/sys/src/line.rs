//! Reads one or more lines that a person types at a prompt: with an editor, history and completion where the terminal
//! supports them, else as plain lines.
//!
//! The editor is rustyline. It leaves the terminal in its own modes while it reads, so signals are watched by
//! [`super::foreground`].

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use anyhow::{Context as _, Result, ensure};
use rustyline::completion::Completer;
use rustyline::config::{Behavior, CompletionType};
use rustyline::error::ReadlineError;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{
    Cmd, ColorMode, ConditionalEventHandler, Config, Context, Editor, Event, EventContext,
    EventHandler, Helper, KeyCode, KeyEvent, Modifiers, Movement, RepeatCount,
};

use super::interrupt::Interrupts;
use super::lock::lock_mutex;
use super::{fs, stdin, terminal};
use conversation::format::columns::width;
use conversation::format::harmless::is_hidden;
use conversation::limits;

/// The result of reading at a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Typed {
    /// One or more lines.
    Text(String),
    /// Ctrl-C, on an empty line.
    Interrupt,
    /// Ctrl-X Ctrl-E: this text is to be edited in the user's editor.
    ToEdit(String),
    /// Ctrl-D on an empty line, or the end of the input.
    End,
}

/// Completes the text before the cursor: where the word begins, and the possible whole words.
pub type Complete = Box<dyn Fn(&str) -> (usize, Vec<String>)>;

/// The editor of a terminal.
pub struct LineEditor {
    editor: Editor<Assistant, FileHistory>,
    history: Option<PathBuf>,
    /// The text for which Ctrl-X Ctrl-E was pressed.
    to_edit: Arc<Mutex<Option<String>>>,
}

impl LineEditor {
    /// An editor that completes words and has no history yet.
    ///
    /// # Errors
    /// The terminal could not be opened.
    pub fn new(complete: Complete) -> Result<Self> {
        let config = Config::builder()
            // The prompt goes to the terminal, also where stdout is redirected.
            .behavior(Behavior::PreferTerm)
            .completion_type(CompletionType::List)
            .history_ignore_space(true)
            .max_history_size(limits::PROMPTS)?
            // Without colours it would not ask how to show a hidden character.
            .color_mode(ColorMode::Enabled)
            .build();
        let mut editor = Editor::with_config(config).context("cannot use the terminal")?;
        editor.set_helper(Some(Assistant { complete }));
        editor.bind_sequence(KeyEvent(KeyCode::Enter, Modifiers::ALT), Cmd::Newline);
        editor.bind_sequence(KeyEvent::ctrl('C'), EventHandler::Conditional(Box::new(DropLine)));
        // A Ctrl-D that was typed during a run arrives as a zero byte.
        editor.bind_sequence(KeyEvent::ctrl('@'), Cmd::Noop);
        let to_edit = Arc::default();
        let keys = Event::KeySeq(vec![KeyEvent::ctrl('X'), KeyEvent::ctrl('E')]);
        let handler = EventHandler::Conditional(Box::new(EditOutside(Arc::clone(&to_edit))));
        editor.bind_sequence(keys, handler);
        Ok(Self { editor, history: None, to_edit })
    }

    /// Takes the history from this file, and adds to it from now on.
    ///
    /// # Errors
    /// The file cannot be used. It is not changed.
    pub fn use_history(&mut self, path: PathBuf) -> Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_private_folder(folder)?;
        }
        let (bytes, shown, most) = (fs::file_size(&path), path.display(), limits::PROMPT_HISTORY);
        ensure!(bytes.is_some() || !fs::is_there(&path)?, "{shown} is not a file");
        ensure!(bytes.is_none_or(|bytes| bytes <= most), "{shown} has over {most} bytes");
        if bytes.is_some() {
            self.editor.load_history(&path).with_context(|| format!("cannot read {shown}"))?;
        }
        self.history = Some(path);
        Ok(())
    }

    /// Reads text after a prompt, which is displayed as `styled`. It begins with the text `before`.
    ///
    /// # Errors
    /// The terminal failed.
    pub fn read(&mut self, prompt: &str, styled: &str, before: &str) -> Result<Typed> {
        match self.editor.readline_with_initial(&(prompt, styled), (before, "")) {
            Ok(text) => Ok(Typed::Text(text)),
            Err(ReadlineError::Eof) => Ok(Typed::End),
            Err(ReadlineError::Interrupted) => {
                let text = lock_mutex(&self.to_edit).take();
                Ok(text.map_or(Typed::Interrupt, Typed::ToEdit))
            }
            // The terminal is gone.
            Err(ReadlineError::Io(_) | ReadlineError::Errno(_))
                if !super::terminal::stdin_is_terminal() =>
            {
                Ok(Typed::End)
            }
            Err(error) => Err(error).context("cannot read from the terminal"),
        }
    }

    /// Adds an entry to the history.
    ///
    /// # Errors
    /// It could not be written; from now on nothing is added.
    pub fn remember(&mut self, entry: &str) -> Result<()> {
        if entry.len() > limits::PROMPT_ENTRY || !self.editor.add_history_entry(entry)? {
            return Ok(());
        }
        let Some(path) = self.history.clone() else { return Ok(()) };
        self.editor.append_history(&path).map_err(|error| {
            self.history = None;
            anyhow::anyhow!("cannot write {}: {error}", path.display())
        })
    }
}

/// Ctrl-C on a line that is not empty drops it.
struct DropLine;

impl ConditionalEventHandler for DropLine {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext) -> Option<Cmd> {
        (!context.line().is_empty()).then_some(Cmd::Kill(Movement::WholeBuffer))
    }
}

/// Ctrl-X Ctrl-E ends the line, and leaves its text for the user's editor.
struct EditOutside(Arc<Mutex<Option<String>>>);

impl ConditionalEventHandler for EditOutside {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext) -> Option<Cmd> {
        *lock_mutex(&self.0) = Some(context.line().to_owned());
        Some(Cmd::Interrupt)
    }
}

/// Completes words, and shows hidden characters.
struct Assistant {
    complete: Complete,
}

impl Helper for Assistant {}
impl Validator for Assistant {}
impl Hinter for Assistant {
    type Hint = String;
}

impl Completer for Assistant {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let (start, words) = (self.complete)(&line[..pos]);
        Ok((start, words.into_iter().filter(|word| !word.chars().any(is_hidden)).collect()))
    }
}

impl Highlighter for Assistant {
    /// Replaces a hidden character, which could control the terminal, by a visible one.
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        if !line.contains(is_hidden_char) {
            return Cow::Borrowed(line);
        }
        line.chars().map(|c| if is_hidden_char(c) { '\u{fffd}' } else { c }).collect()
    }

    /// Whether all of the line is drawn again. After rows that are typed to their ends rustyline begins others by line feeds,
    /// and a window that becomes narrower breaks each of them in two, of which rustyline does not know; rows of a line that
    /// was drawn as a whole it joins.
    fn highlight_char(&self, line: &str, _: usize, kind: CmdKind) -> bool {
        let is_typed = matches!(kind, CmdKind::Other);
        line.contains(is_hidden_char) || is_typed && 2 * width(line) > terminal::width()
    }
}

fn is_hidden_char(c: char) -> bool {
    // A tab, and what joins emoji and letters.
    !matches!(c, '\n' | '\t' | '\u{200c}' | '\u{200d}') && is_hidden(c)
}

/// Whether a text ends in a backslash that is not itself escaped.
fn is_continued(text: &str) -> bool {
    let backslashes = text.len() - text.trim_end_matches('\\').len();
    backslashes % 2 == 1
}

/// Reads lines of stdin where there is no terminal, or one without an editor.
#[derive(Debug, Default)]
pub struct PlainLines {
    read: Vec<u8>,
    is_over: bool,
}

impl PlainLines {
    /// Reads the next line; those that end in a backslash are joined with the next.
    ///
    /// # Errors
    /// Stdin cannot be read, or a line is too long.
    pub fn read(&mut self, interrupts: &Interrupts) -> Result<Typed> {
        let mut text = String::new();
        loop {
            while !self.is_over && !self.read.contains(&b'\n') {
                let Ok(bytes) = stdin::read_line(interrupts)? else { return Ok(Typed::Interrupt) };
                self.is_over = !bytes.contains(&b'\n');
                self.read.extend(bytes);
            }
            if self.read.is_empty() {
                return Ok(if text.is_empty() { Typed::End } else { Typed::Text(text) });
            }
            let end = self.read.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
            let line: Vec<u8> = self.read.drain(..end.unwrap_or(self.read.len())).collect();
            text.push_str(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']));
            if !is_continued(&text) {
                return Ok(Typed::Text(text));
            }
            text.pop();
            text.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_backslash_that_is_escaped_continues_nothing() {
        use super::is_continued;
        assert!(is_continued("a\\") && !is_continued("a\\\\") && !is_continued("a"));
    }
}
