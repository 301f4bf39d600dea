//! Shows a run on a terminal on stderr: a shape and a colour for each of memory.js, the agent and scripts.

use crate::ops::screen::spinner::Spinner;
use crate::out;
use conversation::format::harmless::escape_text;
use sandbox::script::thought::context::Resume;
use sys::terminal;
use view::style::{AGENT, ASKED, DIM, FAILED, MEMORY, PLAIN, Span, Style};

/// The lines of a run on stderr.
pub(super) struct Screen {
    /// Whether stderr is a terminal, and progress is wanted.
    is_shown: bool,
    is_quiet: bool,
    /// Shown while a script runs, and does not write or ask.
    pub(super) spinner: Spinner,
}

impl Screen {
    pub(super) fn new(is_quiet: bool) -> Self {
        let is_shown = !is_quiet && terminal::stderr_is_terminal();
        Self { is_shown, is_quiet, spinner: Spinner::new(is_shown) }
    }

    fn print_row(&self, text: String, style: Style) {
        if self.is_shown {
            out::print_spans(&[Span::new(text, style)]);
        }
    }

    pub(super) fn begin_memory(&self, name: &str) {
        self.print_row(format!("■ {name} memory.js"), MEMORY);
    }

    /// Shows why memory.js did not do the task. Without a terminal a failure is a line, too: a model is paid now.
    pub(super) fn show_resume(&self, name: &str, resume: &Resume) {
        let first_line = |text: &str| text.lines().next().unwrap_or_default().to_owned();
        let (text, style) = match resume {
            Resume::Asked(None) => ("resumed".to_owned(), ASKED),
            Resume::Asked(Some(context)) => (format!("resumed: {}", first_line(context)), ASKED),
            Resume::Changed => ("the script has changed".to_owned(), ASKED),
            Resume::Threw { message, .. } | Resume::Failed(message) => {
                (format!("error: {}", first_line(message)), FAILED)
            }
            Resume::Exited(code) => (format!("error: process.exit({code})"), FAILED),
            Resume::First | Resume::Unused => return,
        };
        if !self.is_shown && !self.is_quiet && !matches!(resume, Resume::Asked(_)) {
            let line = format!("{name}: a model is asked, not memory.js: {}", escape_text(&text));
            out::print_tool_line("nagent-think", &line);
        }
        self.print_row(format!("  ↳ {text}"), style);
    }

    pub(super) fn begin_agent(&self, name: &str) {
        self.print_row(String::new(), PLAIN);
        self.print_row(format!("● {name} agent"), AGENT);
    }

    /// Prints a line of a script's console, even where stderr is not a terminal.
    pub(super) fn show_console(&self, text: &str) {
        if self.is_shown {
            let row = || self.print_row(format!("    {}", escape_text(text)), DIM);
            self.spinner.print_above(row);
        } else {
            out::print_line(text);
        }
    }
}
