//! Requests for summaries: several side by side, each kept as soon as it is there, none paid for twice.
//!
//! It sends nothing itself: who calls hands in what makes a [`Voice`], one for each thread. It does not know what a file is:
//! [`super::summarize`] makes the requests.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::kept::{self, Kept};
use super::summary_plan::{self as plan, Kind, Limit};
use crate::exit::{Exit, Signal};
use crate::llm::{Message, Reply, Role, Stop, Usage};
use crate::sys::interrupt::Interrupts;
use crate::sys::{brief_lock, clock, fs};

/// How often progress is told while nothing is done.
const TICK: Duration = Duration::from_millis(250);

/// How long is waited for another process that asks for the same summary: one that was stopped never gets it.
const OTHERS_WORK: Duration = Duration::from_mins(5);

/// Why there is no summary.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The exit code that it calls for.
    pub exit: Exit,
    /// What failed, on what, and why.
    pub message: String,
    /// The summary that came and was too long.
    pub summary: Option<String>,
}

impl Failure {
    /// A failure without a text.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), summary: None }
    }

    /// A signal came.
    pub fn interrupted(signal: Signal) -> Self {
        Self::new(Exit::Signal(signal), format!("interrupted by {}", signal.name()))
    }

    /// The same, with what it was about before its message; a signal, a wrong setting and a limit are about no part in
    /// particular.
    fn about(mut self, subject: &str) -> Self {
        let is_of_all =
            matches!(self.exit, Exit::Signal(_) | Exit::Usage) || self.summary.is_some();
        if !is_of_all {
            self.message = format!("{subject}: {}", self.message);
        }
        self
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::new(Exit::Failed, format!("{error:#}"))
    }
}

/// Sends a request, the system prompt and the messages, and waits for the reply, with whatever retries help.
pub type Exchange<'a> =
    Box<dyn FnMut(&str, Vec<Message<'_>>) -> Result<Reply, Failure> + Send + 'a>;

/// One who can be asked.
pub struct Voice<'a> {
    /// Whose model it is.
    pub provider: String,
    /// The model's id.
    pub model: String,
    /// Asks it.
    pub send: Exchange<'a>,
}

/// What holds for all summaries of a run.
pub struct Rules<'a> {
    /// Where summaries are kept.
    pub folder: PathBuf,
    /// The longest that a file's summary may be, in words, where the user says it.
    pub words: Option<u64>,
    /// How many requests run side by side.
    pub jobs: usize,
    /// Ask anew, whatever is kept.
    pub again: bool,
    /// The model's window in tokens, where it is known.
    pub window: Option<u64>,
    /// Makes one who can be asked; called when a summary is needed that is not kept, once a thread at most.
    pub voice: &'a (dyn Fn() -> Result<Voice<'a>, Failure> + Sync),
    /// Told what must not go unsaid.
    pub tell: &'a (dyn Fn(&str) + Sync),
    /// Signals.
    pub interrupts: &'a Interrupts,
}

/// What a run has cost so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requests to the model; the same one sent again after a broken connection is no other.
    pub requests: u64,
    /// Summaries that were there already.
    pub cached: u64,
    /// Tokens of all replies, those that could not be used too.
    pub usage: Usage,
}

/// A summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The text.
    pub text: String,
    /// Whose model wrote it, and which; `None` where none was needed.
    pub by: Option<(String, String)>,
}

/// A text that costs nothing, or a request.
#[derive(Debug)]
pub(super) enum Work {
    Local(String),
    Ask(Request),
}

/// One summary to be asked for.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) kind: Kind,
    pub(super) limit: Limit,
    /// The path, and of a part its lines: the head of the message.
    pub(super) place: String,
    /// What a failure is about, when that must be said.
    pub(super) subject: String,
    pub(super) text: String,
    /// Of the bytes that the text came from.
    pub(super) source_sha256: String,
}

/// What several requests gave: all that came, and why the rest did not.
#[derive(Debug)]
pub(super) struct Came {
    pub(super) summaries: Vec<Option<Summary>>,
    pub(super) failure: Option<Failure>,
}

/// Asks, and keeps what comes.
pub(super) struct Asking<'a> {
    pub(super) rules: Rules<'a>,
    voices: Mutex<Vec<Voice<'a>>>,
    totals: Mutex<Totals>,
    /// What was asked for in this run: never twice, even when all is asked anew.
    fresh: Mutex<HashSet<String>>,
}

impl<'a> Asking<'a> {
    pub(super) fn new(rules: Rules<'a>) -> Self {
        Self { rules, voices: Mutex::default(), totals: Mutex::default(), fresh: Mutex::default() }
    }

    pub(super) fn totals(&self) -> Totals {
        *locked(&self.totals)
    }

