//! `nagent-llm-upload`: a file and a prompt in, a model's text out. An image, a PDF, an office file, code or text.

use crate::cli::Tool;
pub use crate::ops::single::upload::UploadArgs as Args;
use crate::ops::single::upload::send_file;
use crate::out::Report;
use conversation::problem::Problem;

impl Tool for Args {
    const NAME: &'static str = "nagent-llm-upload";
    const DESCRIPTION: &'static str = "Sends a file (image, PDF, office, code or text, up to 50 MiB) with a prompt \
        to a language model and prints its text. Call it as nagent-llm-upload --file FILE --prompt TEXT; --json \
        adds token counts and what the file is, --provider and --model choose the model. It needs the provider's \
        credential in its environment. Exit codes: 0 done, 1 file error or a file that the provider does not take, 2 \
        wrong usage or no credential, 3 provider failed, 5 reply cut by the length limit.";
    const AFTER_HELP: &'static str = "\
Examples:
  nagent-llm-upload diagram.png --prompt \"What does it show?\"
  pdftoppm -png -singlefile a.pdf | nagent-llm-upload - --prompt \"Read it out\"

Exit codes: 0 done, 1 file error or a file that the provider does not take,
2 wrong usage or no credential, 3 provider failed, 5 reply cut by the length
limit";

    fn run(self) -> Result<Report, Problem> {
        send_file(Self::NAME, &self)
    }
}
