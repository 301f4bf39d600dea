//! Why an action failed, as a value: the attribute `reason` of a result with `status="error"`. Code decides by it, and
//! never by the text.

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
    /// There is no such file or folder.
    Missing,
    /// The place of an edit was not found, or is not the only one.
    NoMatch,
    /// The user said no, or there was nobody to ask.
    Declined,
    /// The command is one that nagent stops.
    Stopped,
    /// There are more bytes than are handled as a whole.
    TooLarge,
    /// The model has read nothing of a file that it was to replace.
    Unread,
}

impl Reason {
    const NAMES: [(Self, &str); 9] = [
        (Self::Boundary, "boundary"),
        (Self::Changed, "changed"),
        (Self::Denied, "denied"),
        (Self::Missing, "missing"),
        (Self::NoMatch, "no-match"),
        (Self::Declined, "declined"),
        (Self::Stopped, "stopped"),
        (Self::TooLarge, "too-large"),
        (Self::Unread, "unread"),
    ];

    /// The name in the attribute.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(reason, _)| *reason == self).map_or("", |(_, name)| name)
    }

    /// The reason of an attribute's value; `None` for one of another version.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(_, other)| *other == name).map(|(reason, _)| *reason)
    }
}

/// A failure of an action, for its result. What failed is in the first line, which people see; advice for the model follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Its kind, where code or a program may decide by it.
    pub reason: Option<Reason>,
    /// The body of the result.
    pub text: String,
}

impl Failure {
    /// A failure of a kind.
    pub fn new(reason: Reason, text: impl Into<String>) -> Self {
        Self { reason: Some(reason), text: text.into() }
    }

    /// The failure of an action that was not run.
    #[must_use]
    pub fn of_unrun(self) -> Self {
        Self { text: format!("not run: {}", self.text), ..self }
    }

    /// The result of the action that failed, from its block with what else is known.
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
