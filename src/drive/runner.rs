//! The parts of a run; each has a module of its own.

use std::path::PathBuf;

use super::approval::ApprovalRules;
use super::asker::Asker;
use super::children::Children;
use super::command_changes::CommandChanges;
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

/// A run: its conversation, its model, and the parts that perform actions.
pub struct Runner<'a> {
    /// The conversation's file, whose lock is held for the run.
    pub conversation: ConversationFile,
    /// The model.
    pub asker: Asker,
    /// Makes the conversation shorter when it fills the window.
    pub compactor: Compactor<'a>,
    /// Checks and performs writes, and records them for undo.
    pub files: FileGuard,
    /// Runs commands, and owns those that run in the background.
    pub commands: Commands,
    /// Finds out what they change, for undo.
    pub command_changes: CommandChanges,
    /// The schema that an answer must match.
    pub schema: Option<Schema>,
    /// Runs child conversations.
    pub children: Children,
    /// Decides whether actions run.
    pub approval: ApprovalRules<'a>,
    /// The user's replacement for the next action.
    pub replaced: Option<Action>,
    /// Runs the model's scripts, in a run of a script in plain language.
    pub scripts: Option<Box<dyn ScriptHost + 'a>>,
    /// The context that all actions share.
    pub context: RunContext<'a>,
    /// Messages of the user's to this run.
    pub inbox: Inbox,
    /// The content of the run's note.
    pub activity: Activity,
    /// The time since the run began.
    pub watch: Stopwatch,
    /// Called for each event.
    pub on_progress: &'a mut dyn FnMut(ProgressEvent<'_>),
}

impl Runner<'_> {
    /// Ends what the run has started, and returns the conversation's file, still locked.
    pub fn end(mut self) -> ConversationFile {
        for note in self.asker.client.remove_uploads(self.context.interrupts) {
            self.note(&note);
        }
        self.asker.client.leave();
        self.conversation
    }

    /// Shows a note to the user.
    pub fn note(&mut self, text: &str) {
        (self.on_progress)(ProgressEvent::Note(text));
    }

    /// The folder of this conversation's splits.
    pub fn splits_folder(&self) -> PathBuf {
        self.context.root.splits_folder(self.conversation.name())
    }
}
