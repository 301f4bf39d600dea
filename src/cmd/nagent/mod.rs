//! `nagent`: the loop over one conversation, and the upkeep of conversations.
//!
//! Here are the flags and the order in which they are acted on. What a flag does is in the files beside this one.

pub(crate) mod changed;
mod children;
mod digest;
pub(crate) mod file_edit;
mod file_memory;
pub(crate) mod input;
mod lists;
mod progress;
mod rework;
mod sandbox;
pub(crate) mod start;
mod status;
mod upkeep;

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use crate::cli::Tool;
use crate::cmd::limit_args::LimitArgs;
use crate::cmd::model_args::{ModelArgs, seconds};
use crate::cmd::sandbox_args::SandboxArgs;
use crate::cmd::settings::Settings;
use crate::drive::children::DEPTH;
use crate::exit::Exit;
use crate::out::{self, Report};
use crate::problem::Problem;
use crate::protocol;
use crate::sys::env::{self, Env};
use crate::sys::interrupt::Interrupts;
use crate::sys::root;

/// What a newcomer needs, below the flags.
const AFTER_HELP: &str = "\
Examples:
  nagent \"What does this project do?\"
  git diff | nagent \"Review this change\" -
  nagent --check 'make test' \"Mend the failing test\"

The model is that of --provider, of the config, of the first credential set
(OPENAI_API_KEY, ANTHROPIC_API_KEY, GOOGLE_API_KEY or GEMINI_API_KEY, ...), else
of Ollama. Commands run with your own permissions.

Exit codes: 0 done, 1 failed, 2 wrong usage or no credential, 3 provider failed,
4 malformed replies, 5 limit reached, 6 check never passed, 128 + N signal N";

/// The error for a call that asks for nothing.
pub(crate) const NO_PROMPT: &str =
    "there is no prompt: nagent \"task\", or the task on stdin, or --read PATH (--help shows all)";

/// Let a language model work in this folder; the conversation is a text file of yours
///
/// The prompt is appended to the conversation file and the file is sent to a model. What the reply asks for is done
/// (reading, commands, edits, child conversations) and its results are appended; then the model is asked again, until
/// it answers. The answer goes to stdout, all else to stderr.
///
/// Commands run with your own permissions: the write boundary binds the model's tags, not its shell.
#[derive(Debug, Clone, Parser)]
#[command(name = "nagent", version, max_term_width = 100, after_help = AFTER_HELP)]
#[expect(clippy::struct_excessive_bools, reason = "flags are what they are")]
pub struct Args {
    /// The task; a last word - adds what stands on stdin; without any word stdin is the task
    #[arg(value_name = "PROMPT")]
    pub prompt: Vec<String>,
    /// Append this file to the conversation before the prompt (can be repeated)
    #[arg(long, value_name = "PATH")]
    pub read: Vec<String>,
    /// Accept an answer only when this command exits 0, five tries at most
    #[arg(long, value_name = "CMD")]
    pub check: Option<String>,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
    /// Show no progress and no status line on a terminal
    #[arg(long, short)]
    pub quiet: bool,
    /// Print, byte for byte, what would be sent, and send nothing
    #[arg(long, conflicts_with_all = ["clear", "save_conversation", "load_conversation", "branch_conversation"])]
    pub show_request: bool,
    /// Append every reply to a recording that --provider replay plays
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    #[expect(missing_docs, reason = "clap would take it for help")]
    #[command(flatten)]
    pub model: ModelArgs,

