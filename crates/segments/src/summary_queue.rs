//! Asks a model for summaries: several side by side, each cached as soon as it arrives, each text once in a run.
//!
//! What is too long for one request is summarized in parts. Neighbouring summaries are then joined, as many as a request
//! takes, level by level, until one is left.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::summary_cache::{self, Summary};
use super::summary_plan::{self as plan, RequestSizes, SummaryKind, WordLimit};
use conversation::exit::Exit;
use conversation::model::{Reply, RequestMessage, Role, StopReason, Usage};
use conversation::problem::Problem;
use sys::fs;
use sys::interrupt::Interrupts;
use sys::lock::lock_mutex;

/// How often progress is reported while nothing finishes.
const TICK: Duration = Duration::from_millis(250);

/// The names of a provider and its model.
pub type Author = (String, String);

/// Sends a system prompt and messages, and waits for the reply, retries included. Another model may go on: its names replace those
/// of the author.
pub type SendRequest<'a> =
    Box<dyn FnMut(&str, &[RequestMessage<'_>], &mut Author) -> Result<Reply, Problem> + Send + 'a>;

/// A model, connected.
pub struct SummaryModel<'a> {
    /// The model that writes.
    pub author: Author,
    /// Sends a request, and returns the reply.
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
    pub connect: Box<dyn Fn() -> Result<SummaryModel<'a>, Problem> + Sync + 'a>,
    /// Reports what the user should know.
    pub report: Box<dyn Fn(&str) + Sync + 'a>,
    /// What ends it.
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

#[derive(Debug)]
pub(super) struct SummaryRequest {
    pub(super) kind: SummaryKind,
    pub(super) limit: WordLimit,
    /// The head of the message: the path, and the lines of a part.
    pub(super) place: String,
    pub(super) subject: String,
    pub(super) text: String,
}

#[derive(Debug, Clone)]
pub(super) struct SummarizedPart {
    pub(super) first_line: u64,
    pub(super) last_line: u64,
    pub(super) summary: Summary,
}

pub(super) struct SummarizedWhole<'a> {
    /// The kind of request that joins.
    pub(super) kind: SummaryKind,
    /// What it is: a file, a conversation.
    pub(super) what: &'static str,
    /// Its name for the model.
    pub(super) name: &'a str,
    pub(super) lines: u64,
    pub(super) sizes: RequestSizes,
}

/// Asks for summaries and caches them.
pub struct SummaryQueue<'a> {
    pub(super) rules: SummaryRules<'a>,
    /// Connected models that no thread uses now.
    models: Mutex<Vec<SummaryModel<'a>>>,
    totals: Mutex<SummaryTotals>,
    /// The summaries of this run by key. A thread that needs one that another asks for waits for its lock.
    asked: Mutex<HashMap<String, Arc<Mutex<Option<Summary>>>>>,
    rejected: Mutex<Option<String>>,
}

impl<'a> SummaryQueue<'a> {
    /// A queue that has asked nothing yet.
    pub fn new(rules: SummaryRules<'a>) -> Self {
        Self {
            rules,
            models: Mutex::default(),
            totals: Mutex::default(),
            asked: Mutex::default(),
            rejected: Mutex::default(),
        }
    }

    /// What was spent so far, including failed requests.
    pub fn totals(&self) -> SummaryTotals {
        *lock_mutex(&self.totals)
    }

    /// The summary that failed because it was longer than the user's limit.
    pub fn rejected_summary(&self) -> Option<String> {
        lock_mutex(&self.rejected).clone()
    }

    pub(super) fn limit(&self) -> WordLimit {
        WordLimit::new(self.rules.words)
    }

    /// Summarizes `count` parts, and joins their summaries. Returns also the summaries of the parts that arrived.
    pub(super) fn summarize_parts(
        &self,
        whole: &SummarizedWhole<'_>,
        count: usize,
        progress: &mut dyn FnMut(u64, u64),
        summarize: &(dyn Fn(usize) -> Result<SummarizedPart, Problem> + Sync),
    ) -> (Vec<Option<SummarizedPart>>, Result<Summary, Problem>) {
        self.summarize_parts_within(whole, count, self.limit(), progress, summarize)
    }

    /// Like [`Self::summarize_parts`], with this limit for the whole.
    pub(super) fn summarize_parts_within(
        &self,
        whole: &SummarizedWhole<'_>,
        count: usize,
        limit: WordLimit,
        progress: &mut dyn FnMut(u64, u64),
        summarize: &(dyn Fn(usize) -> Result<SummarizedPart, Problem> + Sync),
    ) -> (Vec<Option<SummarizedPart>>, Result<Summary, Problem>) {
        let (parts, problem) = self.run_tasks(count, progress, summarize);
        let done: Vec<SummarizedPart> = parts.iter().flatten().cloned().collect();
        let Some(mut problem) = problem else {
            return (parts, self.join_summaries(whole, done, limit));
        };
        if count > 1 && problem.exit != Exit::Usage {
            let next =
                if self.rules.again { "" } else { ", and the same command continues from there" };
            let done = done.len();
            problem.message.push_str(&format!("; {done} of {count} summaries are cached{next}"));
        }
        (parts, Err(problem))
    }

