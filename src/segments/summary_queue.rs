//! Asks a model for summaries: several side by side, each cached as soon as it arrives, each text once in a run.
//!
//! It sends nothing itself: the caller passes a function that connects to the model. It does not know what a file is:
//! [`super::file_summary`] and [`super::conversation_summary`] make the requests.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::summary_cache::{self, CachedSummary};
use super::summary_plan::{self as plan, SummaryKind, WordLimit};
use crate::exit::Exit;
use crate::llm::{Message, Reply, Role, StopReason, Usage};
use crate::problem::Problem;
use crate::sys::interrupt::Interrupts;
use crate::sys::{clock, fs};

/// How often progress is reported while nothing finishes.
const TICK: Duration = Duration::from_millis(250);

/// Sends a system prompt and messages, and waits for the reply, retries included.
pub type SendRequest<'a> =
    Box<dyn FnMut(&str, Vec<Message<'_>>) -> Result<Reply, Problem> + Send + 'a>;

/// A model, connected.
pub struct SummaryModel<'a> {
    /// The provider's name.
    pub provider: String,
    /// The model's id.
    pub model: String,
    /// Sends it a request.
    pub send: SendRequest<'a>,
}

/// What holds for all summaries of a run.
pub struct SummaryRules<'a> {
    /// The folder of the cache.
    pub folder: PathBuf,
    /// The user's limit for the summary of the whole, in words.
    pub words: Option<u64>,
    /// How many requests run side by side.
    pub jobs: usize,
    /// Ask again for what is cached.
    pub again: bool,
    /// The model's window in tokens, if it is known.
    pub window: Option<u64>,
    /// Connects to the model; called when a summary is not cached, at most once per thread.
    pub connect: &'a (dyn Fn() -> Result<SummaryModel<'a>, Problem> + Sync),
    /// Reports what the user should know.
    pub report: &'a (dyn Fn(&str) + Sync),
    /// Signals.
    pub interrupts: &'a Interrupts,
}

/// What a run has cost so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SummaryTotals {
    /// Requests to the model; retries after a broken connection are not counted.
    pub requests: u64,
    /// Summaries that needed no request.
    pub cached: u64,
    /// Tokens of all replies, with those that could not be used.
    pub usage: Usage,
}

/// A summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The text.
    pub text: String,
    /// Provider and model; `None` if none was needed.
    pub by: Option<(String, String)>,
}

/// A summary that costs nothing, or a request for one.
#[derive(Debug)]
pub(super) enum SummaryTask {
    Known(String),
    Ask(SummaryRequest),
}

/// A request for one summary.
#[derive(Debug)]
pub(super) struct SummaryRequest {
    pub(super) kind: SummaryKind,
    pub(super) limit: WordLimit,
    /// The head of the message: the path, and the lines of a part.
    pub(super) place: String,
    /// What an error is about.
    pub(super) subject: String,
    pub(super) text: String,
    /// The hash of the bytes that the text came from.
    pub(super) source_sha256: String,
}

/// What became of several tasks: the summaries that arrived, and why the rest did not.
#[derive(Debug)]
pub(super) struct QueueResult {
    pub(super) summaries: Vec<Option<Summary>>,
    pub(super) problem: Option<Problem>,
}

impl QueueResult {
    /// Returns all summaries, if there is no problem.
    pub(super) fn into_all(self) -> Result<Vec<Summary>, Problem> {
        self.problem.map_or(Ok(self.summaries.into_iter().flatten().collect()), Err)
    }

    /// Returns the summary of a single task.
    pub(super) fn into_single(self) -> Result<Summary, Problem> {
        let all = self.into_all()?;
        all.into_iter().next().ok_or_else(|| Problem::failed("no summary was asked for"))
    }
}

/// Asks for summaries and caches them.
pub(super) struct SummaryQueue<'a> {
    pub(super) rules: SummaryRules<'a>,
    /// Connected models that no thread uses now.
    models: Mutex<Vec<SummaryModel<'a>>>,
    totals: Mutex<SummaryTotals>,
    /// The summaries of this run by key. A thread that needs one that another asks for waits for its lock.
    asked: Mutex<HashMap<String, Arc<Mutex<Option<Summary>>>>>,
    /// A summary that was longer than the user's limit.
    rejected: Mutex<Option<String>>,
}

impl<'a> SummaryQueue<'a> {
    pub(super) fn new(rules: SummaryRules<'a>) -> Self {
        Self {
            rules,
            models: Mutex::default(),
            totals: Mutex::default(),
            asked: Mutex::default(),
            rejected: Mutex::default(),
        }
    }

    pub(super) fn totals(&self) -> SummaryTotals {
        *lock_mutex(&self.totals)
    }

    pub(super) fn rejected(&self) -> Option<String> {
        lock_mutex(&self.rejected).clone()
    }

