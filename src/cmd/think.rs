//! `nagent-think`: runs scripts in plain language, by `#!/usr/bin/env nagent-think`.

use std::ffi::OsString;

use clap::Parser;
use clap_complete::engine::ArgValueCompleter;

use crate::cli::Tool;
use crate::ops::scripts::think::{ThinkRequest, run_thought};
use crate::ops::setup::completion;
use crate::out::Report;
use conversation::problem::Problem;

/// Run a script written in plain language; later runs need no model
///
/// The first run has a model do what the script says; it leaves memory.js, JavaScript that does it without a model, and the next
/// run needs none. The model acts through scripts that reach only what the policy or you allow; it has no shell. Stdout holds
/// the script's result and nothing else.
#[derive(Debug, Clone, Parser)]
#[command(override_usage = "nagent-think [OPTIONS] SCRIPT [ARG]...")]
pub struct Args {
    #[command(flatten)]
    request: ThinkRequest,
    /// The script and its arguments
    #[arg(value_name = "SCRIPT", add = ArgValueCompleter::new(completion::scripts_and_files))]
    words: Vec<OsString>,
}

impl Tool for Args {
    const NAME: &'static str = "nagent-think";
    const LEAVES_WORDS: bool = true;
    const DESCRIPTION: &'static str = "Runs a script in plain language: a text file that says what is to be done. Call it as \
        nagent-think SCRIPT ARG…; stdin is passed on. The first run asks a model, later ones run the memory.js that it left. \
        Stdout has the result; --json prints exit_code, mode, stdout, error and token counts.";
    const AFTER_HELP: &'static str = "\
Examples:
  echo 'Print the weekday of the date in the first argument.' > weekday.md
  nagent-think weekday.md 2026-11-23
  git log --oneline -20 | nagent-think summary.md

Exit codes: 0 done, 1 failed, 2 wrong usage or no credential, 3 provider
failed, 4 malformed replies, 5 limit reached, 128 + N signal N";

    fn run(self) -> Result<Report, Problem> {
        let mut words = self.words.into_iter();
        let script = words.next().ok_or_else(|| {
            Problem::usage("no script given: nagent-think SCRIPT [ARG…] (--help shows all)")
        })?;
        let text = |word: OsString| {
            word.into_string()
                .map_err(|word| Problem::usage(format!("{} is not UTF-8 text", word.display())))
        };
        let args = words.map(text).collect::<Result<_, _>>()?;
        run_thought(Self::NAME, &ThinkRequest { script: text(script)?, args, ..self.request })
    }
}