    /// Does `count` tasks, as many side by side as allowed. After a problem or a signal none is begun; the others are finished.
    fn run_tasks(
        &self,
        count: usize,
        progress: &mut dyn FnMut(u64, u64),
        run: &(dyn Fn(usize) -> Result<SummarizedPart, Problem> + Sync),
    ) -> (Vec<Option<SummarizedPart>>, Option<Problem>) {
        if count == 1 {
            let (parts, problem) = match run(0) {
                Ok(part) => (vec![Some(part)], None),
                Err(problem) => (vec![None], Some(problem)),
            };
            let interrupted = self.rules.interrupts.pending().map(Problem::interrupted);
            return (parts, interrupted.or(problem));
        }
        let next = AtomicUsize::new(0);
        let has_failed = AtomicBool::new(false);
        let (mut parts, mut problem) = (vec![None; count], None);
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
                        let result = run(at);
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
                    Ok((at, Ok(part))) => {
                        parts[at] = Some(part);
                        done += 1;
                    }
                    Ok((_, Err(first))) => problem = problem.take().or(Some(first)),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
                progress(done, count as u64);
            }
        });
        let interrupted = self.rules.interrupts.pending().map(Problem::interrupted);
        (parts, interrupted.or(problem))
    }

    /// Joins summaries. A single one that is short enough needs no request, nor do those that no model wrote.
    pub(super) fn join_summaries(
        &self,
        whole: &SummarizedWhole<'_>,
        mut parts: Vec<SummarizedPart>,
        limit: WordLimit,
    ) -> Result<Summary, Problem> {
        let SummarizedWhole { kind, what, name, lines, sizes } = *whole;
        if let [SummarizedPart { summary, .. }] = parts.as_slice()
            && summary.by.is_some()
            && !limit.is_over(plan::count_words(&summary.text))
        {
            return Ok(summary.clone());
        }
        if parts.is_empty() {
            return Err(Problem::failed(format!("{name} has no segments to summarize")));
        }
        if parts.iter().all(|part| part.summary.by.is_none()) {
            let texts: BTreeSet<&str> =
                parts.iter().map(|part| part.summary.text.as_str()).collect();
            let text = texts.into_iter().collect::<Vec<_>>().join("; ");
            return Ok(Summary { text: limit.truncate(&text), by: None });
        }
        loop {
            let paragraph = |part: &SummarizedPart| {
                plan::paragraph(part.first_line, part.last_line, &part.summary.text, sizes.join / 8)
            };
            let texts: Vec<String> = parts.iter().map(paragraph).collect();
            let lengths: Vec<u64> = texts.iter().map(|text| text.len() as u64).collect();
            let groups = plan::group_neighbours(&lengths, sizes.join);
            let is_last = groups.len() <= 1;
            let join_group = |at: usize| {
                let group = groups[at].clone();
                let (first, last) = (parts[group.start].first_line, parts[group.end - 1].last_line);
                let text = texts[group].concat();
                let request = SummaryRequest {
                    kind,
                    limit: if is_last { limit } else { WordLimit::DEFAULT },
                    place: format!(
                        "{what}: {name}\nSummaries of lines {first} to {last} of {lines}"
                    ),
                    subject: format!("the joined summary of lines {first} to {last} of {name}"),
                    text,
                };
                let summary = self.summarize(&request)?;
                Ok(SummarizedPart { first_line: first, last_line: last, summary })
            };
            if is_last {
                return join_group(0).map(|part| part.summary);
            }
            let (joined, problem) = self.run_tasks(groups.len(), &mut |_, _| (), &join_group);
            problem.map_or(Ok(()), Err)?;
            parts = joined.into_iter().flatten().collect();
        }
    }

    /// Returns the summary of this run, or the cached one, or asks for one and caches it.
    pub(super) fn summarize(&self, request: &SummaryRequest) -> Result<Summary, Problem> {
        let folder = &self.rules.folder;
        let key = plan::cache_key(request.kind, request.limit, &request.text);
        let slot = Arc::clone(lock_mutex(&self.asked).entry(key.clone()).or_default());
        let mut slot = lock_mutex(&slot);
        let cached = || summary_cache::read_summary(folder, &key).filter(|_| !self.rules.again);
        if let Some(known) = slot.clone().or_else(cached) {
            lock_mutex(&self.totals).cached += 1;
            *slot = Some(known.clone());
            return Ok(known);
        }
        let summary = self.request_summary(request, &key).map_err(|problem| {
            // A signal or a wrong setting is not about one part.
            if matches!(problem.exit, Exit::Signal(_) | Exit::Usage) {
                return problem;
            }
            Problem::new(problem.exit, format!("{}: {}", request.subject, problem.message))
        })?;
        if let Err(error) = summary_cache::write_summary(folder, &key, &summary) {
            (self.rules.report)(&format!("cannot cache a summary: {error:#}"));
        }
        *slot = Some(summary.clone());
        Ok(summary)
    }

    fn request_summary(&self, request: &SummaryRequest, key: &str) -> Result<Summary, Problem> {
        // A folder that cannot be made is an error before anything is paid for.
        fs::create_private_folder(&self.rules.folder)?;
        let idle = lock_mutex(&self.models).pop();
        let mut model = idle.map_or_else(|| (self.rules.connect)(), Ok)?;
        let text = self.ask_for_summary(&mut model, request, key);
        let by = Some(model.author.clone());
        lock_mutex(&self.models).push(model);
        Ok(Summary { text: text?, by })
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

    fn send_messages(
        &self,
        model: &mut SummaryModel<'_>,
        system: &str,
        texts: &[&str],
    ) -> Result<String, Problem> {
        for _ in 0..2 {
            let roles = [Role::User, Role::Assistant].into_iter().cycle();
            let messages = texts.iter().zip(roles);
            let messages: Vec<_> =
                messages.map(|(text, role)| RequestMessage { role, parts: vec![*text] }).collect();
            lock_mutex(&self.totals).requests += 1;
            let reply = (model.send)(system, &messages, &mut model.author)?;
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
