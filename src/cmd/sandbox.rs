//! `nagent-sandbox`: runs a command in the sandbox that nagent runs its own commands in.

use crate::cli::Tool;
pub use crate::ops::single::sandboxed_command::CommandArgs as Args;
use crate::ops::single::sandboxed_command::run_sandboxed;
use crate::out::Report;
use conversation::problem::Problem;

impl Tool for Args {
    const NAME: &'static str = "nagent-sandbox";
    const LEAVES_WORDS: bool = true;
    const DESCRIPTION: &'static str = "Runs a command that can write in the working tree and in temp folders and nowhere else. Call it as `nagent-sandbox --no-network -- COMMAND ARG…` for code that you do not trust; --sandbox read-only lets it write only in $TMPDIR, --write DIR also in that folder. Its output and exit code are the command's; 1 with a message on stderr: the sandbox cannot be built, and nothing ran.";
    const AFTER_HELP: &'static str = "\
Examples:
  nagent-sandbox make test
  nagent-sandbox --no-network ./downloaded-script

Exit codes: those of the command; 1 with a message on stderr: the sandbox cannot
be built, and nothing ran";

    fn run(self) -> Result<Report, Problem> {
        run_sandboxed(&self)
    }
}
