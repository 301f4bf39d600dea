//! Runs a script in a separate process that has no rights: starts it, answers its calls, ends it in time.
//!
//! The output of the process is untrusted. It is parsed as data, a line at a time; anything that is not a message ends
//! it.

pub mod rights;

use std::io::{ErrorKind, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::pipe::fcntl_setpipe_size;

use super::bridges::Bridges;
use crate::js::wire::{End, Start, WorkerMessage, answer_line};
use conversation::exit::Signal;
use conversation::limits;
use sys::env::Env;
use sys::interrupt::Interrupts;
use sys::ready;

/// The flag that makes `nagent-js` the process with the engine.
pub const WORKER_FLAG: &str = "--worker";

/// Maximum time for the process to get ready.
const START_TIME: Duration = Duration::from_secs(20);

/// Capacity of a pipe in bytes: large files go through it.
const PIPE: usize = 1 << 20;

/// The way in which a script's process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScriptOutcome {
    /// The script ended.
    End(End),
    /// It was ended at its time limit. Here and below, the text is the message.
    TimedOut(String),
    /// It used more memory than it may.
    OutOfMemory(String),
    /// A signal came.
    Interrupted(Signal),
    /// The process ended otherwise, or sent something that is not a message.
    Broken(String),
    /// It could not give up its rights, so it ran nothing.
    Unsafe(String),
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
    let mut worker = Worker::start(&bridges.env.tool_path("nagent-js"), start.memory, bridges.env)?;
    let mut landlock = false;
    let outcome = worker.converse(start, limit, bridges, &mut landlock);
    let outcome = outcome.unwrap_or_else(|broken| match broken {
        Broken::Other(outcome) => outcome,
        Broken::TimedOut => {
            let seconds = limit.unwrap_or_default().as_secs_f64();
            ScriptOutcome::TimedOut(format!("it took longer than {seconds} s"))
        }
        Broken::Ended => worker.explain_end(),
    });
    Ok(Ran { outcome, took: watch.elapsed().saturating_sub(bridges.permissions.asked), landlock })
}

struct Worker {
    child: Child,
    stdin: ChildStdin,
    stdout: ChildStdout,
    buffer: Vec<u8>,
}

/// The reason why the dialogue with the process ended before the script did.
enum Broken {
    Other(ScriptOutcome),
    TimedOut,
    /// The pipe is closed; the exit status of the process has the reason.
    Ended,
}

