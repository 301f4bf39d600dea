//! The reason for the failure of an action, as a value: the attribute `reason` of a result with `status="error"`. Code
//! decides by it, and never by the text.

use crate::format::file::Block;

/// A kind of failure. The names are those of the attribute; docs/protocol.md lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The file is outside of the write boundary.
    Boundary,
    /// The file has changed since the model was shown it.
    Changed,
    /// The system does not permit it.
    Denied,
    /// The file or folder does not exist.
    Missing,
    /// The lines of an edit were not found, or were found more than once.
    NoMatch,
    /// The user declined, or nobody was there to answer.
    Declined,
    /// nagent's list of stopped commands has the command.
    Stopped,
    /// A command's output looks as if the sandbox had denied it something.
    Sandbox,
    /// The content exceeds a size limit.
    TooLarge,
    /// The model has not read a file that it would replace.
    Unread,
}

impl Reason {
    const NAMES: [(Self, &str); 10] = [
        (Self::Boundary, "boundary"),
        (Self::Changed, "changed"),
        (Self::Denied, "denied"),
        (Self::Missing, "missing"),
        (Self::NoMatch, "no-match"),
        (Self::Declined, "declined"),
        (Self::Stopped, "stopped"),
        (Self::Sandbox, "sandbox"),
        (Self::TooLarge, "too-large"),
        (Self::Unread, "unread"),
    ];

    /// The name in the attribute.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(reason, _)| *reason == self).map_or("", |(_, name)| name)
    }

    /// Finds the reason with this name; `None` for a name from another version.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(_, other)| *other == name).map(|(reason, _)| *reason)
    }
}

/// A failure of an action, for its result. The first line, which people see, says what failed; advice for the model
/// follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Its kind, if code or a program may decide by it.
    pub reason: Option<Reason>,
    /// The body of the result.
    pub text: String,
}

impl Failure {
    /// A failure of this kind.
    pub fn new(reason: Reason, text: impl Into<String>) -> Self {
        Self { reason: Some(reason), text: text.into() }
    }

    /// The failure of an action that was not run.
    #[must_use]
    pub fn of_unrun(self) -> Self {
        Self { text: format!("not run: {}", self.text), ..self }
    }

    /// Adds the failure to the block of its result, which has the other facts.
    pub fn add_to(self, block: Block) -> Block {
        let reason = self.reason.map(Reason::name);
        block.with("status", "error").with_some("reason", reason).body(self.text)
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self { reason: None, text }
    }
}

impl From<&str> for Failure {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        format!("{error:#}").into()
    }
}
