//! `nagent-decide`: questions with closed sets of answers, decided by a model and checked against a JSON Schema.

use crate::cli::Tool;
pub use crate::ops::single::decide::DecideArgs as Args;
use crate::ops::single::decide::answer_request;
use crate::out::Report;
use conversation::problem::Problem;

impl Tool for Args {
    const NAME: &'static str = "nagent-decide";
    const DESCRIPTION: &'static str = "Answers questions from closed sets with a language model. Call it as \
        nagent-decide QUESTION ANSWER ANSWER < text to get one of the answers, or with --input FILE, a JSON request with \
        \"questions\" ({id: {question, type: choice|multi|score, options, levels}}), \"context\" and \"items\", to get decisions \
        about many items in one call. Every answer is checked; \
        exit codes: 0 done, 1 file error, 2 wrong request or no credential, 3 provider failed, 4 replies stayed outside of \
        the set.";
    const AFTER_HELP: &'static str = "\
Examples:
  spam=$(nagent-decide 'Is this mail spam?' yes no < mail.txt)
  nagent-decide --input triage.json > decisions.json

Exit codes: 0 done, 1 file error, 2 wrong request or no credential, 3 provider
failed, 4 replies stayed outside of the set";

    fn run(self) -> Result<Report, Problem> {
        answer_request(Self::NAME, &self)
    }
}