impl Worker {
    fn start(program: &Path, memory: u64, env: &Env) -> Result<Self> {
        let mut command = Command::new(program);
        command.arg(WORKER_FLAG).arg(memory.to_string()).env_clear().current_dir("/");
        // Dates need this variable; nothing else of the environment is passed on.
        command.envs(env.get_os("TZ").map(|zone| ("TZ", zone)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().with_context(|| {
            format!(
                "cannot start {}, the script engine; make install puts it next to nagent",
                program.display()
            )
        })?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (stdin, stdout) = pipes.ok_or_else(|| anyhow!("the pipes are missing"))?;
        let worker = Self { child, stdin, stdout, buffer: Vec::new() };
        for pipe in
            [rustix::fd::AsFd::as_fd(&worker.stdin), rustix::fd::AsFd::as_fd(&worker.stdout)]
        {
            fcntl_setfl(pipe, fcntl_getfl(pipe)? | OFlags::NONBLOCK)?;
            // If the user has too many large pipes, a small one is enough.
            let _ = fcntl_setpipe_size(pipe, PIPE);
        }
        Ok(worker)
    }

    fn converse(
        &mut self,
        start: &Start,
        limit: Option<Duration>,
        bridges: &mut Bridges<'_>,
        landlock: &mut bool,
    ) -> Result<ScriptOutcome, Broken> {
        let interrupts = bridges.permissions.interrupts;
        let line = self.read_line(Some(Instant::now() + START_TIME), interrupts)?;
        match parse(&line)? {
            WorkerMessage::Ready(holds) => *landlock = holds,
            WorkerMessage::Failed(why) => return Ok(ScriptOutcome::Unsafe(why)),
            _ => return Err(broken_protocol()),
        }
        let at_rest = self.peak_memory();
        let began = Instant::now();
        // The time for questions does not count.
        let deadline = |bridges: &Bridges<'_>| {
            began.checked_add(limit?.saturating_add(bridges.permissions.asked))
        };
        let mut line = serde_json::to_string(start).unwrap_or_default();
        loop {
            line.push('\n');
            self.write_all(line.as_bytes(), deadline(bridges), interrupts)?;
            let message = parse(&self.read_line(deadline(bridges), interrupts)?)?;
            let (name, args) = match message {
                WorkerMessage::End(End::Value(Some(value))) if value.len() > limits::JS_VALUE => {
                    let message = format!(
                        "the value has {} bytes, over the limit of {}; write it in pieces, with process.stdout.write",
                        value.len(),
                        limits::JS_VALUE
                    );
                    return Ok(ScriptOutcome::End(End::Threw { message, line: None }));
                }
                // If no memory remains for an error, the engine throws null, as a script may, too. One that has ended
                // has none.
                WorkerMessage::End(End::Threw { message, .. })
                    if message == "null"
                        && self.peak_memory().saturating_sub(at_rest) > start.memory / 2 =>
                {
                    return Ok(out_of_memory(start));
                }
                WorkerMessage::Memory => return Ok(out_of_memory(start)),
                WorkerMessage::End(end) => return Ok(ScriptOutcome::End(end)),
                WorkerMessage::Call { name, args } => (name, args),
                WorkerMessage::Ready(_) | WorkerMessage::Failed(_) => return Err(broken_protocol()),
            };
            let answer = bridges.call_function(&name, args, deadline(bridges));
            if let Some(signal) = interrupts.pending() {
                return Ok(ScriptOutcome::Interrupted(signal));
            }
            line = answer_line(&answer);
            if line.len() > limits::JS_LINE {
                let why = format!("{name}: the result is too large ({} bytes)", line.len());
                line = answer_line(&Err(why));
            }
        }
    }

    /// Reads the next line. Bytes after it are dropped: the process waits for an answer, or has ended.
    fn read_line(
        &mut self,
        deadline: Option<Instant>,
        interrupts: &Interrupts,
    ) -> Result<Vec<u8>, Broken> {
        self.buffer.clear();
        let mut chunk = vec![0; 1 << 16];
        loop {
            match self.stdout.read(&mut chunk) {
                Ok(0) => return Err(Broken::Ended),
                Ok(count) => {
                    let at = self.buffer.len();
                    self.buffer.extend_from_slice(&chunk[..count]);
                    if let Some(end) = memchr::memchr(b'\n', &self.buffer[at..]) {
                        if at + end + 1 != self.buffer.len() {
                            return Err(broken_protocol());
                        }
                        self.buffer.pop();
                        return Ok(std::mem::take(&mut self.buffer));
                    }
                    if self.buffer.len() > limits::JS_LINE {
                        return Err(broken_protocol());
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    wait_until_ready(
                        &PollFd::new(&self.stdout, PollFlags::IN),
                        deadline,
                        interrupts,
                    )?;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(Broken::Ended),
            }
            check(deadline, interrupts)?;
        }
    }

    fn write_all(
        &mut self,
        mut bytes: &[u8],
        deadline: Option<Instant>,
        interrupts: &Interrupts,
    ) -> Result<(), Broken> {
        while !bytes.is_empty() {
            match self.stdin.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    wait_until_ready(
                        &PollFd::new(&self.stdin, PollFlags::OUT),
                        deadline,
                        interrupts,
                    )?;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(Broken::Ended),
            }
            check(deadline, interrupts)?;
        }
        Ok(())
    }

    /// The peak memory of the process so far, in bytes, while it exists.
    fn peak_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let line = status.unwrap_or_default();
        let kib = line.split_once("VmHWM:").and_then(|(_, rest)| rest.split_whitespace().next());
        kib.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) << 10
    }

    /// Explains an end of the process without a final message.
    fn explain_end(&mut self) -> ScriptOutcome {
        let status = self.child.wait();
        ScriptOutcome::Broken(match status.map(|status| (status.signal(), status.code())) {
            Ok((Some(libc::SIGSYS), _)) => {
                "the engine was stopped at a forbidden system call (SIGSYS)".to_owned()
            }
            Ok((Some(signal), _)) => format!("the engine was killed by signal {signal}"),
            Ok((_, Some(125))) => "there is no memory to start the engine".to_owned(),
            _ => "the engine broke its protocol".to_owned(),
        })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Ends the process with the engine at once: no code of the script may run after its end.
pub fn leave_at_once() -> ! {
    std::process::exit(0)
}

fn out_of_memory(start: &Start) -> ScriptOutcome {
    ScriptOutcome::OutOfMemory(format!("out of memory: the limit is {} MiB", start.memory >> 20))
}

fn parse(line: &[u8]) -> Result<WorkerMessage, Broken> {
    WorkerMessage::parse(line).map_err(|why| Broken::Other(ScriptOutcome::Broken(why)))
}

fn broken_protocol() -> Broken {
    Broken::Other(ScriptOutcome::Broken("the engine broke its protocol".to_owned()))
}

fn check(deadline: Option<Instant>, interrupts: &Interrupts) -> Result<(), Broken> {
    if let Some(signal) = interrupts.pending() {
        return Err(Broken::Other(ScriptOutcome::Interrupted(signal)));
    }
    if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
        return Err(Broken::TimedOut);
    }
    Ok(())
}

/// Waits until a pipe is ready, a signal comes, or the time is over.
fn wait_until_ready(
    pipe: &PollFd<'_>,
    deadline: Option<Instant>,
    interrupts: &Interrupts,
) -> Result<(), Broken> {
    ready::wait(&mut [pipe.clone(), PollFd::new(interrupts, PollFlags::IN)], deadline);
    check(deadline, interrupts)
}
