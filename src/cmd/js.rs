//! `nagent-js`: runs JavaScript in a process without rights, and answers its calls as far as a policy allows it.

use std::ffi::OsString;

use clap::{CommandFactory, Parser};

use crate::cli::{Tool, leave_words_to_script};
use crate::ops::single::js::{ScriptArgs, run_with_policy};
use crate::out::Report;
use conversation::problem::Problem;

/// Examples and exit codes, shown below the flags.
const AFTER_HELP: &str = "\
Examples:
  nagent-js -e '[1, 2, 3].map(x => x * x)'
  nagent-js report.js 2026

Exit codes: 0 a value, 1 the script threw, 2 wrong usage, 10 it called
agent.resume, 124 over its time, 125 over its memory, 126 the sandbox cannot be
built; after process.exit(N) that code";

/// Run JavaScript that can touch nothing but what a policy or you allow
///
/// The script runs in a process without any rights: no files, no network, no environment, no other processes. What it wants to
/// do it asks for with functions (fs.readFile, net.fetch, env.get, ...; docs/js.md lists them). Reading the current folder is
/// allowed; everything else is asked at the terminal, or refused where there is none. The value of the last statement goes to
/// stdout, the console to stderr.
#[derive(Debug, Clone, Parser)]
#[command(after_help = AFTER_HELP, override_usage = "nagent-js [OPTIONS] FILE [ARG]...\n       nagent-js [OPTIONS] -e CODE [ARG]...")]
pub struct Args {
    #[command(flatten)]
    request: ScriptArgs,
}

impl Tool for Args {
    const NAME: &'static str = "nagent-js";
    const DESCRIPTION: &'static str = "Runs JavaScript in a process without rights. Call it as nagent-js -e 'CODE' or \
        nagent-js FILE ARG…; the value of the last statement goes to stdout. It reads the current folder; a policy \
        allows more. --json prints exit_code, value, error, line, console and denied.";

    /// Leaves the words after the script to the script.
    fn prepare(words: Vec<OsString>) -> Vec<OsString> {
        leave_words_to_script(words, &Self::command())
    }

    fn run(self) -> Result<Report, Problem> {
        run_with_policy(&self.request)
    }
}
