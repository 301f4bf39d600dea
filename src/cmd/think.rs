//! `nagent-think`: runs scripts in plain language, by `#!/usr/bin/env nagent-think`.

use std::ffi::OsString;

use clap::{CommandFactory, Parser, ValueHint};

use crate::cli::Tool;
use crate::ops::scripts::think::{ThinkRequest, run_thought};
use crate::out::Report;
use conversation::problem::Problem;

/// Examples and exit codes, shown below the flags.
const AFTER_HELP: &str = "\
Examples:
  echo 'Print the weekday of the date in the first argument.' > weekday.md
  nagent-think weekday.md 2026-11-23
  git log --oneline -20 | nagent-think summary.md

Exit codes: 0 done, 1 failed, 2 wrong usage or no credential, 3 provider
failed, 4 malformed replies, 5 limit reached, 128 + N signal N";

/// Run a script written in plain language; later runs need no model
///
/// The first run has a model do what the script says; it leaves memory.js, JavaScript that does it without a model, and the next
/// run needs none. The model acts through scripts that reach only what the policy or you allow; it has no shell. Stdout holds
/// the script's result and nothing else.
#[derive(Debug, Clone, Parser)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    #[command(flatten)]
    request: ThinkRequest,
    /// The script and its arguments
    #[arg(last = true, value_name = "SCRIPT", value_hint = ValueHint::FilePath)]
    words: Vec<OsString>,
}

impl Tool for Args {
    const NAME: &'static str = "nagent-think";
    const DESCRIPTION: &'static str = "Runs a script in plain language: a text file that says what is to be done. Call it as \
        nagent-think SCRIPT ARG…; stdin is passed on. The first run asks a model, later ones run the memory.js that it left. \
        Stdout has the result; --json prints exit_code, mode, stdout, error and token counts.";

    /// Leaves the words after the script to the script.
    fn prepare(words: Vec<OsString>) -> Vec<OsString> {
        let takes_value = |word: &str| {
            let command = Self::command();
            let mut flags = command.get_arguments().filter(|arg| arg.get_action().takes_values());
            flags.any(|arg| {
                let is_long =
                    arg.get_long().is_some_and(|long| word.strip_prefix("--") == Some(long));
                let short = arg.get_short().map(|short| format!("-{short}"));
                is_long || short.as_deref() == Some(word)
            })
        };
        let mut at = 1;
        while let Some(word) = words.get(at).map(|word| word.to_string_lossy()) {
            if word == "--" {
                return words;
            }
            if !word.starts_with('-') || word == "-" {
                let (before, after) = words.split_at(at);
                return [before, &[OsString::from("--")], after].concat();
            }
            at += if takes_value(&word) { 2 } else { 1 };
        }
        words
    }

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
