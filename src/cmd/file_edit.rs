//! `nagent-file-edit`: runs the loop over the conversation that belongs to a file, which may write that file.
//!
//! Here are the flags, and which of them go together. One file is run by the same code as `nagent --file-edit`, so that
//! behaviour and exit codes are the same.

use std::path::{Path, PathBuf};

use clap::{Parser, ValueHint};

use crate::cli::Tool;
use crate::ops::conversations::conversation_name::with_name;
use crate::ops::conversations::undo::{self, UndoArgs};
use crate::ops::files::file_memory;
use crate::ops::run;
use crate::ops::run::call::Call;
use crate::ops::setup::flags::{ConversationArgs, RunArgs};
use crate::out::Report;
use conversation::problem::Problem;
use sys::fs;
use sys::names::shell_word;

/// The error for a call that asks for nothing.
const NO_PROMPT: &str = "no prompt given: nagent-file-edit FILE \"what to change\", or the prompt on stdin, or --undo, \
     --history, --clear (--help shows all)";

/// The error for several files.
const ONE_FILE: &str =
    "one file at a time; nagent-each --own PROMPT FILE... gives several files the same prompt";

/// Ask a language model to change a file, in the conversation that belongs to the file
///
/// The prompt is appended to the file's own conversation, whichever shell you call it from, so that the model knows what was
/// asked of this file before. It may edit this file and no other. The previous content is stored, and --undo brings it back.
/// A file that does not exist yet is created.
#[derive(Debug, Clone, Parser)]
#[command(override_usage = "nagent-file-edit [OPTIONS] FILE [PROMPT]...",
    mut_arg("prompt", |arg| arg.value_hint(ValueHint::FilePath).value_name("FILE PROMPT")
        .help("The file to change, then what to do. End with - to add stdin; with no words behind FILE, stdin is the prompt")))]
pub struct Args {
    /// The file to change, like FILE
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: Vec<PathBuf>,
    /// Print the file's history in its repository: people, commits, files changed together; needs no model
    #[arg(
        long,
        conflicts_with_all = ["read", "check", "show_request", "record", "clear", "undo"]
    )]
    history: bool,
    #[command(flatten)]
    undo: UndoArgs,
    #[command(flatten)]
    run: RunArgs,
    /// Ignored; accepted for compatibility
    #[arg(long, value_name = "ID", hide = true)]
    pid: Option<String>,
}

impl Tool for Args {
    const NAME: &'static str = "nagent-file-edit";
    const DESCRIPTION: &'static str = "Lets a language model change one file, in a conversation that belongs to that \
        file and remembers what was asked of it before. Call it as nagent-file-edit FILE \"what to change\", or \
        with the prompt on stdin; only this file is written, and it may be new. --check CMD makes it go on until CMD \
        exits 0. --json prints one JSON document with responses, changed, diff, exit_code and error. --undo [N] undoes the last N changes and \
        lists them; --history prints who changed the file and what was changed with it; neither needs a model. \
        Exit codes: 0 done, 1 failed, 2 wrong usage or no credential, 3 provider failed, 4 malformed replies, 5 limit, \
        6 check never passed.";
    const AFTER_HELP: &'static str = "\
Examples:
  nagent-file-edit src/parse.rs --check 'make test' \"Accept CRLF too\"
  nagent-each --own \"Fix the spelling\" a.md b.md    (several files)
  nagent-file-edit src/parse.rs --undo
  nagent-file-edit src/parse.rs --history

A run that changed the file shows the diff, on a terminal and in --json.
Commands run in a sandbox, unless --sandbox is off.

Exit codes: 0 done, 1 failed, 2 wrong usage or no credential, 3 provider failed,
4 malformed replies, 5 limit reached, 6 check never passed, 128 + N signal N";

    fn run(mut self) -> Result<Report, Problem> {
        self.run.allow_working_folder()?;
        let file = self.take_file()?;
        self.edit_file(&file)
    }
}

impl Args {
    /// Takes the first word for the file where no flag names one.
    fn take_file(&mut self) -> Result<PathBuf, Problem> {
        if self.file.is_empty() {
            if self.run.prompt.is_empty() {
                return Err(Problem::usage(
                    "no file given: nagent-file-edit FILE \"what to change\" (--help shows all)",
                ));
            }
            self.file.push(PathBuf::from(self.run.prompt.remove(0)));
            self.check_order()?;
        }
        let [file] = self.file.as_slice() else {
            return Err(Problem::usage(ONE_FILE));
        };
        if file == Path::new("-") {
            return Err(Problem::usage("nagent-file-edit changes a file; - is not a file"));
        }
        if !self.run.prompt.is_empty() && (self.undo.undo.is_some() || self.history) {
            return Err(Problem::usage("--undo and --history take no prompt"));
        }
        if self.run.lines && (self.undo.undo.is_some() || self.history) {
            return Err(Problem::usage("--lines follows a run"));
        }
        Ok(file.clone())
    }

    /// Refuses files in the place of the prompt: several of them, or one behind its prompt.
    fn check_order(&self) -> Result<(), Problem> {
        let ([file], [next, rest @ ..]) = (self.file.as_slice(), self.run.prompt.as_slice()) else {
            return Ok(());
        };
        if fs::file_size(Path::new(next)).is_none() {
            return Ok(());
        }
        let (file_word, next) = (shell_word(file), shell_word(next));
        Err(Problem::usage(if fs::exists(file) || !rest.is_empty() {
            format!("{ONE_FILE}; {next} is a file, too (a prompt goes into quotes)")
        } else {
            format!(
                "there is no file {file_word}; the file comes first: nagent-file-edit {next} {file_word}"
            )
        }))
    }

    fn edit_file(&self, file: &Path) -> Result<Report, Problem> {
        let which = ConversationArgs { file_edit: Some(file.to_owned()), ..Default::default() };
        let call = Call::new(Self::NAME, &self.run, &which)?;
        if self.history {
            return file_memory::report_history(&call.settings, &call.env, &call.interrupts, file);
        }
        let mut call = with_name(call)?;
        if self.undo.undo.is_some() {
            undo::undo_file(&mut call, file, &self.undo)
        } else {
            run::run_call(&mut call, false, NO_PROMPT)
        }
    }
}
