//! `nagent-file-patch`: edited segments back into their source, through a patch file.

use crate::cli::Tool;
pub use crate::ops::files::patch::PatchArgs as Args;
use crate::ops::files::patch::patch_file;
use crate::out::Report;
use conversation::problem::Problem;

impl Tool for Args {
    const NAME: &'static str = "nagent-file-patch";
    const DESCRIPTION: &'static str = "Puts edited segments of a large file back into that file. Split the file with \
        nagent-file-split, edit the segment files in place (empty one to remove its text, never delete one), then call \
        nagent-file-patch DIR, the folder of the split. It writes a patch and prints its path, replaces the source, and refreshes \
        the index, so that more edits can follow; nothing is printed when nothing changed. --dry-run writes the patch \
        alone. When the source was changed elsewhere meanwhile it stops: split the source again. Exit codes: \
        0 done, 1 it cannot be done and nothing was changed, 2 wrong usage.";
    const AFTER_HELP: &'static str = "\
Examples:
  nagent-file-patch parts
  nagent-file-patch parts --dry-run

Exit codes: 0 done, 1 it cannot be done and nothing was changed, 2 wrong usage";

    fn run(self) -> Result<Report, Problem> {
        patch_file(&self)
    }
}
