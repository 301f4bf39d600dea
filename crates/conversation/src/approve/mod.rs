//! What a user is asked about before it is done, what needs no question, and what is stopped before any question.
//!
//! `answer` judges what the user types. `stops` has the list of commands that are hardly ever meant; `shell` reads commands by bash's grammar, so that a command
//! behind `sudo`, in a pipe or in `sh -c` is found, and text in quotes is not taken for one. It catches slips; who means
//! harm finds a way around it, and only a sandbox holds. Pure.

mod answer;
mod shell;
mod stops;

pub use answer::Answer;
pub use shell::is_allowed;
pub use stops::find_stop;

use crate::reason::Failure;
use serde::{Deserialize, Serialize};

use crate::protocol::{Access, Action, Change};

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
        Self::ALL.into_iter().find(|approve| approve.name() == name).ok_or_else(|| {
            format!("\"{}\" is none of them; give none, shell or ask", name.escape_debug())
        })
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
        match action.access() {
            Access::Run => self != Self::None,
            Access::Write | Access::Start => self == Self::Ask,
            Access::None | Access::Read => false,
        }
    }
}

/// What was decided about an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It is done.
    Allow,
    /// It is done, and from now on without a question, in this folder.
    Always,
    /// This is done in its place: what the user made of it.
    Replace(Action),
    /// It is not done, for this reason.
    Refuse(Failure),
    /// The run ends: who follows it with `--lines` answered what was not asked.
    Fail(String),
}

/// An answer of `always`: exactly this text of a tag, in this folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandingApproval {
    /// The tag.
    pub tag: String,
    /// What it said, whole.
    pub text: String,
    /// The absolute path of the folder.
    pub folder: String,
    /// When it was given.
    pub at: String,
}

impl StandingApproval {
    /// The approval of an action in a folder.
    pub fn new(action: &Action, folder: &str, at: String) -> Self {
        let (tag, text) = (action.tag_name().to_owned(), action_text(action));
        Self { tag, text, folder: folder.to_owned(), at }
    }

    /// Whether it is for this action in this folder.
    pub fn covers(&self, action: &Action, folder: &str) -> bool {
        self.tag == action.tag_name() && self.folder == folder && self.text == action_text(action)
    }
}

/// All that an action says, in one text: two actions have the same one only if they do the same.
fn action_text(action: &Action) -> String {
    match action {
        Action::Shell { commands, keep: None, .. } => commands.clone(),
        other => format!("{other:?}"),
    }
}

/// The body of an action that a user may be asked about, to be replaced. `None` for one without a body.
pub fn body_mut(action: &mut Action) -> Option<&mut String> {
    match action {
        Action::Shell { commands: body, .. }
        | Action::Change(Change::Write { text: body, .. } | Change::Edit { blocks: body, .. })
        | Action::Conversation { prompt: body, .. } => Some(body),
        Action::Change(Change::FilePatch { .. })
        | Action::Read { .. }
        | Action::FileRead { .. }
        | Action::List { .. }
        | Action::Glob { .. }
        | Action::Grep { .. }
        | Action::Next { .. }
        | Action::Stdout { .. }
        | Action::Script { .. }
        | Action::Wrong { .. } => None,
    }
}
