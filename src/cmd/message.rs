//! `nagent-message`: leaves a message for a run in progress.

use std::path::PathBuf;

use clap::Parser;
use clap_complete::engine::ArgValueCompleter;

use crate::cli::Tool;
use crate::ops::run::prompt_input::read_words;
use crate::ops::setup::completion;
use crate::ops::setup::find_root::find_root;
use crate::ops::status::message;
use crate::out::Report;
use conversation::problem::Problem;
use sys::env::Env;
use sys::interrupt::Interrupts;

/// Say something to a run in progress: it reads the message before its next request
///
/// The message counts as your words and is appended to the conversation exactly once. A message that arrives
/// during the last answer keeps the run going. If no run is active, it waits, and precedes the next prompt of that conversation.
///
/// Without --conversation it is for the run of this shell's conversation; if there is none, for the only run that you have
/// started; if none is active, for this shell's next prompt.
#[derive(Debug, Clone, Parser)]
pub struct Args {
    /// The message. End with - to add stdin; with no words, it is stdin
    #[arg(value_name = "TEXT")]
    text: Vec<String>,
    /// Say it to the run of this conversation, by its name or the beginning of it; children have names, too
    #[arg(long, short, value_name = "NAME", add = ArgValueCompleter::new(completion::conversations))]
    conversation: Option<String>,
    /// Use the conversations in this folder [env: NAGENT_ROOT] [default: ~/.nagent]
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
}

impl Tool for Args {
    const NAME: &'static str = "nagent-message";
    const DESCRIPTION: &'static str = "Lets the user say something to a run in progress, which reads it before its next request. \
        Call it as nagent-message [--conversation NAME] \"TEXT\". A command of a conversation cannot: a message counts as the \
        user's words. Exit codes: 0 done, 1 failed, 2 wrong usage.";
    const AFTER_HELP: &'static str = "\
Examples:
  nagent-message \"Leave the tests alone\"
  nagent-message --conversation parser \"The old format must still work\"
  git diff | nagent-message \"I have changed this meanwhile:\" -

Exit codes: 0 left for the run or the next prompt, 1 failed, 2 wrong usage";

    fn run(self) -> Result<Report, Problem> {
        let (env, interrupts) = (Env::read(), Interrupts::install()?);
        let root = find_root(self.root.as_deref(), &env)?.0;
        let text = read_words(&self.text, true, &interrupts)?.ok_or_else(|| {
            Problem::usage(
                "no message given: nagent-message \"TEXT\", or the text on stdin (--help shows all)",
            )
        })?;
        message::send_message(&root, &env, self.conversation.as_deref(), &text)
    }
}
