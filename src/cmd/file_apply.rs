//! `nagent-file-apply`: search/replace blocks or a unified diff from stdin, put into one file; all of it or nothing.

use clap::Parser;

use crate::cli::Tool;
use crate::ops::files::apply_edits::{ApplyArgs, apply_input};
use crate::out::Report;
use conversation::problem::Problem;

/// Examples and exit codes, shown below the flags.
const AFTER_HELP: &str = "\
Examples:
  nagent-file-apply src/parse.rs < edits.txt
  git diff main -- a.c | nagent-file-apply b.c --dry-run

A block is <<<<<<< SEARCH, whole lines as they are in the file, =======, the new
lines, >>>>>>> REPLACE, each marker on a line of its own. The file's previous
content is saved.

Exit codes: 0 done, 1 refused or failed and nothing was changed, 2 wrong usage,
or stdin holds neither blocks nor a diff";

/// Apply search/replace blocks or a unified diff from stdin to a file, all or none
///
/// A block or hunk is applied where it is certain which lines it means: blanks at ends of lines, one common indentation,
/// tabs for spaces, line ends, typographic quotes and a blank line may differ, words may not. Unchanged lines keep
/// their bytes. Hunks may have wrong counts and line numbers. A refusal quotes the nearest lines.
#[derive(Debug, Clone, Parser)]
#[command(after_help = AFTER_HELP, mut_arg("path", |arg| arg.help("The file to change")))]
pub struct Args {
    #[command(flatten)]
    request: ApplyArgs,
}

impl Tool for Args {
    const NAME: &'static str = "nagent-file-apply";
    const DESCRIPTION: &'static str = "Applies search/replace blocks or a unified diff, given on stdin, to one file: \
        nagent-file-apply --file FILE < EDITS. All blocks apply or none does. A block is <<<<<<< SEARCH, whole lines as they \
        are in the file, =======, the new lines, >>>>>>> REPLACE; its search must occur in the file exactly once. A diff's line \
        numbers and counts may be off; its context must be right. --dry-run prints what would change and writes nothing. \
        A refusal says why and quotes the nearest lines with their numbers: copy those and try again. Exit codes: 0 done, \
        1 refused and nothing was changed, 2 wrong usage or input that is neither.";

    fn run(self) -> Result<Report, Problem> {
        apply_input(&self.request)
    }
}
