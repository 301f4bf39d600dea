//! Decides which actions need the user's approval, and which commands are stopped before anyone is asked.
//!
//! `answer` parses the user's answer. `stops` lists commands that are hardly ever intended; `shell` parses commands by
//! bash's grammar, so that a command behind `sudo`, in a pipe or in `sh -c` is found, and quoted text is not mistaken
//! for one. This catches accidents; someone who means harm finds a way around it, and only a sandbox stops them. Pure.

mod answer;
mod shell;
mod stops;

pub use answer::Answer;
pub use shell::{describe_mcp_call, first_two, is_allowed};
pub use stops::find_stop;

use crate::reason::Failure;
use serde::{Deserialize, Serialize};

use crate::protocol::{Access, Action, Change};

/// The kinds of actions that need the user's approval.
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

    /// Parses a name.
    ///
    /// # Errors
    /// The name is unknown; the text lists all names.
    pub fn parse(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|approve| approve.name() == name).ok_or_else(|| {
            format!("unknown value \"{}\"; use none, shell or ask", name.escape_debug())
        })
    }

    /// The name, as the flag takes it.
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

/// The decision about an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The action runs.
    Allow,
    /// The action runs, and from now on without a question, in this folder; with `first_two`, in the sandbox, all plain
    /// commands that begin with its first two words.
    Always {
        /// Whether other commands are covered, too.
        first_two: bool,
    },
    /// This action, which the user edited, runs instead.
    Replace(Action),
    /// The action does not run, for this reason.
    Refuse(Failure),
    /// The run ends: the program that follows it with `--lines` answered a question that was not asked.
    Fail(String),
}

/// An answer of `always`: exactly this text of a tag, in this folder, or what its pattern covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandingApproval {
    /// The tag.
    pub tag: String,
    /// Its attributes and body, complete; or a pattern of commands.
    pub text: String,
    /// Whether the text is a pattern. It covers commands in the sandbox only: their options may write.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_pattern: bool,
    /// The absolute path of the folder.
    pub folder: String,
    /// The time of the answer.
    pub at: String,
}

impl StandingApproval {
    /// The approval of an action in a folder, or of all that begin with its `first_two` words.
    pub fn new(action: &Action, folder: &str, at: String, first_two: bool) -> Self {
        let text = action_text(action);
        let pattern = shell::first_two(&text).filter(|_| first_two).map(|words| words + " *");
        let (tag, folder) = (action.tag_name().to_owned(), folder.to_owned());
        Self { tag, is_pattern: pattern.is_some(), text: pattern.unwrap_or(text), folder, at }
    }

    /// Whether it covers this action in this folder, where commands run in a sandbox or not.
    pub fn covers(&self, action: &Action, folder: &str, has_sandbox: bool) -> bool {
        let is_covered = match action {
            Action::Shell { commands, keep: None, outside: None, .. } if self.is_pattern => {
                has_sandbox && is_allowed(std::slice::from_ref(&self.text), commands)
            }
            _ => !self.is_pattern && self.text == action_text(action),
        };
        is_covered && self.tag == action.tag_name() && self.folder == folder
    }
}

/// All attributes and the body of an action as one text: two actions have the same text only if they do the same.
fn action_text(action: &Action) -> String {
    match action {
        Action::Shell { commands, keep: None, outside: None, .. } => commands.clone(),
        other => {
            let (mut attributes, body) = other.attributes_and_body();
            // Words about it, and different at each time.
            attributes.remove("reason");
            serde_json::json!((attributes, body)).to_string()
        }
    }
}

/// The body of an action, so that the user can edit it. `None` for an action without a body.
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
