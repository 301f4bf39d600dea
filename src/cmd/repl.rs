//! `nagent-repl`: a prompt in the terminal, in front of `nagent`.

use crate::cli::Tool;
pub use crate::ops::session::SessionArgs as Args;
use crate::ops::session::{self, WITHOUT};
use crate::out::Report;
use conversation::problem::Problem;

impl Args {
    /// A flag that was given and that a session has no use for.
    fn find_refused(&self) -> Option<&'static str> {
        let run = &self.run;
        let is_given =
            [run.code, run.lines, run.progress, run.show_request, run.record.is_some(), run.clear];
        WITHOUT.into_iter().zip(is_given).find_map(|(name, is_given)| is_given.then_some(name))
    }

    /// Whether no flag asks for an answer to a program.
    pub(super) fn is_for_person(&self) -> bool {
        let answer = &self.run.answer;
        let is_plain = answer.schema.is_none() && answer.output.is_none();
        is_plain && !self.run.json && self.find_refused().is_none()
    }
}

impl Tool for Args {
    const NAME: &'static str = session::NAME;
    const DESCRIPTION: &'static str = "A prompt in a terminal for a person, in front of nagent; a model calls nagent \
        itself. Prompts on stdin, one a line, are answered one after another in one conversation. --json prints one JSON \
        document with runs, conversation_path, exit_code and error.";
    const AFTER_HELP: &'static str = "\
Examples:
  nagent-repl
  nagent-repl --look nano -C ~/project
  nagent-repl --approve ask \"What is in this folder?\"
  printf 'What is in this folder?\\n/summarize\\n' | nagent-repl

/help lists the commands. Ctrl-C stops a run, Ctrl-D leaves. The conversation is
that of nagent in this shell: nagent \"...\" continues it.

Exit codes: 0 left, or all prompts done; 1 failed, 2 wrong usage or no
credential, 3 Ollama does not answer; of a prompt on stdin those of nagent;
128 + N signal N";

    fn run(mut self) -> Result<Report, Problem> {
        self.run.take_prompt(&mut self.continue_);
        self.run.allow_working_folder()?;
        if let Some(name) = self.find_refused() {
            return Err(Problem::usage(format!(
                "nagent-repl has no --{}; use it with nagent",
                name.replace('_', "-")
            )));
        }
        session::run_session(self)
    }
}