    /// Use this conversation instead of NAGENT_CONVERSATION or this shell's own
    #[arg(long, value_name = "NAME", help_heading = "Conversation")]
    pub conversation: Option<String>,
    /// Name this shell's conversation after ID, not after the shell itself
    #[arg(long, value_name = "ID", help_heading = "Conversation")]
    pub pid: Option<String>,
    /// Work in the conversation that belongs to this file, and be allowed to write it
    #[arg(
        long,
        value_name = "PATH",
        conflicts_with = "conversation",
        help_heading = "Conversation"
    )]
    pub file_edit: Option<PathBuf>,
    /// With --file-edit: ask for no summaries of the file and its commits; those that are kept are told
    #[arg(long, help_heading = "Conversation")]
    pub no_summaries: bool,
    /// Put the conversation aside and begin a fresh one
    #[arg(long, help_heading = "Conversation")]
    pub clear: bool,
    /// Keep a copy of the conversation under a name
    #[arg(long, value_name = "NAME", help_heading = "Conversation")]
    pub save_conversation: Option<String>,
    /// Put the conversation aside and go on from a copy of a saved one, by name or path
    #[arg(long, value_name = "NAME", help_heading = "Conversation")]
    pub load_conversation: Option<String>,
    /// Put the conversation aside and go on from a copy of another one, by name
    #[arg(long, value_name = "NAME", help_heading = "Conversation")]
    pub branch_conversation: Option<String>,
    /// Print a summary of the conversation, and append nothing to it
    #[arg(long, conflicts_with = "show_request", help_heading = "Conversation")]
    pub summarize: bool,
    /// Let the model edit a copy of the conversation as the prompt says, and go on from it when that succeeds
    #[arg(
        long,
        conflicts_with_all = ["clear", "save_conversation", "load_conversation", "branch_conversation", "read", "check",
            "show_request"],
        help_heading = "Conversation"
    )]
    pub edit_conversation: bool,
    /// Wait so many seconds for a conversation that another run holds, 30 unless set
    #[arg(long, value_name = "S", value_parser = seconds, help_heading = "Conversation")]
    pub lock_timeout: Option<f64>,

    /// List the saved conversations
    #[arg(long, help_heading = "Information")]
    pub list_conversations: bool,
    /// List the files that have conversations of their own
    #[arg(long, help_heading = "Information")]
    pub list_file_edits: bool,
    /// List the provider's models
    #[arg(long, help_heading = "Information")]
    pub list_models: bool,
    /// List the providers
    #[arg(long, help_heading = "Information")]
    pub list_providers: bool,
    /// Show the conversation, the settings in force and where each came from
    #[arg(long, help_heading = "Information")]
    pub status: bool,
    /// Print the protocol: as text, or as a grammar for constrained decoding
    #[arg(long, value_name = "FORM", num_args = 0..=1, default_missing_value = "text", help_heading = "Information")]
    pub print_protocol: Option<Form>,
    /// Print where this program is and what it is for
    #[arg(long, help_heading = "Information")]
    pub description: bool,

    #[expect(missing_docs, reason = "clap would take it for help")]
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Run so many child conversations at once, 4 unless set
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=64), help_heading = "Limits")]
    pub jobs: Option<u64>,

    /// Mask well-known shapes of credentials in results before they are kept and sent
    #[arg(long, help_heading = "Boundary")]
    pub redact: bool,
    /// Also let the model's tags, and commands in the sandbox, write below this folder (repeatable)
    #[arg(long, value_name = "DIR", help_heading = "Boundary")]
    pub write: Vec<PathBuf>,
    #[expect(missing_docs, reason = "clap would take it for help")]
    #[command(flatten)]
    pub sandbox: SandboxArgs,

    /// Say whom this run works for
    #[arg(long, value_enum, default_value_t = Invocation::User, help_heading = "For programs")]
    pub invocation: Invocation,
    /// Name the conversation that started this one
    #[arg(long, value_name = "NAME", help_heading = "For programs")]
    pub parent_conversation: Option<String>,
}

/// Whom a run works for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Invocation {
    /// A person or a script
    User,
    /// Another conversation
    Delegated,
}

/// A form of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// As a model reads it
    Text,
    /// A grammar for llama.cpp
    Gbnf,
    /// A grammar for Lark and llguidance
    Lark,
}

impl Tool for Args {
    const NAME: &'static str = "nagent";
    const DESCRIPTION: &'static str = "Runs a language model on a task in the current folder and prints its answer. \
        Call it as nagent \"task\", or with the task on stdin; it reads files, runs commands and edits within its \
        boundary by itself. --json prints one JSON document with responses, exit_code, error and token counts; \
        --read PATH shows it a file first; --check CMD makes it go on until CMD exits 0. Started from a command of \
        another nagent it works in a new conversation of its own. Exit codes: 0 done, 1 failed, 2 wrong usage or no \
        credential, 3 provider failed, 4 malformed replies, 5 limit, 6 check never passed.";

