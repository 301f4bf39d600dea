//! `nagent-llm-upload`: a file and a prompt in, a model's text out. An image, a PDF, an office file, code or text.

use clap::Parser;

use crate::cli::Tool;
use crate::ops::single::upload::{UploadArgs, send_file};
use crate::out::Report;
use conversation::problem::Problem;

/// Examples and exit codes, shown below the flags.
const AFTER_HELP: &str = "\
Examples:
  nagent-llm-upload diagram.png --prompt \"What does it show?\"
  pdftoppm -png -singlefile a.pdf | nagent-llm-upload - --prompt \"Read it out\"

Exit codes: 0 done, 1 file error or a file that the provider does not take,
2 wrong usage or no credential, 3 provider failed, 5 reply cut by the length
limit";

/// Send an image, a PDF, an office, code or text file with a prompt to a model, and print its text
///
/// The file is sent inline if the provider allows it, else through the provider's files API, and removed there afterwards.
/// Archives, programs, audio, video, unknown files and files over 50 MiB are refused before anything is sent.
///
/// Code and text go as text, to every provider: any file that is UTF-8. png, jpeg, webp and gif go to every provider that
/// takes pictures, scaled down or converted where it needs that; pdf to openai, anthropic, google and some servers compatible
/// with openai; docx, xlsx, pptx, odt, doc, xls and ppt only to openai.
#[derive(Debug, Clone, Parser)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    #[command(flatten)]
    request: UploadArgs,
}

impl Tool for Args {
    const NAME: &'static str = "nagent-llm-upload";
    const DESCRIPTION: &'static str = "Sends a file (image, PDF, office, code or text, up to 50 MiB) with a prompt \
        to a language model and prints its text. Call it as nagent-llm-upload --file FILE --prompt TEXT; --json \
        adds token counts and what the file is, --provider and --model choose the model. It needs the provider's \
        credential in its environment. Exit codes: 0 done, 1 file error or a file that the provider does not take, 2 \
        wrong usage or no credential, 3 provider failed, 5 reply cut by the length limit.";

    fn run(self) -> Result<Report, Problem> {
        send_file(Self::NAME, &self.request)
    }
}
