//! Why a patch was not made. It says what failed and on what; what was done about it is said elsewhere.

use std::io;
use std::path::Path;

use crate::exit::Signal;
use crate::sys::denied::Denied;
use crate::sys::names::shown;

/// Why it was not done. Nothing was changed but what a message says.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A signal came.
    #[error("interrupted by {}; nothing was changed", .0.name())]
    Interrupted(Signal),
    /// It cannot be done, and why.
    #[error("{0}")]
    Refused(String),
    /// The same about the source, whose path is not said yet. It does not leave [`super::patch`].
    #[error("{0}")]
    OfSource(String),
}

impl Failure {
    pub(super) fn io(what: &str, error: &io::Error) -> Self {
        Self::OfSource(format!("cannot {what}: {error}"))
    }

    /// The same, with the source's path where that is not said.
    pub(super) fn naming(self, index: &Path) -> Self {
        match self {
            Self::OfSource(message) => {
                let index = shown(index);
                Self::Refused(format!("{message}; the index is {index}"))
            }
            named => named,
        }
    }
}

impl From<Denied> for Failure {
    fn from(denied: Denied) -> Self {
        Self::Refused(denied.to_string())
    }
}