    /// Does `count` pieces of work, as many side by side as the rules allow. After a failure, or a signal, none is begun;
    /// those that run are finished.
    pub(super) fn run(
        &self,
        count: usize,
        progress: &mut dyn FnMut(u64, u64),
        make: &(dyn Fn(usize) -> Result<Work, Failure> + Sync),
    ) -> Came {
        let next = AtomicUsize::new(0);
        let failed = AtomicBool::new(false);
        let mut came = Came { summaries: vec![None; count], failure: None };
        thread::scope(|scope| {
            let (sender, results) = channel();
            for _ in 0..self.rules.jobs.clamp(1, count.max(1)) {
                let (sender, next, failed) = (sender.clone(), &next, &failed);
                scope.spawn(move || {
                    while !failed.load(Ordering::SeqCst)
                        && self.rules.interrupts.pending().is_none()
                    {
                        let at = next.fetch_add(1, Ordering::SeqCst);
                        if at >= count {
                            break;
                        }
                        let result = make(at).and_then(|work| self.work(work));
                        failed.fetch_or(result.is_err(), Ordering::SeqCst);
                        // The receiver outlives all threads.
                        let _ = sender.send((at, result));
                    }
                });
            }
            drop(sender);
            let mut done = 0;
            loop {
                match results.recv_timeout(TICK) {
                    Ok((at, Ok(summary))) => {
                        came.summaries[at] = Some(summary);
                        done += 1;
                    }
                    Ok((_, Err(failure))) => came.failure = came.failure.take().or(Some(failure)),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
                progress(done, count as u64);
            }
        });
        if let Some(signal) = self.rules.interrupts.pending() {
            came.failure = Some(Failure::interrupted(signal));
        }
        came
    }

    fn work(&self, work: Work) -> Result<Summary, Failure> {
        match work {
            Work::Local(text) => Ok(Summary { text, by: None }),
            Work::Ask(request) => {
                self.summary(&request).map_err(|failure| failure.about(&request.subject))
            }
        }
    }

    /// The summary that is kept, or a new one.
    fn summary(&self, request: &Request) -> Result<Summary, Failure> {
        let folder = &self.rules.folder;
        let key = plan::key(request.kind, request.limit, &request.text);
        if let Some(kept) = self.kept(&key) {
            return Ok(kept);
        }
        // What comes is to be kept: a folder that cannot be made is found out before anything is paid for.
        fs::create_private_folder(folder)?;
        let lock = kept::lock(folder, &key);
        let _lock = brief_lock::take(&lock, OTHERS_WORK, self.rules.interrupts, self.rules.tell)
            .map_err(Failure::interrupted)?;
        // Somebody else may have asked for it meanwhile.
        if let Some(kept) = self.kept(&key) {
            return Ok(kept);
        }
        let idle = locked(&self.voices).pop();
        let mut voice = idle.map_or_else(|| (self.rules.voice)(), Ok)?;
        let result = self.converse(&mut voice, request, &key);
        let by = (voice.provider.clone(), voice.model.clone());
        locked(&self.voices).push(voice);
        let text = result?;
        let new = Kept {
            words: plan::words(&text),
            summary: text,
            provider: by.0.clone(),
            model: by.1.clone(),
            created_at: clock::now(),
            source_sha256: request.source_sha256.clone(),
        };
        match kept::write(folder, &key, &new) {
            Ok(()) => drop(locked(&self.fresh).insert(key)),
            Err(error) => (self.rules.tell)(&format!("a summary is not kept: {error:#}")),
        }
        Ok(Summary { text: new.summary, by: Some(by) })
    }

    fn kept(&self, key: &str) -> Option<Summary> {
        if self.rules.again && !locked(&self.fresh).contains(key) {
            return None;
        }
        let kept = kept::read(&self.rules.folder, key)?;
        locked(&self.totals).cached += 1;
        Some(Summary { text: kept.summary, by: Some((kept.provider, kept.model)) })
    }

    /// Asks, and once more for a shorter one.
    fn converse(
        &self,
        voice: &mut Voice<'_>,
        request: &Request,
        key: &str,
    ) -> Result<String, Failure> {
        let limit = request.limit;
        let system = plan::system(request.kind, limit);
        let message = plan::message(&request.place, key, &request.text);
        let first = self.say(voice, &system, &[&message])?;
        let count = plan::words(&first);
        if !limit.is_over(count) {
            return Ok(first);
        }
        let again = plan::shorter(count, limit);
        let second = self.say(voice, &system, &[&message, &first, &again]);
        if !limit.strict {
            // The first is no failure, and it is paid for.
            return Ok(second.unwrap_or(first));
        }
        let second = second?;
        let count = plan::words(&second);
        if limit.is_over(count) {
            let message = format!(
                "summary exceeded --limit-word-count {} after 2 attempts (last word count: {count})",
                limit.words
            );
            return Err(Failure { summary: Some(second), ..Failure::new(Exit::Failed, message) });
        }
        Ok(second)
    }

    /// Says messages, the user's first, and gives the whole reply. An empty one is asked for once more.
    fn say(&self, voice: &mut Voice<'_>, system: &str, said: &[&str]) -> Result<String, Failure> {
        for _ in 0..2 {
            let roles = [Role::User, Role::Assistant].into_iter().cycle();
            let messages = said.iter().zip(roles);
            let messages =
                messages.map(|(text, role)| Message { role, parts: vec![*text] }).collect();
            locked(&self.totals).requests += 1;
            let reply = (voice.send)(system, messages)?;
            locked(&self.totals).usage.add(&reply.usage);
            if reply.stop == Stop::Length {
                return Err(Failure::new(
                    Exit::Provider,
                    "the summary was cut off by the length limit, so it is not taken; \"max_output_tokens\" in the config \
                     allows more",
                ));
            }
            let text = reply.text.trim();
            if !text.is_empty() {
                return Ok(text.to_owned());
            }
        }
        Err(Failure::new(Exit::Provider, "the model gave an empty reply twice"))
    }
}

/// A lock that a thread died with guards values that are whole all the same.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
