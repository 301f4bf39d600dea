//! `nagent-file-edit`: the loop over one file's own conversation, allowed to write that file.
//!
//! Here are the flags, and which of them go together. One file is run by `nagent`'s own code in this process, so that
//! behaviour and exit codes are the same; `several` runs many side by side, `undo` takes changes back.

mod several;
mod undo;

use std::path::{Path, PathBuf};

use clap::Parser;

use super::nagent::{self, NO_PROMPT};
use crate::cli::Tool;
use crate::cmd::file_memory;
use crate::cmd::limit_args::LimitArgs;
use crate::cmd::model_args::{ModelArgs, seconds};
use crate::cmd::sandbox_args::SandboxArgs;
use crate::cmd::settings::Settings;
use crate::out::Report;
use crate::problem::Problem;
use crate::sys::env::Env;
use crate::sys::interrupt::Interrupts;

/// What a newcomer needs, below the flags.
const AFTER_HELP: &str = "\
Examples:
  nagent-file-edit --file src/parse.rs --check 'make test' \"Accept CRLF too\"
  nagent-file-edit --file a.md --file b.md \"Mend the spelling\"
  nagent-file-edit --file src/parse.rs --undo
  nagent-file-edit --file src/parse.rs --history

A run that changed the file shows the diff on a terminal's stderr, and in --json.
Commands run with your own permissions.

Exit codes: 0 done, 1 failed, 2 wrong usage or no credential, 3 provider failed,
4 malformed replies, 5 limit reached, 6 check never passed, 128 + N signal N";

/// The error for a call that asks for nothing.
const USAGE: &str = "there is no prompt: nagent-file-edit --file PATH \"what to change\", or that on stdin, or --undo, --history, --clear \
     (--help shows all)";

/// Let a language model change a file, in the conversation that belongs to the file
///
/// The prompt is appended to the file's own conversation, whatever shell asks, so that the model knows what was asked of
/// this file before. Its tags may write this file and no other. What the file held before is kept, and --undo brings it
/// back. A file that does not exist yet is created by the first write.
///
/// With several --file each has its own conversation, side by side, and all get the same prompt. Limits hold for each file
/// by itself.
#[derive(Debug, Clone, Parser)]
#[command(name = "nagent-file-edit", version, max_term_width = 100, after_help = AFTER_HELP)]
#[expect(clippy::struct_excessive_bools, reason = "flags are what they are")]
pub struct Args {
    /// What to change; a last word - adds what stands on stdin; without any word stdin is the prompt
    #[arg(value_name = "PROMPT")]
    pub prompt: Vec<String>,
    /// The file (can be repeated)
    #[arg(long, value_name = "PATH", required = true)]
    pub file: Vec<PathBuf>,
    /// Append this file to the conversation before the prompt (can be repeated)
    #[arg(long, value_name = "PATH")]
    pub read: Vec<String>,
    /// Accept an answer only when this command exits 0, five tries at most; with one --file
    #[arg(long, value_name = "CMD")]
    pub check: Option<String>,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
    /// Show no progress, no diff and no status line on a terminal
    #[arg(long, short)]
    pub quiet: bool,
    /// Print, byte for byte, what would be sent, and send nothing; with one --file
    #[arg(long, conflicts_with = "clear")]
    pub show_request: bool,
    /// Append every reply to a recording that --provider replay plays
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    #[expect(missing_docs, reason = "clap would take it for help")]
    #[command(flatten)]
    pub model: ModelArgs,

    /// Take back the last N changes that runs of this conversation made, 1 unless set
    ///
    /// A change is what one run did. The file must be as the last of them left it. The conversation is told. Needs no
    /// model.
    #[arg(
        long,
        value_name = "N",
        num_args = 0..=1,
        default_missing_value = "1",
        value_parser = clap::value_parser!(u64).range(1..),
        conflicts_with_all = ["prompt", "read", "check", "show_request", "record", "clear", "history"],
        help_heading = "The file"
    )]
    pub undo: Option<u64>,
    /// Undo although the file was changed by something else since; its present content is kept
    #[arg(long, requires = "undo", help_heading = "The file")]
    pub force: bool,
    /// Print what the repository says of the file: people, steps, files changed together; needs no model
    #[arg(
        long,
        conflicts_with_all = ["prompt", "read", "check", "show_request", "record", "clear"],
        help_heading = "The file"
    )]
    pub history: bool,
    /// Ask for no summaries of the file and its commits; those that are kept are told
    #[arg(long, help_heading = "The file")]
    pub no_summaries: bool,
    /// Put the file's conversation aside and begin a fresh one
    #[arg(long, help_heading = "The file")]
    pub clear: bool,
    /// Wait so many seconds for a conversation that another run holds, 30 unless set
    #[arg(long, value_name = "S", value_parser = seconds, help_heading = "The file")]
    pub lock_timeout: Option<f64>,
    /// Taken and ignored, for older scripts: the conversation belongs to the file, whatever shell asks
    #[arg(long, value_name = "ID", help_heading = "The file")]
    pub pid: Option<String>,
    /// Print where this program is and what it is for
    #[arg(long, help_heading = "Information")]
    pub description: bool,

    #[expect(missing_docs, reason = "clap would take it for help")]
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Work on so many files at once, 4 unless set; with one --file on so many child conversations
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
}

