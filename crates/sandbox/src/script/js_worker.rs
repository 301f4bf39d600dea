//! Runs a script in a separate process that has no rights: starts it, answers its calls, ends it in time.
//!
//! The output of the process is untrusted. It is parsed as data, a line at a time; anything that is not a message ends
//! it.

pub mod rights;

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use rustix::event::{PollFd, PollFlags};
use rustix::pipe::fcntl_setpipe_size;

use super::bridges::Bridges;
use crate::script::js::wire::{End, Start, WorkerMessage, answer_line};
use conversation::exit::Signal;
use conversation::limits;
use sys::interrupt::Interrupts;
use sys::ready;

/// The flag that makes `nagent-js` the process with the engine.
pub const WORKER_FLAG: &str = "--worker";

/// Maximum time for the process to get ready.
const START_TIME: Duration = Duration::from_secs(20);

/// Capacity of a pipe in bytes.
const PIPE: usize = 1 << 20;

/// The way in which a script's process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScriptOutcome {
    /// The script ended.
    End(End),
    /// A signal came.
    Interrupted(Signal),
    /// The process was ended, or ended by itself; the message.
    Failed(Failure, String),
}

/// The reason why a script's process ended before the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// It was ended at its time limit.
    TimedOut,
    /// It used more memory than it may.
    OutOfMemory,
    /// It ended otherwise, or sent something that is not a message.
    Broken,
    /// It could not give up its rights, so it ran nothing.
    Unsafe,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// The outcome.
    pub outcome: ScriptOutcome,
    /// Its duration, without questions.
    pub took: Duration,
    /// Whether Landlock was enforced.
    pub landlock: bool,
}

/// Runs a script. `limit` is its maximum time, without questions.
///
/// # Errors
/// The process could not be started.
pub fn run_script(
    start: &Start,
    limit: Option<Duration>,
    bridges: &mut Bridges<'_>,
) -> Result<Ran> {
    let watch = Instant::now();
    bridges.begin();
    let mut worker = Worker::start(start.memory, limit, bridges)?;
    let mut landlock = false;
    let (Ok(outcome) | Err(outcome)) = worker.converse(start, bridges, &mut landlock);
    Ok(Ran { outcome, took: watch.elapsed().saturating_sub(bridges.permissions.asked), landlock })
}

struct Worker<'a> {
    child: Child,
    stdin: ChildStdin,
    stdout: ChildStdout,
    /// Maximum time of the script.
    limit: Option<Duration>,
    interrupts: &'a Interrupts,
}

