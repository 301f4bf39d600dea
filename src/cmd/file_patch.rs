//! `nagent-file-patch`: edited segments back into their source, through a patch file.

use clap::Parser;

use crate::cli::Tool;
use crate::ops::files::patch::{PatchArgs, patch_file};
use crate::out::Report;
use conversation::problem::Problem;

/// Examples and exit codes, shown below the flags.
const AFTER_HELP: &str = "\
Examples:
  nagent-file-patch parts
  nagent-file-patch parts --dry-run

Exit codes: 0 done, 1 it cannot be done and nothing was changed, 2 wrong usage";

/// Put edited segments of a file back into the file that nagent-file-split cut
///
/// Writes a patch that `git apply` and `patch -p1` take, then the source, then the index, so that segments can be edited
/// and put back again and again. Prints the path of the patch, or nothing if nothing has changed. After a kill, the same
/// command finishes the work. To remove the text of a segment, empty the file; a missing file is an error.
#[derive(Debug, Clone, Parser)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    #[command(flatten)]
    request: PatchArgs,
}

impl Tool for Args {
    const NAME: &'static str = "nagent-file-patch";
    const DESCRIPTION: &'static str = "Puts edited segments of a large file back into that file. Split the file with \
        nagent-file-split, edit the segment files in place (empty one to remove its text, never delete one), then call \
        nagent-file-patch DIR, the folder of the split. It writes a patch and prints its path, replaces the source, and refreshes \
        the index, so that more edits can follow; nothing is printed when nothing changed. --dry-run writes the patch \
        alone. When the source was changed elsewhere meanwhile it stops: split the source again. Exit codes: \
        0 done, 1 it cannot be done and nothing was changed, 2 wrong usage.";

    fn run(self) -> Result<Report, Problem> {
        patch_file(&self.request)
    }
}
