//! `nagent-decide`: questions with closed sets of answers, decided by a model and checked against a JSON Schema.

use clap::Parser;

use crate::cli::Tool;
use crate::ops::single::decide::{DecideArgs, answer_request};
use crate::out::Report;
use conversation::problem::Problem;

/// Examples and exit codes, shown below the flags.
const AFTER_HELP: &str = "\
Examples:
  spam=$(nagent-decide 'Is this mail spam?' yes no < mail.txt)
  nagent-decide --input triage.json > decisions.json

Exit codes: 0 done, 1 file error, 2 wrong request or no credential, 3 provider
failed, 4 replies stayed outside of the set";

/// Let a model answer from closed sets: the answer is one of the words you give, or the exit code says that it is not
///
/// With a question and words it prints the word, about the text on stdin. With a request (JSON) it decides about many items
/// in one call, checks every answer, and asks again only about invalid ones. Answers are cached by a hash of the question, so
/// that it is not paid for twice.
#[derive(Debug, Clone, Parser)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    #[command(flatten)]
    request: DecideArgs,
}

impl Tool for Args {
    const NAME: &'static str = "nagent-decide";
    const DESCRIPTION: &'static str = "Answers questions from closed sets with a language model. Call it as \
        nagent-decide QUESTION ANSWER ANSWER < text to get one of the answers, or with --input FILE, a JSON request with \
        \"questions\" ({id: {question, type: choice|multi|score, options, levels}}), \"context\" and \"items\", to get decisions \
        about many items in one call. Every answer is checked; \
        exit codes: 0 done, 1 file error, 2 wrong request or no credential, 3 provider failed, 4 replies stayed outside of \
        the set.";

    fn run(self) -> Result<Report, Problem> {
        answer_request(Self::NAME, &self.request)
    }
}
