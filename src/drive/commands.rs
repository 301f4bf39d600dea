//! The shell action, `--after-write` and `--check`: one new shell each, in the run's folder, ended with all it started.
//!
//! A command runs with its user's own permissions, without credentials, and in the sandbox that the user asked for; then its
//! result says so. How a sandbox is built is [`sandbox::enforce`]'s.

use std::cell::Cell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};

use super::check_output::LastOutput;
use super::progress_event::OutputNow;
use super::redaction::MaskedOutput;
use super::result_block::{add_redacted, error};
use super::run_context::RunContext;
use super::truncate;
use conversation::exit::Signal;
use conversation::format::file::Block;
use conversation::limits;
use conversation::reason::Reason;
use sandbox::enforce::{Sandbox, SandboxedRun};
use sys::clock::Stopwatch;
use sys::env::{PARENTS, RUN};
use sys::process::job::{Finished, Job, JobOutcome, StartError};
use sys::process::kept::KeptJob;
use sys::{fs, process, root};

/// Time to wait for a kept command that ends at once, for example because its port is in use.
const STARTING: Duration = Duration::from_millis(500);

/// The time from output to a look at it.
const PAUSE: Duration = Duration::from_millis(100);

/// Note for a command that fails silently, as a search does that finds nothing.
const NO_OUTPUT: &str = "no output (exit code 1 from grep or rg means no match)";

/// The rules for running commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellRules {
    /// Path of the shell.
    pub program: String,
    /// The time limit unless a tag names another.
    pub timeout: Duration,
    /// Names of credentials that commands get.
    pub pass_env: Vec<String>,
}

/// Runs commands.
#[derive(Debug)]
pub struct Commands {
    /// The shell, the time limit, and the credentials that commands get.
    pub rules: ShellRules,
    /// When the run began, and how long it may take: no command takes longer.
    pub ends: Option<(Stopwatch, Duration)>,
    /// The command that runs after the writes of a reply.
    pub after_write: Option<String>,
    /// The command that checks an answer.
    pub check: Option<String>,
    pub(super) kept: Vec<KeptCommand>,
    /// The output of the last failed check.
    pub(super) last_check: LastOutput,
    /// Bytes of outputs that were stored in files so far, without those of `kept`.
    stored: Cell<u64>,
}

/// The text of a command, and how it is run.
pub(super) struct ShellCommand<'a> {
    pub(super) commands: &'a str,
    /// Seconds that it may take, if not as many as usual.
    pub(super) timeout: Option<u64>,
    /// Its `NAGENT_PARENTS`.
    pub(super) parents: String,
    /// The sandbox around it, if there is one.
    pub(super) sandbox: Option<&'a Sandbox>,
}

/// A command that runs on until the run ends. The sandbox is cleaned up after it, and so comes last.
#[derive(Debug)]
pub(super) struct KeptCommand {
    name: String,
    output: PathBuf,
    /// Maximum size of `output`, in bytes.
    limit: u64,
    job: KeptJob,
    /// Its process id, where other commands know it by that.
    pid: Option<u32>,
    _sandboxed: Option<SandboxedRun>,
}

impl KeptCommand {
    /// Waits up to this time for its end, and describes it in a note.
    fn describe_end(&mut self, time: Duration) -> Option<String> {
        let ended = self.job.ended_within(time)?;
        let how = match ended.outcome {
            JobOutcome::Ended { code } => format!("exit code {code}"),
            JobOutcome::Killed { signal } => format!("signal {signal}"),
            _ => "killed".to_owned(),
        };
        let left = describe_left(ended.left).map(|left| format!("; {left}"));
        let (name, output) = (&self.name, self.output.display());
        Some(format!("{name} has exited: {how}; output: {output}{}", left.unwrap_or_default()))
    }
}

impl Commands {
    /// Commands of which none is running yet.
    pub fn new(rules: ShellRules, after_write: Option<String>, check: Option<String>) -> Self {
        let (ends, kept, last_check, stored) = Default::default();
        Self { rules, ends, after_write, check, kept, last_check, stored }
    }

    /// The bytes of outputs that may still be stored in files.
    fn room(&self) -> u64 {
        let kept = self.kept.iter().map(|kept| kept.limit).sum::<u64>();
        limits::RUN_OUTPUT.saturating_sub(self.stored.get()).saturating_sub(kept)
    }

