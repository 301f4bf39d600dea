//! The text that the scripts of a run wrote to stdout, and the requests that were denied.

use crate::out;
use conversation::limits;
use sys::terminal;

/// The text that went to stdout, and the requests that were denied.
#[derive(Debug)]
pub(super) struct ScriptStdout {
    /// Whether stdout is for the JSON document alone.
    is_held: bool,
    /// The whole text, up to the limit of a script.
    pub(super) all: String,
    /// The requests that were denied, each once.
    pub(super) denied: Vec<String>,
    /// Whether stdout is in the middle of a line.
    is_open: bool,
}

impl ScriptStdout {
    pub(super) fn new(is_held: bool) -> Self {
        Self { is_held, all: String::new(), denied: Vec::new(), is_open: false }
    }

    pub(super) fn write(&mut self, text: &str) {
        if !self.is_held {
            out::print_part(text);
            self.is_open = !text.ends_with('\n') && (self.is_open || !text.is_empty());
        }
        let room = limits::JS_STDOUT.saturating_sub(self.all.len()).min(text.len());
        self.all.push_str(&text[..text.floor_char_boundary(room)]);
    }

    /// Ends an open line of stdout on a terminal before stderr continues there, which would overwrite it.
    pub(super) fn close_line(&mut self) {
        if terminal::stdout_is_terminal() && terminal::stderr_is_terminal() && self.is_open {
            out::print_line("");
            self.is_open = false;
        }
    }

    /// The beginning of the text, for the model.
    pub(super) fn excerpt(&self) -> String {
        self.all[..self.all.floor_char_boundary(4096)].to_owned()
    }

    pub(super) fn add_denied(&mut self, denied: &[String]) {
        for one in denied {
            if !self.denied.contains(one) {
                self.denied.push(one.clone());
            }
        }
    }
}
