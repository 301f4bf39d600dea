//! The one error that ends a tool: an exit code, and the message for its user. Functions whose error is only reported,
//! never examined, return it; `?` converts what [`anyhow`] and the system say.

use std::io;

use crate::exit::{Exit, Signal};
use crate::model::Usage;

/// The kinds of problems that callers treat differently, beyond their exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProblemKind {
    /// No credential is set for the provider.
    NoCredential,
    /// Any other.
    Other,
}

/// The reason why a tool ends without having done its work. It is shown as `{message}; {hint}`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}{hint}", if hint.is_empty() { "" } else { "; " })]
pub struct Problem {
    /// The exit code.
    pub exit: Exit,
    /// Its kind.
    pub kind: ProblemKind,
    /// The thing that failed, and why.
    pub message: String,
    /// The next step for the user, if the message does not name it.
    pub hint: String,
    /// The tokens that were billed for a reply that was refused.
    pub usage: Option<Usage>,
}

impl Problem {
    /// Ends the tool with any exit code.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        let (kind, hint, usage) = (ProblemKind::Other, String::new(), None);
        Self { exit, kind, message: message.into(), hint, usage }
    }

    /// Wrong usage, wrong configuration, no credential: exit code 2.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// The tool failed: exit code 1.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(Exit::Failed, message)
    }

    /// Counts the tokens of earlier replies of the same work.
    #[must_use]
    pub fn after(mut self, earlier: &Usage) -> Self {
        let mut usage = *earlier;
        usage.add(&self.usage.unwrap_or_default());
        self.usage = Some(usage).filter(|usage| *usage != Usage::default());
        self
    }

    /// A signal ended the work.
    pub fn interrupted(signal: Signal) -> Self {
        Self::new(Exit::Signal(signal), format!("interrupted by {}", signal.name()))
    }
}

impl From<anyhow::Error> for Problem {
    /// Keeps the exit code of a `Problem` that was passed on as an [`anyhow::Error`].
    fn from(error: anyhow::Error) -> Self {
        let message = format!("{error:#}");
        let exit = error.downcast_ref::<Self>().map_or(Exit::Failed, |problem| problem.exit);
        Self::new(exit, message)
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Self::failed(error.to_string())
    }
}
