//! Requests summaries from a model: several in parallel, each cached as soon as it arrives.
//!
//! A text that is too long for one request is summarized in parts, and then one request joins the summaries of all
//! parts.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::summary_cache::{self, Summary};
use super::summary_plan::{self as plan, RequestSizes, SummaryKind, WordLimit};
use conversation::compact::notice::unwrap_checkpoint;
use conversation::exit::Exit;
use conversation::format::harmless;
use conversation::model::{Reply, RequestMessage, Role, StopReason, Usage};
use conversation::problem::Problem;
use sys::fs;
use sys::interrupt::Interrupts;
use sys::lock::lock_mutex;

/// The names of a provider and its model.
pub(crate) type Author = (String, String);

/// A connected model: sends a system prompt and messages, and waits for the reply, with retries. Returns the reply and
/// its author.
pub type SummaryModel<'a> =
    Box<dyn FnMut(&str, &[RequestMessage<'_>]) -> Result<(Reply, Author), Problem> + Send + 'a>;

/// Shows the number of finished parts, and of all.
pub(crate) type ShowProgress<'a> = &'a (dyn Fn(u64, u64) + Sync);

/// The settings for all summaries of a run.
pub struct SummaryRules<'a> {
    /// The folder of the cache.
    pub folder: PathBuf,
    /// The user's limit for the summary of the whole, in words.
    pub words: Option<u64>,
    /// Number of requests in parallel.
    pub jobs: usize,
    /// Ignore cached summaries.
    pub again: bool,
    /// The model's window in tokens, if it is known.
    pub window: Option<u64>,
    /// Connects to the model; called when a summary is not cached, at most once for each parallel request.
    pub connect: Box<dyn Fn() -> Result<SummaryModel<'a>, Problem> + Sync + 'a>,
    /// Reports a note to the user.
    pub report: Box<dyn Fn(&str) + Sync + 'a>,
    /// The signals that end the run.
    pub interrupts: &'a Interrupts,
}

/// The requests and tokens of a run so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SummaryTotals {
    /// Requests to the model; retries after a broken connection are not counted.
    pub requests: u64,
    /// Summaries that needed no request.
    pub cached: u64,
    /// Tokens of all replies, including those that could not be used.
    pub usage: Usage,
}

/// A text that is summarized in one request, or part by part.
pub(super) struct PartedText<'a> {
    pub(super) kind: SummaryKind,
    pub(super) limit: WordLimit,
    /// Its name for the model.
    pub(super) name: &'a str,
    /// The first and the last line of each part.
    pub(super) parts: Vec<(u64, u64)>,
    /// Reads a part, just before it is sent.
    pub(super) read: &'a (dyn Fn(usize) -> Result<String, Problem> + Sync),
    pub(super) sizes: RequestSizes,
}

/// Requests summaries and caches them.
pub struct SummaryQueue<'a> {
    pub(super) rules: SummaryRules<'a>,
    /// Connected models that are idle: a connection serves one request after the other.
    models: Mutex<Vec<SummaryModel<'a>>>,
    totals: Mutex<SummaryTotals>,
}

impl<'a> SummaryQueue<'a> {
    /// A queue that has sent nothing yet.
    pub fn new(rules: SummaryRules<'a>) -> Self {
        Self { rules, models: Mutex::default(), totals: Mutex::default() }
    }

    /// The requests and tokens so far, including failed requests.
    pub fn totals(&self) -> SummaryTotals {
        *lock_mutex(&self.totals)
    }

    pub(super) fn limit(&self) -> WordLimit {
        WordLimit::new(self.rules.words)
    }

    /// Summarizes a text by its parts. Also returns the summaries of the parts that arrived.
    pub(super) fn summarize_parts(
        &self,
        whole: &PartedText<'_>,
        progress: ShowProgress<'_>,
    ) -> (Vec<Option<Summary>>, Result<Summary, Problem>) {
        let (name, count) = (whole.name, whole.parts.len());
        // Do not pay for parts that cannot be joined.
        let Some(share) = whole.sizes.share(count) else {
            let message = format!(
                "{name} has {count} parts, too many for one summary; use a model with a larger window, or summarize pieces of it"
            );
            return (Vec::new(), Err(Problem::failed(message)));
        };
        let (parts, problem) = self.run_tasks(whole, progress);
        let result = match (problem, parts.as_slice()) {
            (Some(problem), _) => Err(problem),
            (None, [Some(only)]) => Ok(only.clone()),
            (None, _) => self.join_summaries(whole, &parts, share),
        };
        let result = result.map_err(|mut problem| {
            let done = parts.iter().flatten().count();
            if count > 1 && problem.exit != Exit::Usage {
                problem.message.push_str(&format!("; {done} of {count} summaries are cached"));
            }
            problem
        });
        (parts, result)
    }

    /// Summarizes the parts, as many in parallel as allowed. After a problem or a signal no further part is started;
    /// running ones are finished.
    fn run_tasks(
        &self,
        whole: &PartedText<'_>,
        progress: ShowProgress<'_>,
    ) -> (Vec<Option<Summary>>, Option<Problem>) {
        let count = whole.parts.len();
        let next = AtomicUsize::new(0);
        let results = Mutex::new((vec![None; count], None));
        let work = || {
            while lock_mutex(&results).1.is_none() && self.rules.interrupts.pending().is_none() {
                let at = next.fetch_add(1, Ordering::SeqCst);
                if at >= count {
                    break;
                }
                let result = self.summarize_part(whole, at);
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
            for _ in 1..self.rules.jobs.clamp(1, count.max(1)) {
                scope.spawn(work);
            }
            work();
        });
        let interrupted = self.rules.interrupts.pending().map(Problem::interrupted);
        let (parts, problem) = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        (parts, interrupted.or(problem))
    }

