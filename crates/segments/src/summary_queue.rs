//! Asks a model for summaries: several side by side, each cached as soon as it arrives.
//!
//! What is too long for one request is summarized in parts, and then one request joins the summaries of all parts.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::summary_cache::{self, Summary};
use super::summary_plan::{self as plan, RequestSizes, SummaryKind, WordLimit};
use conversation::exit::Exit;
use conversation::model::{Reply, RequestMessage, Role, StopReason, Usage};
use conversation::problem::Problem;
use sys::fs;
use sys::interrupt::Interrupts;
use sys::lock::lock_mutex;

/// The names of a provider and its model.
pub type Author = (String, String);

/// Connected model: sends a system prompt and messages, and waits for the reply, retries included. Returns also who wrote it.
pub type SummaryModel<'a> =
    Box<dyn FnMut(&str, &[RequestMessage<'_>]) -> Result<(Reply, Author), Problem> + Send + 'a>;

/// Shows how many parts are done, and of how many.
pub type ShowProgress<'a> = &'a (dyn Fn(u64, u64) + Sync);

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
    /// Connects to the model; called when a summary is not cached, at most once for each request that runs side by side.
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
    pub(super) limit: WordLimit,
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
    /// Connected models that no request uses now: a connection serves one after the other.
    models: Mutex<Vec<SummaryModel<'a>>>,
    totals: Mutex<SummaryTotals>,
    rejected: Mutex<Option<String>>,
}

impl<'a> SummaryQueue<'a> {
    /// A queue that has asked nothing yet.
    pub fn new(rules: SummaryRules<'a>) -> Self {
        Self {
            rules,
            models: Mutex::default(),
            totals: Mutex::default(),
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
        progress: ShowProgress<'_>,
        summarize: &(dyn Fn(usize) -> Result<SummarizedPart, Problem> + Sync),
    ) -> (Vec<Option<SummarizedPart>>, Result<Summary, Problem>) {
        // Nobody should pay for parts that cannot be joined.
        let Some(share) = whole.sizes.share(count) else {
            let name = whole.name;
            let message = format!(
                "{name} has {count} parts, too many for one summary; use a model with a larger window, or summarize pieces of it"
            );
            return (Vec::new(), Err(Problem::failed(message)));
        };
        let (parts, problem) = self.run_tasks(count, progress, summarize);
        let done: Vec<SummarizedPart> = parts.iter().flatten().cloned().collect();
        let Some(mut problem) = problem else {
            return (parts, self.join_summaries(whole, &done, share));
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
        progress: ShowProgress<'_>,
        run: &(dyn Fn(usize) -> Result<SummarizedPart, Problem> + Sync),
    ) -> (Vec<Option<SummarizedPart>>, Option<Problem>) {
        let next = AtomicUsize::new(0);
        let results = Mutex::new((vec![None; count], None));
        let work = || {
            while lock_mutex(&results).1.is_none() && self.rules.interrupts.pending().is_none() {
                let at = next.fetch_add(1, Ordering::SeqCst);
                if at >= count {
                    break;
                }
                let result = run(at);
                let mut results = lock_mutex(&results);
                match result {
                    Ok(part) => results.0[at] = Some(part),
                    Err(problem) => _ = results.1.get_or_insert(problem),
                }
                if count > 1 {
                    progress(results.0.iter().flatten().count() as u64, count as u64);
                }
            }
        };
        thread::scope(|scope| {
            for _ in 0..self.rules.jobs.clamp(1, count.max(1)) {
                scope.spawn(work);
            }
        });
        let interrupted = self.rules.interrupts.pending().map(Problem::interrupted);
        let (parts, problem) = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        (parts, interrupted.or(problem))
    }

    /// Joins summaries. A single one that is short enough needs no request, nor do those that no model wrote.
    fn join_summaries(
        &self,
        whole: &SummarizedWhole<'_>,
        parts: &[SummarizedPart],
        share: u64,
    ) -> Result<Summary, Problem> {
        let SummarizedWhole { kind, limit, what, name, lines, .. } = *whole;
        if let [SummarizedPart { summary, .. }] = parts
            && summary.by.is_some()
            && !limit.is_over(plan::count_words(&summary.text))
        {
            return Ok(summary.clone());
        }
        let (Some(first), Some(last)) = (parts.first(), parts.last()) else {
            return Err(Problem::failed(format!("{name} has no segments to summarize")));
        };
        if parts.iter().all(|part| part.summary.by.is_none()) {
            let texts: BTreeSet<&str> =
                parts.iter().map(|part| part.summary.text.as_str()).collect();
            let text = texts.into_iter().collect::<Vec<_>>().join("; ");
            return Ok(Summary { text: limit.truncate(&text), by: None });
        }
        let paragraph = |part: &SummarizedPart| {
            plan::paragraph(part.first_line, part.last_line, &part.summary.text, share)
        };
        let lines_joined = format!("lines {} to {}", first.first_line, last.last_line);
        self.summarize(&SummaryRequest {
            kind,
            limit,
            place: format!("{what}: {name}\nSummaries of {lines_joined} of {lines}"),
            subject: format!("the joined summary of {lines_joined} of {name}"),
            text: parts.iter().map(paragraph).collect(),
        })
    }

    /// Returns the cached summary, or asks for one and caches it.
    pub(super) fn summarize(&self, request: &SummaryRequest) -> Result<Summary, Problem> {
        let folder = &self.rules.folder;
        let key = plan::cache_key(request.kind, request.limit, &request.text);
        let cached = || summary_cache::read_summary(folder, &key);
        if let Some(known) = (!self.rules.again).then(cached).flatten() {
            lock_mutex(&self.totals).cached += 1;
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
        Ok(summary)
    }

    fn request_summary(&self, request: &SummaryRequest, key: &str) -> Result<Summary, Problem> {
        // A folder that cannot be made is an error before anything is paid for.
        fs::create_private_folder(&self.rules.folder)?;
        let idle = lock_mutex(&self.models).pop();
        let mut model = idle.map_or_else(|| (self.rules.connect)(), Ok)?;
        let summary = self.ask_for_summary(&mut model, request, key);
        lock_mutex(&self.models).push(model);
        summary
    }

    /// Asks, and asks once more for a shorter summary if it is too long.
    fn ask_for_summary(
        &self,
        model: &mut SummaryModel<'_>,
        request: &SummaryRequest,
        key: &str,
    ) -> Result<Summary, Problem> {
        let limit = request.limit;
        let system = plan::system_prompt(request.kind, limit);
        let message = plan::user_message(&request.place, key, &request.text);
        let first = self.send_messages(model, &system, &[&message])?;
        let count = plan::count_words(&first.text);
        if !limit.is_over(count) {
            return Ok(first);
        }
        let again = plan::shorter_message(count, limit);
        let second = self.send_messages(model, &system, &[&message, &first.text, &again]);
        if !limit.strict {
            // The first one is long, but paid for.
            return Ok(second.unwrap_or(first));
        }
        let second = second?;
        let count = plan::count_words(&second.text);
        if limit.is_over(count) {
            *lock_mutex(&self.rejected) = Some(second.text);
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
    ) -> Result<Summary, Problem> {
        for _ in 0..2 {
            let roles = [Role::User, Role::Assistant].into_iter().cycle();
            let messages = texts.iter().zip(roles);
            let messages: Vec<_> =
                messages.map(|(text, role)| RequestMessage { role, parts: vec![*text] }).collect();
            lock_mutex(&self.totals).requests += 1;
            let (reply, author) = model(system, &messages)?;
            lock_mutex(&self.totals).usage.add(&reply.usage);
            if reply.stop == StopReason::Length {
                return Err(Problem::new(
                    Exit::Provider,
                    "the summary was cut off by the length limit, so it is not used; raise \"max_output_tokens\" in the config",
                ));
            }
            let text = reply.text.trim();
            if !text.is_empty() {
                return Ok(Summary { text: text.to_owned(), by: Some(author) });
            }
        }
        Err(Problem::new(Exit::Provider, "the model gave an empty reply twice"))
    }
}
