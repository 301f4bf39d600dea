//! Lines for a terminal as pieces of text with styles, and the one table of the styles.

/// The numbers of an SGR sequence; none for plain text.
pub type Style = &'static [u8];

/// No style.
pub const PLAIN: Style = &[];
/// A head, and the names in a diff.
pub const BOLD: Style = &[1];
/// Secondary text, such as the output of a command.
pub const DIM: Style = &[2];
/// A line that a change removed.
pub const RED: Style = &[31];
/// A line that a change added.
pub const GREEN: Style = &[32];
/// The place of a change.
pub const CYAN: Style = &[36];
/// A script's memory.js.
pub const MEMORY: Style = &[38, 5, 82];
/// The agent of a script.
pub const AGENT: Style = &[38, 5, 213];
/// A script of the agent.
pub const SCRIPT: Style = &[38, 5, 39];
/// A request of memory.js.
pub const ASKED: Style = &[38, 5, 214];
/// An error in memory.js.
pub const FAILED: Style = &[38, 5, 196];

/// The styles that the texts of a look name.
pub const NAMED: [(&str, Style); 7] = [
    ("bold", BOLD),
    ("dim", DIM),
    ("red", RED),
    ("green", GREEN),
    ("yellow", &[33]),
    ("cyan", CYAN),
    ("off", PLAIN),
];

/// A piece of a line with its style. A row of one piece may be wider than the terminal, where it is a line of a diff.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Span {
    /// Its text.
    pub text: String,
    /// The numbers of its styles.
    pub codes: Vec<u8>,
}

impl Span {
    /// A piece in one style.
    pub fn new(text: impl Into<String>, style: Style) -> Self {
        Self { text: text.into(), codes: style.to_vec() }
    }
}
