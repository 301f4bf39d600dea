//! What the scripts of a run wrote to stdout, and what they were refused.

use crate::limits;
use crate::out;

/// What went to stdout, and what was refused.
#[derive(Debug)]
pub(super) struct Written {
    /// Whether stdout is for the JSON document alone.
    is_held: bool,
    /// All that was written, up to the limit of a script.
    pub(super) all: String,
    /// What was refused, each once.
    pub(super) denied: Vec<String>,
}

impl Written {
    pub(super) fn new(is_held: bool) -> Self {
        Self { is_held, all: String::new(), denied: Vec::new() }
    }

    pub(super) fn write(&mut self, text: &str) {
        if !self.is_held {
            out::piece(text);
        }
        let room = limits::JS_STDOUT.saturating_sub(self.all.len()).min(text.len());
        self.all.push_str(&text[..text.floor_char_boundary(room)]);
    }

    /// The beginning of it, for the model.
    pub(super) fn head(&self) -> String {
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
