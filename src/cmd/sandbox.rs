//! `nagent-sandbox`: runs a command in the sandbox that nagent runs its own commands in.

use clap::Parser;

use crate::cli::Tool;
use crate::ops::single::sandboxed_command::{CommandArgs, run_sandboxed};
use crate::out::Report;
use conversation::problem::Problem;

/// Examples and exit codes, shown below the flags.
const AFTER_HELP: &str = "\
Examples:
  nagent-sandbox make test
  nagent-sandbox --no-network ./downloaded-script

Exit codes: those of the command; 1 with a message on stderr: the sandbox cannot
be built, and nothing ran";

/// Run a command that can write in the working tree and in temp folders, and nowhere else
///
/// The config and hooks of git are read-only. The command cannot read keys and nagent's own folder, reaches no Unix socket of
/// other programs, and has no capabilities and with --no-network no network. At its end stderr names files that changed and
/// that tools run without asking, as settings of shells and editors. Where the sandbox cannot be built, nothing runs. The
/// command's output and exit code pass through.
#[derive(Debug, Clone, Parser)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    #[command(flatten)]
    request: CommandArgs,
}

impl Tool for Args {
    const NAME: &'static str = "nagent-sandbox";
    const DESCRIPTION: &'static str = "Runs a command that can write in the working tree and in temp folders and nowhere else. Call it as `nagent-sandbox --no-network -- COMMAND ARG…` for code that you do not trust; --sandbox read-only lets it write only in $TMPDIR, --write DIR also in that folder. Its output and exit code are the command's; 1 with a message on stderr: the sandbox cannot be built, and nothing ran.";

    fn run(self) -> Result<Report, Problem> {
        run_sandboxed(&self.request)
    }
}