    fn summarize_part(&self, whole: &PartedText<'_>, at: usize) -> Result<Summary, Problem> {
        let (number, count, (first, last)) = (at + 1, whole.parts.len(), whole.parts[at]);
        let (limit, place) = match count {
            1 => (whole.limit, String::new()),
            _ => {
                (WordLimit::DEFAULT, format!("part {number} of {count} (lines {first} to {last})"))
            }
        };
        self.summarize(whole, false, limit, &place, &(whole.read)(at)?)
    }

    fn join_summaries(
        &self,
        whole: &PartedText<'_>,
        parts: &[Option<Summary>],
        share: u64,
    ) -> Result<Summary, Problem> {
        let parts = parts.iter().flatten().zip(&whole.parts);
        let text: String =
            parts.map(|(part, lines)| plan::paragraph(*lines, &part.text, share)).collect();
        let place = format!("summaries of all {} parts", whole.parts.len());
        self.summarize(whole, true, whole.limit, &place, &text)
    }

    /// Returns the cached summary, or requests one and caches it. `place` are the parts that it is about, in the head of
    /// the message; empty for the whole text.
    fn summarize(
        &self,
        whole: &PartedText<'_>,
        is_joined: bool,
        limit: WordLimit,
        place: &str,
        text: &str,
    ) -> Result<Summary, Problem> {
        let (kind, name, folder) = (whole.kind, whole.name, &self.rules.folder);
        let system = plan::system_prompt(kind, is_joined, limit);
        let key = plan::cache_key(&system, limit, text);
        let cached = || summary_cache::read_summary(folder, &key);
        if let Some(known) = (!self.rules.again).then(cached).flatten() {
            lock_mutex(&self.totals).cached += 1;
            return Ok(known);
        }
        let what = if kind == SummaryKind::File { "File" } else { "Conversation" };
        let subject = if place.is_empty() { name.to_owned() } else { format!("{name}, {place}") };
        let message = plan::user_message(&format!("{what}: {subject}"), &key, text);
        let summary =
            self.request_summary((kind, limit), &system, &message).map_err(|problem| {
                // A signal or a wrong setting does not concern just one part.
                if matches!(problem.exit, Exit::Signal(_) | Exit::Usage) {
                    return problem;
                }
                Problem::new(problem.exit, format!("{subject}: {}", problem.message))
            })?;
        if let Err(error) = summary_cache::write_summary(folder, &key, &summary) {
            (self.rules.report)(&format!("cannot cache a summary: {error:#}"));
        }
        Ok(summary)
    }

    fn request_summary(
        &self,
        form: (SummaryKind, WordLimit),
        system: &str,
        message: &str,
    ) -> Result<Summary, Problem> {
        // If the folder cannot be made, fail before anything is paid for.
        fs::create_private_folder(&self.rules.folder)?;
        let idle = lock_mutex(&self.models).pop();
        let mut model = idle.map_or_else(|| (self.rules.connect)(), Ok)?;
        let summary = self.ask_for_summary(&mut model, form, system, message);
        lock_mutex(&self.models).push(model);
        summary
    }

    /// Requests a summary, and once more if it is over the user's limit, or is no checkpoint where that is wanted.
    fn ask_for_summary(
        &self,
        model: &mut SummaryModel<'_>,
        (kind, limit): (SummaryKind, WordLimit),
        system: &str,
        message: &str,
    ) -> Result<Summary, Problem> {
        let first = self.send_messages(model, system, &[message])?;
        let count = plan::count_words(&first.text);
        let is_checkpoint = kind == SummaryKind::Checkpoint;
        let again = if is_checkpoint {
            plan::missing_message(unwrap_checkpoint(&first.text))
        } else {
            limit.is_over(count).then(|| plan::shorter_message(count, limit))
        };
        let unwrapped =
            |it: Summary| Summary { text: unwrap_checkpoint(&it.text).to_owned(), ..it };
        let Some(again) = again else {
            return Ok(if is_checkpoint { unwrapped(first) } else { first });
        };
        let second = self.send_messages(model, system, &[message, &first.text, &again])?;
        if is_checkpoint {
            let second = unwrapped(second);
            return match plan::missing_message(&second.text) {
                Some(_) => {
                    let begin = harmless::escape_line(&second.text, 120);
                    let message = format!("the model's answer is not a checkpoint: {begin}");
                    Err(Problem::new(Exit::Provider, message))
                }
                None => Ok(second),
            };
        }
        let count = plan::count_words(&second.text);
        if limit.is_over(count) {
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
        let roles = [Role::User, Role::Assistant].into_iter().cycle();
        let messages = texts.iter().zip(roles);
        let messages: Vec<_> =
            messages.map(|(text, role)| RequestMessage { role, parts: vec![*text] }).collect();
        lock_mutex(&self.totals).requests += 1;
        let (reply, author) = model(system, &messages)?;
        lock_mutex(&self.totals).usage.add(&reply.usage);
        let text = reply.text.trim();
        if reply.stop == StopReason::Length {
            return Err(Problem::new(
                Exit::Provider,
                "the summary was cut off by the length limit, so it is not used; raise \"max_output_tokens\" in the config",
            ));
        }
        if text.is_empty() {
            return Err(Problem::new(Exit::Provider, "the model gave an empty reply"));
        }
        Ok(Summary { text: text.to_owned(), by: Some(author) })
    }
}
