//! `nagent-each`: one prompt over many inputs.

use clap::{ArgAction, Parser, ValueHint};

use crate::cli::Tool;
use crate::ops::batch::each::inputs::EachArgs;
use crate::ops::batch::each::run_each;
use crate::ops::run::call::Call;
use crate::ops::setup::flags::{ConversationArgs, RunArgs};
use crate::out::Report;
use conversation::problem::Problem;

/// Give many inputs the same prompt: files, lines, or JSON lines; each in a fresh conversation, several at the same time
///
/// Each result is a line of JSON on stdout, in the order of the inputs. Results are stored before they are printed, so --resume
/// continues after an interruption, asks only about inputs without an answer, and prints all results. Several workers on a shared root divide the
/// inputs among them with --shard.
///
/// --max-turns, --max-seconds and --max-tokens count for each input, --max-cost for all of them together.
#[derive(Debug, Clone, Parser)]
#[command(override_usage = "nagent-each [OPTIONS] PROMPT [FILE]...",
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
    #[command(flatten)]
    each: EachArgs,
}

impl Tool for Args {
    const NAME: &'static str = "nagent-each";
    const DESCRIPTION: &'static str = "Gives many inputs the same prompt, each in a conversation of its own, several at the same \
        time. Call it as nagent-each PROMPT FILE..., or with --lines or --jsonl and the inputs on stdin; {} in PROMPT is the \
        input. Results are JSON lines on stdout, in the order of inputs: index, input, exit_code, response, error. --resume goes on \
        after an interruption. Exit codes: 0 done, 2 wrong usage, 5 --max-cost reached, else that of the first failed input.";
    const AFTER_HELP: &'static str = "\
Examples:
  nagent-each \"Sum this up in a sentence\" docs/*.md
  nagent-each --own \"Document the public functions\" src/*.rs
  git branch | nagent-each --lines -j 8 --max-cost 2 \"Is branch {} merged?\"
  nagent-each --jsonl=mails.jsonl \"Sort mail {id}: {subject}\" > sorted.jsonl

{} in the prompt is the input, {name} a key of a JSON line; {{}} is {} itself.
Without them a file is shown to the model, anything else is appended.

Exit codes: 0 all done, 2 wrong usage, 5 --max-cost reached, else that of the
first input that failed; 128 + N signal N";
    const HAS_EVENTS: bool = false;

    fn run(mut self) -> Result<Report, Problem> {
        self.run.allow_working_folder()?;
        let which = ConversationArgs::default();
        let mut call = Call::new(Self::NAME, &self.run, &which)?;
        run_each(&mut call, &self.each)
    }
}
