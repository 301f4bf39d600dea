//! `nagent-llm-text`: a text file in, a model's text out. No loop, no protocol, no context of ours.

use crate::cli::Tool;
pub use crate::ops::single::send_text::TextArgs as Args;
use crate::ops::single::send_text::send_text;
use crate::out::Report;
use conversation::problem::Problem;

impl Tool for Args {
    const NAME: &'static str = "nagent-llm-text";
    const DESCRIPTION: &'static str = "Sends a text file to a language model and prints its text. Call it as \
        nagent-llm-text --file FILE, or FILE alone, or - for stdin; --json adds token counts, --provider and --model choose the model. It needs the provider's credential in its \
        environment. Exit codes: 0 done, 1 file error, 2 wrong usage or no credential, 3 provider failed, 5 reply cut \
        by the length limit.";
    const AFTER_HELP: &'static str = "\
Examples:
  nagent-llm-text question.txt
  echo \"What is 2+2?\" | nagent-llm-text -

Exit codes: 0 done, 1 file error, 2 wrong usage or no credential, 3 provider
failed, 4 reply not valid against --schema, 5 reply cut by the length limit";

    fn run(self) -> Result<Report, Problem> {
        send_text(Self::NAME, &self)
    }
}
