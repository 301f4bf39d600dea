//! `nagent-file-split`: cuts a large file into segments, with an index of them.

use crate::cli::Tool;
pub use crate::ops::files::split::SplitArgs as Args;
use crate::ops::files::split::split_file;
use crate::out::Report;
use conversation::problem::Problem;

impl Tool for Args {
    const NAME: &'static str = "nagent-file-split";
    const DESCRIPTION: &'static str = "Splits a large file into segments of at most 32 KiB and prints the path of \
        the index.json that lists them. It cuts at the boundaries of the file's structure (definitions, headings, elements, \
        records, paragraphs); the index has the lines and bytes of each. Call it as nagent-file-split --file FILE; --output DIR names the folder, \
        --target-bytes N the size, --split TYPE the type, --natural cuts at every boundary, --json prints the index, \
        --refresh INDEX splits again after the file has changed, --summarize adds a model's summaries. Edit the segment files, then put them back with \
        nagent-file-patch. Exit codes: 0 done, 1 file error, edited segments or a foreign index in the way, 2 wrong usage, \
        3 provider failed with --summarize.";
    const AFTER_HELP: &'static str = "\
Examples:
  nagent-file-split big.py --output parts
  nagent-file-split --refresh parts

Exit codes: 0 done, 1 file error or edited segments in the way, 2 wrong usage,
3 provider failed with --summarize";

    fn run(self) -> Result<Report, Problem> {
        split_file(Self::NAME, &self)
    }
}