    /// Starts commands that run on until the run ends; the result has what they print at once.
    pub(super) fn start_kept_commands(
        &mut self,
        block: Block,
        command: &ShellCommand<'_>,
        name: &str,
        context: &RunContext<'_>,
    ) -> (Block, Option<Signal>) {
        let block = block.with("keep", name);
        let replaced = self.kept.iter().any(|kept| kept.name == name && kept.job.is_running());
        let mut kept = match self.start_kept(command, name, context) {
            Ok(kept) => kept,
            Err(why) => return (error(block, format!("{why:#}")), None),
        };
        let ended = kept.describe_end(STARTING);
        let block = block.with("output", kept.output.display());
        let printed = fs::read_bytes(&kept.output, limits::KEPT_OUTPUT).ok().flatten();
        let mut printed = printed.unwrap_or_default();
        printed.truncate(limits::EDIT_SHOWN);
        let printed = String::from_utf8_lossy(&printed).trim_end().to_owned();
        let most = kept.limit >> 20;
        let pid = kept.pid;
        let block = block.with_some("pid", pid);
        let ends = pid.map_or_else(
            || "its name with the command true ends it".to_owned(),
            |pid| format!("kill {pid} ends it"),
        );
        let runs = format!(
            "running until the run ends; {ends}; its output (up to {most} MiB) goes to the output file"
        );
        let (status, note) = match ended {
            Some(ended) => ("error", ended),
            None => ("ok", runs),
        };
        let replaced = replaced.then(|| format!("the previous {name} was stopped"));
        let is_cut_off = command.sandbox.is_some_and(|sandbox| sandbox.request.no_network);
        let unreachable =
            is_cut_off.then(|| "without a network, no other command can connect to it".to_owned());
        let notes = replaced.into_iter().chain([note]).chain(unreachable);
        self.kept.push(kept);
        let block = with_notes(block.with("status", status).body(printed), notes);
        (block, context.interrupts.pending())
    }

    fn start_kept(
        &mut self,
        command: &ShellCommand<'_>,
        name: &str,
        context: &RunContext<'_>,
    ) -> Result<KeptCommand> {
        root::check_name(name).map_err(|why| anyhow!("keep: {why}"))?;
        // A name that is used again replaces its command: a server is restarted after a change of its code.
        let is_over = |kept: &mut KeptCommand| kept.name == name || !kept.job.is_running();
        for over in self.kept.extract_if(.., is_over) {
            let output = over.output.clone();
            drop(over);
            note_stored(&self.stored, Some(&output));
        }
        ensure!(
            self.kept.len() < limits::KEPT_COMMANDS,
            "{} commands are already running in the background, the maximum; use one of their names again to replace it",
            self.kept.len()
        );
        let mut job = self.build_job(command, None, context);
        let sandboxed = command.sandbox.map(|sandbox| sandbox.sandbox_job(&mut job)).transpose()?;
        let (output, file) = fs::create_output(&context.root.outputs_folder(), name)?;
        let limit = limits::KEPT_OUTPUT.min(self.room());
        let has_own_ids = job.is_bwrap;
        let job = KeptJob::start(job, file, limit, context.redactor.filter_lines())?;
        let pid = job.process_id().filter(|_| !has_own_ids);
        Ok(KeptCommand { name: name.to_owned(), output, limit, job, pid, _sandboxed: sandboxed })
    }

    /// Describes kept commands that have ended.
    pub(super) fn report_ended(&mut self) -> Vec<String> {
        self.kept.iter_mut().filter_map(|kept| kept.describe_end(Duration::ZERO)).collect()
    }

    /// Runs commands. `on_output` is shown the end of their output while they run.
    pub(super) fn run(
        &self,
        block: Block,
        command: &ShellCommand<'_>,
        context: &RunContext<'_>,
        on_output: &mut dyn FnMut(&OutputNow),
    ) -> (Block, Option<Signal>) {
        let timeout = command.timeout.map_or(self.rules.timeout, Duration::from_secs);
        let left = self.ends.map(|(watch, most)| most.saturating_sub(watch.elapsed()));
        let timeout = left.map_or(timeout, |left| left.min(timeout));
        let job = || self.build_job(command, Some(timeout), context);
        let outputs = context.root.outputs_folder();
        let mut run = |job: Job| {
            let mut output = context.redactor.capture_output(&outputs, self.room());
            let finished =
                process::run_streaming(job, context.interrupts, Some(PAUSE), &mut |bytes| {
                    match bytes {
                        [] => on_output(&output.look()),
                        bytes => output.append(bytes),
                    }
                });
            (finished, output)
        };
        let Some(sandbox) = command.sandbox else {
            let (finished, output) = run(job());
            return describe_result(&self.stored, block, finished, output, timeout);
        };
        let block = with_sandbox(block, sandbox);
        let outcome = |(finished, _): &(Result<Finished, StartError>, _)| {
            finished.as_ref().ok().map(|finished| finished.outcome)
        };
        let (mut sandboxed, has_run, (finished, output)) = match sandbox.run(job, run, outcome) {
            Ok(ran) => ran,
            Err(why) => return (error(block, format!("{why:#}")), None),
        };
        let (block, signal) = describe_result(&self.stored, block, finished, output, timeout);
        let mut notes = sandboxed.tidy();
        if !has_run {
            notes.push("the command was not started: the sandbox could not be built".to_owned());
        }
        let has_failed = block.get("status") == Some("error");
        let advice = sandbox.advise(block.body.as_deref().unwrap_or_default(), has_failed);
        let reason = advice.is_some().then_some(Reason::Sandbox.name());
        notes.extend(advice);
        (with_notes(block.with_some("reason", reason), notes), signal)
    }

