//! `nagent-file-summarize`: a file in, its summary out; a large file by way of its segments.

use crate::cli::Tool;
pub use crate::ops::files::summarize_file::FileSummaryArgs as Args;
use crate::ops::files::summarize_file::summarize_file;
use crate::out::Report;
use conversation::problem::Problem;

impl Tool for Args {
    const NAME: &'static str = "nagent-file-summarize";
    const DESCRIPTION: &'static str = "Prints a summary of a file that may be too large to read. Call it as \
        nagent-file-summarize FILE, or - for stdin; --limit-word-count N bounds the summary, --json adds the summaries of a \
        large file's parts and token counts. The same content is never paid for twice; empty and binary files need no model. It needs the provider's credential \
        in its environment. Exit codes: 0 done, 1 file error or a summary over the limit, 2 wrong usage or no \
        credential, 3 provider failed.";
    const AFTER_HELP: &'static str = "\
Examples:
  nagent-file-summarize big.log
  dmesg | nagent-file-summarize -

Exit codes: 0 done, 1 file error or a summary over the limit, 2 wrong usage or
no credential, 3 provider failed";

    fn run(self) -> Result<Report, Problem> {
        summarize_file(Self::NAME, &self)
    }
}
