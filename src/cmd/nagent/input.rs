//! Where the prompt comes from: words, stdin, or both. Stdin is read only when asked for, and never waited for
//! otherwise; input that stands ready and is ignored is told.

use super::Args;
use crate::exit::Signal;
use crate::out;
use crate::problem::Problem;
use crate::sys::interrupt::Interrupts;
use crate::sys::{stdin, terminal};

/// What was found.
pub(crate) enum Prompt {
    /// No prompt.
    None,
    /// A prompt that is not empty.
    Text(Vec<u8>),
    /// A signal came while stdin was read.
    Interrupted(Signal),
}

/// Settles the prompt. `has_command`: the call does something without one.
pub(crate) fn prompt(
    args: &Args,
    has_command: bool,
    interrupts: &Interrupts,
) -> Result<Prompt, Problem> {
    let (words, dash) = match args.prompt.split_last() {
        Some((last, words)) if last == "-" => (words, true),
        _ => (args.prompt.as_slice(), false),
    };
    let mut text = words.join(" ").into_bytes();
    let may_read =
        words.is_empty() && args.read.is_empty() && !has_command && !terminal::stdin_is_terminal();
    if dash || may_read {
        match stdin::read_to_end(interrupts)? {
            Err(signal) => return Ok(Prompt::Interrupted(signal)),
            Ok(input) => {
                if !text.is_empty() && !input.is_empty() {
                    text.push(b'\n');
                }
                text.extend(input);
            }
        }
    }
    if text.iter().all(u8::is_ascii_whitespace) { Ok(Prompt::None) } else { Ok(Prompt::Text(text)) }
}

/// Tells of input that stands ready and was not read. Asked at the end of a run: at its start a pipe's writer may not
/// have come so far.
pub(crate) fn tell_of_ignored(args: &Args) {
    let was_read = args.prompt.last().is_some_and(|last| last == "-")
        || (args.prompt.is_empty() && args.read.is_empty());
    if !was_read && !terminal::stdin_is_terminal() && terminal::stdin_has_input() {
        out::line(
            "nagent: note: stdin was not read; add - as the last word to append it to the prompt",
        );
    }
}