    fn build_job(
        &self,
        command: &ShellCommand<'_>,
        timeout: Option<Duration>,
        context: &RunContext<'_>,
    ) -> Job {
        let set = [
            (PARENTS, command.parents.clone()),
            (RUN, context.run.clone()),
            ("NAGENT_ROOT", context.root.path().display().to_string()),
            // An editor would wait for keys that nobody can press.
            ("GIT_EDITOR", "true".to_owned()),
        ];
        let program = context.env.find_program(&self.rules.program).into_os_string();
        let argv = vec![program, OsString::from("-c"), OsString::from(command.commands)];
        let env = context.env.for_commands(&self.rules.pass_env, &set);
        let mut job = Job::new(argv, context.folder.clone(), env);
        job.timeout = timeout;
        job.keep = 0;
        context.servers.pass_to(&mut job, context.env);
        job
    }
}

/// Counts the bytes of a command's output file.
fn note_stored(stored: &Cell<u64>, output: Option<&Path>) {
    let bytes = output.and_then(fs::file_size).unwrap_or(0);
    stored.set(stored.get().saturating_add(bytes));
}

/// Says how many processes were ended because their command had ended.
fn describe_left(count: u16) -> Option<String> {
    let were = if count == 1 { "process was" } else { "processes were" };
    (count > 0).then(|| format!("{count} background {were} killed when the command ended"))
}

/// The block with notes after the output, each in brackets.
pub(super) fn with_notes(mut block: Block, notes: impl IntoIterator<Item = String>) -> Block {
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
    stored: &Cell<u64>,
    block: Block,
    finished: Result<Finished, StartError>,
    output: MaskedOutput<'_>,
    timeout: Duration,
) -> (Block, Option<Signal>) {
    let finished = match finished {
        Ok(finished) => finished,
        Err(why) => return (error(block, why.to_string()), None),
    };
    let (output, masks) = output.finish();
    note_stored(stored, output.spooled.as_deref());
    let seconds = format!("{:.3}", finished.took.as_secs_f64());
    let (code, why) = match finished.outcome {
        JobOutcome::Ended { code } => (Some(code), String::new()),
        JobOutcome::Killed { signal } => (Some(128 + signal), format!("ended by signal {signal}")),
        JobOutcome::TimedOut => {
            let limit = timeout.as_secs();
            (None, format!("killed after {limit} s, its timeout, with everything it had started"))
        }
        JobOutcome::Interrupted(signal) => {
            (None, format!("stopped: nagent received {}", signal.name()))
        }
        JobOutcome::TooMuch => (None, "killed: too much output".to_owned()),
        JobOutcome::Stopped => (None, "ended".to_owned()),
    };
    let why = (!why.is_empty()).then_some(why);
    let status = if code == Some(0) { "ok" } else { "error" };
    let block = block.with("status", status).with_some("exit_code", code).with("seconds", seconds);
    let mut block = truncate::with_output(block, &output);
    let is_empty = block.body.as_deref().is_none_or(str::is_empty);
    let is_silent = is_empty && code == Some(1) && block.get("check").is_none();
    let silent = is_silent.then_some(NO_OUTPUT);
    let left = describe_left(finished.left).filter(|_| code.is_some());
    let lost =
        "some processes of this command may still be running: they did not end within a second";
    let lost = (!finished.all_gone).then_some(lost);
    let notes = silent.map(str::to_owned).into_iter().chain(left).chain(why);
    block = with_notes(block, notes.chain(lost.map(str::to_owned)));
    let signal = match finished.outcome {
        JobOutcome::Interrupted(signal) => Some(signal),
        _ => None,
    };
    (add_redacted(block, masks), signal)
}