    /// Does `count` tasks, as many side by side as the rules allow. After a problem or a signal none is begun; those that
    /// run are finished.
    pub(super) fn run_tasks(
        &self,
        count: usize,
        progress: &mut dyn FnMut(u64, u64),
        make: &(dyn Fn(usize) -> Result<SummaryTask, Problem> + Sync),
    ) -> QueueResult {
        let next = AtomicUsize::new(0);
        let has_failed = AtomicBool::new(false);
        let mut all = QueueResult { summaries: vec![None; count], problem: None };
        thread::scope(|scope| {
            let (sender, results) = channel();
            for _ in 0..self.rules.jobs.clamp(1, count.max(1)) {
                let (sender, next, has_failed) = (sender.clone(), &next, &has_failed);
                scope.spawn(move || {
                    while !has_failed.load(Ordering::SeqCst)
                        && self.rules.interrupts.pending().is_none()
                    {
                        let at = next.fetch_add(1, Ordering::SeqCst);
                        if at >= count {
                            break;
                        }
                        let result = make(at).and_then(|task| self.do_task(task));
                        has_failed.fetch_or(result.is_err(), Ordering::SeqCst);
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
                        all.summaries[at] = Some(summary);
                        done += 1;
                    }
                    Ok((_, Err(problem))) => all.problem = all.problem.take().or(Some(problem)),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
                progress(done, count as u64);
            }
        });
        if let Some(signal) = self.rules.interrupts.pending() {
            all.problem = Some(Problem::interrupted(signal));
        }
        all
    }

    fn do_task(&self, task: SummaryTask) -> Result<Summary, Problem> {
        match task {
            SummaryTask::Known(text) => Ok(Summary { text, by: None }),
            SummaryTask::Ask(request) => self.summarize(&request).map_err(|problem| {
                // A signal or a wrong setting is not about one part.
                if matches!(problem.exit, Exit::Signal(_) | Exit::Usage) {
                    return problem;
                }
                Problem::new(problem.exit, format!("{}: {}", request.subject, problem.message))
            }),
        }
    }

    /// Returns the summary of this run, or the cached one, or asks for one and caches it.
    fn summarize(&self, request: &SummaryRequest) -> Result<Summary, Problem> {
        let folder = &self.rules.folder;
        let key = plan::cache_key(request.kind, request.limit, &request.text);
        let slot = Arc::clone(lock_mutex(&self.asked).entry(key.clone()).or_default());
        let mut slot = lock_mutex(&slot);
        let cached = || {
            let cached = summary_cache::read_summary(folder, &key).filter(|_| !self.rules.again)?;
            Some(Summary { text: cached.summary, by: Some((cached.provider, cached.model)) })
        };
        if let Some(known) = slot.clone().or_else(cached) {
            lock_mutex(&self.totals).cached += 1;
            *slot = Some(known.clone());
            return Ok(known);
        }
        // A folder that cannot be made is an error before anything is paid for.
        fs::create_private_folder(folder)?;
        let idle = lock_mutex(&self.models).pop();
        let mut model = idle.map_or_else(|| (self.rules.connect)(), Ok)?;
        let result = self.ask_for_summary(&mut model, request, &key);
        let (provider, model_id) = (model.provider.clone(), model.model.clone());
        lock_mutex(&self.models).push(model);
        let text = result?;
        let new = CachedSummary {
            words: plan::count_words(&text),
            summary: text.clone(),
            provider: provider.clone(),
            model: model_id.clone(),
            created_at: clock::now(),
            source_sha256: request.source_sha256.clone(),
        };
        if let Err(error) = summary_cache::write_summary(folder, &key, &new) {
            (self.rules.report)(&format!("cannot cache a summary: {error:#}"));
        }
        let summary = Summary { text, by: Some((provider, model_id)) };
        *slot = Some(summary.clone());
        Ok(summary)
    }

    /// Asks, and asks once more for a shorter summary if it is too long.
    fn ask_for_summary(
        &self,
        model: &mut SummaryModel<'_>,
        request: &SummaryRequest,
        key: &str,
    ) -> Result<String, Problem> {
        let limit = request.limit;
        let system = plan::system_prompt(request.kind, limit);
        let message = plan::user_message(&request.place, key, &request.text);
        let first = self.send_messages(model, &system, &[&message])?;
        let count = plan::count_words(&first);
        if !limit.is_over(count) {
            return Ok(first);
        }
        let again = plan::shorter_message(count, limit);
        let second = self.send_messages(model, &system, &[&message, &first, &again]);
        if !limit.strict {
            // The first one is long, but paid for.
            return Ok(second.unwrap_or(first));
        }
        let second = second?;
        let count = plan::count_words(&second);
        if limit.is_over(count) {
            *lock_mutex(&self.rejected) = Some(second);
            return Err(Problem::failed(format!(
                "summary exceeded --limit-word-count {} after 2 attempts (last word count: {count})",
                limit.words
            )));
        }
        Ok(second)
    }

    /// Sends messages, the user's first, and returns the whole reply. Asks once more if it is empty.
    fn send_messages(
        &self,
        model: &mut SummaryModel<'_>,
        system: &str,
        texts: &[&str],
    ) -> Result<String, Problem> {
        for _ in 0..2 {
            let roles = [Role::User, Role::Assistant].into_iter().cycle();
            let messages = texts.iter().zip(roles);
            let messages =
                messages.map(|(text, role)| Message { role, parts: vec![*text] }).collect();
            lock_mutex(&self.totals).requests += 1;
            let reply = (model.send)(system, messages)?;
            lock_mutex(&self.totals).usage.add(&reply.usage);
            if reply.stop == StopReason::Length {
                return Err(Problem::new(
                    Exit::Provider,
                    "the summary was cut off by the length limit, so it is not used; raise \"max_output_tokens\" in the config",
                ));
            }
            let text = reply.text.trim();
            if !text.is_empty() {
                return Ok(text.to_owned());
            }
        }
        Err(Problem::new(Exit::Provider, "the model gave an empty reply twice"))
    }
}

/// A panic of another thread does not make these values invalid.
fn lock_mutex<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
