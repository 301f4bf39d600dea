//! `nagent-status`: which runs are active and what they do; waits for one, or stops one.

use std::path::PathBuf;

use clap::Parser;
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter, CompletionCandidate};

use crate::cli::Tool;
use crate::ops::setup::completion;
use crate::ops::setup::find_root::find_root;
use crate::ops::status::runs;
use crate::out::Report;
use conversation::problem::Problem;
use sys::env::Env;

/// Show active runs: turn, action, seconds, tokens, cost and last line, children below their parents
///
/// A run that was killed is shown until its conversation continues. Settings are what nagent --status shows.
#[derive(Debug, Clone, Parser)]
pub struct Args {
    /// Show them again every second, until Ctrl-C
    #[arg(long, conflicts_with_all = ["wait", "stop", "json"])]
    watch: bool,
    /// Wait until the run of this conversation has ended, and end with its exit code; if none is active, with that of the last one
    #[arg(long, value_name = "NAME", conflicts_with = "stop", add = ArgValueCompleter::new(completion::conversations))]
    wait: Option<String>,
    /// Stop the run of this conversation as Ctrl-C does (SIGINT), and wait until it is gone
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(active_runs))]
    stop: Option<String>,
    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,
    /// Use the conversations in this folder [env: NAGENT_ROOT] [default: ~/.nagent]
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
}

/// Completes the conversation of an active run.
fn active_runs() -> Vec<CompletionCandidate> {
    let runs = find_root(None, &Env::read()).and_then(|(root, _)| runs::list_runs(&root));
    let runs = runs.unwrap_or_default();
    completion::words(runs.iter().filter(|run| run.is_active()).map(|run| run.name.as_str()))
}

impl Tool for Args {
    const NAME: &'static str = "nagent-status";
    const DESCRIPTION: &'static str = "Shows which runs of nagent are active and what they do. Call it as nagent-status [--json]; \
        --wait NAME waits until the run of that conversation has ended and ends with its exit code, --stop NAME stops it. \
        Exit codes: 0 done, 1 failed or no such conversation, 2 wrong usage.";
    const AFTER_HELP: &'static str = "\
Examples:
  nagent-status
  nagent-status --wait parser && make test
  nagent-status --stop parser

Exit codes: 0 done, 1 failed or no such conversation, 2 wrong usage; with --wait
that of the run";

    fn run(self) -> Result<Report, Problem> {
        let env = Env::read();
        let root = find_root(self.root.as_deref(), &env)?.0;
        match (&self.wait, &self.stop) {
            (Some(name), _) => runs::wait_for_run(&root, &env, name),
            (None, Some(name)) => runs::stop_run(&root, &env, name),
            (None, None) if self.watch => runs::watch_runs(&root),
            (None, None) => runs::report_runs(&root),
        }
    }
}
