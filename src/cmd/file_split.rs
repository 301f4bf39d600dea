//! `nagent-file-split`: cuts a large file into segments, with an index of them.

use clap::Parser;

use crate::cli::Tool;
use crate::ops::files::split::{SplitArgs, split_file};
use crate::out::Report;
use conversation::problem::Problem;

/// Examples and exit codes, shown below the flags.
const AFTER_HELP: &str = "\
Examples:
  nagent-file-split big.py --output parts
  journalctl | nagent-file-split - --output log
  nagent-file-split --refresh parts

Exit codes: 0 done, 1 file error or edited segments in the way, 2 wrong usage,
3 provider failed with --summarize";

/// Cut a large file into segments, at the boundaries of its structure
///
/// Joined in order, the segments are the file, byte for byte. An index.json beside them says where each comes from.
/// Edit segments in place; nagent-file-patch puts them back. Standard input (-) is saved beside their folder first, as
/// DIR.input, the file that is patched then.
#[derive(Debug, Clone, Parser)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    #[command(flatten)]
    request: SplitArgs,
}

impl Tool for Args {
    const NAME: &'static str = "nagent-file-split";
    const DESCRIPTION: &'static str = "Splits a large file into segments of at most 32 KiB and prints the path of \
        the index.json that lists them. It cuts at the boundaries of the file's structure (definitions, headings, elements, \
        records, paragraphs); the index has the lines and bytes of each. Call it as nagent-file-split --file FILE; --output DIR names the folder, \
        --target-bytes N the size, --split TYPE the type, --natural cuts at every boundary, --json prints the index, \
        --refresh INDEX splits again after the file has changed, --summarize adds a model's summaries. Edit the segment files, then put them back with \
        nagent-file-patch. Exit codes: 0 done, 1 file error, edited segments or a foreign index in the way, 2 wrong usage, \
        3 provider failed with --summarize.";

    fn run(self) -> Result<Report, Problem> {
        split_file(Self::NAME, &self.request)
    }
}
