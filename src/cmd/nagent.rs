//! `nagent`: the flags, and the order in which they are acted on.

use clap::{FromArgMatches, Parser};

use crate::cli::{self, Tool};
use crate::ops::conversations::conversation_name::{move_old_conversation, with_name};
use crate::ops::conversations::list::{ListFilter, list_conversations};
use crate::ops::conversations::undo::UndoArgs;
use crate::ops::conversations::{Catalog, lists, manage, undo};
use crate::ops::files::summarize_conversation::summarize_conversation;
use crate::ops::run::call::Call;
use crate::ops::run::skills::list_skills;
use crate::ops::run::trust::trust_repository;
use crate::ops::session::SessionArgs;
use crate::ops::setup::flags::{ConversationArgs, RunArgs};
use crate::ops::status::doctor;
use crate::ops::{run, status};
use crate::out::Report;
use conversation::problem::Problem;
use sys::terminal;

/// The text of `-h`: what one needs every day, on 24 lines.
const SHORT_HELP: &str = "\
Usage: nagent [OPTIONS] [PROMPT]...   (end the prompt with - to add stdin)

  nagent \"What does this project do?\"
  git diff | nagent \"Review this change\" -
  nagent -w --check 'make test' \"Fix the failing test\"

  -w                      Let its tags write here, too (commands: --sandbox)
  -f, --read FILE         Show the model this file first
  -c, --conversation NAME Use the conversation of this name, not this shell's
  -n, --new               Start a new, temporary conversation
      --continue [NAME]   Go on with the last conversation of this folder
  -m, --model ID          Use this model (--list-models, --list-providers)
      --check CMD         Accept an answer only when CMD exits 0
  -q, --quiet             Print the answer and errors only
  -o, --output FILE       Write the answer to this file
      --sandbox MODE      Where commands may write: workspace, read-only, off
      --approve WHAT      Ask before commands (shell), or writes too (ask)
      --undo [N]          Take back what the last N runs changed (--list)
      --status, --doctor  Show the settings in force; check what is missing

nagent --help explains all flags. nagent alone opens a prompt that stays open.
Conversations: nagent-conversations --help. Runs: nagent-status.
";

/// The error for a call that asks for nothing.
const NO_PROMPT: &str = "no prompt given: nagent \"PROMPT\", or the prompt on stdin; nagent-repl keeps a prompt open (--help shows all)";

/// Ask a language model to work in this folder. The conversation is a plain text file you own
///
/// The prompt is appended to the conversation file and the file is sent to a model. nagent does what the reply
/// asks for (reading, commands, edits, child conversations), appends the results, and repeats until the model answers. The
/// answer goes to stdout, everything else to stderr.
///
/// Commands run in a sandbox, unless --sandbox is off; the model itself writes where --write and -w allow it.
#[derive(Debug, Clone, Parser)]
#[expect(clippy::struct_excessive_bools, reason = "flags are what they are")]
pub struct Args {
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    which: ConversationArgs,
    #[command(flatten)]
    undo: UndoArgs,

    /// Show AGENTS.md, .nagent/context.md and the skills of this repository, and begin conversations here with them from now on
    ///
    /// They are treated as your instructions until they change; otherwise the model only learns that the first two exist.
    #[arg(long, conflicts_with_all = ["prompt", "read", "untrust"], help_heading = "Configuration")]
    trust: bool,
    /// Stop trusting them
    #[arg(long, conflicts_with_all = ["prompt", "read"], help_heading = "Configuration")]
    untrust: bool,
    /// Show the conversation, the settings in force and where each came from
    #[arg(long, conflicts_with = "prompt", help_heading = "Information")]
    status: bool,
    /// List the skills for this folder: which are used, and what is wrong with the others
    #[arg(long, conflicts_with_all = ["prompt", "read"], help_heading = "Information")]
    skills: bool,
    /// Check providers, tools, sandbox and config, and say what to do where something is missing
    #[arg(long, conflicts_with_all = ["prompt", "read", "status"], help_heading = "Information")]
    doctor: bool,
    /// Print a summary of the conversation, and append nothing to it
    #[arg(long, hide = true, conflicts_with = "show_request")]
    summarize: bool,
    /// List the conversations that were given a name, as saved copies are
    #[arg(long, hide = true, conflicts_with = "prompt")]
    list_conversations: bool,
    /// List the files that have conversations of their own
    #[arg(long, hide = true, conflicts_with = "prompt")]
    list_file_edits: bool,
    /// List the provider's models
    #[arg(long, conflicts_with = "prompt", help_heading = "Information")]
    list_models: bool,
    /// List the providers
    #[arg(long, conflicts_with = "prompt", help_heading = "Information")]
    list_providers: bool,
    /// Print the protocol as a model reads it
    #[arg(long, help_heading = "Information")]
    print_protocol: bool,
}

