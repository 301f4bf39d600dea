//! Keys that are typed during a run: their line is shown below the one that turns, and Enter sends it to the run, as
//! `nagent-message` does. A command waits until the run has ended.

use std::collections::VecDeque;

use super::commands::{Input, parse_input};
use sys::messages;
use sys::root::Root;
use sys::tty::Key;

/// The lines that were typed before the prompt was there.
#[derive(Debug, Default)]
pub(super) struct TypedAhead {
    /// The line that is not complete: the next prompt begins with it.
    pub(super) line: String,
    /// Lines that wait for the end of the run.
    pub(super) waiting: VecDeque<String>,
    /// Lines that were sent to the run, for the history.
    pub(super) sent: Vec<String>,
    /// Notes that are not shown yet.
    pub(super) notes: VecDeque<String>,
}

impl TypedAhead {
    /// Adds keys to the line, and sends it to the run of the conversation of this name when it is complete. Several lines
    /// at once are a paste, and stay together.
    pub(super) fn take_keys(&mut self, keys: &[Key], root: &Root, name: &str) {
        let last = keys.len().checked_sub(1);
        for (at, key) in keys.iter().enumerate() {
            match key {
                Key::Char(c) => self.line.push(*c),
                Key::Enter if Some(at) == last => self.enter_line(root, name),
                Key::Enter => self.line.push('\n'),
                Key::Backspace => drop(self.line.pop()),
                Key::Clear => self.line.clear(),
                Key::Up | Key::Down | Key::Escape => {}
            }
        }
    }

    fn enter_line(&mut self, root: &Root, name: &str) {
        let line = std::mem::take(&mut self.line);
        let sent = match parse_input(&line) {
            Input::Empty => return,
            // What follows a command stays behind it.
            Input::Prompt(text) if self.waiting.is_empty() => {
                messages::send(root, name, text.as_bytes()).map_err(|error| format!("{error:#}"))
            }
            _ => Err(line.clone()),
        };
        self.notes.push_back(match &sent {
            Ok(_) => format!("queued for the model: {line}"),
            Err(why) => format!("queued for the end of the run: {why}"),
        });
        match sent {
            Ok(_) => self.sent.push(line),
            Err(_) => self.waiting.push_back(line),
        }
    }
}
