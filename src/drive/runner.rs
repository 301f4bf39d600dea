//! The parts of a run; each has a module of its own.

use std::collections::VecDeque;
use std::path::PathBuf;

use super::approval::ApprovalRules;
use super::asker::Asker;
use super::children::Children;
use super::commands::Commands;
use super::compaction::Compactor;
use super::file_guard::FileGuard;
use super::inbox::Inbox;
use super::progress_event::ProgressEvent;
use super::run_context::RunContext;
use super::script_host::ScriptHost;
use conversation::protocol::Action;
use models::schema::Schema;
use sys::clock::Stopwatch;
use sys::conversation_file::ConversationFile;
use sys::run_note::Activity;

/// A run: its conversation, its model, and what carries out actions.
pub struct Runner<'a> {
    /// The conversation's file, whose lock is held for the run.
    pub conversation: ConversationFile,
    /// The model.
    pub asker: Asker,
    /// The models that go on when this one fails, by their profiles.
    pub fallbacks: VecDeque<(String, Asker)>,
    /// Makes the conversation shorter when it fills the window.
    pub compactor: Compactor<'a>,
    /// Checks and performs writes, and records them for undo.
    pub files: FileGuard,
    /// Runs commands, and owns those that run in the background.
    pub commands: Commands,
    /// What an answer must be valid against.
    pub schema: Option<Schema>,
    /// Runs child conversations.
    pub children: Children,
    /// Decides whether actions are done.
    pub approval: ApprovalRules<'a>,
    /// What the user has made of the action that comes next.
    pub replaced: Option<Action>,
    /// Runs the model's scripts, in a run of a script in plain language.
    pub scripts: Option<Box<dyn ScriptHost + 'a>>,
    /// What all actions share.
    pub context: RunContext<'a>,
    /// Messages of the user's to this run.
    pub inbox: Inbox,
    /// What the run's note says.
    pub activity: Activity,
    /// The time since the run began.
    pub watch: Stopwatch,
    /// Called with what happens.
    pub on_progress: &'a mut dyn FnMut(ProgressEvent<'_>),
}

impl Runner<'_> {
    /// Ends what the run has started, and returns the conversation's file, still locked.
    pub fn end(self) -> ConversationFile {
        self.conversation
    }

    /// The folder of this conversation's splits.
    pub fn splits_folder(&self) -> PathBuf {
        self.context.root.splits_folder(self.conversation.name())
    }
}