impl Tool for Args {
    const NAME: &'static str = "nagent";
    const DESCRIPTION: &'static str = "Runs a language model on a task in the current folder and prints its answer. \
        Call it as nagent \"task\", or with the task on stdin; it reads files, runs commands and edits files where it may \
        write. --json prints one JSON document with responses, exit_code, error and token counts; \
        --read FILE shows it a file first; --check CMD makes it go on until CMD exits 0. Started from a command of \
        another nagent it works in a new conversation of its own. Exit codes: 0 done, 1 failed, 2 wrong usage or no \
        credential, 3 provider failed, 4 malformed replies, 5 limit, 6 check never passed.";
    const AFTER_HELP: &'static str = "\
Examples:
  nagent \"What does this project do?\"
  git diff | nagent \"Review this change\" -
  nagent --write . --check 'make test' \"Fix the failing test\"

The provider is that of --provider, else that of the config, else the first
whose credential is set (OPENAI_API_KEY, ANTHROPIC_API_KEY, GOOGLE_API_KEY or
GEMINI_API_KEY, ...), else Ollama.

Exit codes: 0 done, 1 failed, 2 wrong usage or no credential, 3 provider failed,
4 malformed replies, 5 limit reached, 6 check never passed, 128 + N signal N";
    const SHORT_HELP: Option<&'static str> = Some(SHORT_HELP);

    /// Does what the flags say; several commands in one call make one report, in this order.
    fn run(mut self) -> Result<Report, Problem> {
        self.run.take_prompt(&mut self.which.continue_);
        self.run.allow_working_folder()?;
        // Flags that a session does not have ask for something else.
        if terminal::stdin_is_terminal()
            && terminal::stdout_is_terminal()
            && !self.has_work()
            && let Ok(matches) =
                cli::command::<SessionArgs>().try_get_matches_from(std::env::args_os())
            && let Ok(session) = SessionArgs::from_arg_matches(&matches)
            && session.is_for_person()
        {
            return session.run();
        }
        let words: Vec<&str> = self.run.prompt.iter().map(String::as_str).collect();
        if self.run.read.is_empty()
            && let Some(meant) = command_elsewhere(&words)
        {
            let words = words.join(" ");
            return Err(Problem::usage(format!(
                "\"{words}\" is not sent to a model; did you mean {meant}? To ask about it, use more words"
            )));
        }
        self.run_commands()
    }
}

/// Whether something is asked for, and what answers it.
type Query<'a> = (bool, &'a dyn Fn() -> Result<Report, Problem>);