    fn json(&self) -> bool {
        self.json
    }

    fn run(self) -> Result<Report, Problem> {
        run(&self)
    }
}

/// What every command of one call works with.
pub(crate) struct Call<'a> {
    args: &'a Args,
    env: &'a Env,
    interrupts: &'a Interrupts,
    settings: Settings,
    /// The conversation's name.
    name: String,
    /// Whether another nagent's command started this one, or it was told so.
    delegated: bool,
    /// Conversations that this run was started from, the oldest first.
    parents: Vec<String>,
    /// Whether progress is shown.
    quiet: bool,
}

/// Does what the flags say. `nagent-file-edit` runs through here too.
pub(crate) fn run(args: &Args) -> Result<Report, Problem> {
    // These two need no settings, and work with broken ones.
    let mut report = Report::done("");
    if let Some(form) = args.print_protocol {
        let text = print_protocol(form);
        report = report.then(Report::done(text.clone()).with("protocol", text));
    }
    if args.list_providers {
        report = report.then(lists::providers());
    }
    if !report.json.is_empty() && !args.has_work() && !args.looks_around() {
        return Ok(report);
    }
    let interrupts = Interrupts::install()?;
    let env = Env::read();
    let settings = Settings::resolve(&args.model, &env)?;
    let parents: Vec<String> = env
        .get(env::PARENTS)
        .map(|names| names.split('/').map(str::to_owned).collect())
        .unwrap_or_default();
    let delegated = args.invocation == Invocation::Delegated || !parents.is_empty();
    let quiet = args.quiet
        || settings.config.quiet == Some(true)
        || args.invocation == Invocation::Delegated;
    for note in &settings.notes {
        out::line(&format!("nagent: note: {note}"));
    }
    let name = conversation_name(args, &env, &settings, &parents)?;
    let mut call = Call {
        args,
        env: &env,
        interrupts: &interrupts,
        settings,
        name,
        delegated,
        parents,
        quiet,
    };
    call.move_old_file()?;
    // Several commands in one call make one report, in this order.
    if args.has_work() || (report.json.is_empty() && !args.looks_around()) {
        report = report.then_try(|| call.work());
    }
    if args.summarize {
        report = report.then_try(|| digest::report(&call));
    }
    if args.list_conversations {
        report = report.then_try(|| lists::conversations(&call));
    }
    if args.list_file_edits {
        report = report.then_try(|| file_edit::list(&call));
    }
    if args.list_models {
        report = report.then_try(|| lists::models(&call));
    }
    if args.status {
        // What failed before it stays the end of the call.
        report = report.then_try(|| Ok::<_, Problem>(status::report(&call)));
    }
    Ok(report)
}

impl Args {
    /// Whether something is to be done to a conversation.
    fn has_work(&self) -> bool {
        !self.prompt.is_empty()
            || !self.read.is_empty()
            || self.show_request
            || self.edit_conversation
            || self.has_upkeep()
    }

    fn has_upkeep(&self) -> bool {
        self.clear
            || self.save_conversation.is_some()
            || self.load_conversation.is_some()
            || self.branch_conversation.is_some()
    }

    /// Whether there is a question about settings and conversations.
    fn looks_around(&self) -> bool {
        self.status
            || self.summarize
            || self.list_conversations
            || self.list_file_edits
            || self.list_models
    }
}

