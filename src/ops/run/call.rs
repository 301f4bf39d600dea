//! One call of `nagent` or `nagent-file-edit`: its flags, the settings in force, and which conversation it is about.

use std::path::PathBuf;
use std::time::Duration;

use crate::drive::script_host::ScriptHost;
use crate::ops::setup::flags::{ConversationArgs, Invocation, RunArgs};
use crate::ops::setup::settings::Settings;
use crate::out;
use conversation::context::Section;
use conversation::format::file::Block;
use conversation::problem::Problem;
use sys::conversation_file::ConversationFile;
use sys::env::{self, Env};
use sys::interrupt::{Interrupts, watch_stdout};
use sys::root::Root;
use view::event::RunEvent;

/// The parts that a script in plain language provides to its run.
pub(crate) trait ScriptSetup {
    /// The first context.
    fn sections(&self) -> Vec<Section>;
    /// The output of a script before the run.
    fn results(&self) -> Vec<Block>;
    /// Makes the host that runs the model's scripts.
    fn make_host<'a>(
        &'a self,
        env: &'a Env,
        interrupts: &'a Interrupts,
    ) -> Box<dyn ScriptHost + 'a>;
}

/// The state that every operation of a call works with.
pub struct Call<'a> {
    /// The name of the tool, for lines on stderr.
    pub tool: &'static str,
    pub(crate) args: &'a RunArgs,
    pub(crate) which: &'a ConversationArgs,
    pub(crate) env: Env,
    pub(crate) interrupts: Interrupts,
    pub(crate) settings: Settings,
    pub(crate) name: String,
    /// Whether a conversation started this call, by a tag or by a command.
    pub delegated: bool,
    /// The conversations that this call was started from, the oldest first.
    pub parents: Vec<String>,
    /// Files that the model is shown before the prompt.
    pub reads: Vec<PathBuf>,
    /// The words of the prompt that were typed, without what stdin and flags add.
    pub(crate) typed: String,
    /// Runs the model's scripts, in a run of a script in plain language.
    pub(crate) scripts: Option<&'a dyn ScriptSetup>,
    /// Whether progress may be shown: not with `--quiet`, and not where events inform a parent or a program.
    pub shows_progress: bool,
}

impl<'a> Call<'a> {
    /// Reads the environment and decides the settings; the name is still empty. Writes nothing.
    pub fn new(
        tool: &'static str,
        args: &'a RunArgs,
        which: &'a ConversationArgs,
    ) -> Result<Self, Problem> {
        let interrupts = Interrupts::install()?;
        if args.lines {
            watch_stdout();
        }
        let env = Env::read();
        let settings = Settings::resolve_run(args, &env)?;
        Ok(Self::with_settings(tool, args, which, env, interrupts, settings))
    }

    /// A call with these settings, which are resolved already.
    pub fn with_settings(
        tool: &'static str,
        args: &'a RunArgs,
        which: &'a ConversationArgs,
        env: Env,
        interrupts: Interrupts,
        settings: Settings,
    ) -> Self {
        let parents: Vec<String> = env
            .get(env::PARENTS)
            .map(|names| names.split('/').map(str::to_owned).collect())
            .unwrap_or_default();
        let is_child = which.invocation == Invocation::Delegated;
        let call = Self {
            tool,
            args,
            which,
            reads: args.read.clone(),
            typed: args.prompt.join(" "),
            delegated: is_child || !parents.is_empty(),
            shows_progress: !(settings.config.quiet || is_child || args.lines),
            env,
            interrupts,
            settings,
            name: String::new(),
            parents,
            scripts: None,
        };
        for note in &call.settings.notes {
            call.print_note(note);
        }
        call
    }

    pub(crate) fn root(&self) -> &Root {
        &self.settings.root
    }

    /// Whether nothing but errors goes to stderr.
    pub(crate) fn is_silent(&self) -> bool {
        self.settings.config.quiet && !self.args.lines
    }

    /// Prints a note to stderr, unless `--quiet`.
    pub fn print_note(&self, text: &str) {
        self.print_line(&format!("note: {text}"), text);
    }

    /// Prints a line to stderr, or an event with this text.
    fn print_line(&self, line: &str, text: &str) {
        if self.is_silent() {
            return;
        }
        if self.args.lines {
            out::print_json(&RunEvent::Note { text: text.to_owned() }.to_line(&[]));
        } else {
            out::print_tool_line(self.tool, line);
        }
    }

    /// Maximum time to wait for a conversation that another run is using.
    pub fn lock_timeout(&self) -> Duration {
        Duration::from_secs_f64(self.settings.config.lock_timeout)
    }

    /// Prints that the call waits for a conversation.
    pub fn print_waiting(&self, name: &str, by: &str) {
        let text = format!("waiting for conversation {name}, in use{by}");
        self.print_line(&text, &text);
    }

    /// Locks the conversation of this name and reads it.
    pub(crate) fn open_conversation(&self, name: &str) -> Result<ConversationFile, Problem> {
        let mut waiting = |by: &str| self.print_waiting(name, by);
        let (root, timeout) = (self.root(), self.lock_timeout());
        Ok(ConversationFile::open(root, name, timeout, &self.interrupts, &mut waiting)?)
    }
}
