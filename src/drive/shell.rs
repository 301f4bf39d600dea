//! The shell action and `--check`: one new shell each, in the run's folder, ended with all it started.
//!
//! It runs with its user's own permissions; only credentials are kept from it. What a sandbox would change goes here.

use std::ffi::OsString;
use std::time::Duration;

use super::{Seen, World, inline, veil};
use crate::exit::Signal;
use crate::format::conversation::Block;
use crate::sys::env::PARENTS;
use crate::sys::process;
use crate::sys::process::job::{Finished, Job, Outcome, StartError};
use crate::turn::event::Event;

impl World<'_> {
    /// Runs commands; the result, and the signal that ended them, if one did.
    pub(super) fn run_shell(
        &mut self,
        commands: &str,
        timeout: Option<u64>,
    ) -> (Block, Option<Signal>) {
        let timeout = timeout.map_or(self.shell.timeout, Duration::from_secs);
        let block = Block::new("nagent-shell-result");
        let ended = process::run(self.shell_job(commands, timeout), self.interrupts);
        self.finish(block, ended, timeout)
    }

    /// Runs `--check`.
    pub(super) fn run_check(&mut self) -> Event {
        let Some(command) = self.check.clone() else {
            return Event::Checked { passed: true, block: Block::new("system") };
        };
        (self.observe)(Seen::Checking(&command));
        let timeout = self.shell.timeout;
        let block = Block::new("system").with("check", &command);
        let ended = process::run(self.shell_job(&command, timeout), self.interrupts);
        let (block, signal) = self.finish(block, ended, timeout);
        let block = self.veil.block(block);
        if let Some(signal) = signal {
            return Event::Interrupted { signal, results: vec![block] };
        }
        (self.observe)(Seen::Ended(&block));
        let passed = block.get("status") == Some("ok");
        let block = if passed {
            Block { body: None, ..block }
        } else {
            let output = block.body.clone().unwrap_or_default();
            block.body(format!(
                "your answer is not accepted yet: the check failed. Its output:\n{output}"
            ))
        };
        Event::Checked { passed, block }
    }

    fn shell_job(&self, commands: &str, timeout: Duration) -> Job {
        let mut parents = self.children.parents().to_vec();
        parents.push(self.journal.name().to_owned());
        let set =
            [(PARENTS, parents.join("/")), ("NAGENT_ROOT", self.root.path().display().to_string())];
        let argv = [self.shell.program.as_str(), "-c", commands].map(OsString::from).to_vec();
        let mut job =
            Job::new(argv, self.folder.clone(), self.env.for_commands(&self.shell.pass_env, &set));
        job.timeout = Some(timeout);
        job.keep = inline::KEEP;
        job.spool = Some(self.root.outputs());
        job.nameless = !self.veil.is_idle();
        job
    }

    /// Makes a command's result of how it ended, what it printed masked.
    fn finish(
        &self,
        block: Block,
        finished: Result<Finished, StartError>,
        timeout: Duration,
    ) -> (Block, Option<Signal>) {
        let mut count = 0;
        let finished = finished.map(|mut finished| {
            let stdout = std::mem::take(&mut finished.stdout);
            (finished.stdout, count) = self.veil.captured(stdout, &self.root.outputs());
            finished
        });
        let (block, signal) = finish(block, finished, timeout);
        (veil::counted(block, count), signal)
    }
}

/// Makes a command's result of how it ended: the block, and the signal that ended it, if one did.
fn finish(
    block: Block,
    finished: Result<Finished, StartError>,
    timeout: Duration,
) -> (Block, Option<Signal>) {
    let finished = match finished {
        Ok(finished) => finished,
        Err(error) => return (block.with("status", "error").body(error.to_string()), None),
    };
    let seconds = format!("{:.3}", finished.took.as_secs_f64());
    let (status, code, why) = match finished.outcome {
        Outcome::Ended { code: 0 } => ("ok", Some(0), None),
        Outcome::Ended { code } => ("error", Some(code), None),
        Outcome::Killed { signal } => {
            ("error", Some(128 + signal), Some(format!("ended by signal {signal}")))
        }
        Outcome::TimedOut => (
            "error",
            None,
            Some(format!(
                "ended at its time limit of {} s, with all it had started (timeout=\"S\" allows more)",
                timeout.as_secs()
            )),
        ),
        Outcome::Interrupted(signal) => {
            ("error", None, Some(format!("ended because nagent got {}", signal.name())))
        }
        Outcome::TooMuch => (
            "error",
            None,
            Some("ended because it wrote too much output; let it print less".to_owned()),
        ),
        Outcome::Stopped => ("error", None, Some("ended".to_owned())),
    };
    let mut block = block.with("status", status);
    if let Some(code) = code {
        block = block.with("exit_code", code);
    }
    block = inline::captured(block.with("seconds", seconds), &finished.stdout);
    if let Some(why) = why {
        let output = block.body.take().unwrap_or_default();
        let gap = if output.is_empty() { "" } else { "\n" };
        block = block.body(format!("{output}{gap}[{why}]"));
    }
    let signal = match finished.outcome {
        Outcome::Interrupted(signal) => Some(signal),
        _ => None,
    };
    (block, signal)
}
