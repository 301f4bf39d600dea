//! `nagent-file-summarize`: a file in, its summary out; a large file by way of its segments.

use clap::Parser;

use crate::cli::Tool;
use crate::ops::files::summarize_file::{FileSummaryArgs, summarize_file};
use crate::out::Report;
use conversation::problem::Problem;

/// Examples and exit codes, shown below the flags.
const AFTER_HELP: &str = "\
Examples:
  nagent-file-summarize big.log
  dmesg | nagent-file-summarize -

Exit codes: 0 done, 1 file error or a summary over the limit, 2 wrong usage or
no credential, 3 provider failed";

/// Print a summary of a file, by way of segments when it is large
///
/// Summaries are cached by the hash of the text, so that the same content is not paid for again.
#[derive(Debug, Clone, Parser)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    #[command(flatten)]
    request: FileSummaryArgs,
}

impl Tool for Args {
    const NAME: &'static str = "nagent-file-summarize";
    const DESCRIPTION: &'static str = "Prints a summary of a file that may be too large to read. Call it as \
        nagent-file-summarize FILE, or - for stdin; --limit-word-count N bounds the summary, --output DIR keeps the segments of a \
        large file with a summary of each in DIR/index.json, --json adds the segments' summaries and token counts. The \
        same content is never paid for twice; empty and binary files need no model. It needs the provider's credential \
        in its environment. Exit codes: 0 done, 1 file error or a summary over the limit, 2 wrong usage or no \
        credential, 3 provider failed.";

    fn run(self) -> Result<Report, Problem> {
        summarize_file(Self::NAME, &self.request)
    }
}