impl Args {
    pub(super) fn run_commands(self) -> Result<Report, Problem> {
        if self.undo.undo.is_some() && !self.run.prompt.is_empty() {
            return Err(Problem::usage("--undo takes no prompt"));
        }
        if self.undo.undo.is_some() && self.which.new {
            return Err(Problem::usage("--undo and --new cannot be combined"));
        }
        let is_other = self.is_query() || self.doctor || self.trust || self.untrust;
        if self.undo.undo.is_some() && is_other {
            return Err(Problem::usage("--undo cannot be combined with another command"));
        }
        if self.run.lines
            && (self.is_query() || self.undo.undo.is_some() || self.which.edit_conversation)
        {
            return Err(Problem::usage("--lines needs a prompt and no other command"));
        }
        // These two need no settings, and work with broken ones.
        let mut report = Report::done("");
        if self.print_protocol {
            report = report.then(lists::print_protocol(self.run.tags.as_deref())?);
        }
        if self.list_providers {
            report = report.then(lists::list_providers());
        }
        if self.doctor {
            return Ok(report.then(doctor::examine(&self.run.model)?));
        }
        let is_query = self.is_query();
        if !report.json.is_empty() && !self.has_work() && !is_query {
            return Ok(report);
        }
        let mut call = with_name(Call::new(Self::NAME, &self.run, &self.which)?)?;
        move_old_conversation(&call)?;
        if self.undo.undo.is_some() {
            return undo::undo_runs(&call, &self.undo);
        }
        if self.trust || self.untrust {
            return trust_repository(&call, self.untrust);
        }
        if self.has_work() || (report.json.is_empty() && !is_query) {
            let needs_no_prompt = is_query && !self.which.edit_conversation;
            report = report.then_try(|| run::run_call(&mut call, needs_no_prompt, NO_PROMPT));
        }
        let saved = || {
            let catalog = Catalog::read_indexes(call.root().clone(), call.env.clone());
            list_conversations(&catalog, &ListFilter { saved: true, ..ListFilter::default() })
        };
        let queries: [Query<'_>; 6] = [
            (self.summarize, &|| summarize_conversation(&call)),
            (self.list_conversations, &saved),
            (self.list_file_edits, &|| lists::list_file_edits(&call)),
            (self.list_models, &|| lists::list_models(&call)),
            (self.skills, &|| list_skills(&call)),
            (self.status, &|| Ok(status::report_status(&call))),
        ];
        // An earlier failure still decides the exit code.
        let asked = queries.iter().filter(|(is_asked, _)| *is_asked);
        Ok(asked.fold(report, |report, (_, query)| report.then_try(query)))
    }

    /// Whether something is to be done to a conversation.
    fn has_work(&self) -> bool {
        let run = &self.run;
        !run.prompt.is_empty()
            || !run.read.is_empty()
            || run.show_request
            || self.which.edit_conversation
            || manage::is_asked(run, &self.which)
    }

    /// Whether there is a question about settings and conversations.
    fn is_query(&self) -> bool {
        self.status
            || self.skills
            || self.summarize
            || self.list_conversations
            || self.list_file_edits
            || self.list_models
    }
}

/// How a key is set.
const KEYS: &str = "export OPENAI_API_KEY=... (--list-providers names each provider's variable; --doctor checks it)";

/// The advice for a user whose whole prompt is a command of other programs. A prompt in one word with blanks is quoted.
fn command_elsewhere(words: &[&str]) -> Option<String> {
    let meant = match words {
        [verb @ ("run" | "exec" | "ask" | "chat"), prompt] => {
            return Some(format!("nagent \"{prompt}\", or nagent \"{verb} {prompt}\""));
        }
        ["completion" | "completions", shell @ ("bash" | "zsh" | "fish")] => {
            return Some(format!("NAGENT_COMPLETE={shell} nagent"));
        }
        ["login" | "logout" | "auth", _] => KEYS,
        ["mcp", "add" | "list" | "remove" | "serve" | "get", ..] | ["mcp"] => {
            "nagent-mcp, which has list, help, call, add and remove"
        }
        [word] if word.len() > 1 && word.starts_with('/') && !word[1..].contains(['/', ' ']) => {
            "nagent-repl, which has commands such as /help"
        }
        ["!"] => "nagent-repl, which has !CMD",
        [word] if word.starts_with("/model ") => "nagent --model ID",
        [word] => match word.to_lowercase().as_str() {
            flag @ ("help" | "version" | "status" | "skills" | "undo" | "doctor") => {
                return Some(format!("nagent --{flag}"));
            }
            "list" | "history" => "nagent-conversations list",
            "usage" | "cost" => "nagent-conversations usage",
            verb @ ("compact" | "summarize" | "clear" | "prune") => {
                return Some(format!("nagent-conversations {verb}"));
            }
            "resume" | "continue" => "nagent --continue",
            "models" => "nagent --list-models",
            "completion" | "completions" => "NAGENT_COMPLETE=bash nagent (or zsh, fish)",
            "chat" | "repl" => "nagent-repl",
            "run" | "exec" | "ask" => "nagent \"task\"",
            "update" | "upgrade" => "a newer release, or git pull and make install (see README)",
            "init" | "setup" | "config" | "login" | "auth" | "logout" => KEYS,
            _ => return None,
        },
        _ => return None,
    };
    Some(meant.to_owned())
}