impl<'a> Worker<'a> {
    fn start(memory: u64, limit: Option<Duration>, bridges: &Bridges<'a>) -> Result<Self> {
        let program = bridges.env.tool_path("nagent-js");
        let mut command = Command::new(&program);
        command.arg(WORKER_FLAG).arg(memory.to_string()).env_clear().current_dir("/");
        // Dates need this variable; nothing else of the environment is passed on.
        command.envs(bridges.env.get_os("TZ").map(|zone| ("TZ", zone)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().with_context(|| {
            format!(
                "cannot start {}, the script engine; make install puts it next to nagent",
                program.display()
            )
        })?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (stdin, stdout) = pipes.ok_or_else(|| anyhow!("the pipes are missing"))?;
        // Large files go through them. If the user has too many large pipes, a small one is enough.
        let _ = fcntl_setpipe_size(&stdin, PIPE);
        let _ = fcntl_setpipe_size(&stdout, PIPE);
        Ok(Self { child, stdin, stdout, limit, interrupts: bridges.permissions.interrupts })
    }

    /// Runs the script. An error is an end that it did not choose.
    fn converse(
        &mut self,
        start: &Start,
        bridges: &mut Bridges<'_>,
        landlock: &mut bool,
    ) -> Result<ScriptOutcome, ScriptOutcome> {
        match self.read_message(Some(Instant::now() + START_TIME))? {
            WorkerMessage::Ready(holds) => *landlock = holds,
            WorkerMessage::Failed(why) => return Err(ScriptOutcome::Failed(Failure::Unsafe, why)),
            _ => return Err(broken_protocol()),
        }
        let (began, limit) = (Instant::now(), self.limit);
        // The time for questions does not count.
        let deadline = |bridges: &Bridges<'_>| {
            began.checked_add(limit?.saturating_add(bridges.permissions.asked))
        };
        let mut line = serde_json::to_string(start).unwrap_or_default();
        loop {
            line.push('\n');
            self.write_all(line.as_bytes(), deadline(bridges))?;
            let (name, args) = match self.read_message(deadline(bridges))? {
                WorkerMessage::Memory => {
                    let why = format!("out of memory: the limit is {} MiB", start.memory >> 20);
                    return Ok(ScriptOutcome::Failed(Failure::OutOfMemory, why));
                }
                WorkerMessage::End(end) => return Ok(ScriptOutcome::End(end)),
                WorkerMessage::Call { name, args } => (name, args),
                WorkerMessage::Ready(_) | WorkerMessage::Failed(_) => return Err(broken_protocol()),
            };
            let answer = bridges.call_function(&name, args, deadline(bridges));
            if let Some(signal) = self.interrupts.pending() {
                return Ok(ScriptOutcome::Interrupted(signal));
            }
            line = answer_line(&answer);
            if line.len() > limits::JS_LINE {
                let why = format!("{name}: the result is too large ({} bytes)", line.len());
                line = answer_line(&Err(why));
            }
        }
    }

    /// Reads the next message, a line. Nothing follows it: the process waits for an answer, or has ended.
    fn read_message(&mut self, deadline: Option<Instant>) -> Result<WorkerMessage, ScriptOutcome> {
        let (mut line, mut chunk) = (Vec::new(), vec![0; 1 << 16]);
        loop {
            self.wait_until_ready(&PollFd::new(&self.stdout, PollFlags::IN), deadline)?;
            let count = self.stdout.read(&mut chunk).unwrap_or(0);
            if count == 0 {
                return Err(self.explain_end());
            }
            line.extend_from_slice(&chunk[..count]);
            match memchr::memchr(b'\n', &chunk[..count]) {
                Some(end) if end + 1 == count => {
                    return WorkerMessage::parse(&line).ok_or_else(broken_protocol);
                }
                None if line.len() <= limits::JS_LINE => {}
                _ => return Err(broken_protocol()),
            }
        }
    }

    fn write_all(&mut self, bytes: &[u8], deadline: Option<Instant>) -> Result<(), ScriptOutcome> {
        // A pipe that is ready takes a page without blocking.
        for page in bytes.chunks(4096) {
            self.wait_until_ready(&PollFd::new(&self.stdin, PollFlags::OUT), deadline)?;
            if self.stdin.write_all(page).is_err() {
                return Err(self.explain_end());
            }
        }
        Ok(())
    }

    /// Waits until a pipe is ready; a signal and the end of the time are errors.
    fn wait_until_ready(
        &self,
        pipe: &PollFd<'_>,
        deadline: Option<Instant>,
    ) -> Result<(), ScriptOutcome> {
        let mut both = [pipe.clone(), PollFd::new(self.interrupts, PollFlags::IN)];
        while both[0].revents().is_empty() {
            ready::wait(&mut both, deadline);
            if let Some(signal) = self.interrupts.pending() {
                return Err(ScriptOutcome::Interrupted(signal));
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                let seconds = self.limit.unwrap_or_default().as_secs_f64();
                let why = format!("it took longer than {seconds} s");
                return Err(ScriptOutcome::Failed(Failure::TimedOut, why));
            }
        }
        Ok(())
    }

    /// Explains an end of the process without a final message.
    fn explain_end(&mut self) -> ScriptOutcome {
        let status = self.child.wait();
        let why = match status.map(|status| (status.signal(), status.code())) {
            Ok((Some(libc::SIGSYS), _)) => {
                "the engine was stopped at a forbidden system call (SIGSYS)".to_owned()
            }
            Ok((Some(signal), _)) => format!("the engine was killed by signal {signal}"),
            Ok((_, Some(125))) => "there is no memory to start the engine".to_owned(),
            _ => return broken_protocol(),
        };
        ScriptOutcome::Failed(Failure::Broken, why)
    }
}

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Ends the process with the engine at once: no code of the script may run after its end.
pub fn leave_at_once() -> ! {
    std::process::exit(0)
}

fn broken_protocol() -> ScriptOutcome {
    ScriptOutcome::Failed(Failure::Broken, "the engine broke its protocol".to_owned())
}
