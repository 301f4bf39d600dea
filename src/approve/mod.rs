//! What a user is asked about before it is done, what needs no question, and what is stopped before any question.
//!
//! `stops` has the list of commands that are hardly ever meant; `shell` reads commands by bash's grammar, so that a command
//! behind `sudo`, in a pipe or in `sh -c` is found, and text in quotes is not taken for one. It catches slips; who means
//! harm finds a way around it, and only a sandbox holds. Pure.

mod shell;
mod stops;

pub use shell::is_allowed;
pub use stops::find_stop;

use serde::{Deserialize, Serialize};

use crate::protocol::Action;

/// What a user is asked about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Approve {
    /// Nothing.
    #[default]
    None,
    /// Commands.
    Shell,
    /// Commands, writes, edits, patches and child conversations.
    Ask,
}

impl Approve {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::None, Self::Shell, Self::Ask];

    /// Reads a name.
    ///
    /// # Errors
    /// It is none; the text lists all.
    pub fn parse(name: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|approve| approve.name() == name)
            .ok_or_else(|| format!("\"{}\" is not one of none, shell, ask", name.escape_debug()))
    }

    /// The name, as a flag has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Shell => "shell",
            Self::Ask => "ask",
        }
    }

    /// Whether an action needs a yes.
    pub fn covers(self, action: &Action) -> bool {
        match action {
            Action::Shell { .. } => self != Self::None,
            Action::Write { .. }
            | Action::Edit { .. }
            | Action::FilePatch { .. }
            | Action::Conversation { .. } => self == Self::Ask,
            _ => false,
        }
    }
}

/// What was decided about an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It is done.
    Allow,
    /// This is done in its place: what the user made of it.
    Replace(Action),
    /// It is not done, for this reason.
    Refuse(String),
    /// The run ends: who follows it with `--lines` answered what was not asked.
    Fail(String),
}

/// An answer of `always`: exactly this text of a tag, in this folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// The tag.
    pub tag: String,
    /// What it said, as [`action_text`] has it.
    pub text: String,
    /// The absolute path of the folder.
    pub folder: String,
    /// When it was given.
    pub at: String,
}

/// The approvals of a user, the content of `approvals.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approvals {
    /// The version of the format, 1.
    pub version: u32,
    /// All of them, the oldest first.
    pub entries: Vec<Approval>,
}

impl Default for Approvals {
    fn default() -> Self {
        Self { version: 1, entries: Vec::new() }
    }
}

impl Approvals {
    /// Whether an action was approved for good in a folder.
    pub fn cover(&self, action: &Action, folder: &str) -> bool {
        let text = action_text(action);
        let tag = action.tag();
        self.entries.iter().any(|one| one.tag == tag && one.folder == folder && one.text == text)
    }
}

/// All that an action says, in one text: two actions have the same one only if they do the same.
pub fn action_text(action: &Action) -> String {
    match action {
        Action::Shell { commands, keep: None, .. } => commands.clone(),
        other => format!("{other:?}"),
    }
}

/// The action with a text in place of its body. `None` for one without a body.
pub fn with_body(action: &Action, body: String) -> Option<Action> {
    Some(match action.clone() {
        Action::Shell { timeout, keep, .. } => Action::Shell { commands: body, timeout, keep },
        Action::Write { path, .. } => Action::Write { path, text: body },
        Action::Edit { path, all, .. } => Action::Edit { path, blocks: body, all },
        Action::Conversation { name, from, file, .. } => {
            Action::Conversation { prompt: body, name, from, file }
        }
        _ => return None,
    })
}

/// The body of an action that has one.
pub fn body(action: &Action) -> Option<&str> {
    match action {
        Action::Shell { commands, .. } => Some(commands),
        Action::Write { text, .. } => Some(text),
        Action::Edit { blocks, .. } => Some(blocks),
        Action::Conversation { prompt, .. } => Some(prompt),
        _ => None,
    }
}
