//! `nagent-js`: runs JavaScript in a process without rights, and answers its calls as far as a policy allows it.

use crate::cli::Tool;
pub use crate::ops::single::js::ScriptArgs as Args;
use crate::ops::single::js::run_with_policy;
use crate::out::Report;
use conversation::problem::Problem;

impl Tool for Args {
    const NAME: &'static str = "nagent-js";
    const LEAVES_WORDS: bool = true;
    const DESCRIPTION: &'static str = "Runs JavaScript in a process without rights. Call it as nagent-js -e 'CODE' or \
        nagent-js FILE ARG…; the value of the last statement goes to stdout. It reads the current folder; a policy \
        allows more. --json prints exit_code, value, error, line, console and denied.";
    const AFTER_HELP: &'static str = "\
Examples:
  nagent-js -e '[1, 2, 3].map(x => x * x)'
  nagent-js report.js 2026

Exit codes: 0 a value, 1 the script threw, 2 wrong usage, 10 it called
agent.resume, 124 over its time, 125 over its memory, 126 the sandbox cannot be
built; after process.exit(N) that code";

    fn run(self) -> Result<Report, Problem> {
        run_with_policy(&self)
    }
}