impl Tool for Args {
    const NAME: &'static str = "nagent-file-edit";
    const DESCRIPTION: &'static str = "Lets a language model change one file, in a conversation that belongs to that \
        file and remembers what was asked of it before. Call it as nagent-file-edit --file PATH \"what to change\", or \
        with the prompt on stdin; only this file is written, and it may be new. --check CMD makes it go on until CMD \
        exits 0. --json prints one JSON document with responses, changed, diff, exit_code and error. Several --file are \
        worked on side by side, each on its own, with the same prompt. --undo [N] takes back the last N changes and \
        says what they were; --history prints who changed the file and what was changed with it; neither needs a model. \
        Exit codes: 0 done, 1 failed, 2 wrong usage or no credential, 3 provider failed, 4 malformed replies, 5 limit, \
        6 check never passed.";

    fn json(&self) -> bool {
        self.json
    }

    fn run(self) -> Result<Report, Problem> {
        run(&self)
    }
}

fn run(args: &Args) -> Result<Report, Problem> {
    // The parser forgets it where a prompt stands, which --undo does not go with.
    if args.force && args.undo.is_none() {
        return Err(Problem::usage("--force goes with --undo alone"));
    }
    if args.file.len() > 1 {
        return several::run(args);
    }
    one(args, &args.file[0])
}

/// Does what is asked for one file, in this process.
fn one(args: &Args, file: &Path) -> Result<Report, Problem> {
    let result = if let Some(count) = args.undo {
        undo::run(args, file, usize::try_from(count).unwrap_or(usize::MAX))
    } else if args.history {
        history(args, file)
    } else {
        let mut call = plain(args);
        call.file_edit = Some(file.to_owned());
        nagent::run(&call)
    };
    let mut report = result.map_err(in_our_words)?;
    report.error = report.error.map(our_words);
    Ok(report)
}

/// What `nagent` is told, but for the file.
fn plain(args: &Args) -> nagent::Args {
    nagent::Args {
        prompt: args.prompt.clone(),
        read: args.read.clone(),
        check: args.check.clone(),
        json: args.json,
        quiet: args.quiet,
        show_request: args.show_request,
        record: args.record.clone(),
        model: args.model.clone(),
        clear: args.clear,
        redact: args.redact,
        no_summaries: args.no_summaries,
        lock_timeout: args.lock_timeout,
        limits: args.limits.clone(),
        jobs: args.jobs,
        write: args.write.clone(),
        sandbox: args.sandbox.clone(),
        ..nagent::Args::parse_from(["nagent"])
    }
}

/// An error of `nagent`, with the flags that this tool has.
fn our_words(message: String) -> String {
    if message == NO_PROMPT {
        return USAGE.to_owned();
    }
    match message.strip_prefix("--file-edit") {
        Some(rest) => format!("--file{rest}"),
        None => message,
    }
}

fn in_our_words(problem: Problem) -> Problem {
    Problem { message: our_words(problem.message), ..problem }
}

/// What the parts of this tool that need no model work with.
struct Ground {
    interrupts: Interrupts,
    env: Env,
    settings: Settings,
}

impl Ground {
    fn find(args: &Args) -> Result<Self, Problem> {
        let interrupts = Interrupts::install()?;
        let env = Env::read();
        let settings = Settings::resolve(&args.model, &env)?;
        Ok(Self { interrupts, env, settings })
    }
}

fn history(args: &Args, file: &Path) -> Result<Report, Problem> {
    let Ground { interrupts, env, settings } = Ground::find(args)?;
    let path = nagent::file_edit::absolute(&env, file)?;
    file_memory::history_report(&settings, &env, &interrupts, &path)
}