impl Call<'_> {
    /// Whether shapes of credentials are masked.
    fn redacts(&self) -> bool {
        self.args.redact || self.settings.config.redact == Some(true)
    }

    /// Upkeep first, then the run, all in one report.
    fn work(&mut self) -> Result<Report, Problem> {
        let args = self.args;
        if self.parents.len() > DEPTH {
            return Err(Problem::usage(format!(
                "conversations that start each other go {DEPTH} deep at most; do this part without another one"
            )));
        }
        if let Some(folder_error) = self.env.folder.as_ref().err() {
            return Err(Problem::failed(format!(
                "the working folder cannot be told ({folder_error}); cd to one that exists"
            )));
        }
        let has_command = args.has_upkeep() || args.looks_around() && !args.edit_conversation;
        let prompt = input::prompt(args, has_command || args.show_request, self.interrupts)?;
        let prompt = match prompt {
            input::Prompt::Interrupted(signal) => {
                return Err(Problem::new(
                    Exit::Signal(signal),
                    format!("interrupted by {} while reading stdin", signal.name()),
                ));
            }
            input::Prompt::None => None,
            input::Prompt::Text(text) => Some(text),
        };
        if prompt.is_none() && args.read.is_empty() && !has_command && !args.show_request {
            return Err(Problem::usage(NO_PROMPT));
        }
        if !args.show_request {
            self.settings.root.value.prepare().map_err(|error| root::explain_refusal(&error))?;
        }
        if let Some(path) = &args.file_edit
            && !args.show_request
        {
            self.name = file_edit::register(self, path)?;
        }
        if let (true, Some(prompt)) = (args.edit_conversation, &prompt) {
            let report = rework::run(self, prompt);
            input::tell_of_ignored(args);
            return report;
        }
        let target = match &args.file_edit {
            Some(path) if !args.show_request => Some(file_edit::absolute(self.env, path)?),
            _ => None,
        };
        let upkeep = if args.show_request { Report::done("") } else { upkeep::run(self)? };
        if prompt.is_none() && args.read.is_empty() && !args.show_request {
            return Ok(match &target {
                Some(target) => changed::about(self, target, upkeep),
                None => upkeep,
            });
        }
        // Stdout is the answer's; what the upkeep did is told beside it.
        if !args.json && !self.quiet {
            upkeep.text.lines().for_each(out::line);
        }
        let upkeep = Report { text: String::new(), ..upkeep };
        let mut report = upkeep.then_try(|| start::run(self, prompt));
        if let Some(path) = &target {
            file_edit::settle(self);
            report = changed::tell(self, path, report);
        }
        input::tell_of_ignored(args);
        Ok(report)
    }

    /// Moves a conversation that an older tool left in the root itself.
    fn move_old_file(&self) -> Result<(), Problem> {
        let root = &self.settings.root.value;
        let old = root.path().join(&self.name);
        if crate::sys::fs::file_size(&old).is_none()
            || crate::sys::fs::exists(&root.conversation(&self.name))
        {
            return Ok(());
        }
        root.prepare()?;
        crate::sys::fs::rename_file(&old, &root.conversation(&self.name))?;
        out::line(&format!(
            "nagent: note: {} was moved to {}",
            old.display(),
            root.conversations().display()
        ));
        Ok(())
    }
}

/// The name of the conversation: flag, then the file's own, then a new one for a nested run, then the environment,
/// then this shell's.
fn conversation_name(
    args: &Args,
    env: &Env,
    settings: &Settings,
    parents: &[String],
) -> Result<String, Problem> {
    let named = |name: &str, from: &str| {
        root::check_name(name)
            .map_err(|message| Problem::usage(format!("{message} (from {from})")))?;
        if parents.iter().any(|parent| parent == name) {
            return Err(Problem::usage(format!(
                "conversation {name} started this command and waits for it; leave the name out for a new one"
            )));
        }
        Ok(name.to_owned())
    };
    if let Some(name) = &args.conversation {
        return named(name, "--conversation");
    }
    if let Some(path) = &args.file_edit {
        return named(&file_edit::conversation(settings, env, path)?, "--file-edit");
    }
    if let Some(name) = env.get("NAGENT_CONVERSATION") {
        return named(name, "NAGENT_CONVERSATION");
    }
    if !parents.is_empty() {
        return Ok(format!("delegated-{}", uuid::Uuid::new_v4().simple()));
    }
    let shell = match &args.pid {
        Some(pid) => root::name_part(pid),
        None => env.shell_identity(),
    };
    Ok(format!("latest-{}-{shell}", root::name_part(&env::host_name())))
}

fn print_protocol(form: Form) -> String {
    protocol::print(match form {
        Form::Text => protocol::Notation::Text,
        Form::Gbnf => protocol::Notation::Gbnf,
        Form::Lark => protocol::Notation::Lark,
    })
}
