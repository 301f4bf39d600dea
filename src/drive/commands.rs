//! The shell action and `--check`: one new shell each, in the run's folder, ended with all it started.
//!
//! A command runs with its user's own permissions, without credentials, and in the sandbox that the user asked for; then its
//! result says so. How a sandbox is built is [`crate::sys::sandbox`]'s.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::time::Duration;

use super::redaction::MaskedOutput;
use super::result_block::add_redacted;
use super::run_context::RunContext;
use super::truncate;
use crate::exit::Signal;
use crate::format::conversation::Block;
use crate::sys::env::{PARENTS, RUN};
use crate::sys::process;
use crate::sys::process::job::{Finished, Job, Outcome, StartError};
use crate::sys::sandbox::Sandbox;

/// How commands are run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellRules {
    /// The shell's program.
    pub program: String,
    /// The time limit unless a tag names another.
    pub timeout: Duration,
    /// Names of credentials that commands get all the same.
    pub pass_env: Vec<String>,
}

/// Runs commands.
#[derive(Debug)]
pub struct Commands {
    /// The shell.
    pub rules: ShellRules,
    /// The command that an answer must satisfy.
    pub check: Option<String>,
}

impl Commands {
    /// Runs commands for at most `timeout` seconds. `parents` are the conversations that what is started here was started from.
    pub(super) fn run(
        &self,
        block: Block,
        commands: &str,
        timeout: Option<u64>,
        parents: String,
        context: &RunContext<'_>,
    ) -> (Block, Option<Signal>) {
        let timeout = timeout.map_or(self.rules.timeout, Duration::from_secs);
        let mut job = self.build_job(commands, timeout, parents, context);
        let mut output = context.redactor.capture_output(&context.root.outputs());
        let mut run = |job: Job| {
            process::run_streaming(job, context.interrupts, &mut |bytes| {
                output.append(bytes);
                ControlFlow::Continue(())
            })
        };
        let Some(sandbox) = &context.sandbox else {
            let ended = run(job);
            return describe_result(block, ended, output, timeout);
        };
        let block = with_sandbox(block, sandbox);
        let sandboxed = match sandbox.wrap(&mut job) {
            Ok(sandboxed) => sandboxed,
            Err(error) => return (block.with("status", "error").body(format!("{error:#}")), None),
        };
        let finished = run(job);
        let outcome = sandboxed.finish();
        if let (Some(why), Ok(_)) = (outcome.refused, &finished) {
            let why = format!("the command was not started: {why}");
            return (block.with("status", "error").body(why), None);
        }
        let (block, signal) = describe_result(block, finished, output, timeout);
        let mut notes = outcome.notes;
        if block.get("status") == Some("error") {
            notes.extend(sandbox.advise(block.body.as_deref().unwrap_or_default()));
        }
        (with_notes(block, notes), signal)
    }

    fn build_job(
        &self,
        commands: &str,
        timeout: Duration,
        parents: String,
        context: &RunContext<'_>,
    ) -> Job {
        let mut set = vec![
            (PARENTS, parents),
            (RUN, context.run.clone()),
            ("NAGENT_ROOT", context.root.path().display().to_string()),
        ];
        // Colour codes cost a model tokens. Who wants them lets the variable through.
        let plain = [("TERM", "dumb"), ("NO_COLOR", "1")].into_iter();
        let plain = plain.filter(|(name, _)| !self.rules.pass_env.iter().any(|pass| pass == name));
        set.extend(plain.map(|(name, value)| (name, value.to_owned())));
        let program = context.env.program(&self.rules.program).into_os_string();
        let argv = vec![program, OsString::from("-c"), OsString::from(commands)];
        let env = context.env.for_commands(&self.rules.pass_env, &set);
        let mut job = Job::new(argv, context.folder.clone(), env);
        job.timeout = Some(timeout);
        job.keep = 0;
        job
    }
}

/// The block with notes behind the output, each in brackets.
fn with_notes(mut block: Block, notes: impl IntoIterator<Item = String>) -> Block {
    let mut output = block.body.take().unwrap_or_default();
    for note in notes {
        let gap = if output.is_empty() { "" } else { "\n" };
        output.push_str(&format!("{gap}[{note}]"));
    }
    block.body(output)
}

pub(super) fn with_sandbox(block: Block, sandbox: &Sandbox) -> Block {
    let request = &sandbox.request;
    let block = block.with("sandbox", request.mode.name());
    if request.no_network { block.with("network", "off") } else { block }
}

/// Makes a command's result of how it ended: the block, and the signal that ended it, if one did.
fn describe_result(
    block: Block,
    finished: Result<Finished, StartError>,
    output: MaskedOutput<'_>,
    timeout: Duration,
) -> (Block, Option<Signal>) {
    let finished = match finished {
        Ok(finished) => finished,
        Err(error) => return (block.with("status", "error").body(error.to_string()), None),
    };
    let (output, masks) = output.finish();
    let seconds = format!("{:.3}", finished.took.as_secs_f64());
    let (code, why) = match finished.outcome {
        Outcome::Ended { code } => (Some(code), String::new()),
        Outcome::Killed { signal } => (Some(128 + signal), format!("ended by signal {signal}")),
        Outcome::TimedOut => {
            let limit = format!("ended at its time limit of {} s", timeout.as_secs());
            (None, format!("{limit}, with all it had started (timeout=\"S\" allows more)"))
        }
        Outcome::Interrupted(signal) => {
            (None, format!("ended because nagent got {}", signal.name()))
        }
        Outcome::TooMuch => {
            (None, "ended because it wrote too much output; let it print less".to_owned())
        }
        Outcome::Stopped => (None, "ended".to_owned()),
    };
    let why = (!why.is_empty()).then_some(why);
    let status = if code == Some(0) { "ok" } else { "error" };
    let mut block = block.with("status", status);
    if let Some(code) = code {
        block = block.with("exit_code", code);
    }
    block = truncate::with_output(block.with("seconds", seconds), &output);
    let left = "processes of this command may still run: they could not be ended within a second";
    block = with_notes(block, why.into_iter().chain((!finished.all_gone).then(|| left.to_owned())));
    let signal = match finished.outcome {
        Outcome::Interrupted(signal) => Some(signal),
        _ => None,
    };
    (add_redacted(block, masks), signal)
}
