//! `nagent-each`: one prompt over many inputs.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgAction, Parser, ValueHint};

use crate::cli::Tool;
use crate::ops::batch::each::args::EachArgs;
use crate::ops::batch::each::inputs::Shard;
use crate::ops::batch::each::run_each;
use crate::ops::run::call::Call;
use crate::ops::setup::flags::{ConversationArgs, RunArgs, parse_count, prepare_words};
use crate::out::Report;
use conversation::problem::Problem;

/// What a newcomer needs, below the flags.
const AFTER_HELP: &str = "\
Examples:
  nagent-each \"Sum this up in a sentence\" docs/*.md
  nagent-each --own \"Document the public functions\" src/*.rs
  git branch | nagent-each --lines -j 8 --max-cost 2 \"Is branch {} merged?\"
  nagent-each --jsonl=mails.jsonl \"Sort mail {id}: {subject}\" > sorted.jsonl

{} in the prompt is the input, {name} a key of a JSON line; {{}} is {} itself.
Without them a file is shown to the model, anything else is appended.

Exit codes: 0 all done, 2 wrong usage, 5 --max-cost reached, else that of the
first input that failed; 128 + N signal N";

/// Give many inputs the same prompt: files, lines, or JSON lines; each in a fresh conversation, several at the same time
///
/// Each result is a line of JSON on stdout, in the order of the inputs. Results are stored before they are printed, so --resume
/// continues after an interruption without asking twice, and prints all results. Several workers on a shared root divide the
/// inputs among them with --shard.
///
/// --max-turns, --max-seconds and --max-tokens count for each input, --max-cost for all of them together.
#[derive(Debug, Clone, Parser)]
#[command(after_help = AFTER_HELP, override_usage = "nagent-each [OPTIONS] PROMPT [FILE]...",
    mut_arg("prompt", |arg| arg.index(1).action(ArgAction::Set).num_args(1).required(true).value_hint(ValueHint::Other).help("What to do with each input")),
    mut_arg("lines", |arg| arg.long("print-events").hide(true)),
    mut_arg("jobs", |arg| arg.short('j').help("Work on at most N inputs at the same time [default: 4]")),
    mut_arg("max_cost", |arg| arg.help("Start no more inputs after spending this many US dollars; active ones may exceed it")),
    mut_arg("output", |arg| arg.hide(true)), mut_arg("show_request", |arg| arg.hide(true)),
    mut_arg("record", |arg| arg.hide(true)), mut_arg("clear", |arg| arg.hide(true)),
    mut_arg("approve", |arg| arg.hide(true)), mut_arg("dangerous", |arg| arg.hide(true)),
    mut_arg("verbose", |arg| arg.hide(true)),
    mut_arg("progress", |arg| arg.help("Print a line for each input that has ended where stderr is not a terminal too")),
    mut_arg("quiet", |arg| arg.help("Print only results and errors: no progress, no notes")),
    mut_arg("json", |arg| arg.help("Print one JSON document with all results at the end, instead of lines")))]
pub struct Args {
    #[command(flatten)]
    run: RunArgs,
    /// The inputs: files, or folders if the prompt has {}
    #[arg(index = 2, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["input_lines", "jsonl"])]
    files: Vec<PathBuf>,
    /// Take each line of stdin, or of this file, as an input
    #[arg(id = "input_lines", long = "lines", value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-", conflicts_with = "jsonl", help_heading = "Inputs")]
    lines: Option<PathBuf>,
    /// Take each line of stdin, or of this file, as an input that is JSON
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-", help_heading = "Inputs")]
    jsonl: Option<PathBuf>,
    /// Work on each file in the file's own conversation, which may write it
    #[arg(long, help_heading = "Inputs")]
    own: bool,
    /// Take only the inputs of worker I of N, by their hashes; continues what this worker has done before
    #[arg(long, value_name = "I/N", value_parser = Shard::parse, help_heading = "Inputs")]
    shard: Option<Shard>,
    /// Continue the last call of this command: inputs that have an answer are not asked about again
    #[arg(long, help_heading = "Results")]
    resume: bool,
    /// Keep the results in this file [default: one in the root, by prompt, folder and flags]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Results")]
    journal: Option<PathBuf>,
    /// Start no more inputs after N failures
    #[arg(long, value_name = "N", value_parser = parse_count, help_heading = "Limits")]
    max_failures: Option<u64>,
}

impl Tool for Args {
    const NAME: &'static str = "nagent-each";
    const DESCRIPTION: &'static str = "Gives many inputs the same prompt, each in a conversation of its own, several at the same \
        time. Call it as nagent-each PROMPT FILE..., or with --lines or --jsonl and the inputs on stdin; {} in PROMPT is the \
        input. Results are JSON lines on stdout, in the order of inputs: index, input, exit_code, response, error. --resume goes on \
        after an interruption. Exit codes: 0 done, 2 wrong usage, 5 --max-cost reached, else that of the first failed input.";
    const HAS_EVENTS: bool = false;

    fn run(self) -> Result<Report, Problem> {
        let mut run = self.run;
        run.allow_working_folder();
        let which = ConversationArgs::default();
        let mut call = Call::new(Self::NAME, &run, &which)?;
        let args = EachArgs {
            files: self.files,
            lines: self.lines,
            jsonl: self.jsonl,
            own: self.own,
            resume: self.resume,
            journal: self.journal,
            shard: self.shard,
            max_failures: self.max_failures,
        };
        run_each(&mut call, &args)
    }

    fn prepare(words: Vec<OsString>) -> Vec<OsString> {
        prepare_words(words)
    }
}
