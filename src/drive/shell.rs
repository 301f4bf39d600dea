//! The shell action and `--check`: one new shell each, in the run's folder, ended with all it started.
//!
//! It runs with its user's own permissions, credentials kept from it, and within walls where the user wants them; then the
//! result says so, and of a denial which setting would allow it. How walls are built is [`crate::sys::sandbox`]'s.

use std::ffi::OsString;
use std::time::Duration;

use super::{Seen, World, inline, veil};
use crate::exit::Signal;
use crate::format::conversation::Block;
use crate::sys::env::PARENTS;
use crate::sys::process;
use crate::sys::process::job::{Finished, Job, Outcome, StartError};
use crate::sys::sandbox::{Ended, Walled, Walls};
use crate::turn::event::Event;

impl World<'_> {
    /// Runs commands; the result, and the signal that ended them, if one did.
    pub(super) fn run_shell(
        &mut self,
        commands: &str,
        timeout: Option<u64>,
    ) -> (Block, Option<Signal>) {
        let timeout = timeout.map_or(self.shell.timeout, Duration::from_secs);
        self.command(Block::new("nagent-shell-result"), commands, timeout)
    }

    /// Runs commands to their end, and makes a block of what came of them.
    fn command(
        &mut self,
        block: Block,
        commands: &str,
        timeout: Duration,
    ) -> (Block, Option<Signal>) {
        let mut job = self.shell_job(commands, timeout);
        let Some(walls) = &self.walls else {
            let ended = process::run(job, self.interrupts);
            return self.finish(block, ended, timeout);
        };
        let block = with_walls(block, walls);
        let Walled { argv, env, hold } = match walls.wrap(job.argv, &job.cwd) {
            Ok(walled) => walled,
            Err(missing) => {
                return (block.with("status", "error").body(missing.to_string()), None);
            }
        };
        job.argv = argv;
        job.env.retain(|(name, _)| !env.iter().any(|(set, _)| set == name));
        job.env.extend(env);
        let finished = process::run(job, self.interrupts);
        let Ended { refused, mut notes, links } = hold.end();
        if let (Some(why), Ok(_)) = (refused, &finished) {
            let why = format!("the command was not started: {why}");
            return (block.with("status", "error").body(why), None);
        }
        let (mut block, signal) = self.finish(block, finished, timeout);
        let mut output = block.body.take().unwrap_or_default();
        if block.get("status") == Some("error") {
            notes.extend(walls.advice(&output, &links));
        }
        for note in notes {
            let gap = if output.is_empty() { "" } else { "\n" };
            output.push_str(&format!("{gap}[{note}]"));
        }
        (block.body(output), signal)
    }

    /// Runs `--check`.
    pub(super) fn run_check(&mut self) -> Event {
        let Some(command) = self.check.clone() else {
            return Event::Checked { passed: true, block: Block::new("system") };
        };
        (self.observe)(Seen::Checking(&command));
        let timeout = self.shell.timeout;
        let block = Block::new("system").with("check", &command);
        let (block, signal) = self.command(block, &command, timeout);
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
        let program = self.env.program(&self.shell.program).into_os_string();
        let argv = vec![program, OsString::from("-c"), OsString::from(commands)];
        let mut job =
            Job::new(argv, self.folder.clone(), self.env.for_commands(&self.shell.pass_env, &set));
        job.timeout = Some(timeout);
        job.keep = inline::KEEP;
        job.spool = Some(self.root.outputs());
        job.unlinked = !self.veil.is_idle();
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

/// A result's block that says which walls stood.
pub(super) fn with_walls(block: Block, walls: &Walls) -> Block {
    let wanted = walls.wanted();
    let block = block.with("sandbox", wanted.mode.name());
    if wanted.no_network { block.with("network", "off") } else { block }
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
    let left = "processes of this command may still run: they could not be ended within a second";
    for why in why.into_iter().chain((!finished.all_gone).then(|| left.to_owned())) {
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
