//! `nagent-llm-text`: a text file in, a model's text out. No loop, no protocol, no context of ours.

use clap::Parser;

use crate::cli::Tool;
use crate::ops::single::send_text::{TextArgs, send_text};
use crate::out::Report;
use conversation::problem::Problem;

/// Examples and exit codes, shown below the flags.
const AFTER_HELP: &str = "\
Examples:
  nagent-llm-text question.txt
  echo \"What is 2+2?\" | nagent-llm-text -

Exit codes: 0 done, 1 file error, 2 wrong usage or no credential, 3 provider
failed, 4 reply not valid against --schema, 5 reply cut by the length limit";

/// Send a text file to a language model, and print its text
///
/// The whole file is one user message.
#[derive(Debug, Clone, Parser)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    #[command(flatten)]
    request: TextArgs,
}

impl Tool for Args {
    const NAME: &'static str = "nagent-llm-text";
    const DESCRIPTION: &'static str = "Sends a text file to a language model and prints its text. Call it as \
        nagent-llm-text --file FILE, or FILE alone, or - for stdin; --json adds token counts, --provider and --model choose the model. It needs the provider's credential in its \
        environment. Exit codes: 0 done, 1 file error, 2 wrong usage or no credential, 3 provider failed, 5 reply cut \
        by the length limit.";

    fn run(self) -> Result<Report, Problem> {
        send_text(Self::NAME, &self.request)
    }
}
